"""Waking sessions: each wake-up starts the session's workflow, or signals the one that runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from datetime import timedelta

from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from tercet.cluster.connection import queue_of, register, workflow_id
from tercet.cluster.workflow import (
    INTENT,
    PACK,
    STATUS,
    TENANT,
    WAKE,
    WORKFLOW,
    WORKFLOW_QUEUE,
    SessionTask,
    Wake,
)
from tercet.contracts.errors import UsageError
from tercet.engine.leases import LEASE_MS
from tercet.journal.protocol import SessionRow

_log = logging.getLogger("tercet.cluster")

HEARTBEAT_MS = LEASE_MS
"""After how long without a heartbeat another worker tries a session: its lease lasts as long."""
_RPC_TIMEOUT = timedelta(seconds=5)
_AT_ONCE = 32
_KEYWORD_BYTES = 255


def _keyword(text: str) -> str:
    return text.encode()[:_KEYWORD_BYTES].decode(errors="ignore")


class Dispatcher:
    """Wakes sessions. What it cannot deliver is not lost: the sweep finds the session in the journal."""

    def __init__(self, client: Client, *, heartbeat_ms: int = HEARTBEAT_MS) -> None:
        self._client = client
        self._heartbeat_ms = heartbeat_ms
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._registering = asyncio.Lock()
        self._tasks: dict[tuple[str, str], asyncio.Task[bool]] = {}
        self.carried = 0
        """How many wake-ups were delivered."""

    @property
    def running(self) -> int:
        """How many sessions this process carries on: none, workers do."""
        return 0

    @property
    def waiting(self) -> int:
        """How many wake-ups are on their way."""
        return len(self._tasks)

    def is_carrying(self, row: SessionRow) -> bool:
        """Whether a wake-up for a session is on its way."""
        return (row.tenant, row.session_id) in self._tasks

    def live(self, tenant: str, session: str) -> None:
        """Return None: this process keeps no runs."""

    async def rest(self, tenant: str, session: str) -> None:
        """Return at once: sessions are carried on by other processes."""

    def enqueue(self, row: SessionRow) -> None:
        """Wake a session in the background."""
        key = (row.tenant, row.session_id)
        task = asyncio.create_task(self.wake(row))
        self._tasks[key] = task

        def forget(_: Awaitable[bool]) -> None:
            if self._tasks.get(key) is task:
                del self._tasks[key]

        task.add_done_callback(forget)

    def notice(self, row: SessionRow) -> None:
        """Wake a session that has come to rest: its workflow shows where it is, and waits on the queue of its pack."""
        self.enqueue(row)

    async def wake(self, row: SessionRow) -> bool:
        """Start or signal the workflow of a session; return whether Temporal took it."""
        queue = queue_of(row.pack, row.pack_hash)
        attributes = TypedSearchAttributes(
            [
                SearchAttributePair(key, _keyword(value))
                for key, value in (
                    (TENANT, row.tenant),
                    (INTENT, row.intent),
                    (STATUS, row.status),
                    (PACK, queue),
                )
            ]
        )
        async with self._slots:
            try:
                await self._client.start_workflow(
                    WORKFLOW,
                    SessionTask(
                        tenant=row.tenant,
                        session=row.session_id,
                        queue=queue,
                        heartbeat_ms=self._heartbeat_ms,
                    ),
                    id=workflow_id(row),
                    task_queue=WORKFLOW_QUEUE,
                    id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                    search_attributes=attributes,
                    start_signal=WAKE,
                    start_signal_args=[Wake(at=row.updated_at, queue=queue)],
                    rpc_timeout=_RPC_TIMEOUT,
                )
            except RPCError as error:
                _log.warning("session %s is left to the sweep: %s", row.session_id, error)
                if error.status is RPCStatusCode.INVALID_ARGUMENT:
                    await self._register_again()
                return False
        self.carried += 1
        return True

    async def _register_again(self) -> None:
        """Register the search attributes that Temporal no longer has: it may have lost its data since the start."""
        async with self._registering:
            try:
                await register(self._client)
            except UsageError as error:
                _log.warning("%s; %s", error, error.remedy)

    async def close(self) -> None:
        """Wait for the wake-ups on their way."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

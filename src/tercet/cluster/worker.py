"""The worker of a cluster: takes advances of sessions from the queues of its packs, and runs them on the journal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker import Worker as TemporalWorker

from tercet.cluster.connection import queue_of
from tercet.cluster.dispatch import HEARTBEAT_MS, Dispatcher
from tercet.cluster.sweep import SWEEP_MS, Sweep
from tercet.cluster.workflow import ADVANCE, WORKFLOW_QUEUE, Outcome, SessionTask, SessionWorkflow
from tercet.contracts.errors import GatewayError, TercetError
from tercet.contracts.loop import Phase
from tercet.core.state import State
from tercet.engine.rows import row_of
from tercet.journal.errors import JournalError, LeaseHeld
from tercet.journal.protocol import Journal
from tercet.packs import Pack
from tercet.runtime import Runtime
from tercet.service.hub import Hub, pack_name
from tercet.service.worker import AT_ONCE

_log = logging.getLogger("tercet.cluster")

CACHED_WORKFLOWS = 200
"""How many workflows a worker keeps in memory; others are replayed from their short history when they are woken."""
STUCK_MS = 600_000
"""How often a session that cannot go on is tried again without a change."""
_BEATS = 4
_HELD_MS = 250
STOP_S = 60
"""How long calls in flight may take to end when a worker stops."""


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """What a worker of a cluster runs."""

    at_once: int = AT_ONCE
    cached_workflows: int = CACHED_WORKFLOWS
    sweep_ms: int | None = SWEEP_MS
    """How often it sweeps when it is its turn; None if it never does."""
    heartbeat_ms: int = HEARTBEAT_MS


class Advances:
    """The activity of one pack version: advance a session until it is over or waits."""

    def __init__(self, hub: Hub, pack: Pack) -> None:
        self._hub = hub
        self._queue = queue_of(pack.ref, pack.hash)
        self._pack = pack
        self.running = 0

    @activity.defn(name=ADVANCE)
    async def advance(self, task: SessionTask) -> Outcome:
        """Advance a session, with heartbeats; when cancelled, let calls in flight end and release it."""
        work = asyncio.ensure_future(self._advance(task))
        self.running += 1
        try:
            while not work.done():
                activity.heartbeat()
                await asyncio.wait((work,), timeout=task.heartbeat_ms / 1000 / _BEATS)
            return work.result()
        except asyncio.CancelledError:
            await self._hand_over(task, work)
            if _is_called_off():
                raise
            raise _tried_again("another worker goes on with it", "released") from None
        except JournalError as error:
            _log.warning("session %s is tried again: %s", task.session, error)
            raise _tried_again(str(error), error.code) from error
        finally:
            self.running -= 1

    async def _hand_over(self, task: SessionTask, work: asyncio.Future[Outcome]) -> None:
        runtime = await self._hub.runtime(task.tenant, self._pack.name)
        while not work.done():
            runtime.hand_over(task.session)
            await asyncio.wait((work,), timeout=0.1)
        with suppress(Exception):
            work.result()  # the next attempt meets the same error, if it persists

    async def _advance(self, task: SessionTask) -> Outcome:
        row = await self._hub.journal.session(task.tenant, task.session)
        if row is None:
            raise ApplicationError(
                f"the journal has no session {task.session} of tenant {task.tenant}: do the worker and the "
                "service share a journal?",
                type="unknown_session",
            )
        if queue_of(row.pack, row.pack_hash) != self._queue:
            return _outcome_of_row(row.status, row.updated_at, queue_of(row.pack, row.pack_hash))
        runtime = await self._hub.runtime(task.tenant, pack_name(row.pack))
        try:
            return await self._carry(runtime, task.session)
        except LeaseHeld as held:
            # The holder may be a worker that was killed: the lease is watched here until it counts as ended.
            await asyncio.sleep(min(held.wait_ms, _HELD_MS) / 1000)
            return self._outcome(await runtime.state(task.session), retry_ms=max(1, held.wait_ms))
        except JournalError:
            raise
        except TercetError as error:
            _log.warning("session %s cannot go on here: %s", task.session, error)
            return self._outcome(await runtime.state(task.session), retry_ms=STUCK_MS, is_stuck=True)

    async def _carry(self, runtime: Runtime, session: str) -> Outcome:
        """Record what is overdue, and go on if the session can."""
        while True:
            try:
                state = await runtime.record_overdue(session)
                if not _can_go_on(state):
                    return self._outcome(state)
                if state.start.lane:
                    return replace(self._outcome(state), is_over=True)  # for Temporal: its parent carries it
                await runtime.carry_on(session)
                return self._outcome(await runtime.state(session))
            except LeaseHeld as held:
                if activity.is_worker_shutdown():
                    raise
                await asyncio.sleep(max(1, min(held.wait_ms, _HELD_MS)) / 1000)

    def _outcome(self, state: State, *, retry_ms: int | None = None, is_stuck: bool = False) -> Outcome:
        row, now = row_of(state), self._hub.clock.now()
        wake_at = row.due_at if retry_ms is None else now + retry_ms
        if retry_ms is None and state.status == "in_progress":
            wake_at = now  # it was released by a worker that stops
        return Outcome(
            status=row.status,
            is_over=state.is_over,
            updated_at=row.updated_at,
            queue=queue_of(row.pack, row.pack_hash),
            wake_at=wake_at,
            is_stuck=is_stuck,
        )


def _is_called_off() -> bool:
    """Return whether the workflow has called the activity off, and not a worker that stops or was silent for too long."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested


def _tried_again(message: str, code: str) -> ApplicationError:
    """Return the failure after which Temporal tries an advance again; its own log does not repeat it with a traceback."""
    return ApplicationError(message, type=code, category=ApplicationErrorCategory.BENIGN)


def _outcome_of_row(status: str, updated_at: int, queue: str) -> Outcome:
    """Return the outcome for a session that has moved to another pack version: it is advanced there at once."""
    return Outcome(status=status, is_over=False, updated_at=updated_at, queue=queue, wake_at=0)


def _can_go_on(state: State) -> bool:
    is_ending = state.phase in (Phase.COMMIT, Phase.FAIL) and not state.gates
    return not state.is_over and (state.status == "in_progress" or is_ending)


@asynccontextmanager
async def running_worker(
    client: Client,
    journal: Journal,
    open_hub: Callable[[Pack], Hub],
    packs: Sequence[Pack],
    settings: WorkerSettings,
) -> AsyncGenerator[Sweep]:
    """Run sessions of packs until the end of the block; then calls in flight end and every session is released."""
    hubs = {queue_of(pack.ref, pack.hash): (pack, open_hub(pack)) for pack in packs}
    advances = [Advances(hub, pack) for pack, hub in hubs.values()]
    workers = [
        TemporalWorker(
            client,
            task_queue=queue,
            activities=[each.advance],
            max_concurrent_activities=settings.at_once,
            graceful_shutdown_timeout=timedelta(seconds=STOP_S),
            max_heartbeat_throttle_interval=timedelta(milliseconds=settings.heartbeat_ms / 2),
        )
        for queue, each in zip(hubs, advances, strict=True)
    ]
    workers.append(
        TemporalWorker(
            client,
            task_queue=WORKFLOW_QUEUE,
            workflows=[SessionWorkflow],
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_cached_workflows=settings.cached_workflows,
        )
    )
    dispatcher = Dispatcher(client, heartbeat_ms=settings.heartbeat_ms)
    clock = next(hub for _, hub in hubs.values()).clock
    sweep = Sweep(journal, dispatcher, clock, period_ms=settings.sweep_ms or SWEEP_MS)
    async with AsyncExitStack() as stack:
        for _, hub in hubs.values():
            stack.push_async_callback(hub.close)
        sweeping = asyncio.create_task(sweep.run()) if settings.sweep_ms is not None else None
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        try:
            async with _ended_by(tasks if sweeping is None else [*tasks, sweeping]):
                yield sweep
        finally:
            if sweeping is not None:
                sweeping.cancel()
                await asyncio.gather(sweeping, return_exceptions=True)
            await dispatcher.close()
            stopping = [asyncio.create_task(worker.shutdown()) for worker in workers]
            while any(each.running for each in advances):
                for _, hub in hubs.values():
                    for runtime in hub:
                        runtime.hand_over()
                await asyncio.sleep(0.05)
            await asyncio.gather(*stopping)
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _ended_by(tasks: Sequence[asyncio.Task[Any]]) -> AsyncGenerator[None]:
    """End the block with a `GatewayError` when one of the tasks ends before it: the process would look alive, and do nothing."""
    owner, ended = cast("asyncio.Task[Any]", asyncio.current_task()), list[asyncio.Task[Any]]()

    def end(task: asyncio.Task[Any]) -> None:
        # Only once: a second cancellation would hide the error, and several tasks often end for the same reason.
        if not ended:
            owner.cancel()
        ended.append(task)

    for task in tasks:
        task.add_done_callback(end)
    try:
        yield
    except asyncio.CancelledError:
        if not ended or owner.uncancel():
            raise
        error = None if ended[0].cancelled() else ended[0].exception()
        raise GatewayError(
            f"this worker takes no more sessions: {error or 'it was cancelled'}",
            code="temporal_worker_ended",
            remedy="check the namespace and TEMPORAL_API_KEY, and that Temporal runs; then start the worker again",
        ) from error
    finally:
        for task in tasks:
            task.remove_done_callback(end)

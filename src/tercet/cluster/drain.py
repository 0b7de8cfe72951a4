"""Draining a pack version: how many sessions still need its workers, by the journal and by Temporal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from tercet.cluster.connection import queue_of, workflow_id
from tercet.cluster.workflow import PACK, STATUS, WAKE, WORKFLOW, Wake
from tercet.contracts.errors import GatewayError, UsageError
from tercet.contracts.runs.session import SessionStatus
from tercet.core.state import TERMINAL
from tercet.journal.errors import JournalUnavailable
from tercet.journal.protocol import Journal

_log = logging.getLogger("tercet.cluster")

_UNFINISHED = tuple(status for status in get_args(SessionStatus) if status not in TERMINAL)
POLL_S = 2.0
"""How often `wait_drained` counts."""
_LISTED = 20
_MOST_SIGNALLED = 200


@dataclass(frozen=True, kw_only=True)
class Left:
    """What is left on a pack version in one place."""

    total: int
    by_status: dict[str, int]
    sessions: tuple[str, ...]
    """Some of them, as `tenant/session`."""


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """What is left on a pack version: its workers are needed while there is anything in either place."""

    pack: str
    journal: Left
    """The sessions that have not ended. Some may have no workflow yet: they wait since before Temporal, or it lost them."""
    temporal: Left
    """The workflows that are open, by Temporal's lists, which lag behind by about a second."""
    is_known: bool = True
    """Whether there is anything, or Temporal has at least a closed workflow; else the name may be wrong."""

    @property
    def is_drained(self) -> bool:
        """Whether nothing is left, so that the version's workers can stop."""
        return not (self.journal.total or self.temporal.total)


def _demand_version(pack: str) -> None:
    if "@" not in pack or '"' in pack or "\\" in pack or not pack.isprintable():
        raise UsageError(
            f"{pack!r} is not a pack version", code="unknown_pack", remedy="name it like refunds@1.0.0"
        )


async def count_remaining(
    client: Client, journal: Journal, pack: str, *, signalled: set[str] | None = None
) -> Remaining:
    """Return what is left on a pack version: `name@version`, or `name@version+hash` for one build of it.

    Workflows that are open without an unfinished session are signalled: their sessions have ended, or were moved to another
    version by a command that does not know of Temporal. `signalled` keeps the ids of those that were."""
    _demand_version(pack)
    signalled = set[str]() if signalled is None else signalled
    unfinished = await _unfinished_sessions(journal, pack)
    try:
        temporal = await _open_workflows(client, pack)
        if temporal.total and not unfinished.total:
            await _signal_stale(client, journal, pack, signalled)
        is_known = bool(unfinished.total or temporal.total or (await client.count_workflows(_on(pack))).count)
    except RPCError as error:
        raise GatewayError(
            f"Temporal does not count its workflows: {error}",
            code="temporal_unreachable",
            remedy="check that it runs, and try again",
        ) from error
    return Remaining(pack=pack, journal=unfinished, temporal=temporal, is_known=is_known)


async def _unfinished_sessions(journal: Journal, pack: str) -> Left:
    name, is_exact, built = pack.partition("+")
    counts = await journal.unfinished(
        name, pack_hash=f"sha256:{built}" if is_exact else "", statuses=_UNFINISHED, limit=_LISTED
    )
    oldest = sorted((row for each in counts for row in each.oldest), key=lambda row: row.started_at)
    return Left(
        total=sum(each.total for each in counts),
        by_status={each.status: each.total for each in counts},
        sessions=tuple(workflow_id(row) for row in oldest[:_LISTED]),
    )


def _on(pack: str) -> str:
    """Return the query for the workflows of a pack version, open and closed."""
    named = f'{PACK.name} = "{pack}"' if "+" in pack else f'{PACK.name} STARTS_WITH "{pack}+"'
    return f'WorkflowType = "{WORKFLOW}" AND {named}'


def _open_on(pack: str) -> str:
    """Return the query for the open workflows of a pack version."""
    return f'{_on(pack)} AND ExecutionStatus = "Running"'


async def _signal_stale(client: Client, journal: Journal, pack: str, signalled: set[str]) -> None:
    """Signal open workflows whose sessions the journal no longer has on this version, each once."""
    async for each in client.list_workflows(_open_on(pack), limit=_MOST_SIGNALLED):
        tenant, _, session = each.id.rpartition("/")
        row = await journal.session(tenant, session)
        if row is None or each.run_id in signalled:
            continue
        signalled.add(each.run_id)
        try:
            # Not with a start: one that has ended since must not begin again.
            await client.get_workflow_handle(each.id, run_id=each.run_id).signal(
                WAKE, Wake(at=row.updated_at, queue=queue_of(row.pack, row.pack_hash))
            )
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise


async def _open_workflows(client: Client, pack: str) -> Left:
    query = _open_on(pack)
    total = (await client.count_workflows(query)).count
    by_status = {
        status: count
        for status in (*_UNFINISHED, "blocked")
        if (count := (await client.count_workflows(f'{query} AND {STATUS.name} = "{status}"')).count)
    }
    found = [each.id async for each in client.list_workflows(query, limit=_LISTED)] if total else []
    return Left(total=total, by_status=by_status, sessions=tuple(found))


async def wait_drained(
    client: Client, journal: Journal, pack: str, tell: Callable[[Remaining], None]
) -> None:
    """Return once nothing is left on a pack version; `tell` is given each new count. Temporal and the journal may be away
    for a while."""
    last, signalled = (-1, -1), set[str]()
    while True:
        try:
            left = await count_remaining(client, journal, pack, signalled=signalled)
        except (GatewayError, JournalUnavailable) as error:
            _log.warning("what is left on %s is counted again: %s", pack, error)
        else:
            if (now := (left.journal.total, left.temporal.total)) != last:
                tell(left)
                last = now
            if left.is_drained:
                return
        await asyncio.sleep(POLL_S)

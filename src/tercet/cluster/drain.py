"""Draining a pack version: how many sessions still need its workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from temporalio.client import Client

from tercet.cluster.workflow import PACK, STATUS, WORKFLOW
from tercet.contracts.errors import UsageError

_STATUSES = ("in_progress", "awaiting_gate", "paused", "blocked")
_POLL_S = 2.0
_LISTED = 20


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """The sessions that are left on a pack version, by Temporal's lists, which lag behind by about a second."""

    pack: str
    total: int
    by_status: dict[str, int]
    sessions: tuple[str, ...]
    """The first of them, as `tenant/session`."""


def _quoted(text: str) -> str:
    if '"' in text or "\\" in text or not text.isprintable():
        raise UsageError(
            f"{text!r} is not a pack version", code="unknown_pack", remedy="name it like refunds@1.0.0"
        )
    return f'"{text}"'


async def count_remaining(client: Client, pack: str) -> Remaining:
    """Return the sessions left on a pack version: `name@version`, or `name@version+hash` for one build of it."""
    is_exact = "+" in pack
    named = f"{PACK.name} = {_quoted(pack)}" if is_exact else f"{PACK.name} STARTS_WITH {_quoted(pack + '+')}"
    query = f'WorkflowType = "{WORKFLOW}" AND ExecutionStatus = "Running" AND {named}'
    total = (await client.count_workflows(query)).count
    by_status = {
        status: count
        for status in _STATUSES
        if (count := (await client.count_workflows(f'{query} AND {STATUS.name} = "{status}"')).count)
    }
    found = [each.id async for each in client.list_workflows(query, limit=_LISTED)] if total else []
    return Remaining(pack=pack, total=total, by_status=by_status, sessions=tuple(found))


async def wait_drained(client: Client, pack: str, tell: Callable[[Remaining], None]) -> None:
    """Return once no session is left on a pack version; `tell` is given each new count."""
    last = -1
    while (left := await count_remaining(client, pack)).total:
        if left.total != last:
            tell(left)
            last = left.total
        await asyncio.sleep(_POLL_S)
    tell(left)

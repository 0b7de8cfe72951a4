"""Runs inside runs: a tool that starts another run says whose child it is, and recursion comes to an end.

Two bounds hold whatever the tools do. A run is one deeper than the one that started it, and none is deeper than
`max_depth`. And all runs that one root run leads to share `max_global_iterations`: each reserves its own share before
it begins, in a stream beside the root's, and gives back what it did not use when it is over.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tercet.contracts.errors import LimitError
from tercet.contracts.request import Actor
from tercet.contracts.runs.budget import RunBudget
from tercet.core.events import SessionStarted
from tercet.core.state import State
from tercet.journal.errors import PositionConflict
from tercet.journal.protocol import Append, Journal
from tercet.journal.side_stream import append_next, name_owner, read_all
from tercet.tools import ToolContext


class RecursionDepthExceeded(LimitError):  # noqa: N818 - its published name
    """A run was to be started deeper inside others than its budget allows."""


class GlobalIterationBudgetExhausted(LimitError):  # noqa: N818 - its published name
    """The runs that one run led to have used up the iterations that they share."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """How many iterations one run of the family may use, or has used."""

    session: str
    iterations: int


_decode = msgspec.json.Decoder(Share).decode


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run stands among those that led to it."""

    root: str = ""
    depth: int = 0
    max_iterations: int | None = None


ALONE = Place()
"""The place of a run that nobody led to."""


def owners_of(start: SessionStarted) -> tuple[Actor, ...]:
    """Return the owner of the run that started so, then those of the runs that it is nested in."""
    return tuple(Actor.model_validate(each) for each in (start.actor, *start.parent_owners))


def owners_above(parent: ToolContext) -> tuple[Actor, ...]:
    """Return the owners of the runs that a new run is nested in, that of its parent first."""
    return parent.owners or (Actor(id=parent.actor),)


def family_of(root: str) -> str:
    """The stream of what the runs that a session led to have reserved and used."""
    return f"family:{root}"


async def reserve(
    journal: Journal, tenant: str, parent: ToolContext, session: str, budget: RunBudget
) -> Place:
    """The place of a child; raises `RecursionDepthExceeded` or `GlobalIterationBudgetExhausted`."""
    depth = parent.depth + 1
    if depth > budget.max_depth:
        raise RecursionDepthExceeded(
            "recursion_depth",
            depth,
            budget.max_depth,
            remedy="let the run do the work itself, or raise max_depth",
        )
    root = parent.root_session or parent.session_id
    limit = budget.max_global_iterations
    while True:
        stored = await read_all(journal, tenant, family_of(root))
        shares = {share.session: share.iterations for share in map(_decode, (each.data for each in stored))}
        used = sum(shares.values()) + (0 if root in shares else budget.max_iterations)
        granted = min(budget.max_iterations, limit - used)
        if granted <= 0:
            raise GlobalIterationBudgetExhausted(
                "global_iterations",
                used + 1,
                limit,
                remedy="start fewer runs, or raise max_global_iterations",
            )
        share = _encode(tenant, root, Share(session=session, iterations=granted))
        end = stored[-1].seq if stored else 0
        try:
            await journal.append(Append(tenant=tenant, stream=family_of(root), expected=end, events=(share,)))
        except PositionConflict:
            continue  # somebody was quicker: look again at what is left
        return Place(root=root, depth=depth, max_iterations=granted)


async def give_back(journal: Journal, tenant: str, place: Place, session: str) -> None:
    """Give back the whole share of a child that was never begun."""
    if place.root:
        await _write(journal, tenant, place.root, Share(session=session, iterations=0))


async def settle(journal: Journal, tenant: str, state: State) -> None:
    """Give back what a child that is over has not used."""
    root = state.start.root
    if root and state.is_over:
        share = Share(session=str(state.start.session), iterations=state.iterations)
        await _write(journal, tenant, root, share)


async def _write(journal: Journal, tenant: str, root: str, share: Share) -> None:
    data = _encode(tenant, root, share)
    await append_next(journal, tenant, family_of(root), lambda _: (data,))


def _encode(tenant: str, root: str, share: Share) -> bytes:
    return name_owner(msgspec.json.encode(share), tenant, family_of(root))

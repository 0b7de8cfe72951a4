"""Nested runs: runs that tools of other runs start, with limits on recursion.

Two limits hold whatever the tools do. A run is one level deeper than its parent, and none is deeper than `max_depth`. And
all runs below one root run share `max_global_iterations`: each reserves its share before it starts, in a side stream of
the root, and returns what it did not use when it is over.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tercet.contracts.errors import LimitError
from tercet.contracts.request import Actor
from tercet.contracts.runs.budget import RunBudget
from tercet.core.events import SessionStarted
from tercet.core.state import State
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import append_at, append_next, encode_entry, read_all
from tercet.tools import ToolContext


class RecursionDepthExceeded(LimitError):  # noqa: N818 - its published name
    """A nested run would exceed the maximum depth."""


class GlobalIterationBudgetExhausted(LimitError):  # noqa: N818 - its published name
    """The runs below one root run have used up the iterations that they share."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The number of iterations that one nested run has reserved or used."""

    session: str
    iterations: int


_decode = msgspec.json.Decoder(Share).decode


@dataclass(frozen=True, kw_only=True)
class Place:
    """The position of a run in the tree of nested runs."""

    root: str = ""
    depth: int = 0
    max_iterations: int | None = None


ALONE = Place()
"""The place of a run that is not nested."""


def owners_of(start: SessionStarted) -> tuple[Actor, ...]:
    """Return the owner of a run, then those of the runs that it is nested in."""
    return tuple(Actor.model_validate(each) for each in (start.actor, *start.parent_owners))


def owners_above(parent: ToolContext) -> tuple[Actor, ...]:
    """Return the owners of the runs that a new run is nested in, that of its parent first."""
    return parent.owners or (Actor(id=parent.actor),)


def family_of(root: str) -> str:
    """Return the name of the side stream with the reserved and used iterations of nested runs."""
    return f"family:{root}"


async def reserve(
    journal: Journal, tenant: str, parent: ToolContext, session: str, budget: RunBudget
) -> Place:
    """Reserve iterations for a nested run and return its place; raises `RecursionDepthExceeded` or
    `GlobalIterationBudgetExhausted`."""
    depth = parent.depth + 1
    if depth > budget.max_depth:
        raise RecursionDepthExceeded(
            "recursion_depth",
            depth,
            budget.max_depth,
            remedy="let the run do the work itself, or raise max_depth",
        )
    root = parent.root_session or parent.session_id
    stream = family_of(root)
    limit = budget.max_global_iterations
    while True:
        stored = await read_all(journal, tenant, stream)
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
        share = encode_entry(Share(session=session, iterations=granted), tenant, stream)
        if await append_at(journal, tenant, stream, len(stored), share) is not None:
            return Place(root=root, depth=depth, max_iterations=granted)
        # Otherwise another run reserved at the same moment: read again what is left.


async def give_back(journal: Journal, tenant: str, place: Place, session: str) -> None:
    """Return the whole share of a nested run that was never started."""
    if place.root:
        await _write(journal, tenant, place.root, Share(session=session, iterations=0))


async def settle(journal: Journal, tenant: str, state: State) -> None:
    """Return the unused share of a nested run that is over."""
    root = state.start.root
    if root and state.is_over:
        share = Share(session=state.start.session, iterations=state.iterations)
        await _write(journal, tenant, root, share)


async def _write(journal: Journal, tenant: str, root: str, share: Share) -> None:
    stream = family_of(root)
    await append_next(journal, tenant, stream, encode_entry(share, tenant, stream))

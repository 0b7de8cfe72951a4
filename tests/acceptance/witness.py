"""The witness of an effect: what the journal said, at the moment before it happened, about why it might happen.

It reads the journal's durable events by itself, and nothing that the worker remembers: so an effect that came before
the approval it ran with was durable is found, whatever the worker believed. An effect without a warrant was not allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tercet import ToolContext
from tercet.contracts.plan import compensated_step
from tercet.core import codec
from tercet.core import events as e
from tercet.journal.protocol import Journal

NOT_NEEDED = "not needed"
"""The warrant of a call that nobody has to approve."""


class Witness:
    """Looks into the journal of a worker."""

    journal: Journal | None = None

    async def look(self, ctx: ToolContext, params: Mapping[str, Any]) -> str:
        """The warrant for a call; empty if the journal has none."""
        if self.journal is None:
            return ""
        stored = await self.journal.read(ctx.tenant, ctx.session_id)
        return warrant([codec.decode(each.data) for each in stored], ctx.step_id, ctx.idempotency_key, params)


@cache
def witness() -> Witness:
    """The witness of this process, which its worker tells the journal."""
    return Witness()


def warrant(events: Sequence[e.Event], step: str, key: str, params: Mapping[str, Any]) -> str:
    """The digest under which people approved a call; for one that takes a step back, of that step, once it was decided
    that effects are taken back. Empty where something of it is missing."""
    if not any(isinstance(event, e.Intent) and event.key == key for event in events):
        return ""
    if not compensated_step(step):
        return _approval(events, step, params)
    begun = [event for event in events if isinstance(event, e.CompensationBegun)]
    ways = [way for event in begun for way in event.undo if way.key == key and way.params == params]
    if len(ways) != 1 or not _is_agreed(events):
        return ""
    return _approval(events, ways[0].step, None) or NOT_NEEDED


def _approval(events: Sequence[e.Event], step: str, params: Mapping[str, Any] | None) -> str:
    """The digest of a gate that showed this call with these parameters, and that enough people have approved."""
    opened: dict[str, e.GateOpened] = {}
    approvers: dict[str, set[str]] = {}
    for event in events:
        match event:
            case e.GateOpened(kind="approval") if event.step == step:
                opened[event.gate] = event
            case e.GateAnswered(answer="approve") if event.gate in opened:
                if event.digest == opened[event.gate].digest:
                    approvers.setdefault(event.gate, set()).add(event.actor)
            case e.GateAnswered(answer="withdraw"):
                approvers.get(event.gate, set()).discard(event.actor)
            case _:
                pass
    for gate, people in approvers.items():
        asked = opened[gate]
        is_enough = len(people) >= max(need.quorum for need in asked.needs.values())
        if is_enough and (params is None or asked.shown["params"] == params):
            return asked.digest
    return ""


def _is_agreed(events: Sequence[e.Event]) -> bool:
    """Whether the pack decides that effects are taken back, or leaves it to somebody who has agreed."""
    is_asked = any(isinstance(event, e.SessionStarted) and event.on_failure == "ask" for event in events)
    agreed = any(isinstance(event, e.GateAnswered) and event.answer == "compensate" for event in events)
    return agreed or not is_asked

"""Lanes as the tools that steps call: what a pack declares of a lane, completed by its decision and its tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.lane import LANE, Lane, envelope_schema
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.plan import Plan
from tercet.contracts.shape import as_object
from tercet.contracts.tasks import TaskLibrary
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.plain import PlainObject

GRACE_MS = 5_000
"""How much longer than a lane may take its parent waits for it: a lane that has run out of time still has to end."""


class LaneParts(Protocol):
    """The declarations of a pack that the tools of its lanes are made of."""

    @property
    def lanes(self) -> Sequence[Lane]: ...
    @property
    def tools(self) -> Sequence[ToolSpec]: ...
    @property
    def decisions(self) -> Sequence[DecisionSpec]: ...
    @property
    def templates(self) -> Sequence[Plan]: ...
    @property
    def library(self) -> TaskLibrary: ...


def lane_specs(parts: LaneParts) -> tuple[ToolSpec, ...]:
    """Return each lane as the tool that a step calls: it only reads, and the same key leads to the same session."""
    return tuple(_spec(parts, lane) for lane in parts.lanes)


def decision_of(lane: Lane, decisions: Iterable[DecisionSpec]) -> DecisionSpec | None:
    """Return the decision that a lane takes; None if there is none, or more than one."""
    found = [each for each in decisions if lane.intent == each.id or lane.intent in each.intents]
    return found[0] if len(found) == 1 else None


def why_untrusted(parts: LaneParts, lane: Lane) -> str:
    """Return why the outputs of a lane cannot be trusted, whatever it declares; empty if they can be."""
    known = {tool.name: tool for tool in parts.tools}
    for name in lane.tools:
        tool = known.get(name)
        if tool is None:
            return f"{name} is not a tool of this pack"
        if tool.result_trust is not Trust.TRUSTED or tool.untrusted:
            return f"the result of {name} is not trusted"
    planned = {plan.intent for plan in parts.templates} | {goal.intent for goal in parts.library.goals}
    if lane.intent not in planned:
        return f"a language model plans {lane.intent}"
    return ""


def _spec(parts: LaneParts, lane: Lane) -> ToolSpec:
    decision = decision_of(lane, parts.decisions)
    untrusted_inputs = () if decision is None else decision.untrusted_inputs
    schema: PlainObject = {**lane.params, "additionalProperties": False}
    given = as_object(schema.get("properties")) or {}
    is_trusted = lane.trust is Trust.TRUSTED and not why_untrusted(parts, lane)
    return ToolSpec(
        name=lane.tool_name,
        description=lane.description,
        parameters=schema,
        result=envelope_schema(),
        mode=ApprovalMode.READ_ONLY,
        adapter=LANE,
        # What the lane's own run counts as trusted input must come from a trusted source here.
        authority=tuple(sorted(name for name in given if name not in untrusted_inputs)),
        trust=Trust.TRUSTED if is_trusted else Trust.UNTRUSTED,
        untrusted=("reason", "proposals") if is_trusted else (),
        idempotent=True,
        timeout_ms=lane.timeout_ms + GRACE_MS,
        reserves=lane.budget,
    )

"""What one review works out once and all of its checks share.

Values are in one of three states at review. *Written*: a literal. *Known*: a reference to evidence or to the request,
whose value is frozen already. *Open*: a reference to the result of a step, known only at dispatch. Rules that read an
open value are deferred to dispatch, where they are decided on the resolved call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tercet.contracts import graph, pointer, references
from tercet.contracts.context import Check, CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.effective import EffectiveStep, effective
from tercet.contracts.gate import GateDemand
from tercet.contracts.plan import Plan, Step
from tercet.contracts.references import Found, Leaf, Place, Reference
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.verdict import Code, Origin, Refusal

Refusals = Iterator[Refusal]


class Known(NamedTuple):
    """The value of a reference that is known at review, or why it leads nowhere."""

    value: Any = None
    fault: str | None = None


@dataclass
class Review:
    """One plan under review."""

    ctx: RunContext
    compiled: CompiledContext
    spec: DecisionSpec
    plan: Plan
    demands: list[GateDemand] = field(default_factory=list[GateDemand])
    deferred: list[str] = field(default_factory=list[str])

    @cached_property
    def calls(self) -> list[EffectiveStep]:
        """The effective steps that call a tool on the surface."""
        surface = self.compiled.surface
        return [
            effective(index, step, tool)
            for index, step in enumerate(self.plan.steps)
            if step.tool is not None and (tool := surface.get(step.tool)) is not None
        ]

    @cached_property
    def call_at(self) -> dict[int, EffectiveStep]:
        """The same by position."""
        return {call.index: call for call in self.calls}

    @cached_property
    def found(self) -> list[list[Found]]:
        """The references and literals in the parameters of each step, parameters under their own names."""
        calls = self.call_at
        return [
            references.scan(calls[index].params if index in calls else step.params)
            for index, step in enumerate(self.plan.steps)
        ]

    @cached_property
    def conditions(self) -> dict[int, Reference]:
        """The condition of each step that has one."""
        return {
            index: condition
            for index, step in enumerate(self.plan.steps)
            if step.when is not None
            and isinstance(condition := references.parse("cel", step.when, ("when",)), Reference)
        }

    @cached_property
    def graph(self) -> graph.Graph:
        """Who waits for whom."""
        if not self.conditions:
            return graph.build(self.plan, self.found)
        with_conditions = [
            [*found, self.conditions[index]] if index in self.conditions else found
            for index, found in enumerate(self.found)
        ]
        return graph.build(self.plan, with_conditions)

    @cached_property
    def position(self) -> dict[str, int]:
        """The position of each step by id."""
        return {step.id: index for index, step in enumerate(self.plan.steps)}

    @cached_property
    def checks(self) -> frozenset[Check]:
        """The optional checks that the decision's risk tier asks for."""
        return self.compiled.checks(self.spec.risk_tier)

    def known(self, reference: Reference) -> Known | None:
        """The value of a reference if it is known at review; None if it is open."""
        if reference.kind == "evidence":
            entry = self.compiled.evidence.get(reference.target)
            if entry is None:
                return Known(fault=f"evidence {reference.target} is not in the snapshot")
            return _follow(entry.content, reference.pointer, reference.target)
        if reference.target == references.REQUEST:
            return _follow(self.compiled.input(), reference.pointer, "the request")
        return None

    @cached_property
    def open_places(self) -> dict[int, list[Place]]:
        """For each call that has any, the places of its open values."""
        return {
            call.index: places
            for call in self.calls
            if (
                places := [
                    f.place for f in self.found[call.index] if type(f) is Reference and self.known(f) is None
                ]
            )
        }

    @cached_property
    def open_parameters(self) -> dict[int, frozenset[str]]:
        """For each call that has any, the parameters that hold an open value."""
        return {
            index: frozenset(str(place[0]) for place in places) for index, places in self.open_places.items()
        }

    def arguments(self, call: EffectiveStep) -> dict[str, Any]:
        """The parameters of a call with every known reference resolved; open ones stay as they are written."""
        if all(type(f) is Leaf and references.LITERAL not in f.place for f in self.found[call.index]):
            return call.params
        return {name: self._resolved(value) for name, value in call.params.items()}

    def _resolved(self, value: Any) -> Any:
        members = as_object(value)
        if members is not None:
            reference = references.as_reference(members)
            if reference is not None:
                known = self.known(reference)
                return value if known is None or known.fault else known.value
            if references.LITERAL in members:
                return members[references.LITERAL]
            return {key: self._resolved(member) for key, member in members.items()}
        items = as_list(value)
        return value if items is None else [self._resolved(item) for item in items]

    def refuse(
        self,
        code: Code,
        reason: str,
        remedy: str,
        *,
        step: int | None = None,
        place: str = "",
        sources: tuple[Origin, ...] = (),
    ) -> Refusal:
        """A refusal, at a step if one is to blame."""
        where = "" if step is None else f"/steps/{step}"
        return Refusal(
            code=code,
            reason=reason,
            remedy=remedy,
            step=step,
            step_id=None if step is None else self.plan.steps[step].id,
            place=f"{where}{place}",
            sources=sources,
        )

    def pinned(self, index: int, step: Step) -> tuple[str, ...]:
        """The evidence that a step pins: listed, or read by reference."""
        read = tuple(f.target for f in self.found[index] if type(f) is Reference and f.kind == "evidence")
        return (*step.evidence_refs, *read) if read else step.evidence_refs


def _follow(value: Any, where: str, name: str) -> Known:
    try:
        return Known(pointer.follow(value, where))
    except pointer.PointerError:
        return Known(fault=f"{name} has nothing at {where}")

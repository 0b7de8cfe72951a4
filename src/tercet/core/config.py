"""What a run is judged and carried out in: derived from the session's start and its plan, and never changed by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tercet.contracts.behaviour import Behaviour
from tercet.contracts.context import (
    ChangedValue,
    CompiledContext,
    EarlierCall,
    EnteredResult,
    EvidenceManifestEntry,
    KnownResult,
    RunContext,
)
from tercet.contracts.control import ControlSpec
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.plan import Plan, Step
from tercet.contracts.shape import unchecked
from tercet.contracts.steps import graph
from tercet.contracts.steps.effective import EffectiveStep, effective
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.references import LITERAL
from tercet.core import budget
from tercet.core.events import Undo
from tercet.core.prepared_call import PreparedCall
from tercet.core.state import EarlierStep, SetValue
from tercet.critic.checks.compensation import compensating_step
from tercet.critic.checks.rules import look_at_other_steps
from tercet.critic.dispatch import Progress
from tercet.critic.reading import with_params
from tercet.critic.review import Review


@dataclass(frozen=True)
class RunConfig:
    """The frame, the compiled context and the decision of a run."""

    ctx: RunContext
    compiled: CompiledContext
    spec: DecisionSpec
    expiry: Mapping[str, int] = field(default_factory=dict[str, int])
    """When each piece of evidence that expires does so."""
    executor_tokens: int | None = None
    """How many tokens the executor may use, where the pack gives it a limit of its own."""
    control: ControlSpec | None = None
    """What steers the repairs of the outputs, where the pack says so."""
    library_snapshot: str = ""
    """The snapshot of the library that the run is pinned to, where there is one."""
    library_hash: str = ""

    @property
    def surface(self) -> dict[str, ToolSpec]:
        """The tools of this run by name."""
        return self.compiled.surface

    @cached_property
    def evidence(self) -> dict[str, Any]:
        """The content of the run's evidence by id."""
        return {entry.id: entry.content for entry in self.compiled.manifests.evidence_manifest}

    @cached_property
    def limits(self) -> budget.Amounts:
        """How much of each dimension of the budget may be used, where that is limited."""
        return budget.limits_of(self.ctx.run_budget, {"executor": self.executor_tokens})

    def frame_with(self, **fields: Any) -> RunContext:
        """Return the frame with other values in some of its fields, which are not checked again."""
        return unchecked(RunContext, {**vars(self.ctx), **fields})

    @cached_property
    def max_iterations(self) -> int:
        """How many phases the run may go through."""
        return self.ctx.run_budget.max_iterations

    @cached_property
    def is_strict(self) -> bool:
        """Whether calls are compared and checked by the rules of `Behaviour.STRICT_CALLS`."""
        return self.ctx.goes_by(Behaviour.STRICT_CALLS)

    @cached_property
    def checks_conditions(self) -> bool:
        """Whether a step is held to its preconditions when it is dispatched."""
        return self.is_strict and "preconditions" in self.compiled.checks(self.spec.risk_tier)

    @cached_property
    def judges_other_steps(self) -> bool:
        """Whether a policy looks at more than the step that it is about."""
        return self.is_strict and look_at_other_steps(self.compiled.policies)

    def review(self, plan: Plan) -> Review:
        """Return the review of a plan."""
        return Review(self.ctx, self.compiled, self.spec, plan)

    def extended(self, more: Mapping[str, int]) -> RunConfig:
        """The same with more to use up; what has no limit needs none."""
        ctx = self.ctx.model_copy(update={"run_budget": budget.extend(self.ctx.run_budget, more)})
        own = self.executor_tokens
        return replace(self, ctx=ctx, executor_tokens=None if own is None else own + more.get("tokens", 0))

    def with_facts(self, facts: Sequence[Evidence]) -> RunConfig:
        """The same with facts that plans have asked for and found."""
        new = [fact for fact in facts if fact.id not in self.compiled.evidence]
        entries = (*self.compiled.manifests.evidence_manifest, *map(EvidenceManifestEntry.of, new))
        manifests = self.compiled.manifests.model_copy(update={"evidence_manifest": entries})
        ends = {
            fact.id: int(fact.expires_at.timestamp() * 1000) for fact in new if fact.expires_at is not None
        }
        compiled = self.compiled.model_copy(update={"manifests": manifests})
        return replace(self, compiled=compiled, expiry={**self.expiry, **ends})

    def knowing(self, results: tuple[KnownResult, ...]) -> RunConfig:
        """The same with results of earlier turns, whose values may be used again."""
        return replace(self, compiled=self.compiled.model_copy(update={"results": results}))

    def with_entered(self, entered: tuple[EnteredResult, ...]) -> RunConfig:
        """The same with the results that people typed."""
        return replace(self, compiled=self.compiled.model_copy(update={"entered": entered}))

    def with_changed(self, changed: Sequence[SetValue]) -> RunConfig:
        """The same with the values that approvers have set in calls of the plan."""
        values = tuple(
            ChangedValue(
                step_id=each.step,
                tool=each.tool,
                place=each.place,
                value=each.value,
                by=each.by,
                gates=each.gates,
            )
            for each in changed
        )
        return replace(self, compiled=self.compiled.model_copy(update={"changed": values}))

    def after(self, earlier: Sequence[EarlierStep]) -> RunConfig:
        """The same for a run that has done these things before its present plan."""
        if not self.is_strict:
            return self
        calls = tuple(
            EarlierCall(step=with_params(Step.model_validate(each.step), each.params), place=each.place)
            for each in earlier
        )
        return replace(self, ctx=self.ctx.model_copy(update={"earlier": calls}))


@dataclass(frozen=True)
class ExecutionPlan:
    """A verified plan, ready to be followed: its steps by name, effective, and how much waits on each."""

    plan: Plan
    steps: dict[str, Step]
    calls: dict[str, EffectiveStep]
    order: dict[str, tuple[int, int, int]]
    """The key by which ready steps go out: priority, then how much waits on them, then position."""
    demanded: dict[str, tuple[tuple[dict[str, Any], Progress], tuple[str, ...]]] = field(
        default_factory=dict[str, tuple[tuple[dict[str, Any], Progress], tuple[str, ...]]],
        compare=False,
        repr=False,
    )
    """The gates that each step waits for with its resolved parameters and what is known of the others, worked out once."""
    prepared: dict[tuple[str, bool], PreparedCall] = field(
        default_factory=dict[tuple[str, bool], PreparedCall], compare=False, repr=False
    )
    """The calls whose parameters the plan writes out, by step and by whether strict rules hold; worked out once."""
    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec], compare=False, repr=False)
    """The tools by which a step may be compensated."""

    @classmethod
    def of(
        cls, plan: Plan, surface: dict[str, ToolSpec], tools: Mapping[str, ToolSpec] | None = None
    ) -> ExecutionPlan:
        """The course of a plan over a surface; `tools` are those of the pack, of which any may be a step's way back."""
        drawn = plan.graph
        waiting = _downstream(drawn)
        return cls(
            plan=plan,
            steps={step.id: step for step in plan.steps},
            calls={
                step.id: effective(position, step, surface[step.tool])
                for position, step in enumerate(plan.steps)
                if step.tool is not None and step.tool in surface
            },
            order={
                step.id: (-step.priority, -waiting[position], position)
                for position, step in enumerate(plan.steps)
            },
            tools=surface if tools is None else tools,
        )

    def for_run(self) -> ExecutionPlan:
        """The same for another run, which has gates of its own."""
        return replace(self, demanded={})

    def prepare(self, call: EffectiveStep, params: dict[str, Any], *, is_strict: bool) -> PreparedCall:
        """Return a call with its resolved parameters, kept here if the plan writes them out."""
        if params is not call.params:  # they hold results of one run, and a plan may be shared
            return PreparedCall(call, params, is_strict=is_strict)
        key = (call.step.id, is_strict)
        known = self.prepared.get(key)
        if known is None:
            known = self.prepared[key] = PreparedCall(call, params, is_strict=is_strict)
        return known

    def with_undo(self, undo: tuple[Undo, ...], tools: Mapping[str, ToolSpec]) -> ExecutionPlan:
        """The same course with the steps that take others back, none of which can end the run."""
        ways = {way.name: way for way in undo if way.tool}
        steps = {name: _compensating_step(way) for name, way in ways.items()}
        calls = {name: effective(-1, step, tools[ways[name].tool]) for name, step in steps.items()}
        order = {name: (0, 0, position) for position, name in enumerate(ways)}
        return replace(
            self,
            steps={**self.steps, **steps},
            calls={**self.calls, **calls},
            order={**self.order, **order},
            prepared={},  # compensations belong to one run, and the plan may be shared
        )


def _compensating_step(way: Undo) -> Step:
    params = {key: {LITERAL: value} for key, value in way.params.items()}
    evidence = way.bound.evidence if way.bound is not None else ()
    return compensating_step(way.step, way.tool, params, evidence)


def _downstream(drawn: graph.Graph) -> list[int]:
    """How many steps wait on each, directly or through others; bounded work for long plans."""
    after: list[set[int]] = [set() for _ in drawn.successors]
    for step in reversed(drawn.order):
        for successor in drawn.successors[step]:
            after[step].add(successor)
            if len(after[step]) < 256:  # beyond that the order among ready steps makes no difference
                after[step] |= after[successor]
    return [len(found) for found in after]

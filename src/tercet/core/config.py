"""The configuration of a run and its indexed plan, both derived from the session's start and its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

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
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.shape import unchecked
from tercet.contracts.steps import graph
from tercet.contracts.steps.effective import EffectiveStep, Inherited, effective
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
    """The run context, the compiled context and the decision of a run."""

    ctx: RunContext
    compiled: CompiledContext
    spec: DecisionSpec
    expiry: Mapping[str, int] = field(default_factory=dict[str, int])
    """The expiry times of evidence that expires."""
    executor_tokens: int | None = None
    """The executor's own token limit, if the pack sets one."""
    control: ControlSpec | None = None
    """The controller of output repairs, if the pack configures one."""
    library_snapshot: str = ""
    """The library snapshot that the run is pinned to, if there is one."""
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
        """The budget limits by dimension."""
        return budget.limits_of(self.ctx.run_budget, {"executor": self.executor_tokens})

    def frame_with(self, **fields: Any) -> RunContext:
        """Return the run context with some fields replaced, without validation."""
        return unchecked(RunContext, {**vars(self.ctx), **fields})

    @cached_property
    def max_iterations(self) -> int:
        """The maximum number of phases."""
        return self.ctx.run_budget.max_iterations

    @cached_property
    def is_lane(self) -> bool:
        """Whether the run is a lane of another run."""
        return self.ctx.lane is not None

    @cached_property
    def is_strict(self) -> bool:
        """Whether calls are compared and checked by the rules of `Behaviour.STRICT_CALLS`."""
        return self.ctx.goes_by(Behaviour.STRICT_CALLS)

    @cached_property
    def reads_all(self) -> bool:
        """Whether calls are compared and shown by the rules of `Behaviour.SCHEMAS_READ_WHOLE`."""
        return self.ctx.goes_by(Behaviour.SCHEMAS_READ_WHOLE)

    @property
    def marks_reach_lists(self) -> bool:
        """Whether marks of untrusted fields go through lists: see `Behaviour.WIDTHS_ARE_NO_KINDS`."""
        return self.ctx.goes_by(Behaviour.WIDTHS_ARE_NO_KINDS)

    @cached_property
    def checks_conditions(self) -> bool:
        """Whether a step is held to its preconditions when it is dispatched."""
        return self.is_strict and "preconditions" in self.compiled.checks(self.spec.risk_tier)

    @cached_property
    def judges_other_steps(self) -> bool:
        """Whether a policy depends on steps other than the one it judges."""
        return self.is_strict and look_at_other_steps(self.compiled.policies)

    def review(self, plan: Plan) -> Review:
        """Return the review of a plan."""
        return Review(self.ctx, self.compiled, self.spec, plan)

    def extended(self, more: Mapping[str, int]) -> RunConfig:
        """Return the configuration with an extended budget."""
        ctx = self.ctx.model_copy(update={"run_budget": budget.extend(self.ctx.run_budget, more)})
        own = self.executor_tokens
        return replace(self, ctx=ctx, executor_tokens=None if own is None else own + more.get("tokens", 0))

    def with_facts(self, facts: Sequence[Evidence]) -> RunConfig:
        """Return the configuration with the evidence that plans have found."""
        new = [fact for fact in facts if fact.id not in self.compiled.evidence]
        entries = (*self.compiled.manifests.evidence_manifest, *map(EvidenceManifestEntry.of, new))
        manifests = self.compiled.manifests.model_copy(update={"evidence_manifest": entries})
        ends = {
            fact.id: int(fact.expires_at.timestamp() * 1000) for fact in new if fact.expires_at is not None
        }
        compiled = self.compiled.model_copy(update={"manifests": manifests})
        return replace(self, compiled=compiled, expiry={**self.expiry, **ends})

    def knowing(self, results: tuple[KnownResult, ...]) -> RunConfig:
        """Return the configuration with results of earlier turns, whose values may be used again."""
        return replace(self, compiled=self.compiled.model_copy(update={"results": results}))

    def with_entered(self, entered: tuple[EnteredResult, ...]) -> RunConfig:
        """Return the configuration with the results that people entered."""
        return replace(self, compiled=self.compiled.model_copy(update={"entered": entered}))

    def with_changed(self, changed: Sequence[SetValue]) -> RunConfig:
        """Return the configuration with the values that approvers have set in calls of the plan."""
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
        """Return the configuration of a run that executed these steps before its current plan."""
        if not self.is_strict:
            return self
        calls = tuple(
            EarlierCall(step=with_params(Step.model_validate(each.step), each.params), place=each.place)
            for each in earlier
        )
        return replace(self, ctx=self.ctx.model_copy(update={"earlier": calls}))


@dataclass(frozen=True)
class ExecutionPlan:
    """A verified plan, indexed for execution: steps and effective calls by name, and their dispatch order."""

    plan: Plan
    steps: dict[str, Step]
    calls: dict[str, EffectiveStep]
    order: dict[str, tuple[int, int, int]]
    """The sort key for dispatching ready steps: priority, number of dependent steps, position."""
    demanded: dict[str, tuple[tuple[dict[str, Any], Progress], tuple[str, ...]]] = field(
        default_factory=dict[str, tuple[tuple[dict[str, Any], Progress], tuple[str, ...]]],
        compare=False,
        repr=False,
    )
    """A cache of the gates that each step needs, with the parameters and progress that they were computed for."""
    prepared: dict[tuple[str, bool, bool], PreparedCall] = field(
        default_factory=dict[tuple[str, bool, bool], PreparedCall], compare=False, repr=False
    )
    """A cache of calls whose parameters the plan gives literally, by step and by whether strict rules hold."""
    reserved: dict[str, budget.Fields] = field(
        default_factory=dict[str, budget.Fields], compare=False, repr=False
    )
    """A cache of the amounts that the call of each step reserves, which follow from the plan and the tools."""
    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec], compare=False, repr=False)
    """The tools by which a step may be compensated."""

    @classmethod
    def of(
        cls, plan: Plan, surface: dict[str, ToolSpec], tools: Mapping[str, ToolSpec] | None = None
    ) -> ExecutionPlan:
        """Index a plan over a surface; `tools` are those of the pack, any of which may compensate a step."""
        waiting = _downstream(plan.graph)
        inherited: dict[str, Inherited] = {}
        steps: dict[str, Step] = {}
        calls: dict[str, EffectiveStep] = {}
        order: dict[str, tuple[int, int, int]] = {}
        for position, step in enumerate(plan.steps):
            said = vars(step)  # reading a field of a contract by its name takes several times as long
            name, tool = said["id"], said["tool"]
            steps[name] = step
            if tool is not None and tool in surface:
                declared = inherited.get(tool)
                if declared is None:
                    declared = inherited[tool] = Inherited(surface[tool])
                calls[name] = declared.effective(position, step, said)
            order[name] = (-said["priority"], -waiting[position], position)
        return cls(
            plan=plan, steps=steps, calls=calls, order=order, tools=surface if tools is None else tools
        )

    def for_run(self) -> ExecutionPlan:
        """Return a copy for another run, which has its own gates."""
        return replace(self, demanded={})

    def prepare(
        self, call: EffectiveStep, params: dict[str, Any], *, is_strict: bool, reads_all: bool
    ) -> PreparedCall:
        """Return a call with its resolved parameters, cached if the plan gives them literally."""
        if params is not call.params:  # they hold results of one run, and a plan may be shared
            return PreparedCall(call, params, is_strict=is_strict, reads_all=reads_all)
        key = (call.step.id, is_strict, reads_all)
        known = self.prepared.get(key)
        if known is None:
            known = self.prepared[key] = PreparedCall(call, params, is_strict=is_strict, reads_all=reads_all)
        return known

    def reservation_of(self, call: EffectiveStep, name: str) -> budget.Fields:
        """Return the fields of an INTENT that reserve the call of a step and hold back its compensation."""
        known = self.reserved.get(name)
        if known is None:
            hold = budget.hold_of(call, self.tools)
            known = self.reserved[name] = budget.reservation_of(call, hold)
        return known

    def with_undo(self, undo: tuple[Undo, ...], tools: Mapping[str, ToolSpec]) -> ExecutionPlan:
        """Return the plan with its compensating steps, none of which can end the run."""
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
    """Return the number of direct and indirect dependents of each step, capped for long plans."""
    after: list[set[int]] = [set() for _ in drawn.successors]
    for step in reversed(drawn.order):
        for successor in drawn.successors[step]:
            after[step].add(successor)
            if len(after[step]) < 256:  # beyond that the order among ready steps makes no difference
                after[step] |= after[successor]
    return [len(found) for found in after]

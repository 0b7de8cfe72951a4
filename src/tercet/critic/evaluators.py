"""The five evaluators: versioned pure functions of the record of a run.

A changed rule gets a new version, since a recorded verdict must remain reproducible under its own rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from itertools import islice
from operator import is_
from typing import Any, Literal, NamedTuple

import orjson

from tercet.contracts.errors import PlanError, UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Step
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.run import Outcome, Run, TranscriptEntry
from tercet.contracts.runs.scorecard import Evaluation, EvaluatorName, Finding
from tercet.contracts.shape import Json, JsonObject
from tercet.contracts.values import references
from tercet.contracts.values.canonical import canonical
from tercet.critic.approvals import is_opened, unanswered, wrongly_granted
from tercet.critic.checks.arguments import arguments_are_permitted, arguments_fit_schema
from tercet.critic.checks.flow import authority_is_bound
from tercet.critic.checks.gates import demand_gates, owner_is_authorised
from tercet.critic.checks.published import modes_are_within_safety_mode
from tercet.critic.checks.rules import (
    find_undecided,
    look_at_other_steps,
    policies_hold,
    read_order,
    uncertain_at_review,
)
from tercet.critic.order import keep_order
from tercet.critic.reading import Reading
from tercet.critic.review import Review, exhaust
from tercet.policy import schemas
from tercet.policy.resolution import ResolutionError, resolve

Status = Literal["pass", "warn", "fail"]

# Looking a member up in its enumeration takes longer than comparing with it.
_DONE, _UNKNOWN, _READ_ONLY = Outcome.DONE, Outcome.UNKNOWN, ApprovalMode.READ_ONLY

VERSION = "1"
MAX_FINDINGS = 20
NEAR = 0.8
"""The share of a budget above which its use is a warning."""


class Made(NamedTuple):
    """A call of a run and its outcome, as most evaluators read it."""

    step_id: str
    tool: str
    params: JsonObject
    outcome: Outcome
    error: str | None


class Recorded:
    """A run, and values that several evaluators derive from it: computed once, since reviewing a plan is expensive."""

    def __init__(self, run: Run, reading: Reading | None = None) -> None:
        """`reading` is the one from the plan's review, to avoid reading the plan again."""
        self.run = run
        self._reading = reading

    @cached_property
    def made(self) -> list[Made]:
        """The calls in order of completion."""
        # Out of their dicts: reading a field of a contract by its name takes several times as long.
        parts = [(vars(entry.call), vars(entry.result)) for entry in self.run.transcript]
        return [
            Made(call["step_id"], call["tool"], call["params"], result["outcome"], result["error"])
            for call, result in parts
        ]

    @cached_property
    def said(self) -> list[dict[str, Any]]:
        """The fields of the plan's steps, with what was derived from them."""
        return [vars(step) for step in self.run.plan.steps]

    @cached_property
    def planned(self) -> Review:
        """The plan as proposed."""
        run = self.run
        return Review(run.context, run.compiled, run.spec, run.plan, self._reading)

    @cached_property
    def is_to_the_letter(self) -> bool:
        """Whether every step was called once, with exactly the literal parameters of the plan.

        Then the plan is what ran, and no argument has drifted. This compares all parameters at once; the slower checks
        below find the same step by step.
        """
        steps, made = self.run.plan.steps, self.made
        params = {each.step_id: each.params for each in made}
        if not len(steps) == len(made) == len(params):
            return False
        planned: list[JsonObject] = []
        ran: list[JsonObject | None] = []
        for step, said in zip(steps, self.said, strict=True):
            if not step.is_written_out or not _is_without_repeats(said["evidence_refs"]):
                return False
            planned.append(said["params"])
            ran.append(params.get(said["id"]))
        is_unaliased = all(call.params is vars(call.step)["params"] for call in self.planned.calls)
        return is_unaliased and _is_printed_alike(planned, ran)

    @cached_property
    def ran(self) -> Review:
        """The plan with the actual parameters of its steps, and without the steps that did not run.

        Raises `PlanError` if the record is not valid JSON.
        """
        if self.is_to_the_letter:
            return self.planned
        run = self.run
        params = {each.step_id: each.params for each in self.made}
        steps = tuple(
            _as_run(step, params[step.id], tuple(dict.fromkeys(refs)))
            for step, refs in zip(run.plan.steps, self.planned.pinned, strict=True)
            if step.id in params
        )
        if len(steps) == len(run.plan.steps) and all(map(is_, steps, run.plan.steps)):
            return self.planned  # already read and checked
        if read_order(run.compiled.policies):
            steps = keep_order(run.plan, steps)
        plan = run.plan.model_copy(update={"steps": steps})
        return Review(run.context, run.compiled, run.spec, plan, late=self._late, planned=run.plan)

    @property
    def _late(self) -> frozenset[str]:
        """The policies over the plan that its review left open."""
        run = self.run
        if not run.context.goes_by(Behaviour.STRICT_CALLS) or not look_at_other_steps(run.compiled.policies):
            return frozenset()
        uncertain = uncertain_at_review(run.context, run.compiled, run.plan)
        reviewed = Review(
            run.context, run.compiled, run.spec, run.plan, self.planned.reading, uncertain=uncertain
        )
        return frozenset(find_undecided(reviewed))


def _as_run(step: Step, params: JsonObject, refs: tuple[str, ...]) -> Step:
    """Return a step with its actual parameters; the step itself if they are the ones in the plan."""
    if refs == step.evidence_refs and step.is_written_out and _is_printed_alike(step.params, params):
        return step
    return step.resolved_to(params, refs)


def _is_without_repeats(refs: tuple[str, ...]) -> bool:
    return len(refs) < 2 or len(set(refs)) == len(refs)


def evaluate_policy(recorded: Recorded) -> Evaluation:
    """All calls were planned, on the surface, authorised and within the mode, and policies and limits hold for them."""
    return _floor(_policy_findings(recorded))


def _policy_findings(recorded: Recorded) -> Iterator[Finding]:
    run = recorded.run
    planned = {said["id"]: said["tool"] for said in recorded.said}
    surface = run.compiled.surface
    for step_id, tool, _, _, _ in recorded.made:
        if planned.get(step_id) != tool:
            message = f"{tool} was called as step {step_id}, which the plan does not have"
            yield Finding(code="outside_plan", message=message, step_id=step_id)
        elif tool not in surface:
            message = f"{tool} is not in the surface"
            yield Finding(code="tool_not_surfaced", message=message, step_id=step_id)
    try:
        review = recorded.ran
    except PlanError as error:
        yield Finding(code="argument_invalid", message=f"the recorded arguments are no JSON: {error.message}")
        return
    for check in _POLICY_CHECKS:
        for refusal in check(review):
            yield Finding(code=str(refusal.code), message=refusal.reason, step_id=refusal.step_id)


_POLICY_CHECKS = (
    modes_are_within_safety_mode,
    owner_is_authorised,
    arguments_fit_schema,
    arguments_are_permitted,
    policies_hold,
)


def evaluate_safety(recorded: Recorded) -> Evaluation:
    """Every effect was approved where required, ran once and as planned, and its outcome is known."""
    return _floor(_safety_findings(recorded))


def _safety_findings(recorded: Recorded) -> Iterator[Finding]:
    yield from _unapproved(recorded)
    yield from _drifted(recorded)
    surface, done = recorded.run.compiled.surface, set[str]()
    outcomes: dict[str, Outcome] = {}
    for step_id, name, _, outcome, _ in recorded.made:
        tool = surface.get(name)
        is_effect = tool is None or tool.mode is not _READ_ONLY
        if is_effect and outcome is _DONE:
            if step_id in done:
                message = f"step {step_id} took effect twice"
                yield Finding(code="repeated_effect", message=message, step_id=step_id)
            done.add(step_id)
        if is_effect:
            outcomes[step_id] = outcome
    for step_id, outcome in outcomes.items():
        if outcome is _UNKNOWN:
            message = f"nobody knows whether step {step_id} happened"
            yield Finding(code="unsettled", message=message, step_id=step_id)


def _unapproved(recorded: Recorded) -> Iterator[Finding]:
    """Yield the steps that ran without an approval that they needed."""
    run, demanded = recorded.run, _demanded(recorded)
    for step_id, name in sorted(demanded):
        if not is_opened(run, step_id, run.compiled.gates_by_name[name]):
            yield Finding(code="unapproved", message=f"step {step_id} ran without {name}", step_id=step_id)
    granted = wrongly_granted(run)
    for step_id, policy in granted.items():
        message = f"step {step_id} ran by a grant of {policy} that the pack does not give"
        yield Finding(code="unapproved", message=message, step_id=step_id)
    reported = {*granted, *(step_id for step_id, _ in demanded)}  # named gates were checked above
    for step_id in unanswered(run, recorded.planned):
        if step_id not in reported:
            yield Finding(code="unapproved", message=f"nobody approved step {step_id}", step_id=step_id)


def _demanded(recorded: Recorded) -> set[tuple[str, str]]:
    """Return the gates of every step that ran: its own, the decision's, those of policies, and that of unbound values.

    Conditions and policies are evaluated on the actual parameters, where nothing is open any more.
    """
    if not recorded.run.compiled.gates:
        return set()  # every demanded gate is one of these
    planned = recorded.planned
    try:
        reviewed = recorded.ran
    except PlanError:
        # The policy evaluator reports it; conditions on such arguments stay open, and their gates closed.
        reviewed = planned
    exhaust(authority_is_bound(planned))
    exhaust(policies_hold(reviewed))
    demand_gates(reviewed)
    ran = {each.step_id for each in recorded.made}
    demands = (*planned.demands, *reviewed.demands)
    return {(demand.step_id, demand.gate) for demand in demands if demand.step_id in ran}


def _drifted(recorded: Recorded) -> Iterator[Finding]:
    """Yield the calls whose parameters differ from the plan, given the results before them."""
    if recorded.is_to_the_letter:
        return
    run = recorded.run
    results = {references.REQUEST: run.compiled.input(), references.OUTPUTS: run.outputs}
    evidence = {entry.id: entry.content for entry in run.compiled.manifests.evidence_manifest}
    review = recorded.planned
    entries: defaultdict[str, list[TranscriptEntry]] = defaultdict(list)
    for entry in run.transcript:
        entries[entry.call.step_id].append(entry)
    for index in review.graph.order:
        step, call = run.plan.steps[index], review.call_at.get(index)
        params = step.params if call is None else call.params
        expected = params if step.is_written_out else _resolved(params, results, evidence)
        if step.kind == "note" and expected is not None:
            results[step.id] = expected
        for entry in entries[step.id]:
            ran = entry.call.params
            is_same = (step.is_written_out and _is_printed_alike(params, ran)) or _is_same(expected, ran)
            if call is not None and not is_same:
                message = f"step {step.id} ran with other arguments than the plan says"
                yield Finding(code="argument_drift", message=message, step_id=step.id)
            if entry.result.outcome is _DONE:
                results[step.id] = entry.result.value


def _resolved(params: JsonObject, results: JsonObject, evidence: JsonObject) -> JsonObject | None:
    try:
        return resolve(params, results, evidence)
    except ResolutionError:
        return None


def _is_same(expected: JsonObject | None, actual: JsonObject) -> bool:
    try:
        return expected is not None and canonical(expected) == canonical(actual)
    except UsageError:
        return False


def _is_printed_alike(one: Json, other: Json) -> bool:
    """Return whether two values are the same JSON; False for values that orjson cannot print."""
    try:
        option = orjson.OPT_SORT_KEYS
        return orjson.dumps(one, option=option) == orjson.dumps(other, option=option)
    except orjson.JSONEncodeError:
        return False


def _explain_missing(run: Run, name: str) -> str:
    rules = run.spec.quality if run.context.goes_by(Behaviour.OUTPUTS_READ_CLOSELY) else None
    marked = run.spec.untrusted_inputs if run.context.goes_by(Behaviour.OUTPUTS_VOUCHED_FOR) else ()
    return rules.explain_missing(name, run.compiled.input(), marked) if rules else ""


def evaluate_utility(recorded: Recorded) -> Evaluation:
    """The decision's outputs exist and are valid, and the required steps ran."""
    run = recorded.run
    required = run.spec.required_outputs
    missing = [name for name in required if name not in run.outputs]
    done = {each.step_id for each in recorded.made if each.outcome is _DONE and each.error is None}
    excused = {skip.step_id for skip in run.skipped if skip.reason != "not_reached"}
    due = [said for said in recorded.said if said["kind"] == "tool" and said["id"] not in excused]
    undone = [said for said in due if said["id"] not in done]
    findings = [
        Finding(
            code="output_missing", message=f"required output {name} is missing{_explain_missing(run, name)}"
        )
        for name in missing
    ]
    faults = schema_faults(run)
    findings += [Finding(code="output_invalid", message=message) for message in faults]
    findings += [
        Finding(code="step_not_done", message=f"step {said['id']} was not done", step_id=said["id"])
        for said in undone
    ]
    produced = 1.0 if not required else 1 - len(missing) / len(required)
    completed = 1.0 if not due else 1 - len(undone) / len(due)
    has_failed = bool(missing or faults) or any(not said["optional"] for said in undone)
    score = 0.0 if faults else produced * completed
    return _evaluation("fail" if has_failed else "warn" if undone else "pass", score, findings)


def schema_faults(run: Run) -> list[str]:
    """Return every violation of the decision's output schema."""
    if run.spec.outputs_schema is None:
        return []
    try:
        return [fault.message for fault in schemas.faults(run.spec.outputs_text, run.outputs)]
    except UsageError as error:  # an invalid schema matches nothing
        return [f"the schema of {run.spec.id} cannot be used: {error.message}"]


def is_schema_valid(run: Run) -> bool:
    """Return whether the outputs satisfy the decision's schema."""
    return not schema_faults(run)


def evaluate_latency(recorded: Recorded) -> Evaluation:
    """The run stayed within its wall clock."""
    run = recorded.run
    return _usage([("wall clock", "ms", run.used.wall_clock_ms, run.context.run_budget.wall_clock_ms)])


def evaluate_cost(recorded: Recorded) -> Evaluation:
    """The run stayed within its tokens, calls and money."""
    run = recorded.run
    budget, used = run.context.run_budget, run.used
    return _usage(
        [
            ("tokens", "tokens", used.tokens, budget.tokens),
            ("tool calls", "calls", used.tool_calls, budget.tool_calls),
            ("cost", "micro-cents", used.cost_microcents, budget.cost_microcents),
        ]
    )


def _usage(uses: list[tuple[str, str, int, int | None]]) -> Evaluation:
    score, findings, is_over = 1.0, list[Finding](), False
    for name, unit, used, limit in uses:
        if limit is None or used <= limit * NEAR:
            continue
        is_over |= used > limit
        score = min(score, limit / used if used > limit else 0.9)
        findings.append(
            Finding(
                code="overrun" if used > limit else "nearly_used_up",
                message=f"{name}: {used:,} of {limit:,} {unit}",
            )
        )
    return _evaluation("fail" if is_over else "warn" if findings else "pass", score, findings)


def _floor(found: Iterator[Finding]) -> Evaluation:
    """Return a pass/fail evaluation: one finding fails it."""
    findings = list(islice(found, MAX_FINDINGS))
    return _evaluation("fail" if findings else "pass", 0.0 if findings else 1.0, findings)


@cache
def _passed() -> Evaluation:
    """The evaluation of nearly every run; made once, since it cannot be changed."""
    return Evaluation(status="pass", score=1.0, findings=(), version=VERSION)


def _evaluation(status: Status, score: float, findings: list[Finding]) -> Evaluation:
    if status == "pass" and score == 1 and not findings:
        return _passed()
    return Evaluation(
        status=status, score=round(score, 6), findings=tuple(findings[:MAX_FINDINGS]), version=VERSION
    )


EVALUATE: dict[EvaluatorName, Callable[[Recorded], Evaluation]] = {
    "policy": evaluate_policy,
    "utility": evaluate_utility,
    "latency": evaluate_latency,
    "safety": evaluate_safety,
    "cost": evaluate_cost,
}

"""Turns verdicts into outcomes.

Review: most refusals send the plan back to the planner while re-plans are left, then reject it. A mode above the run's
limit rejects at once. So does a violated policy or a value without a permitted source, unless the planner can read the
refusal and propose something else. A caller's own plan is never re-planned.

Step and run: accept, retry, replan or escalate. A run is accepted only if the floors hold and every threshold that the
decision enables passes; a threshold without a measurement fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal, assert_never

from tercet.contracts.context import RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.run import Outcome, ToolResult
from tercet.contracts.verdict import Code, CriticReport, RefusalKind, ReviewOutcome, ScoreVerdict, Verdict

ReplanOrEscalate = Literal["replan", "escalate"]

_NEEDS_AN_ANSWER = frozenset({Code.POLICY_INVARIANT, Code.UNBOUND_ARGUMENT})
"""Refusals that only a planner that reads them can avoid in its next plan."""


def review_outcome(ctx: RunContext, kind: RefusalKind, code: Code) -> ReviewOutcome:
    """Return whether a refused plan goes back to the planner or is rejected."""
    if ctx.plan_origin == "caller" or kind is RefusalKind.APPROVAL_MODE_MISMATCH:
        return "reject"
    can_answer = ctx.answers_feedback and ctx.goes_by(Behaviour.STRICT_CALLS)
    if code in _NEEDS_AN_ANSWER and not can_answer:
        return "reject"
    return "replan" if ctx.replans_left else "reject"


def judge_step(ctx: RunContext, result: ToolResult, *, retries_left: int) -> Verdict:
    """Return the outcome for the result of one step."""
    step, why = result.step_id, result.error or "no reason was given"
    verdict = partial(Verdict, stage="step", step_id=step)
    if result.error is None and result.outcome is Outcome.DONE:
        return verdict(outcome="accept", reasons=(f"step {step} is done",))
    match result.outcome:
        case Outcome.DONE:
            # The effect happened and the result is unusable: calling again would be a second effect.
            return verdict(outcome=_try_again(ctx), reasons=(f"step {step} is done, but failed: {why}",))
        case Outcome.NOT_DONE if retries_left > 0:
            return verdict(outcome="retry", reasons=(f"step {step} was not done: {why}",))
        case Outcome.NOT_DONE:
            reason = f"step {step} was not done and has no retries left: {why}"
            return verdict(outcome=_try_again(ctx), reasons=(reason,))
        case Outcome.UNKNOWN:
            reason = f"nobody knows whether step {step} happened: {why}"
            remedy = "find out from the outside whether it happened, and settle it"
            return verdict(outcome="escalate", reasons=(reason,), remedy=remedy)
        case _:
            assert_never(result.outcome)


def _try_again(ctx: RunContext) -> ReplanOrEscalate:
    return "replan" if ctx.replans_left and ctx.plan_origin == "planner" else "escalate"


def judge(
    ctx: RunContext, spec: DecisionSpec, report: CriticReport, measurements: Mapping[str, float] | None = None
) -> Verdict:
    """Return the outcome for the report of a whole run; `measurements` are scores besides those of the evaluators."""
    escalated = partial(Verdict, stage="run", outcome="escalate")
    if report.score is None:
        return escalated(reasons=(report.rationale,), remedy="the run was never scored")
    if not report.score.ok:
        # A floor broke after effects happened. Planning again could only add to them: a person decides.
        return escalated(reasons=(report.rationale,), remedy="decide on the hand-off packet")
    missed = missed_thresholds(spec, measured(report.score, measurements or {}))
    if missed:
        return Verdict(stage="run", outcome=_try_again(ctx), reasons=missed)
    failed = [
        reason
        for name, evaluation in report.score.scorecard.scores.items()
        if evaluation.status == "fail"
        for reason in [f"{name}: {finding.message}" for finding in evaluation.findings] or [f"{name} failed"]
    ]
    if failed:
        return escalated(reasons=tuple(failed), remedy="extend the budget, or accept as partial")
    return Verdict(stage="run", outcome="accept", reasons=(report.rationale,))


def measured(score: ScoreVerdict, more: Mapping[str, float]) -> dict[str, float]:
    """Return every measurement that a threshold may read."""
    scores = {str(name): evaluation.score for name, evaluation in score.scorecard.scores.items()}
    return {**more, **scores}


def missed_thresholds(spec: DecisionSpec, scores: Mapping[str, float]) -> tuple[str, ...]:
    """Return the thresholds that a run misses, each with its score and limit."""
    missed: list[str] = []
    for threshold in spec.thresholds:
        minimum = threshold.effective_minimum
        score = scores.get(threshold.name)
        if score is None:
            missed.append(f"threshold {threshold.name} >= {minimum} has no measurement")
        elif not score >= minimum:  # written this way, NaN counts as missed
            missed.append(f"threshold {threshold.name}: {score} < {minimum}")
    return tuple(missed)

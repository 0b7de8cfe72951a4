"""`score`: five evaluators over a run, and whether the floors hold."""

from __future__ import annotations

from collections.abc import Mapping

from tercet.contracts.run import Outcome, Run
from tercet.contracts.scorecard import FLOORS, Evaluation, EvaluatorName, Scorecard
from tercet.contracts.verdict import RunOutcome, ScoreVerdict, StepScore, VerdictEnvelope
from tercet.critic.evaluators import EVALUATE, Recorded, is_schema_valid

_YES = ("approve", "grant")


def score(run: Run) -> ScoreVerdict:
    """The scorecard of a run; not ok if policy or safety failed, whatever the others say."""
    recorded = Recorded(run)
    scores: dict[EvaluatorName, Evaluation] = {
        name: evaluate(recorded) for name, evaluate in EVALUATE.items()
    }
    return ScoreVerdict(
        ok=all(scores[name].status != "fail" for name in FLOORS), scorecard=Scorecard(scores=scores)
    )


def measure(run: Run) -> Mapping[str, float]:
    """The measurements beyond the evaluators' that thresholds may read."""
    return {"schema": 1.0 if is_schema_valid(run) else 0.0}


def score_steps(run: Run, verdict: ScoreVerdict) -> tuple[StepScore, ...]:
    """The scores of each step that ran, and who approved it."""
    scores = verdict.scorecard.scores
    blamed = {f.step_id for name in FLOORS for f in scores[name].findings}
    ended = {entry.call.step_id: entry.result for entry in run.transcript}
    return tuple(
        StepScore(
            step_id=step_id,
            scores={
                "policy": 0.0 if step_id in blamed else 1.0,
                "utility": 1.0 if result.outcome is Outcome.DONE and result.error is None else 0.0,
            },
            approval_gate=(approval.gate or None) if approval else None,
            approver=approval.approver if approval else None,
        )
        for step_id, result in ended.items()
        for approval in [
            next((a for a in run.approvals if a.step_id == step_id and a.decision in _YES), None)
        ]
    )


def envelope(
    run: Run, verdict: ScoreVerdict, outcome: RunOutcome, *, loop_guard_trips: int = 0
) -> VerdictEnvelope:
    """The run's verdict in its published shape."""
    return VerdictEnvelope(
        run_id=run.context.run_id,
        plan_id=run.plan.plan_id,
        verdict=outcome,
        step_scores=score_steps(run, verdict),
        loop_guard_trips=loop_guard_trips,
        replan_attempts=run.used.replans,
    )

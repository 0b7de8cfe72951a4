"""`score`: five evaluators over a run, and whether the floors hold."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ConfigDict, TypeAdapter

from tercet.contracts.run import Outcome, Run
from tercet.contracts.scorecard import FLOORS, Evaluation, EvaluatorName, Scorecard
from tercet.contracts.verdict import RunOutcome, ScoreVerdict, StepScore, VerdictEnvelope
from tercet.critic.evaluators import EVALUATE, Recorded, is_schema_valid
from tercet.critic.reading import Reading


def score(run: Run, *, reading: Reading | None = None) -> ScoreVerdict:
    """The scorecard of a run; not ok if policy or safety failed, whatever the others say.

    `reading` is what the plan's review made of it, and saves reading it again.
    """
    recorded = Recorded(run, reading)
    scores: dict[EvaluatorName, Evaluation] = {
        name: evaluate(recorded) for name, evaluate in EVALUATE.items()
    }
    return ScoreVerdict(
        ok=all(scores[name].status != "fail" for name in FLOORS), scorecard=Scorecard(scores=scores)
    )


def measure(run: Run) -> Mapping[str, float]:
    """The measurements beyond the evaluators' that thresholds may read."""
    return {"schema": 1.0 if is_schema_valid(run) else 0.0}


_STEP_SCORES = TypeAdapter(tuple[StepScore, ...], config=ConfigDict(defer_build=True))


def score_steps(run: Run, verdict: ScoreVerdict) -> tuple[StepScore, ...]:
    """The scores of each step that ran, and who approved it."""
    scores = verdict.scorecard.scores
    blamed = {f.step_id for name in FLOORS for f in scores[name].findings}
    ended = {entry.call.step_id: entry.result for entry in run.transcript}
    # Backwards, since the first approval of a step counts and a dict keeps the last.
    approved = {a.step_id: a for a in reversed(run.approvals) if a.decision == "approve"}
    return _STEP_SCORES.validate_python(
        tuple(
            {
                "step_id": step_id,
                "scores": {
                    "policy": 0.0 if step_id in blamed else 1.0,
                    "utility": 1.0 if result.outcome is Outcome.DONE and result.error is None else 0.0,
                },
                "approval_gate": approval.gate if approval else None,
                "approver": approval.approver if approval else None,
            }
            for step_id, result in ended.items()
            for approval in (approved.get(step_id),)
        )
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

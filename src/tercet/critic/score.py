"""`score`: runs five evaluators over a run, and checks whether the floors hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tercet.contracts.runs.run import Outcome, Run
from tercet.contracts.runs.scorecard import FLOORS, Evaluation, EvaluatorName, Scorecard
from tercet.contracts.shape import unchecked
from tercet.contracts.verdict import RunOutcome, ScoreVerdict
from tercet.critic.evaluators import EVALUATE, Recorded, is_schema_valid
from tercet.critic.reading import Reading

_YES = ("approve", "grant")
_DONE = Outcome.DONE


def score(run: Run, *, reading: Reading | None = None) -> ScoreVerdict:
    """Return the scorecard of a run; not ok if policy or safety failed, whatever the others say.

    `reading` is the one from the plan's review, to avoid reading the plan again.
    """
    recorded = Recorded(run, reading)
    scores: dict[EvaluatorName, Evaluation] = {
        name: evaluate(recorded) for name, evaluate in EVALUATE.items()
    }
    is_ok = all(scores[name].status != "fail" for name in FLOORS)
    return unchecked(ScoreVerdict, {"ok": is_ok, "scorecard": unchecked(Scorecard, {"scores": scores})})


def measure(run: Run) -> Mapping[str, float]:
    """Return the measurements besides the evaluators' that thresholds may read."""
    return {"schema": 1.0 if is_schema_valid(run) else 0.0}


def print_envelope(
    run: Run, verdict: ScoreVerdict, outcome: RunOutcome, loop_guard_trips: int = 0
) -> dict[str, Any]:
    """Return a run's `VerdictEnvelope` as printed JSON, without building a shape for each step."""
    return {
        "run_id": run.context.run_id,
        "plan_id": run.plan.plan_id,
        "verdict": outcome,
        "step_scores": [*_step_scores(run, verdict)],
        "loop_guard_trips": loop_guard_trips,
        "replan_attempts": run.used.replans,
    }


def _step_scores(run: Run, verdict: ScoreVerdict) -> Iterator[dict[str, Any]]:
    scores = verdict.scorecard.scores
    blamed = {f.step_id for name in FLOORS for f in scores[name].findings}
    # In reverse, since the first approval of a step counts and a dict keeps the last.
    approved = {a.step_id: a for a in reversed(run.approvals) if a.decision in _YES}
    ended = {entry.call.step_id: vars(entry.result) for entry in run.transcript}
    for step_id, result in ended.items():
        is_done = result["outcome"] is _DONE and result["error"] is None
        score: dict[str, Any] = {
            "step_id": step_id,
            "scores": {"policy": 0.0 if step_id in blamed else 1.0, "utility": 1.0 if is_done else 0.0},
        }
        if (approval := approved.get(step_id)) is not None:
            score |= {"approval_gate": approval.gate} if approval.gate else {}
            score |= {"approver": approval.approver}
        yield score

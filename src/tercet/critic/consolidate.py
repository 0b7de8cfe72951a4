"""`consolidate`: both verdicts in one report, with the one line that says why."""

from __future__ import annotations

from tercet.contracts.scorecard import FLOORS
from tercet.contracts.verdict import CriticReport, ScoreVerdict, Verdict, VerifyPassed, VerifyRefused


def consolidate(
    *,
    trace_id: str,
    decision_key: str,
    verify: Verdict | VerifyPassed | VerifyRefused,
    decided_at: str,
    score: ScoreVerdict | None = None,
) -> CriticReport:
    """The report of a run; `decided_at` is ISO 8601 and is given by the shell, since this room has no clock."""
    published = verify.published() if isinstance(verify, Verdict) else verify
    if isinstance(published, VerifyRefused):
        # Refused before execution: whatever score a caller hands in, nothing ran that it could be about.
        score, status = None, "refused_by_critic"
        rationale = f"verify failed: {published.kind} — {'; '.join(published.reasons)}"
    elif score is None:
        status, rationale = "partial", "verify passed; no score (no execution)"
    elif not score.ok:
        status, rationale = "refused_by_critic", _broken_floors(score)
    else:
        status, rationale = "completed", "verify and score passed"
    return CriticReport(
        trace_id=trace_id,
        decision_key=decision_key,
        verify=published,
        score=score,
        status=status,
        rationale=rationale,
        decided_at=decided_at,
    )


def _broken_floors(score: ScoreVerdict) -> str:
    scores = score.scorecard.scores
    reasons = [
        f"{name} fail: {', '.join(finding.message for finding in scores[name].findings)}"
        for name in FLOORS
        if name in scores and scores[name].status == "fail"
    ]
    return "; ".join(reasons) or "score failed (unknown reason)"

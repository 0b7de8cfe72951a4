"""What the critic said of the whole run, and what was taken back."""

from __future__ import annotations

from tercet.contracts.runs.record import RollbackStatus
from tercet.contracts.verdict import FLOORS, CriticReport
from tercet.core import events as e
from tercet.replay.report.case import Case
from tercet.replay.report.page import Chip, Row, Score, Tone
from tercet.replay.report.wording import Wording

_TONES: dict[str, Tone] = {"pass": "good", "warn": "wait", "fail": "bad"}
_SAID: dict[str, Tone] = {
    "accept": "good",
    "retry": "wait",
    "ask": "wait",
    "replan": "bad",
    "escalate": "bad",
    "fail": "bad",
}


def run_verdict(case: Case, wording: Wording) -> tuple[Chip | None, tuple[str, ...]]:
    """The last word of the critic about the run, and its reasons."""
    found = [event for event in case.events if isinstance(event, e.RunReported)]
    if not found:
        return None, ()
    last = found[-1]
    chip = Chip(text=wording.text(last.outcome, 80), tone=_SAID.get(last.outcome, "quiet"))
    return chip, tuple(wording.text(reason, 1_000) for reason in last.reasons)


def scores(case: Case, wording: Wording) -> tuple[Score, ...]:
    """The scorecard, one line for each evaluator; nothing where the run was never scored."""
    report = CriticReport.model_validate(case.state.report) if case.state.report else None
    if report is None or report.score is None:
        return ()
    return tuple(
        Score(
            name=name,
            number=f"{found.score:.2f}",
            share=round(100 * found.score, 1),
            tone=_TONES[found.status],
            status=found.status,
            is_floor=name in FLOORS,
            findings=tuple(wording.text(f"{each.code}: {each.message}", 600) for each in found.findings[:20]),
            version=wording.text(found.version, 40),
        )
        for name, found in report.score.scorecard.scores.items()
    )


def taken_back(case: Case, wording: Wording) -> tuple[Row, ...]:
    """What became of the effects of a run that ended without success."""
    rows: list[Row] = []
    for entry in case.rollback.log if case.rollback is not None else ():
        if entry.status is RollbackStatus.COMPENSATED:
            rows.append(Row(label=wording.text(entry.step_id, 80), text="taken back", tone="good"))
            continue
        settled = f", settled by {entry.settled_by}" if entry.settled_by else ""
        why = "; ".join(filter(None, [entry.error, entry.note]))
        rows.append(
            Row(
                label=wording.text(entry.step_id, 80),
                text=wording.text(f"not taken back{settled}", 200),
                note=wording.text(why, 600),
                tone="quiet" if settled else "bad",
            )
        )
    return tuple(rows)

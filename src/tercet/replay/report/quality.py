"""What the critic said of the whole run, how its outputs were mended, and what was taken back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tercet.contracts.quality import RepairEntry
from tercet.contracts.saga import RollbackStatus
from tercet.contracts.scorecard import FLOORS
from tercet.contracts.verdict import CriticReport
from tercet.journal import events as e
from tercet.replay.report.case import Case
from tercet.replay.report.page import Chip, RepairCard, Row, Score, Tone
from tercet.replay.report.wording import Wording

_TONES: dict[str, Tone] = {"pass": "good", "warn": "wait", "fail": "bad"}
_SAID: dict[str, Tone] = {"accept": "good", "retry": "wait", "replan": "bad", "escalate": "bad"}


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


def repair_cards(entries: Iterable[RepairEntry], wording: Wording) -> tuple[RepairCard, ...]:
    """Every attempt to mend an output, in order."""
    return tuple(_repair(number, entry, wording) for number, entry in enumerate(entries, start=1))


def _repair(number: int, entry: RepairEntry, wording: Wording) -> RepairCard:
    words: dict[bool | None, tuple[str, Tone]] = {
        True: ("mended", "good"),
        False: ("not mended", "bad"),
        None: ("not known yet", "wait"),
    }
    text, tone = words[entry.success]
    return RepairCard(
        title=wording.text(f"{number}. {entry.defect.description}", 300),
        result=Chip(text=text, tone=tone),
        rows=tuple(_repair_rows(entry, wording)),
    )


def _repair_rows(entry: RepairEntry, wording: Wording) -> Iterator[Row]:
    defect = entry.defect
    yield Row(label="defect", text=wording.text(f"{defect.dimension}, {defect.severity.name.lower()}", 120))
    if defect.location:
        yield Row(label="where", text=wording.text(defect.location), is_code=True)
    yield Row(label="cause", text=wording.text(entry.root_cause.lower().replace("_", " ")))
    yield Row(
        label="how", text=wording.text(f"{entry.strategy.lower().replace('_', ' ')}, by a {entry.means}")
    )
    if entry.tokens:
        yield Row(label="tokens", text=f"{entry.tokens:,}")
    if entry.note:
        yield Row(label="note", text=wording.text(entry.note, 1_000))


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

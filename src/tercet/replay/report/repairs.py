"""What REPAIR did: every attempt, what is left, and where that went."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tercet.contracts.quality import Defect, RepairEntry
from tercet.contracts.repair import Escalation, EscalationVerdict, LeftDefect
from tercet.core import events as e
from tercet.replay.report.loop_page import RepairCard, RepairedPart
from tercet.replay.report.parts import Chip, Row, Tone
from tercet.replay.report.wording import Wording
from tercet.replay.report.words import count, joined, spoken

MOST = 60
_RESULTS: dict[bool | None, tuple[str, Tone]] = {
    True: ("mended", "good"),
    False: ("not mended", "bad"),
    None: ("not known yet", "wait"),
}
_WENT: dict[Escalation, str] = {
    Escalation.HUMAN_REVIEW: "to a person",
    Escalation.MODEL_UPGRADE: "to a stronger model",
    Escalation.TASK_REDECOMPOSE: "back to the planner",
    Escalation.PARTIAL_COMMIT: "into a partial result",
    Escalation.FAIL_WITH_DIAGNOSIS: "no further, with this diagnosis",
}


def known_by(defect: Defect) -> str:
    """What a defect is known again by in the next turn: its dimension and what it is, but not the values of a test."""
    return f"{defect.dimension}: {defect.description.partition(': expected ')[0]}"


def entries_of(event: e.OutputsRepaired) -> list[RepairEntry]:
    """The attempts of a REPAIR phase."""
    return [RepairEntry.model_validate(entry) for entry in event.log]


def has_helped(entry: RepairEntry, again: Collection[str]) -> bool:
    """Whether an attempt helped. What tests, models or people found is pending once it was changed: it helped unless the
    next turn finds it again."""
    return entry.success is not False and known_by(entry.defect) not in again


def repaired_part(event: e.OutputsRepaired, again: Collection[str], wording: Wording) -> RepairedPart:
    """A REPAIR phase as it went; `again` is what the next turn found wrong."""
    entries = entries_of(event)
    verdict = EscalationVerdict.model_validate(event.escalation) if event.escalation else None
    more = len(entries) - MOST
    return RepairedPart(
        summary=wording.text(_summary(event, entries, again), 600),
        attempts=tuple(_attempt(entry, again, wording) for entry in entries[:MOST]),
        left_out=f"{count(more, 'more attempt')} are left out." if more > 0 else "",
        went=wording.text(f"What is left goes {_WENT[verdict.kind]}: {verdict.reason}.", 600)
        if verdict
        else "",
        left=tuple(_left(each, wording) for each in verdict.left[:MOST]) if verdict else (),
    )


def _summary(event: e.OutputsRepaired, entries: Sequence[RepairEntry], again: Collection[str]) -> str:
    mended = sum(has_helped(entry, again) for entry in entries)
    told = joined(
        (
            f"{mended:,} of {count(event.attempts, 'attempt')} helped"
            if event.attempts
            else "Nothing was tried",
            f"{count(event.tokens, 'token')}" if event.tokens else "",
            f"it went round in circles: {', '.join(map(spoken, event.breaks))}" if event.breaks else "",
        ),
        "; ",
    )
    return f"{told}."


def _attempt(entry: RepairEntry, again: Collection[str], wording: Wording) -> RepairCard:
    is_back = entry.success is not False and not has_helped(entry, again)
    text, tone = ("changed, and still wrong", "wait") if is_back else _RESULTS[entry.success is not False]
    return RepairCard(
        title=wording.text(entry.defect.description, 400),
        result=Chip(text=text, tone=tone),
        rows=tuple(_rows(entry, wording)),
    )


def _rows(entry: RepairEntry, wording: Wording) -> Iterator[Row]:
    yield Row(label="cause", text=wording.text(spoken(entry.root_cause)))
    how = joined((spoken(entry.strategy), f"by a {entry.means}"))
    yield Row(label="how", text=how, note=count(entry.tokens, "token") if entry.tokens else "")
    if entry.note:
        yield Row(label="what", text=wording.text(entry.note, 1_000), is_code=True)


def _left(left: LeftDefect, wording: Wording) -> Row:
    tried = f"tried {count(left.tried, 'time')}" if left.tried else "no repair was tried"
    ways = f", as {', '.join(left.strategies)}" if left.strategies else ""
    return Row(
        label=wording.text(left.defect.dimension, 80),
        text=wording.text(left.defect.description, 1_000),
        note=wording.text(f"{spoken(left.root_cause)}; {tried}{ways}: {left.reason}", 1_000),
        tone="bad",
    )

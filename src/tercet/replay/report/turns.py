"""One turn of the quality loop: what tests, VERIFY and CRITIQUE said, and what REPAIR did about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tercet.contracts.documents import TokenVerdict
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.outputs.quality import (
    CritiqueDiagnosis,
    Defect,
    DefectSeverity,
    RepairEntry,
    RubricScore,
    TestFailure,
    TestResult,
)
from tercet.contracts.outputs.repair import EscalationVerdict, LeftDefect
from tercet.contracts.outputs.rubric import EdgeOutcome
from tercet.core import events as e
from tercet.quality.rubric.adversarial import judge_attack
from tercet.replay.report.exits import grade
from tercet.replay.report.loop_page import (
    Chip,
    CritiquedPart,
    DefectCard,
    Grade,
    RepairCard,
    RepairedPart,
    Row,
    TestsCard,
    TokenCard,
    Tone,
    Turn,
    VerifiedPart,
)
from tercet.replay.report.wording import Wording, count, joined, score, spoken
from tercet.view.judging import (
    UNJUDGED,
    attack_text,
    attempts_text,
    compared,
    entries_of,
    steering_text,
    tests_text,
    verdict_tone,
    verified_text,
    went_text,
)
from tercet.view.text import as_sentence

MOST = 60
"""How many defects, claims or failed tests are shown of one turn."""
_ANSWERS: dict[str, tuple[str, Tone]] = {
    "approve": ("accepted the outputs", "good"),
    "deny": ("denied them", "bad"),
    "modify": ("asked for a change", "wait"),
    "withdraw": ("withdrew the approval", "bad"),
}
EventT = TypeVar("EventT", bound=e.Event)


@dataclass(frozen=True, kw_only=True)
class Passage:
    """The events of one turn, in order."""

    number: int
    events: tuple[e.Event, ...]
    is_open: bool = True
    """Whether it is shown unfolded, if there is more to it than that all was well."""
    again: frozenset[str] = frozenset()
    """What the turn after it found wrong, as `known_by` has it."""

    def all(self, kind: type[EventT]) -> list[EventT]:
        """Its events of one type."""
        return [event for event in self.events if isinstance(event, kind)]

    def last(self, kind: type[EventT]) -> EventT | None:
        """Its last event of one type."""
        found = self.all(kind)
        return found[-1] if found else None


def turn(passage: Passage, minimums: Mapping[str, float], wording: Wording) -> Turn:
    """A turn as it went; `minimums` are those of the dimensions, as far as they are known."""
    verified, critiqued = passage.last(e.OutputsVerified), passage.last(e.OutputsCritiqued)
    repaired = passage.last(e.OutputsRepaired)
    answers = [answer_row(event, wording) for event in passage.all(e.GateAnswered)]
    return Turn(
        number=passage.number,
        tone=_tone(passage),
        is_open=passage.is_open and _tone(passage) != "good",
        chips=tuple(_chips(verified, critiqued)),
        next=_next(passage),
        tests=(
            *(_tests(event, wording) for event in passage.all(e.TestsRun)),
            *(_attack(event, wording) for event in passage.all(e.OutputsAttacked)),
        ),
        verified=_verified(verified, wording) if verified else None,
        critiqued=_critiqued(critiqued, minimums, wording) if critiqued else None,
        people=tuple(answers),
        fetched=tuple(_fetched(passage, wording)),
        repaired=repaired_part(repaired, passage.again, wording) if repaired else None,
        notes=tuple(_notes(passage, wording)),
    )


# --- its head ---


def _tone(passage: Passage) -> Tone:
    repaired, critiqued = passage.last(e.OutputsRepaired), passage.last(e.OutputsCritiqued)
    if repaired is not None:
        return "bad" if repaired.outcome == "escalated" else "wait"
    if critiqued is None:
        return "wait"
    return "good" if critiqued.rubric.get("passed") and not critiqued.diagnosis.get("defects") else "bad"


def _chips(verified: e.OutputsVerified | None, critiqued: e.OutputsCritiqued | None) -> Iterator[Chip]:
    if verified is not None:
        verdict = VerificationVerdict.model_validate(verified.verdict)
        broken = "form broken"
        told = f"verified {score(verdict.score)}" if verdict.schema_valid else broken
        yield Chip(text=told, tone=verdict_tone(verdict))
    if critiqued is not None:
        rubric = RubricScore.model_validate(critiqued.rubric)
        yield Chip(text=f"rubric {score(rubric.weighted)}", tone="good" if rubric.passed else "bad")
        defects = len(critiqued.diagnosis.get("defects", ()))
        if defects:
            yield Chip(text=count(defects, "defect"), tone="bad")


def _next(passage: Passage) -> str:
    """What followed from a turn, in a few words."""
    if (repaired := passage.last(e.OutputsRepaired)) is not None:
        mended = sum(has_helped(entry, passage.again) for entry in entries_of(repaired))
        tried = f"{mended} of {count(repaired.attempts, 'repair')} helped"
        return tried if repaired.attempts else "nothing could be tried"
    judged = passage.last(e.OutputsCritiqued) or passage.last(e.OutputsVerified)
    if judged is None:
        return "under way"
    if judged.next != "exit":
        return f"{judged.next} is due"
    return "no repair is left" if _tone(passage) != "good" else "nothing more to mend"


def _notes(passage: Passage, wording: Wording) -> Iterator[str]:
    """Questions to models that nobody answered."""
    for event in passage.events:
        if isinstance(event, e.OutputsVerified | e.OutputsAttacked | e.OutputsCritiqued | e.OutputsRepaired):
            for number, why in list(event.faults.items())[:10]:
                yield wording.text(f"Question {number} to a model was not answered: {why}", 400)


def answer_row(event: e.GateAnswered, wording: Wording) -> Row:
    """What somebody said of the outputs."""
    words, tone = _ANSWERS.get(event.answer, (event.answer, "quiet"))
    told = f"{words}{f': {event.note}' if event.note else ''}"
    return Row(label=wording.text(event.actor, 120), text=wording.text(told, 2_000), tone=tone)


def _fetched(passage: Passage, wording: Wording) -> Iterator[Row]:
    """What more evidence was looked for, and what was found."""
    for event in passage.all(e.EvidenceFetched):
        for query in event.queries[:20]:
            yield Row(label="asked for", text=wording.text(asked_for(query, wording), 600))
        found = ", ".join(event.refs[:20]) or "nothing that was not known before"
        if event.queries or not event.results:
            yield Row(label="found", text=wording.text(found, 2_000), is_code=bool(event.refs))
        for each in event.results[:20]:
            said = f"brought nothing: {each.error}" if each.error else "brought a result"
            yield Row(label="called again", text=wording.text(f"{each.step}: {each.tool} {said}", 1_000))


def asked_for(query: Mapping[str, Any], wording: Wording) -> str:
    """What was looked for: the words, or the call that looks it up."""
    if query.get("query"):
        return f"{query.get('classification', '')}: {query['query']}".removeprefix(": ")
    return wording.inline(query, 600)


# --- tests ---


def _tests(event: e.TestsRun, wording: Wording) -> TestsCard:
    told, tone = tests_text(event)
    errors = TestResult.model_validate(event.result).errors if event.result else ()
    return TestsCard(
        tool=wording.text(event.tool, 200),
        result=Chip(text=wording.text(told), tone=tone),
        failures=tuple(_failure(each, wording) for each in errors[:MOST]),
    )


def _attack(event: e.OutputsAttacked, wording: Wording) -> TestsCard:
    """Edge cases are tests that nobody has written."""
    told, tone = attack_text(event)
    chip = Chip(text=wording.text(joined((told, event.error))), tone=tone)
    alike = judge_attack([EdgeOutcome.model_validate(each) for each in event.tried])[:MOST]
    rows = tuple(Row(label="edge case", text=wording.text(each.defect.description, 600)) for each in alike)
    return TestsCard(heading="Edge cases", tool=wording.text(event.tool, 200), result=chip, failures=rows)


def _failure(failure: TestFailure, wording: Wording) -> Row:
    return Row(
        label=wording.text(failure.name, 200),
        text=wording.text(compared(failure) or "it fails", 600),
        note=wording.text(failure.location, 200),
    )


# --- VERIFY ---


def _verified(event: e.OutputsVerified, wording: Wording) -> VerifiedPart:
    verdict = VerificationVerdict.model_validate(event.verdict)
    more = len(verdict.tokens) - MOST
    return VerifiedPart(
        summary=wording.text(as_sentence(verified_text(event)[0]), 600),
        grades=tuple(_verdict_grades(verdict)) if verdict.schema_valid else (),
        faults=tuple(
            Row(label=wording.text(each.pointer or "/", 200), text=wording.text(each.message, 600))
            for each in verdict.schema_faults[:MOST]
        ),
        tokens=tuple(_token(each, wording) for each in verdict.tokens[:MOST]),
        tokens_note=f"{count(more, 'more value')} are left out." if more > 0 else "",
        unjudged=tuple(
            Row(label=wording.text(each.location or "/", 200), text=UNJUDGED[each.reason])
            for each in verdict.unjudged[:MOST]
        ),
        judgements=tuple(
            Row(
                label=wording.text(f"{each.model or 'no model'} says {each.says}", 200),
                text=wording.text(each.reason, 600),
                note=wording.text(each.location, 200),
            )
            for each in verdict.judgements[:MOST]
        ),
    )


def _verdict_grades(verdict: VerificationVerdict) -> Iterator[Grade]:
    yield grade("score", verdict.score, verdict.threshold, verdict_tone(verdict))
    if verdict.semantic is not None:
        yield grade("known somewhere", verdict.semantic, None, "good" if verdict.semantic == 1 else "bad")
    if verdict.factual is not None:
        yield grade("bound, or found in its role", verdict.factual, None, "quiet")


def _token(found: TokenVerdict, wording: Wording) -> TokenCard:
    tones: dict[str, Tone] = {"bound": "good", "found": "good", "elsewhere": "bad", "unknown": "bad"}
    return TokenCard(
        text=wording.text(found.token.text, 200),
        where=wording.text(found.location, 200),
        status=Chip(text=found.status, tone=tones[found.status]),
        sources=wording.text(", ".join(found.sources[:4]), 400),
    )


# --- CRITIQUE ---


def _critiqued(event: e.OutputsCritiqued, minimums: Mapping[str, float], wording: Wording) -> CritiquedPart:
    found = CritiqueDiagnosis.model_validate(event.diagnosis)
    rubric = RubricScore.model_validate(event.rubric)
    more, steered = len(found.defects) - MOST, steering_text(event.control)
    return CritiquedPart(
        summary=_rubric(rubric, event.confidence),
        grades=tuple(
            grade(
                wording.text(name, 80), value, minimums.get(name), "bad" if name in rubric.below else "good"
            )
            for name, value in found.scores.items()
        ),
        defects=tuple(_defects(found, wording)),
        left_out=f"{count(more, 'more defect')} are left out." if more > 0 else "",
        steering=wording.text(f"The controller {steered}." if steered else "", 400),
    )


def _rubric(rubric: RubricScore, sure: Mapping[str, Any]) -> str:
    held = "at least" if rubric.weighted >= rubric.threshold else "below"
    told = f"All together {score(rubric.weighted)}, {held} {rubric.threshold:g}"
    confidence = f"; confidence {score(float(sure['value']))}" if sure.get("value") is not None else ""
    return f"{told}{confidence}."


def _defects(found: CritiqueDiagnosis, wording: Wording) -> Iterator[DefectCard]:
    hints = {each.defect: each.hint for each in found.repair_hints}
    for number, defect in enumerate(found.defects[:MOST]):
        yield DefectCard(
            dimension=wording.text(defect.dimension, 80),
            severity=severity_chip(defect.severity),
            what=wording.text(defect.description, 1_000),
            where=wording.text(defect.location or "", 200),
            hint=wording.text(hints.get(number, ""), 1_000),
        )


def severity_chip(severity: DefectSeverity) -> Chip:
    """How bad a defect is."""
    if severity >= DefectSeverity.HIGH:
        return Chip(text=severity.name.lower(), tone="bad")
    return Chip(text=severity.name.lower(), tone="wait" if severity is DefectSeverity.MEDIUM else "quiet")


# --- REPAIR ---


_RESULTS: dict[bool | None, tuple[str, Tone]] = {
    True: ("mended", "good"),
    False: ("not mended", "bad"),
    None: ("not known yet", "wait"),
}


def known_by(defect: Defect) -> str:
    """What a defect is known again by in the next turn: its dimension and what it is, but not the values of a test."""
    return f"{defect.dimension}: {defect.description.partition(': expected ')[0]}"


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
        summary=wording.text(_repair_summary(event, entries, again), 600),
        attempts=tuple(_attempt(entry, again, wording) for entry in entries[:MOST]),
        left_out=f"{count(more, 'more attempt')} are left out." if more > 0 else "",
        went=wording.text(as_sentence(went_text(verdict)), 600) if verdict else "",
        left=tuple(_left_row(each, wording) for each in verdict.left[:MOST]) if verdict else (),
    )


def _repair_summary(event: e.OutputsRepaired, entries: Sequence[RepairEntry], again: Collection[str]) -> str:
    mended = sum(has_helped(entry, again) for entry in entries)
    told = joined(
        (
            attempts_text(event, mended),
            f"{count(event.tokens, 'token')}" if event.tokens else "",
            f"it went round in circles: {', '.join(map(spoken, event.breaks))}" if event.breaks else "",
        ),
        "; ",
    )
    return as_sentence(told)


def _attempt(entry: RepairEntry, again: Collection[str], wording: Wording) -> RepairCard:
    is_back = entry.success is not False and not has_helped(entry, again)
    text, tone = ("changed, and still wrong", "wait") if is_back else _RESULTS[entry.success is not False]
    return RepairCard(
        title=wording.text(entry.defect.description, 400),
        result=Chip(text=text, tone=tone),
        rows=tuple(_attempt_rows(entry, wording)),
    )


def _attempt_rows(entry: RepairEntry, wording: Wording) -> Iterator[Row]:
    yield Row(label="cause", text=wording.text(spoken(entry.root_cause)))
    how = joined((spoken(entry.strategy), f"by a {entry.means}"))
    yield Row(label="how", text=how, note=count(entry.tokens, "token") if entry.tokens else "")
    if entry.note:
        yield Row(label="what", text=wording.text(entry.note, 1_000), is_code=True)


def _left_row(left: LeftDefect, wording: Wording) -> Row:
    tried = f"tried {count(left.tried, 'time')}" if left.tried else "no repair was tried"
    ways = f", as {', '.join(left.strategies)}" if left.strategies else ""
    return Row(
        label=wording.text(left.defect.dimension, 80),
        text=wording.text(left.defect.description, 1_000),
        note=wording.text(f"{spoken(left.root_cause)}; {tried}{ways}: {left.reason}", 1_000),
        tone="bad",
    )

"""The judging and repairing of a run's outputs: rounds, exit, the controller's course, and the acceptance."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from tercet.contracts.control import ControlPrediction, OverCost
from tercet.contracts.outputs.exit import BIAS, Confidence, ExitDecision
from tercet.core import events as e
from tercet.core.outputs.review import advise
from tercet.core.outputs.rounds import told_round
from tercet.core.state import State
from tercet.quality.exit import recommend
from tercet.view.diff import Lines, OutputChange, compare_outputs
from tercet.view.events import RunData
from tercet.view.phases import Grade, PhaseView, RepairView, helped_text, phase_view, read_phase
from tercet.view.text import as_sentence, as_words, count, join_names, score
from tercet.view.vocabulary import (
    ADVICE,
    DISPOSITIONS,
    FEATURES,
    OUTPUT_ANSWERS,
    REPAIRS,
    TRIGGERS,
    Status,
    Tone,
    exit_status,
)

EventT = TypeVar("EventT", bound=e.Event)
_FIRST = (e.SamplesDrawn, e.TestsRun, e.OutputsVerified)
"""The events that begin a round."""
_LAST = (e.OutputsVerified, e.OutputsCritiqued, e.OutputsRepaired)
"""The events of which a round has one before the next one begins."""
_JUDGED = (*_FIRST, e.OutputsAttacked, e.OutputsCritiqued, e.OutputsRepaired)


# --- exit ---


@dataclass(frozen=True, kw_only=True)
class ConfidencePart:
    """The amount that one feature adds to confidence, before the sigmoid."""

    label: str
    amount: float
    measured: float | None = None


@dataclass(frozen=True, kw_only=True)
class ExitView:
    """Whether outputs may be committed, and why."""

    outcome: str
    mark: str
    tone: Tone
    word: str
    reason: str
    thresholds: tuple[Grade, ...]
    confidence: float | None
    confidence_tone: Tone
    disposition: str
    """The consequence of confidence; empty if the decision has no bands."""
    sample: int
    """The number of outcomes that the weights of confidence were fitted to; 0 for the default weights."""
    unmeasured: tuple[str, ...]
    """The features of confidence that were not measured."""
    parts: tuple[ConfidencePart, ...]
    triggers: tuple[str, ...]
    """Why a person is asked."""
    advice: str

    @property
    def confidence_note(self) -> str:
        """The consequence of confidence, and the weights it was estimated by."""
        leads = self.disposition or "the decision has no confidence bands, so it has no effect"
        if not self.parts:
            return leads
        by = f"weights from {count(self.sample, 'outcome')}" if self.sample else "the default weights"
        missing = f"; not measured: {', '.join(self.unmeasured)}" if self.unmeasured else ""
        return f"{leads}; by {by}{missing}"


def exit_view(given: Mapping[str, Any], sure: Mapping[str, Any] | None = None, advice: str = "") -> ExitView:
    """Return the view of an exit; `sure` is the confidence that was estimated, if one was, and `advice` what a gate says."""
    decided = ExitDecision.model_validate(given)
    mark, tone, word = exit_status(decided)
    known = _confidence(sure) if sure else None
    features: Mapping[str, Any] = (sure or {}).get("features", {})
    leads, sure_tone = DISPOSITIONS[decided.disposition] if decided.disposition else ("", "quiet")
    return ExitView(
        outcome=decided.outcome,
        mark=mark,
        tone=tone,
        word=word,
        reason=decided.reason,
        thresholds=tuple(
            Grade(name=each.name, value=each.score, limit=each.limit, tone="good" if each.passed else "bad")
            for each in decided.thresholds
        ),
        confidence=decided.confidence if decided.confidence is not None or not sure else float(sure["value"]),
        confidence_tone=sure_tone,
        disposition=leads,
        sample=known.sample if known else 0,
        unmeasured=tuple(FEATURES[name] for name in known.missing) if known else (),
        parts=tuple(_parts(known, features)) if known else (),
        triggers=tuple(TRIGGERS[trigger] for trigger in decided.triggers),
        # An escalation cannot be approved or changed: its gate lists the options.
        advice=ADVICE[advice or recommend(decided)] if decided.needs_approval else "",
    )


def _confidence(sure: Mapping[str, Any]) -> Confidence:
    return Confidence.model_validate({name: sure[name] for name in sure if name != "features"})


def _parts(known: Confidence, features: Mapping[str, Any]) -> Iterator[ConfidencePart]:
    names = {str(name): words for name, words in FEATURES.items()}
    for name, amount in known.parts.items():
        measured = float(features[name]) if name in features else None
        label = "base value" if name == BIAS else names[name]
        yield ConfidencePart(label=label, amount=amount, measured=measured)


# --- rounds ---


@dataclass(frozen=True, kw_only=True)
class OutputAnswer:
    """An answer of a person about the outputs."""

    who: str
    text: str
    tone: Tone


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of the loop: tests, verification, critique, and the repair that follows from them."""

    number: int
    tone: Tone
    next: str
    """What followed it."""
    tests: tuple[PhaseView, ...]
    """Test commands and attacks."""
    verified: PhaseView | None
    critiqued: PhaseView | None
    rubric: Grade | None
    """The weighted score of the rubric and its threshold."""
    confidence: float | None
    answers: tuple[OutputAnswer, ...]
    fetched: tuple[PhaseView, ...]
    repaired: PhaseView | None
    repair_results: tuple[Status, ...]
    """Whether each repair helped, by what the next round found."""
    repair_summary: str
    unanswered: tuple[tuple[str, str], ...]


def _rounds(run: RunData) -> tuple[Round, ...]:
    groups = list(_grouped(run.events))
    found = [_defects(group) for group in groups[1:]]
    return tuple(
        _round(number, group, again, run.minimums)
        for number, (group, again) in enumerate(
            zip(groups, [*found, frozenset[str]()], strict=False), start=1
        )
    )


def _grouped(events: Sequence[e.Event]) -> Iterator[list[e.Event]]:
    """Yield the events of each round; a round ends where the outputs are judged again."""
    gates = {event.gate for event in events if isinstance(event, e.GateOpened) and event.kind == "output"}
    group = list[e.Event]()
    for event in events:
        if isinstance(event, _FIRST) and any(isinstance(each, _LAST) for each in group):
            yield group
            group = []
        is_answer = isinstance(event, e.GateAnswered) and event.gate in gates
        if is_answer or isinstance(event, (*_JUDGED, e.EvidenceFetched)):
            group.append(event)
    if group:
        yield group


def _all(group: Sequence[e.Event], kind: type[EventT]) -> list[EventT]:
    return [event for event in group if isinstance(event, kind)]


def _defects(group: Sequence[e.Event]) -> frozenset[str]:
    """Return the defects that a round found, by their keys."""
    return frozenset(
        each.key for event in _all(group, e.OutputsCritiqued) for each in phase_view(event).defects
    )


def _round(
    number: int, group: Sequence[e.Event], again: Collection[str], minimums: Mapping[str, float]
) -> Round:
    verified, critiqued = _last_phase(group, e.OutputsVerified), _last(group, e.OutputsCritiqued)
    repaired, repair = _last(group, e.OutputsRepaired), _last_phase(group, e.OutputsRepaired)
    results = tuple(REPAIRS[_has_helped(each, again)] for each in repair.repairs) if repair else ()
    helped = sum(each.tone == "good" for each in results)
    tone = _round_tone(repaired, critiqued)
    phases = [phase_view(each) for each in group if isinstance(each, e.TestsRun | e.OutputsAttacked)]
    critique = None
    if critiqued is not None:
        critique = read_phase(e.OutputsCritiqued, {**msgspec.structs.asdict(critiqued), "minimums": minimums})
    fetched = tuple(phase_view(each) for each in _all(group, e.EvidenceFetched))
    every = (*phases, verified, critique, repair)
    return Round(
        number=number,
        tone=tone,
        next=_next(group, repaired, helped, tone),
        tests=tuple(phases),
        verified=verified,
        critiqued=critique,
        rubric=_rubric(critiqued) if critiqued else None,
        confidence=critiqued.confidence.get("value") if critiqued else None,
        answers=tuple(output_answer(each) for each in _all(group, e.GateAnswered)),
        fetched=fetched,
        repaired=repair,
        repair_results=results,
        repair_summary=_repair_summary(repaired, helped) if repaired else "",
        unanswered=tuple(each for phase in every if phase is not None for each in phase.unanswered),
    )


def _last(group: Sequence[e.Event], kind: type[EventT]) -> EventT | None:
    return next(reversed(_all(group, kind)), None)


def _last_phase(group: Sequence[e.Event], kind: type[Any]) -> PhaseView | None:
    event = _last(group, kind)
    return phase_view(event) if event is not None else None


def _has_helped(repair: RepairView, again: Collection[str]) -> bool | None:
    """Return whether a repair helped; None if the next round finds the same defect although its place was changed."""
    if repair.success is False:
        return False
    return None if repair.defect.key in again else True


def _round_tone(repaired: e.OutputsRepaired | None, critiqued: e.OutputsCritiqued | None) -> Tone:
    if repaired is not None:
        return "bad" if repaired.outcome == "escalated" else "wait"
    if critiqued is None:
        return "wait"
    return "good" if critiqued.rubric.get("passed") and not critiqued.diagnosis.get("defects") else "bad"


def _rubric(event: e.OutputsCritiqued) -> Grade:
    weighted, threshold = float(event.rubric["weighted"]), float(event.rubric["threshold"])
    return Grade(
        name="rubric", value=weighted, limit=threshold, tone="good" if event.rubric.get("passed") else "bad"
    )


def _next(group: Sequence[e.Event], repaired: e.OutputsRepaired | None, helped: int, tone: Tone) -> str:
    if repaired is not None:
        tried = f"{helped} of {count(repaired.attempts, 'repair')} helped"
        return tried if repaired.attempts else "nothing could be tried"
    judged = _last(group, e.OutputsCritiqued) or _last(group, e.OutputsVerified)
    if judged is None:
        return "under way"
    if judged.next != "exit":
        return f"{judged.next} is due"
    return "no repair is left" if tone != "good" else "nothing more to repair"


def _repair_summary(event: e.OutputsRepaired, helped: int) -> str:
    parts = (
        helped_text(helped, event.attempts),
        count(event.tokens, "token") if event.tokens else "",
        f"it went round in circles: {', '.join(map(as_words, event.breaks))}" if event.breaks else "",
    )
    return as_sentence("; ".join(filter(None, parts)))


def output_answer(event: e.GateAnswered) -> OutputAnswer:
    """Return the view of an answer at a gate for outputs."""
    words, tone = OUTPUT_ANSWERS.get(event.answer, (event.answer, "quiet"))
    note = f": {event.note}" if event.note else ""
    return OutputAnswer(who=event.actor, text=f"{words}{note}", tone=tone)


# --- the controller ---


_CHOICES: dict[OverCost, str] = {
    "fail": "that exceeded the budget of repairs, so nothing was repaired",
    "relax_epsilon": "that exceeded the budget of repairs, so the target was lowered",
    "reduce_kp": "that exceeded the budget of repairs, so repairs were weaker",
}


@dataclass(frozen=True, kw_only=True)
class Course:
    """The quality that a controller measured and predicted, against its target."""

    measured: tuple[float, ...]
    predicted: tuple[float, ...]
    target: float
    caption: str


def _course(events: Sequence[e.Event]) -> Course | None:
    controls: list[Mapping[str, Any]] = []
    for event in events:
        if isinstance(event, e.OutputsProduced):  # another draft begins a course of its own
            controls.clear()
        elif isinstance(event, e.OutputsCritiqued) and event.control:
            controls.append(event.control)
    if not controls:
        return None
    predicted = ControlPrediction.model_validate(controls[0]["prediction"])
    if len(controls) == 1 and not predicted.iterations:
        return None
    measured = [float(each["quality"]) for each in controls]
    target = min(1.0, round(measured[0] + predicted.start_error, 6))
    return Course(
        measured=tuple(measured),
        predicted=tuple(target - error for error in predicted.errors),
        target=target,
        caption=_caption(controls[-1], measured, predicted),
    )


def _caption(last: Mapping[str, Any], measured: Sequence[float], predicted: ControlPrediction) -> str:
    made = len(measured) - 1
    expected = f"The controller predicted {count(predicted.iterations, 'repair')}"
    if not predicted.is_reached:
        expected += f", and that it would end with {as_words(predicted.end)}"
    if predicted.choice is not None:
        expected += f"; {_CHOICES[predicted.choice.kind]}"
    went = f"quality went from {score(measured[0])} to {score(measured[-1])} in {count(made, 'repair')}"
    course = f"{expected}; {went}." if made else f"{expected}; quality was {score(measured[0])}."
    command: Mapping[str, Any] = last.get("command", {})
    stop = f" It stopped: {as_words(str(command['reason']))}." if command.get("kind") == "stop" else ""
    return f"{course}{stop}"


# --- the whole ---


@dataclass(frozen=True, kw_only=True)
class QualityView:
    """How the outputs of a run were judged and repaired."""

    experience: str
    exit: ExitView | None
    accepted: str
    """Who or which rule accepted the outputs, and the scores below a limit that did not count; empty if not accepted."""
    answers: tuple[OutputAnswer, ...]
    """The answers of people to the exit."""
    course: Course | None
    changes: tuple[OutputChange, ...]
    restored: str
    """The round that the outputs are from, if it is not the last one."""
    rounds: tuple[Round, ...]


def quality_view(run: RunData, lines: Lines | None = None) -> QualityView | None:
    """Return how outputs were judged and repaired; None if they were not judged.

    `lines` turns an output into the lines that are compared; a renderer may leave out secrets there.
    """
    if not any(isinstance(event, _JUDGED) for event in run.events):
        return None
    quality = run.state.quality
    drawn = [event for event in run.events if isinstance(event, e.ExperienceDrawn)]
    rounds = _rounds(run)
    # Without a draft there is nothing to compare.
    after = run.state.outputs if quality.drafts else {}
    return QualityView(
        experience=as_sentence(phase_view(drawn[-1]).text) if drawn else "",
        exit=last_exit(run.state, run.events),
        accepted=acceptance_text(run.state, run.events),
        answers=tuple(map(output_answer, _last_answers(run.events))),
        course=_course(run.events),
        changes=compare_outputs(quality.drafts, after, lines),
        restored=as_sentence(told_round(quality.restored)),
        rounds=rounds,
    )


def last_exit(state: State, events: Sequence[e.Event]) -> ExitView | None:
    """Return the last exit that was decided, with the confidence that was estimated for it."""
    reported = [event.exit for event in events if isinstance(event, e.RunReported) and event.exit]
    critiqued = [event for event in events if isinstance(event, e.OutputsCritiqued)]
    sure = critiqued[-1].confidence if critiqued else {}
    if state.quality.restored:  # the outputs are those of an earlier round
        sure = state.quality.confidence
    given = reported[-1] if reported else critiqued[-1].exit if critiqued else {}
    return exit_view(given, sure, advise(state, ExitDecision.model_validate(given))) if given else None


def _last_answers(events: Sequence[e.Event]) -> list[e.GateAnswered]:
    """Return what people answered about the outputs since the last exit."""
    gate, found = "", list[e.GateAnswered]()
    for event in events:
        match event:
            case e.RunReported():
                gate, found = "", []
            case e.GateOpened(kind="output"):
                gate = event.gate
            case e.GateAnswered() if event.gate == gate:
                found.append(event)
            case _:
                pass
    return found


def acceptance_text(state: State, events: Sequence[e.Event]) -> str:
    """Return who or which rule accepted judged outputs, and why scores below a limit did not prevent it; empty where they were
    not accepted."""
    if state.status != "completed" and state.accepted is None:
        return ""
    found = last_exit(state, events)
    if found is None:
        return ""
    people = [each.actor for each in _last_answers(events) if each.answer == "approve"] or list(
        state.accepted.by if state.accepted else ()
    )
    partial = [each.actor for each in state.answers if each.answer == "accept_partial"]
    limits = ", ".join(f"{each.name} {score(each.value)} ≥ {each.limit:g}" for each in found.thresholds)
    rule = f"every limit of the decision holds ({limits})" if limits else "the decision sets no limit"
    if partial:
        accepted = f"accepted as partial by {join_names(partial)}: {found.reason}"
    elif people:
        accepted = f"accepted by {join_names(list(dict.fromkeys(people)))}; {rule}"
    else:
        accepted = f"accepted by rule: {rule}"
    low = _low_verification(events)
    return as_sentence(f"{accepted}{f'; {low}' if low and not partial else ''}")


def _low_verification(events: Sequence[e.Event]) -> str:
    """Return that the last verification score is below its limit, which counts for confidence and holds nothing back."""
    verified = _last(events, e.OutputsVerified)
    grades = phase_view(verified).grades if verified else ()
    if not grades or grades[0].value is None or grades[0].limit is None or grades[0].value >= grades[0].limit:
        return ""
    low = f"the verification score {score(grades[0].value)} is below {grades[0].limit:g}"
    return f"{low}, which lowers confidence and is not a limit of the decision"

"""How outputs were judged and mended, as lines: one for what each phase came to, and short ones below it for the why.

Descriptions of defects, notes of repairs and names of tests are other people's words, or made of them: every one goes
through `printable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, get_args

import msgspec
from rich.text import Text

from tercet.cli.exit_view import exit_lines, exit_text, score_text
from tercet.cli.screen import Screen
from tercet.cli.text import count, listed, printable, took
from tercet.contracts.control import ControlPrediction
from tercet.contracts.documents import TokenStatus
from tercet.contracts.exit import Novelty
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.quality import (
    Consensus,
    CritiqueDiagnosis,
    Defect,
    DefectSeverity,
    RepairEntry,
    RubricScore,
    TestFailure,
    TestResult,
)
from tercet.contracts.repair import EscalationVerdict
from tercet.contracts.rubric import EdgeOutcome
from tercet.core import events as e
from tercet.core.outputs.rounds import told_round
from tercet.quality.rubric.adversarial import judge_attack, judge_edge_cases
from tercet.view.events import told_retries

Judged = (
    e.ExperienceDrawn
    | e.SamplesDrawn
    | e.OutputsRead
    | e.TestsRun
    | e.OutputsVerified
    | e.OutputsAttacked
    | e.OutputsCritiqued
    | e.EvidenceFetched
    | e.OutputsRepaired
)

UNJUDGED = {
    "free": "nothing vouches for these words",
    "language": "its language is not the configured one, or not known",
    "empty": "there is nothing that anybody could vouch for",
}
"""Why a text is unjudged, for people."""
MOST = 12
"""How many defects, attempts or failed tests are shown of one phase; `--json` has all of them."""


def show_quality(screen: Screen, events: Sequence[e.Event]) -> None:
    """Prints what became of the outputs of a session, phase by phase; nothing where nobody judged them."""
    told = [event for event in events if isinstance(event, Judged)]
    if not told:
        return
    screen.say()
    phases = Phases()
    for event in told:
        first, *below = phases.tell(event)
        screen.put(first, rest="  ")
        for line in below:
            screen.put(line, first="    ", rest="      ")
    reported = [event for event in events if isinstance(event, e.RunReported) and event.exit]
    if reported:
        screen.put(exit_text(reported[-1].exit), rest="  ")
        if told := told_round(reported[-1].restored):
            screen.put(Text(told), first="    ", rest="      ")
        for line in exit_lines(reported[-1].exit):
            screen.put(line, first="    ", rest="      ")


class Phases:
    """The phases of the quality loop as they are told one after the other: what is as it was is not told twice."""

    def __init__(self) -> None:
        self._before: dict[type[e.Event], list[list[Text]]] = {}

    def tell(self, event: Judged) -> list[Text]:
        """The lines of a phase: what it came to, and below it what the phase of its kind before has not told."""
        told = headline(event)
        untimed = msgspec.structs.replace(event, latency=0) if isinstance(event, e.TestsRun) else event
        parts = [[headline(untimed)], *_parts(event)]
        before = self._before.get(type(event), [])
        self._before[type(event)] = parts
        if parts == before and any(parts[1:]):
            return [told + Text(", as before", style="dim")]
        known: list[list[Text]] = before[1:] or [[]] * len(parts)
        news = map(_news, parts[1:], known)
        return [told, *chain.from_iterable(news)]


def _news(part: list[Text], was: list[Text]) -> list[Text]:
    return [Text("the same as before", style="dim")] if len(part) > 1 and part == was else part


def headline(event: Judged) -> Text:
    """What a phase of the quality loop came to."""
    match event:
        case e.ExperienceDrawn():
            return _line("·", "dim", _experience(event))
        case e.SamplesDrawn():
            return _samples(event)
        case e.TestsRun():
            return _tests(event)
        case e.OutputsRead():
            faults = sum(len(each.get("faults", ())) for each in event.texts)
            told = f"read {count(len(event.texts), 'text')} in {printable(event.locale, 20)}"
            return _line("·", "dim", f"{told}; {count(faults, 'slot')} cannot be filled" if faults else told)
        case e.OutputsVerified():
            return _verified(event)
        case e.OutputsAttacked():
            return _attacked(event)
        case e.OutputsCritiqued():
            return _critiqued(event)
        case e.EvidenceFetched():
            return _line("·", "dim", _fetched(event))
        case e.OutputsRepaired():
            return _repaired(event)


def details(event: e.Event) -> list[Text]:
    """The lines below that: what is wrong and where, what was tried, which limits were held against what."""
    if isinstance(event, e.RunReported):
        return exit_lines(event.exit) if event.exit else []
    return [line for part in _parts(event) for line in part] if isinstance(event, Judged) else []


def _parts(event: Judged) -> list[list[Text]]:
    """The details of a phase, those of a kind together."""
    match event:
        case e.ExperienceDrawn() | e.SamplesDrawn() | e.OutputsRead():
            return []
        case e.TestsRun():
            errors = TestResult.model_validate(event.result).errors if event.result else ()
            return [_some(_failed(each) for each in errors)]
        case e.OutputsVerified():
            return [_some(_faults(event)), _unanswered(event.faults)]
        case e.OutputsAttacked():
            broken = judge_attack(_outcomes(event))
            lines = (_item("✗", "red", found.defect.description) for found in broken)
            return [_some(lines), _unanswered(event.faults)]
        case e.OutputsCritiqued():
            found = CritiqueDiagnosis.model_validate(event.diagnosis)
            return [
                _some(map(defect_line, found.defects)),
                list(_steered(event.control)),
                _unanswered(event.faults),
            ]
        case e.EvidenceFetched():
            refs = [Text(printable(ref, 200), style="dim") for ref in event.refs[:MOST]]
            return [refs, _some(map(_retried, event.results))]
        case e.OutputsRepaired():
            return [_some(map(attempt_line, _entries(event))), list(_left(event)), _unanswered(event.faults)]


def _unanswered(faults: Mapping[str, str]) -> list[Text]:
    """Why models did not answer, each reason once."""
    return _some(_item("✗", "yellow", f"no answer: {why}") for why in dict.fromkeys(faults.values()))


def _line(mark: str, style: str, text: str) -> Text:
    return Text.assemble((f"{mark} ", style), (text, "dim" if style == "dim" else ""))


def _some(lines: Iterable[Text]) -> list[Text]:
    """The first lines, and how many more there are."""
    known = list(lines)
    more = len(known) - MOST
    return [*known[:MOST], Text(f"… {more:,} more; --json has them", style="dim")] if more > 0 else known


# --- before judging ---


def _experience(event: e.ExperienceDrawn) -> str:
    tallies: list[dict[str, Any]] = event.rates.get("tallies", [])
    tried = sum(each["tried"] for each in tallies)
    parts = [
        f"goes by {count(tried, 'repair')} of runs before it" if tried else "",
        f"a gain of {score_text(event.gain['gain'])}" if event.gain else "",
        f"confidence as calibrated on {count(event.weights['sample'], 'outcome')}" if event.weights else "",
        _novelty(event.novelty),
    ]
    told = ", ".join(filter(None, parts)) or "no run before it has taught anything"
    return f"task class {printable(event.task_class, 80)}: {told}"


def _novelty(given: Mapping[str, Any]) -> str:
    if not given:
        return ""
    found = Novelty.model_validate(given)
    if found.nearest is None:
        return "the first of its kind"
    word = "novel" if found.is_novel else "not novel"
    return f"{word}: {score_text(found.distance)} from {printable(found.nearest, 80)}"


def _samples(event: e.SamplesDrawn) -> Text:
    if not event.consistency:
        return _line("✗", "yellow", f"not enough samples: {printable(event.error, 300)}")
    agreed = Consensus.model_validate(event.consistency)
    told = f"{count(len(event.samples), 'sample')} of {printable(event.step, 80)} agree at"
    share, taken = score_text(agreed.consistency), f"number {agreed.index + 1} is taken"
    if agreed.needs_critique:
        return _line("✗", "yellow", f"{told} {share}, too few; {taken}")
    return _line("✓", "green", f"{told} {share}; {taken}")


def _tests(event: e.TestsRun) -> Text:
    name = printable(event.tool, 80)
    if event.error:
        return _line("✗", "red", f"tests {name}: could not be run: {printable(event.error, 300)}")
    result = TestResult.model_validate(event.result)
    time = f", {took(event.latency)}" if event.latency else ""
    if result.failed:
        total = result.passed + result.failed
        return _line("✗", "red", f"tests {name}: {result.failed:,} of {count(total, 'test')} failed{time}")
    return _line("✓", "green", f"tests {name}: {count(result.passed, 'test')} passed{time}")


def _failed(failure: TestFailure) -> Text:
    compared = f": expected {failure.expected}, found {failure.actual}" if failure.expected else ""
    return _item("✗", "red", f"{failure.name}{compared}", failure.location)


# --- before a repair ---


def _fetched(event: e.EvidenceFetched) -> str:
    found = f"{count(len(event.refs), 'fact')} found" if event.refs else "nothing new"
    looked = f"more evidence was looked for: {found}" if event.queries or not event.results else ""
    return "; ".join(filter(None, (looked, told_retries(event))))


def _retried(each: e.ToolRetry) -> Text:
    if each.error:
        return _item("✗", "yellow", f"{each.step}: {each.tool} brought nothing: {each.error}")
    return _item("✓", "green", f"{each.step}: {each.tool} brought a result")


# --- attacks ---


def _attacked(event: e.OutputsAttacked) -> Text:
    name, tried = printable(event.tool, 80), len(event.tried)
    broken = len(judge_edge_cases(_outcomes(event), limit=tried))
    told = f"{broken:,} of {count(tried, 'case')} broke it" if broken else f"it stood {count(tried, 'case')}"
    time = f", {took(event.latency)}" if event.latency else ""
    if event.error:
        return _line(
            "✗", "red", f"attack {name}: {told}{time}; not all was tried: {printable(event.error, 300)}"
        )
    return _line("✗" if broken else "✓", "red" if broken else "green", f"attack {name}: {told}{time}")


def _outcomes(event: e.OutputsAttacked) -> list[EdgeOutcome]:
    return [EdgeOutcome.model_validate(each) for each in event.tried]


# --- VERIFY ---


def _verified(event: e.OutputsVerified) -> Text:
    """What was refused, and what nothing vouches for: neither is a score."""
    verdict = VerificationVerdict.model_validate(event.verdict)
    if not verdict.schema_valid:
        return _line("✗", "red", "verified 0: the form is broken, so nothing else is looked at")
    statuses = [each.status for each in verdict.tokens]
    parts = [f"{statuses.count(name):,} {name}" for name in get_args(TokenStatus) if name in statuses]
    told = f"{count(len(statuses), 'value')}: {', '.join(parts)}" if statuses else "no values are stated"
    told += f"; {len(verdict.missing):,} missing" if verdict.missing else ""
    told += f"; {count(len(verdict.unjudged), 'text')} unjudged" if verdict.unjudged else ""
    mark, style = ("✓", "green") if verdict.passed else ("✗", "yellow")
    return _line(mark, style, f"verified {score_text(verdict.score)}: {told}{_agreed(event.consistency)}")


def _agreed(consistency: Mapping[str, Any]) -> str:
    if not consistency:
        return ""
    low = ", too few" if consistency["verdict"] == "LOW_CONFIDENCE" else ""
    return f"; samples agree at {score_text(consistency['consistency'])}{low}"


def _faults(event: e.OutputsVerified) -> Iterator[Text]:
    verdict = VerificationVerdict.model_validate(event.verdict)
    for fault in verdict.schema_faults:
        yield _item("✗", "red", fault.message, fault.pointer)
    for each in verdict.judgements:
        yield _item("·", "dim", f"{each.model or 'no model'} says {each.says}: {each.reason}", each.location)
    for each in verdict.unjudged:
        yield _item("?", "yellow", UNJUDGED[each.reason], each.location)


# --- CRITIQUE ---


def _critiqued(event: e.OutputsCritiqued) -> Text:
    rubric = RubricScore.model_validate(event.rubric)
    defects = CritiqueDiagnosis.model_validate(event.diagnosis).defects
    sure = f"confidence {score_text(event.confidence.get('value'))}"
    told = count(len(defects), "defect") if defects else "no defects"
    score = score_text(rubric.weighted)
    if rubric.passed and all(defect.severity < DefectSeverity.HIGH for defect in defects):
        return _line("✓", "green", f"critique {score}, {sure}: {told}")
    if rubric.weighted < rubric.threshold:
        score = f"{score} of {score_text(rubric.threshold)}"
    return _line("✗", "yellow", f"critique {score}, {sure}: {told}{_below(rubric, event.diagnosis)}")


def _below(rubric: RubricScore, diagnosis: Mapping[str, Any]) -> str:
    """What failed, where it is not the sum: the dimensions under their minimum, each with its score."""
    if not rubric.below:
        return ""
    scored = [f"{name} {score_text(diagnosis['scores'].get(name))}" for name in rubric.below]
    return f"; under {'their' if len(scored) > 1 else 'its'} minimum: {listed(scored)}"


def defect_line(defect: Defect) -> Text:
    """One defect: how bad, of which dimension, what it is, and where."""
    style = "red" if defect.severity >= DefectSeverity.HIGH else "yellow"
    return Text.assemble(
        (f"{defect.severity.name.lower()} ", style),
        (f"{printable(defect.dimension, 40)}: ", "bold"),
        printable(defect.description, 300),
        _place(defect.location),
    )


def _place(location: str | None) -> tuple[str, str]:
    return (f"  {printable(location, 120)}" if location else "", "dim")


def _item(mark: str, style: str, text: str, location: str | None = None) -> Text:
    return Text.assemble((f"{mark} ", style), printable(text, 300), _place(location))


def _steered(control: Mapping[str, Any]) -> Iterator[Text]:
    """What the controller says, where there is one."""
    if not control:
        return
    foreseen = ControlPrediction.model_validate(control["prediction"])
    expected = f"{count(foreseen.iterations, 'repair')} foreseen for {score_text(foreseen.cost)}"
    command: Mapping[str, Any] = control.get("command", {})
    match command.get("kind"):
        case "repair":
            told = f"{command['strategy']} at intensity {score_text(command['intensity'])}"
        case "stop":
            helper = f", next: {str(control['helper']).replace('_', ' ')}" if control.get("helper") else ""
            told = f"stops: {str(command['reason']).replace('_', ' ')}{helper}"
        case _:
            told = "nothing to steer"
    yield Text(f"controller: quality {score_text(control['quality'])}, {expected}; {told}", style="dim")


# --- REPAIR ---


def _entries(event: e.OutputsRepaired) -> list[RepairEntry]:
    return [RepairEntry.model_validate(entry) for entry in event.log]


def _repaired(event: e.OutputsRepaired) -> Text:
    mended = sum(entry.success is True for entry in _entries(event))
    pending = sum(entry.success is None for entry in _entries(event))
    told = [
        f"{mended:,} of {count(event.attempts, 'attempt')} helped" if event.attempts else "nothing was tried",
        f"{pending:,} to be looked at again" if pending else "",
        count(event.tokens, "token") if event.tokens else "",
        _agreed(event.consistency).removeprefix("; "),
        f"went round in circles: {listed(event.breaks)}" if event.breaks else "",
    ]
    text = f"repair: {', '.join(filter(None, told))}"
    if event.outcome == "escalated":
        verdict = EscalationVerdict.model_validate(event.escalation)
        return _line("✗", "red", f"{text}; the rest goes to {verdict.kind}: {printable(verdict.reason, 300)}")
    return _line("✓", "green", text)


def attempt_line(entry: RepairEntry) -> Text:
    """One attempt: by which strategy and means, for which cause, at what, and whether it helped."""
    mark, style = {True: ("✓", "green"), False: ("✗", "red"), None: ("·", "dim")}[entry.success]
    tokens = f", {count(entry.tokens, 'token')}" if entry.tokens else ""
    return Text.assemble(
        (f"{mark} ", style),
        f"{entry.strategy} by {entry.means}, {entry.root_cause}{tokens}: ",
        printable(f"{entry.defect.dimension}: {entry.defect.description}", 200),
        (f"  {printable(entry.note, 200)}" if entry.note else "", "dim"),
    )


def _left(event: e.OutputsRepaired) -> Iterator[Text]:
    left = EscalationVerdict.model_validate(event.escalation).left if event.escalation else ()
    yield from _some(_item("✗", "red", f"left: {_known_by(one.defect)} ({one.reason})") for one in left)


def _known_by(defect: Defect) -> str:
    """A defect that the critique above has described, by its place in a text; by its words where it has none."""
    if defect.location and "#char=" in defect.location:
        return f"{defect.dimension} at {defect.location}"
    return f"{defect.dimension}: {defect.description}"

"""How outputs were judged and mended, as lines: one for what each phase came to, and short ones below it for the why.

Descriptions of defects, notes of repairs and names of tests are other people's words, or made of them: every one goes
through `printable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from rich.text import Text

from tercet.cli.event_view import view_line
from tercet.cli.exit_view import exit_lines, exit_text
from tercet.cli.screen import Screen
from tercet.cli.text import count, printable
from tercet.contracts.control import ControlPrediction
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.outputs.quality import (
    CritiqueDiagnosis,
    Defect,
    DefectSeverity,
    RepairEntry,
    TestFailure,
    TestResult,
)
from tercet.contracts.outputs.repair import EscalationVerdict
from tercet.contracts.outputs.rubric import EdgeOutcome
from tercet.core import events as e
from tercet.core.outputs.rounds import told_round
from tercet.quality.rubric.adversarial import judge_attack
from tercet.view.judging import UNJUDGED, Judged, compared, describe_phase, entries_of, steering_text
from tercet.view.text import joined, score

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
    return view_line(describe_phase(event))


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
            broken = judge_attack([EdgeOutcome.model_validate(each) for each in event.tried])
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
            return [
                _some(map(attempt_line, entries_of(event))),
                list(_left(event)),
                _unanswered(event.faults),
            ]


def _unanswered(faults: Mapping[str, str]) -> list[Text]:
    """Why models did not answer, each reason once."""
    return _some(_item("✗", "yellow", f"no answer: {why}") for why in dict.fromkeys(faults.values()))


def _some(lines: Iterable[Text]) -> list[Text]:
    """The first lines, and how many more there are."""
    known = list(lines)
    more = len(known) - MOST
    return [*known[:MOST], Text(f"… {more:,} more; --json has them", style="dim")] if more > 0 else known


def _retried(each: e.ToolRetry) -> Text:
    if each.error:
        return _item("✗", "yellow", f"{each.step}: {each.tool} brought nothing: {each.error}")
    return _item("✓", "green", f"{each.step}: {each.tool} brought a result")


def _failed(failure: TestFailure) -> Text:
    return _item("✗", "red", joined((failure.name, compared(failure)), ": "), failure.location)


def _faults(event: e.OutputsVerified) -> Iterator[Text]:
    verdict = VerificationVerdict.model_validate(event.verdict)
    for fault in verdict.schema_faults:
        yield _item("✗", "red", fault.message, fault.pointer)
    for each in verdict.judgements:
        yield _item("·", "dim", f"{each.model or 'no model'} says {each.says}: {each.reason}", each.location)
    for each in verdict.unjudged:
        yield _item("?", "yellow", UNJUDGED[each.reason], each.location)


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
    expected = f"{count(foreseen.iterations, 'repair')} foreseen for {score(foreseen.cost)}"
    told = printable(steering_text(control)) or "nothing to steer"
    yield Text(f"controller: quality {score(control['quality'])}, {expected}; {told}", style="dim")


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

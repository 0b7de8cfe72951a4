"""The quality loop of a run: what was said of its outputs, turn by turn, how that ended, and what was changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from tercet.contracts.outputs.quality import CritiqueDiagnosis
from tercet.core import events as e
from tercet.core.outputs.rounds import told_round
from tercet.replay.report.case import Case
from tercet.replay.report.changes import changes
from tercet.replay.report.curve import draw_curve
from tercet.replay.report.exits import exit_card
from tercet.replay.report.loop_page import ExitCard, LoopPart
from tercet.replay.report.turns import Passage, answer_row, known_by, turn
from tercet.replay.report.wording import Wording, count, joined
from tercet.view.judging import experience_text
from tercet.view.text import as_sentence

MOST = 20
_FEW = 3
_FIRST = (e.SamplesDrawn, e.TestsRun, e.OutputsVerified)
"""What a turn may begin with."""
_LAST = (e.OutputsVerified, e.OutputsCritiqued, e.OutputsRepaired)
"""What the events of a turn before the next one include."""
_JUDGED = (*_FIRST, e.OutputsAttacked, e.OutputsCritiqued, e.OutputsRepaired)


def loop_part(case: Case, wording: Wording) -> LoopPart | None:
    """How the outputs of a run were judged and mended; None where nobody judged them."""
    if not any(isinstance(event, _JUDGED) for event in case.events):
        return None
    passages = _unfolded(list(_passages(case.events)))
    quality = case.state.quality
    # Compared with the drafts; where nothing was ever repaired, there is nothing to compare.
    changed, changes_note = changes(quality.drafts, case.state.outputs if quality.drafts else {}, wording)
    handed_over = as_sentence(told_round(quality.restored))  # where they are not those of the last turn
    more = len(passages) - MOST
    return LoopPart(
        experience=wording.text(_experience(case.events), 600),
        exit=_exit(case, wording),
        answered=tuple(answer_row(event, wording) for event in _last_answers(case.events)),
        curve=draw_curve(_controls(case.events), wording),
        changes=changed,
        changes_note=joined((handed_over, changes_note), " "),
        turns=tuple(turn(passage, case.minimums, wording) for passage in passages[-MOST:]),
        turns_note=f"{count(more, 'earlier turn')} are left out." if more > 0 else "",
    )


# --- turns ---


def _passages(events: Sequence[e.Event]) -> Iterator[Passage]:
    """The events of the loop, turn by turn: a turn ends where outputs are looked at anew."""
    gates = {event.gate for event in events if isinstance(event, e.GateOpened) and event.kind == "output"}
    number, turn_events = 1, list[e.Event]()
    for event in events:
        if isinstance(event, _FIRST) and any(isinstance(each, _LAST) for each in turn_events):
            yield Passage(number=number, events=tuple(turn_events))
            number, turn_events = number + 1, []
        is_answer = isinstance(event, e.GateAnswered) and event.gate in gates
        if is_answer or isinstance(event, (*_JUDGED, e.EvidenceFetched)):
            turn_events.append(event)
    if turn_events:
        yield Passage(number=number, events=tuple(turn_events))


def _unfolded(passages: Sequence[Passage]) -> list[Passage]:
    """The turns, each with what the next one found; of many only the first and the last two are shown unfolded."""
    last = len(passages)
    return [
        replace(passage, is_open=number in (1, last - 1, last) or last <= _FEW, again=_found(following))
        for number, (passage, following) in enumerate(zip_longest(passages, passages[1:]), start=1)
        if passage is not None
    ]


def _found(passage: Passage | None) -> frozenset[str]:
    critiqued = passage.last(e.OutputsCritiqued) if passage else None
    defects = CritiqueDiagnosis.model_validate(critiqued.diagnosis).defects if critiqued else ()
    return frozenset(map(known_by, defects))


# --- what stands above them ---


def _experience(events: Sequence[e.Event]) -> str:
    """What earlier runs have taught this one, in one line."""
    found = [event for event in events if isinstance(event, e.ExperienceDrawn)]
    return as_sentence(experience_text(found[-1])) if found else ""


def _exit(case: Case, wording: Wording) -> ExitCard | None:
    """The last exit that was decided, and the confidence that was estimated for it."""
    reported = [event.exit for event in case.events if isinstance(event, e.RunReported) and event.exit]
    critiqued = [event for event in case.events if isinstance(event, e.OutputsCritiqued)]
    sure = critiqued[-1].confidence if critiqued else {}
    if case.state.quality.restored:  # what was handed over is not what was judged last
        sure = case.state.quality.confidence
    given = reported[-1] if reported else critiqued[-1].exit if critiqued else {}
    return exit_card(given, sure, wording) if given else None


def _last_answers(events: Sequence[e.Event]) -> list[e.GateAnswered]:
    """What people said of the outputs since the last exit."""
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


def _controls(events: Sequence[e.Event]) -> list[Mapping[str, Any]]:
    """What the controller remembered at each measurement of the last draft."""
    found: list[Mapping[str, Any]] = []
    for event in events:
        if isinstance(event, e.OutputsProduced):
            found.clear()
        elif isinstance(event, e.OutputsCritiqued) and event.control:
            found.append(event.control)
    return found

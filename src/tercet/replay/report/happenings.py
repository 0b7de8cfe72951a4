"""Every event of a run as a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tercet.contracts.quality import Consensus, Defect
from tercet.contracts.rubric import EdgeOutcome
from tercet.core import events as e
from tercet.quality.rubric.adversarial import judge_edge_cases
from tercet.replay.report.case import Case
from tercet.replay.report.page import Happening, Tone
from tercet.replay.report.wording import Wording, count, elapsed, joined, moment, score, spoken, took
from tercet.view.events import describe, told_retries
from tercet.view.words import step_text

MOST = 600

Told = tuple[str, Tone]


def happenings(case: Case, wording: Wording) -> tuple[tuple[Happening, ...], str]:
    """The events of a run, and in words how many were left out in the middle."""
    return tuple(_told(case, wording)), _left_out(len(case.events))


def _left_out(events: int) -> str:
    return f"{events - MOST:,} events in the middle are left out." if events > MOST else ""


def _told(case: Case, wording: Wording) -> Iterator[Happening]:
    first = case.events[0].at
    for number, event in enumerate(case.events, start=1):
        if len(case.events) > MOST and MOST // 2 < number <= len(case.events) - MOST // 2:
            continue
        what, tone = sentence(event)
        yield Happening(
            number=number,
            at=moment(event.at),
            after=elapsed(event.at - first),
            what=wording.text(what, 400),
            tone=tone,
        )


def sentence(event: e.Event) -> Told:
    """Return what an event says, and its tone."""
    view = describe(event)
    if view is None:
        return _judged(event)
    return f"{f'{step_text(view.step)}: ' if view.step else ''}{view.text}", view.tone


# --- the quality loop ---


def _judged(event: e.Event) -> Told:
    match event:
        case e.ExperienceDrawn():
            tried = sum(int(each["tried"]) for each in event.rates.get("tallies", ()))
            by = f"{count(tried, 'repair')} of runs before it" if tried else "no run before it"
            return f"experience of the task class {event.task_class}: {by}", "quiet"
        case e.SamplesDrawn() if not event.consistency:
            return f"there are not enough samples to compare: {event.error}", "bad"
        case e.SamplesDrawn():
            return _sampled(event)
        case e.OutputsRead():
            return f"{count(len(event.texts), 'text')} of the outputs are read in {event.locale}", "quiet"
        case e.TestsRun() if event.error:
            return f"tests {event.tool} could not be run: {event.error}", "bad"
        case e.TestsRun():
            return _tested(event)
        case e.OutputsVerified():
            return _verified(event)
        case e.OutputsAttacked():
            return _attacked(event)
        case e.OutputsCritiqued():
            return _critiqued(event)
        case e.EvidenceFetched():
            asked = count(len(event.queries), "question")
            found = f"more evidence is looked for with {asked}: {count(len(event.refs), 'fact')} found"
            looked = found if event.queries or not event.results else ""
            return "; ".join(filter(None, (looked, told_retries(event)))), "busy"
        case e.OutputsRepaired():
            return _repaired(event)
        case _:  # an event without a sentence of its own is told by its name
            return str(type(event).__struct_config__.tag).replace("_", " "), "quiet"


def _sampled(event: e.SamplesDrawn) -> Told:
    agreed = Consensus.model_validate(event.consistency)
    told = f"{count(len(event.samples), 'sample')} of {event.step} agree at {score(agreed.consistency)}"
    return f"{told}; number {agreed.index + 1} is taken", "bad" if agreed.needs_critique else "good"


def _tested(event: e.TestsRun) -> Told:
    passed, failed = int(event.result.get("passed", 0)), int(event.result.get("failed", 0))
    time = f"after {took(event.latency)}" if event.latency else ""
    told = joined((f"{passed:,} passed", f"{failed:,} failed" if failed else "", time))
    return f"tests {event.tool}: {told}", "bad" if failed else "good"


def _verified(event: e.OutputsVerified) -> Told:
    verdict = event.verdict
    if not verdict.get("schema_valid"):
        faults = count(len(verdict.get("schema_faults", ())), "fault")
        return f"the form of the outputs is broken, {faults}; {_then(event.next)}", "bad"
    score_told = f"the outputs are verified at {score(float(verdict['score']))}"
    refused = sum(each["status"] in ("elsewhere", "unknown") for each in verdict.get("tokens", ()))
    counts = (
        count(refused, "value") + " refused" if refused else "",
        f"{len(verdict['missing']):,} missing" if verdict.get("missing") else "",
        count(len(verdict["unjudged"]), "text") + " unjudged" if verdict.get("unjudged") else "",
    )
    told = f"{joined((score_told, *counts))}; {_then(event.next)}"
    return told, "good" if verdict.get("passed") else "wait"


def _attacked(event: e.OutputsAttacked) -> Told:
    broken, tried = len(broken_by(event)), count(len(event.tried), "edge case")
    told = f"{broken:,} of {tried} broke it" if broken else f"it stood {tried}"
    why = f"not all was tried: {event.error}" if event.error else ""
    return f"attack {event.tool}: {joined((told, why))}", "bad" if broken or event.error else "good"


def broken_by(event: e.OutputsAttacked) -> tuple[Defect, ...]:
    """The defects that an attack brought to light."""
    outcomes = [EdgeOutcome.model_validate(each) for each in event.tried]
    return tuple(found.defect for found in judge_edge_cases(outcomes, limit=len(outcomes)))


def _critiqued(event: e.OutputsCritiqued) -> Told:
    rubric: dict[str, Any] = event.rubric
    defects = len(event.diagnosis.get("defects", ()))
    found = count(defects, "defect") if defects else "no defect"
    below = f", too low: {', '.join(map(str, rubric.get('below', ())))}" if rubric.get("below") else ""
    told = f"the critic scores the outputs {score(float(rubric['weighted']))}, {found}{below}"
    return f"{told}; {_then(event.next)}", "good" if rubric.get("passed") else "bad"


def _then(following: str) -> str:
    words = {"repair": "repair follows", "critique": "critique follows", "exit": "nothing more is mended"}
    return words[following]


def _repaired(event: e.OutputsRepaired) -> Told:
    done = sum(entry.get("success") is True for entry in event.log)
    told = f"{done:,} of {count(event.attempts, 'repair')} made" if event.attempts else "nothing was tried"
    if event.outcome == "repaired":
        return f"repaired, {told}; the outputs are looked at again", "good"
    left = count(len(event.escalation.get("left", ())), "defect")
    return f"not all is repaired, {told}: {left} left, {spoken(str(event.escalation.get('kind')))}", "bad"

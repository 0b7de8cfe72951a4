"""The phases of the quality loop in words: what each came to, as one sentence with a mark and a tone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from tercet.contracts.documents import TokenStatus
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.outputs.exit import Disposition, Novelty
from tercet.contracts.outputs.quality import (
    Consensus,
    CritiqueDiagnosis,
    Defect,
    DefectSeverity,
    RepairEntry,
    RubricScore,
    TestFailure,
    TestResult,
)
from tercet.contracts.outputs.repair import Escalation, EscalationVerdict
from tercet.contracts.outputs.rubric import EdgeOutcome
from tercet.core import events as e
from tercet.quality.rubric.adversarial import judge_edge_cases
from tercet.view.events import EventView, some
from tercet.view.text import count, joined, score, spoken, took
from tercet.view.words import Tone

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
"""Why a text is unjudged."""
DISPOSITIONS: dict[Disposition, tuple[str, Tone]] = {
    Disposition.AUTO_COMMIT: ("enough to commit without asking", "good"),
    Disposition.HUMAN_REVIEW: ("a person is asked", "wait"),
    Disposition.REJECT: ("too little to ask a person", "bad"),
}
"""Where confidence leads."""
_WENT: dict[Escalation, str] = {
    Escalation.HUMAN_REVIEW: "to a person",
    Escalation.MODEL_UPGRADE: "to a stronger model",
    Escalation.TASK_REDECOMPOSE: "back to the planner",
    Escalation.PARTIAL_COMMIT: "into a partial result",
    Escalation.FAIL_WITH_DIAGNOSIS: "no further, with this diagnosis",
}
ADVICE = {
    "approve": "accept them: every limit holds",
    "modify": "send them back: a limit is missed",
    "reject": "deny them: they are unsafe, or too unsure",
}
"""What is advised about outputs."""


def describe_phase(event: Judged) -> EventView:
    """Return what a phase of the quality loop came to."""
    match event:
        case e.ExperienceDrawn():
            return EventView("·", "quiet", experience_text(event))
        case e.SamplesDrawn():
            return _sampled(event)
        case e.OutputsRead():
            faults = sum(len(each.get("faults", ())) for each in event.texts)
            unfilled = f"; {count(faults, 'slot')} cannot be filled" if faults else ""
            return EventView(
                "·", "quiet", f"read {count(len(event.texts), 'text')} in {event.locale}{unfilled}"
            )
        case e.TestsRun():
            told, tone = tests_text(event)
            return _view(tone, f"tests {event.tool}: {joined((told, _time(event)))}")
        case e.OutputsVerified():
            told, tone = verified_text(event)
            return _view(tone, f"verified {score(float(event.verdict['score']))}: {told}")
        case e.OutputsAttacked():
            told, tone = attack_text(event)
            return _view(tone, f"attack {event.tool}: {joined((told, _time(event)))}{_untried(event)}")
        case e.OutputsCritiqued():
            return _critiqued(event)
        case e.EvidenceFetched():
            return EventView("·", "quiet", _fetched(event))
        case e.OutputsRepaired():
            return _repaired(event)


def _fetched(event: e.EvidenceFetched) -> str:
    found = f"{count(len(event.refs), 'fact')} found" if event.refs else "nothing new"
    looked = f"more evidence was looked for: {found}" if event.queries or not event.results else ""
    brought = sum(not each.error for each in event.results)
    again = f"{count(len(event.results), 'failed call')} made again: {brought:,} brought a result"
    return "; ".join(filter(None, (looked, again if event.results else "")))


def _view(tone: Tone, text: str) -> EventView:
    return EventView("✓" if tone == "good" else "✗", tone, text)


def _time(event: e.TestsRun | e.OutputsAttacked) -> str:
    return took(event.latency) if event.latency else ""


# --- before judging ---


def experience_text(event: e.ExperienceDrawn) -> str:
    """Return what earlier runs have taught a run."""
    tried = sum(int(each["tried"]) for each in event.rates.get("tallies", ()))
    told = joined(
        (
            f"goes by {count(tried, 'repair')} of runs before it" if tried else "",
            f"a measured gain of {score(float(event.gain['gain']))}" if event.gain else "",
            f"confidence as calibrated on {count(event.weights['sample'], 'outcome')}"
            if event.weights
            else "",
            _novelty(event.novelty),
        )
    )
    return f"task class {event.task_class}: {told or 'no run before it has taught anything'}"


def _novelty(given: Mapping[str, Any]) -> str:
    if not given:
        return ""
    found = Novelty.model_validate(given)
    if found.nearest is None:
        return "the first of its kind"
    return f"{'novel' if found.is_novel else 'not novel'}: {score(found.distance)} from {found.nearest}"


def _sampled(event: e.SamplesDrawn) -> EventView:
    if not event.consistency:
        return EventView("✗", "wait", f"not enough samples: {event.error}")
    agreed = Consensus.model_validate(event.consistency)
    told = f"{count(len(event.samples), 'sample')} of {event.step} agree at {score(agreed.consistency)}"
    low = ", too few" if agreed.needs_critique else ""
    return _view("wait" if low else "good", f"{told}{low}; number {agreed.index + 1} is taken")


def tests_text(event: e.TestsRun) -> tuple[str, Tone]:
    """Return what a test command said, and whether that is good news."""
    if event.error:
        return f"could not be run: {event.error}", "bad"
    result = TestResult.model_validate(event.result)
    if result.failed:
        return f"{result.failed:,} of {count(result.passed + result.failed, 'test')} failed", "bad"
    return f"{count(result.passed, 'test')} passed", "good" if result.passed else "wait"


def compared(failure: TestFailure) -> str:
    """Return what a failed test expected and found; empty where it does not say."""
    return f"expected {failure.expected}, found {failure.actual}" if failure.expected else ""


def attack_text(event: e.OutputsAttacked) -> tuple[str, Tone]:
    """Return what edge cases have broken, and whether that is good news."""
    broken, tried = len(broken_by(event)), count(len(event.tried), "edge case")
    told = f"{broken:,} of {tried} broke it" if broken else f"it stood {tried}"
    return told, "bad" if broken or event.error else "good"


def _untried(event: e.OutputsAttacked) -> str:
    return f"; not all was tried: {event.error}" if event.error else ""


def broken_by(event: e.OutputsAttacked) -> tuple[Defect, ...]:
    """Return the defects that an attack brought to light."""
    outcomes = [EdgeOutcome.model_validate(each) for each in event.tried]
    return tuple(found.defect for found in judge_edge_cases(outcomes, limit=len(outcomes)))


# --- VERIFY and CRITIQUE ---


def verified_text(event: e.OutputsVerified) -> tuple[str, Tone]:
    """Return what was refused, and what nothing vouches for, with its tone: neither is a score."""
    verdict = VerificationVerdict.model_validate(event.verdict)
    tone = verdict_tone(verdict)
    if not verdict.schema_valid:
        return "the form is broken, so nothing else is looked at", tone
    if "claims" in event.verdict:
        return "judged by earlier rules, which are no longer applied", tone
    statuses = [each.status for each in verdict.tokens]
    parts = [f"{statuses.count(name):,} {name}" for name in get_args(TokenStatus) if name in statuses]
    told = (
        f"{count(len(statuses), 'value')}: {', '.join(parts)}" if statuses else "no values are stated",
        f"{len(verdict.missing):,} missing" if verdict.missing else "",
        f"{count(len(verdict.unjudged), 'text')} unjudged" if verdict.unjudged else "",
        _agreed(event.consistency),
    )
    return joined(told, "; "), tone


def verdict_tone(verdict: VerificationVerdict) -> Tone:
    """Return whether a verdict is good news; its score is a sign, and holds nothing back."""
    return "good" if verdict.passed else "wait" if verdict.schema_valid else "bad"


def _agreed(consistency: Mapping[str, Any]) -> str:
    if not consistency:
        return ""
    low = ", too few" if consistency["verdict"] == "LOW_CONFIDENCE" else ""
    return f"samples agree at {score(float(consistency['consistency']))}{low}"


def _critiqued(event: e.OutputsCritiqued) -> EventView:
    rubric = RubricScore.model_validate(event.rubric)
    found = CritiqueDiagnosis.model_validate(event.diagnosis)
    least = f" of {score(rubric.threshold)}" if rubric.weighted < rubric.threshold else ""
    told = f"critique {score(rubric.weighted)}{least}, confidence {score(event.confidence.get('value'))}"
    defects = count(len(found.defects), "defect") if found.defects else "no defects"
    is_good = rubric.passed and all(defect.severity < DefectSeverity.HIGH for defect in found.defects)
    return _view("good" if is_good else "wait", f"{told}: {defects}{_below(rubric, found)}")


def _below(rubric: RubricScore, found: CritiqueDiagnosis) -> str:
    """Return what failed, where it is not the sum: the dimensions under their minimum, each with its score."""
    scored = [f"{name} {score(found.scores.get(name))}" for name in rubric.below]
    return f"; under {'their' if len(scored) > 1 else 'its'} minimum: {some(scored)}" if scored else ""


def steering_text(control: Mapping[str, Any]) -> str:
    """Return what the controller said to a measurement; empty where it said nothing."""
    command: Mapping[str, Any] = control.get("command", {})
    match command.get("kind"):
        case "repair":
            worst = f", for {command['worst']} is furthest from its aim" if command.get("worst") else ""
            strength = f"at intensity {score(float(command['intensity']))}"
            return f"asks for a {spoken(str(command['strategy']))} {strength}{worst}"
        case "stop":
            helper = f"; what may help: {spoken(str(control['helper']))}" if control.get("helper") else ""
            return f"stops: {spoken(str(command['reason']))}{helper}"
        case _:
            return ""


# --- REPAIR ---


def entries_of(event: e.OutputsRepaired) -> list[RepairEntry]:
    """Return the attempts of a REPAIR phase."""
    return [RepairEntry.model_validate(entry) for entry in event.log]


def attempts_text(event: e.OutputsRepaired, helped: int) -> str:
    """Return how many of the attempts of a REPAIR phase helped."""
    return (
        f"{helped:,} of {count(event.attempts, 'attempt')} helped" if event.attempts else "nothing was tried"
    )


def went_text(verdict: EscalationVerdict) -> str:
    """Return where that goes which was not mended, and why."""
    return f"what is left goes {_WENT[verdict.kind]}: {verdict.reason}"


def _repaired(event: e.OutputsRepaired) -> EventView:
    successes = [entry.success for entry in entries_of(event)]
    pending = successes.count(None)
    told = joined(
        (
            attempts_text(event, successes.count(True)),
            f"{pending:,} to be looked at again" if pending else "",
            count(event.tokens, "token") if event.tokens else "",
            _agreed(event.consistency),
            f"went round in circles: {some(event.breaks)}" if event.breaks else "",
        )
    )
    if event.outcome == "escalated":
        return _view(
            "bad", f"repair: {told}; {went_text(EscalationVerdict.model_validate(event.escalation))}"
        )
    return _view("good", f"repair: {told}")

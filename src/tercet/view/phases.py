"""The phases of the quality loop as view models: samples, tests, verification, attacks, critique, evidence and repair.

`phase_view` reads an event; `read_phase` reads the same fields from a hand-off packet, which stores only some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import msgspec

from tercet.contracts.control import ControlPrediction
from tercet.contracts.documents import TokenStatus
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.outputs.exit import Novelty
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
from tercet.contracts.outputs.repair import EscalationVerdict
from tercet.contracts.outputs.rubric import EdgeOutcome
from tercet.core import events as e
from tercet.quality.rubric.adversarial import judge_attack, judge_edge_cases
from tercet.view.text import as_words, count, duration_text, first_names, join_parts, score
from tercet.view.vocabulary import ESCALATIONS, TOKENS, UNJUDGED, Tone

PhaseEvent: TypeAlias = (
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
Fields: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Grade:
    """A score between 0 and 1, and the limit that it is compared with."""

    name: str
    value: float | None
    limit: float | None = None
    tone: Tone = "quiet"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that a phase found or did."""

    text: str
    label: str = ""
    location: str = ""
    tone: Tone = "quiet"
    mark: str = "·"


@dataclass(frozen=True, kw_only=True)
class DefectView:
    """A defect of the outputs."""

    dimension: str
    severity: str
    tone: Tone
    description: str
    location: str = ""
    hint: str = ""

    @property
    def key(self) -> str:
        """The key of the same defect in the next round: without the values of a test, which may differ."""
        return f"{self.dimension}: {self.description.partition(': expected ')[0]}"


@dataclass(frozen=True, kw_only=True)
class RepairView:
    """One attempt to repair a defect."""

    defect: DefectView
    success: bool | None
    """None if only the next round shows it."""
    cause: str
    strategy: str
    means: str
    tokens: int = 0
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class OpenDefect:
    """A defect that no repair removed."""

    defect: DefectView
    cause: str
    tried: int
    strategies: tuple[str, ...]
    reason: str

    @property
    def attempts_text(self) -> str:
        """Return how often a repair was tried, and by which strategies."""
        tried = f"tried {count(self.tried, 'time')}" if self.tried else "no repair was tried"
        return join_parts((tried, f"as {', '.join(self.strategies)}" if self.strategies else ""))


@dataclass(frozen=True, kw_only=True)
class Token:
    """A value that the outputs state, and the sources that it is known from."""

    text: str
    location: str
    status: str
    tone: Tone
    sources: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Steering:
    """The controller's command after a measurement."""

    quality: float
    repairs: int
    """The number of repairs that were predicted."""
    cost: float
    text: str


@dataclass(frozen=True, kw_only=True)
class PhaseView:
    """One phase of the quality loop; which of its parts are filled depends on the kind."""

    kind: str
    """The tag of the event."""
    title: str
    """The action, such as `tests shop.unit` or `verified 0.84`."""
    summary: str
    """Its result."""
    tone: Tone
    mark: str
    took_ms: int = 0
    tool: str = ""
    grades: tuple[Grade, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Failed tests, broken edge cases, schema faults, judgements of models, unjudged texts, or calls made again."""
    tokens: tuple[Token, ...] = ()
    defects: tuple[DefectView, ...] = ()
    steering: Steering | None = None
    queries: tuple[Any, ...] = ()
    refs: tuple[str, ...] = ()
    repairs: tuple[RepairView, ...] = ()
    left: tuple[OpenDefect, ...] = ()
    escalation: str = ""
    """Where the remaining defects go, and why."""
    unanswered: tuple[tuple[str, str], ...] = ()
    """The questions to models without an answer, by number, and why."""

    @property
    def text(self) -> str:
        """The phase as one sentence."""
        summary = join_parts((self.summary, duration_text(self.took_ms) if self.took_ms else ""))
        return join_parts((self.title, summary), ": ")


def phase_view(event: PhaseEvent) -> PhaseView:
    """Return the view of a phase."""
    return read_phase(type(event), msgspec.structs.asdict(event))


def read_phase(kind: type[PhaseEvent], fields: Fields) -> PhaseView:
    """Return the view of a phase from the fields of its event, some of which may be missing."""
    return _BUILDERS[kind](fields)


def _view(
    kind: type[PhaseEvent], title: str, summary: str, tone: Tone, mark: str = "", **parts: Any
) -> PhaseView:
    shown = mark or ("·" if tone == "quiet" else "✓" if tone == "good" else "✗")
    tag = str(kind.__struct_config__.tag)
    return PhaseView(kind=tag, title=title, summary=summary, tone=tone, mark=shown, **parts)


def _unanswered(fields: Fields) -> tuple[tuple[str, str], ...]:
    return tuple(fields.get("faults", {}).items())


# --- before judging ---


def _experience(fields: Fields) -> PhaseView:
    gain, weights = fields.get("gain"), fields.get("weights")
    tried = sum(int(each["tried"]) for each in fields.get("rates", {}).get("tallies", ()))
    learned = join_parts(
        (
            f"based on {count(tried, 'repair')} of earlier runs" if tried else "",
            f"a measured gain of {score(float(gain['gain']))}" if gain else "",
            f"confidence as calibrated on {count(weights['sample'], 'outcome')}" if weights else "",
            _novelty(fields.get("novelty", {})),
        )
    )
    title = f"task class {fields['task_class']}"
    return _view(e.ExperienceDrawn, title, learned or "no earlier runs to learn from", "quiet")


def _novelty(given: Fields) -> str:
    if not given:
        return ""
    found = Novelty.model_validate(given)
    if found.nearest is None:
        return "the first of its kind"
    return f"{'novel' if found.is_novel else 'not novel'}: {score(found.distance)} from {found.nearest}"


def _samples(fields: Fields) -> PhaseView:
    if not fields.get("consistency"):
        return _view(e.SamplesDrawn, "not enough samples", str(fields.get("error", "")), "wait")
    agreed = Consensus.model_validate(fields["consistency"])
    low = ", too few" if agreed.needs_critique else ""
    samples = (
        f"{count(len(fields['samples']), 'sample')} of {fields['step']} agree at {score(agreed.consistency)}"
    )
    return _view(
        e.SamplesDrawn, "", f"{samples}{low}; number {agreed.index + 1} is taken", "wait" if low else "good"
    )


def _reading(fields: Fields) -> PhaseView:
    texts: Sequence[Any] = fields["texts"]
    faults = sum(len(each.get("faults", ())) for each in texts)
    unfilled = f"; {count(faults, 'slot')} cannot be filled" if faults else ""
    lost = fields.get("undone", "")
    undone = f"; a repair lost {lost!r} and was undone" if lost else ""
    summary = f"read {count(len(texts), 'text')} in {fields['locale']}{unfilled}{undone}"
    return _view(e.OutputsRead, "", summary, "wait" if lost else "quiet")


def _tests(fields: Fields) -> PhaseView:
    result = TestResult.model_validate(fields["result"]) if fields.get("result") else None
    if fields.get("error") or result is None:
        summary, tone = f"could not be run: {fields.get('error', '')}", "bad"
    elif result.failed:
        summary, tone = f"{result.failed:,} of {count(result.passed + result.failed, 'test')} failed", "bad"
    else:
        summary, tone = f"{count(result.passed, 'test')} passed", "good" if result.passed else "wait"
    return _view(
        e.TestsRun, f"tests {fields['tool']}", summary, tone, tool=fields["tool"], took_ms=fields.get("latency", 0),
        findings=tuple(map(_failure, result.errors)) if result else (),
    )  # fmt: skip


def _failure(failure: TestFailure) -> Finding:
    compared = f"expected {failure.expected}, found {failure.actual}" if failure.expected else ""
    return Finding(label=failure.name, text=compared, location=failure.location, tone="bad", mark="✗")


def _attack(fields: Fields) -> PhaseView:
    outcomes = [EdgeOutcome.model_validate(each) for each in fields["tried"]]
    broken, tried = len(judge_edge_cases(outcomes, limit=len(outcomes))), count(len(outcomes), "edge case")
    summary = f"{broken:,} of {tried} broke it" if broken else f"it withstood {tried}"
    error = fields.get("error", "")
    alike = [found.defect for found in judge_attack(outcomes)]
    return _view(
        e.OutputsAttacked, f"attack {fields['tool']}", summary + (f"; not all was tried: {error}" if error else ""),
        "bad" if broken or error else "good", tool=fields["tool"], took_ms=fields.get("latency", 0),
        findings=tuple(Finding(label="edge case", text=each.description, tone="bad", mark="✗") for each in alike),
        unanswered=_unanswered(fields),
    )  # fmt: skip


# --- VERIFY and CRITIQUE ---


def _verification(fields: Fields) -> PhaseView:
    verdict = VerificationVerdict.model_validate(fields["verdict"])
    tone: Tone = "good" if verdict.passed else "wait" if verdict.schema_valid else "bad"
    return _view(
        e.OutputsVerified, f"verified {score(verdict.score)}", _verified(verdict, fields), tone,
        grades=tuple(_verdict_grades(verdict, tone)) if verdict.schema_valid else (),
        findings=tuple(_verdict_findings(verdict)),
        tokens=tuple(
            Token(text=each.token.text, location=each.location, status=each.status, tone=TOKENS[each.status], sources=each.sources)
            for each in verdict.tokens
        ),
        unanswered=_unanswered(fields),
    )  # fmt: skip


def _verified(verdict: VerificationVerdict, fields: Fields) -> str:
    if not verdict.schema_valid:
        return "the schema is violated, so nothing else is checked"
    if "claims" in fields["verdict"]:
        return "judged by earlier rules, which are no longer applied"
    statuses = [each.status for each in verdict.tokens]
    parts = [f"{statuses.count(name):,} {name}" for name in get_args(TokenStatus) if name in statuses]
    summary = (
        f"{count(len(statuses), 'value')}: {', '.join(parts)}" if statuses else "no values are stated",
        f"{len(verdict.missing):,} missing" if verdict.missing else "",
        f"{count(len(verdict.unjudged), 'text')} unjudged" if verdict.unjudged else "",
        _agreement(fields),
    )
    return join_parts(summary, "; ")


def _verdict_grades(verdict: VerificationVerdict, tone: Tone) -> list[Grade]:
    grades = [Grade(name="score", value=verdict.score, limit=verdict.threshold, tone=tone)]
    if verdict.semantic is not None:
        grades.append(
            Grade(
                name="known somewhere",
                value=verdict.semantic,
                tone="good" if verdict.semantic == 1 else "bad",
            )
        )
    if verdict.factual is not None:
        grades.append(Grade(name="bound, or found in its role", value=verdict.factual))
    return grades


def _verdict_findings(verdict: VerificationVerdict) -> list[Finding]:
    faults = [
        Finding(label="schema", text=each.message, location=each.pointer or "/", tone="bad", mark="✗")
        for each in verdict.schema_faults
    ]
    judged = [
        Finding(
            label=f"{each.model or 'no model'} says {each.says}", text=each.reason, location=each.location
        )
        for each in verdict.judgements
    ]
    unjudged = [
        Finding(
            label="unjudged", text=UNJUDGED[each.reason], location=each.location or "/", tone="wait", mark="?"
        )
        for each in verdict.unjudged
    ]
    return [*faults, *judged, *unjudged]


def _agreement(fields: Fields) -> str:
    """Return the agreement of samples; empty if none were compared."""
    consistency = fields.get("consistency")
    if not consistency:
        return ""
    low = ", too few" if consistency["verdict"] == "LOW_CONFIDENCE" else ""
    return f"samples agree at {score(float(consistency['consistency']))}{low}"


def _critique(fields: Fields) -> PhaseView:
    found = CritiqueDiagnosis.model_validate(fields["diagnosis"])
    rubric = RubricScore.model_validate(fields["rubric"]) if fields.get("rubric") else None
    minimums: Mapping[str, float] = fields.get("minimums", {})
    hints = {each.defect: each.hint for each in found.repair_hints}
    is_good = all(defect.severity < DefectSeverity.HIGH for defect in found.defects)
    summary = count(len(found.defects), "defect") if found.defects else "no defects"
    return _view(
        e.OutputsCritiqued, _rubric_title(rubric, fields), f"{summary}{_below(rubric, found)}",
        "good" if is_good and (rubric is None or rubric.passed) else "wait",
        grades=tuple(
            Grade(name=name, value=value, limit=minimums.get(name), tone="bad" if rubric and name in rubric.below else "good")
            for name, value in found.scores.items()
        ),
        defects=tuple(defect_view(each, hints.get(number, "")) for number, each in enumerate(found.defects)),
        steering=_steering(fields.get("control", {})), unanswered=_unanswered(fields),
    )  # fmt: skip


def _rubric_title(rubric: RubricScore | None, fields: Fields) -> str:
    if rubric is None:
        return "critique"
    limit = f" of {score(rubric.threshold)}" if rubric.weighted < rubric.threshold else ""
    return f"critique {score(rubric.weighted)}{limit}, confidence {score(fields.get('confidence', {}).get('value'))}"


def _below(rubric: RubricScore | None, found: CritiqueDiagnosis) -> str:
    """Return the dimensions under their minimum, each with its score; empty if there are none."""
    scored = [f"{name} {score(found.scores.get(name))}" for name in rubric.below] if rubric else []
    return f"; under {'their' if len(scored) > 1 else 'its'} minimum: {first_names(scored)}" if scored else ""


def defect_view(defect: Defect, hint: str = "") -> DefectView:
    """Return the view of a defect."""
    tones: dict[bool, Tone] = {True: "wait", False: "quiet"}
    tone = (
        "bad" if defect.severity >= DefectSeverity.HIGH else tones[defect.severity is DefectSeverity.MEDIUM]
    )
    return DefectView(
        dimension=defect.dimension, severity=defect.severity.name.lower(), tone=tone, description=defect.description,
        location=defect.location or "", hint=hint,
    )  # fmt: skip


def _steering(control: Fields) -> Steering | None:
    if not control:
        return None
    predicted = ControlPrediction.model_validate(control["prediction"])
    return Steering(
        quality=control["quality"],
        repairs=predicted.iterations,
        cost=predicted.cost,
        text=_command_text(control),
    )


def _command_text(control: Fields) -> str:
    command: Fields = control.get("command", {})
    match command.get("kind"):
        case "repair":
            worst = f", for {command['worst']} is furthest from its aim" if command.get("worst") else ""
            strength = f"at intensity {score(float(command['intensity']))}"
            return f"asks for a {as_words(str(command['strategy']))} {strength}{worst}"
        case "stop":
            helper = f"; what may help: {as_words(str(control['helper']))}" if control.get("helper") else ""
            return f"stops: {as_words(str(command['reason']))}{helper}"
        case _:
            return ""


# --- REPAIR ---


def _evidence(fields: Fields) -> PhaseView:
    results: Sequence[e.ToolRetry] = fields.get("results", ())
    queries, refs = fields.get("queries", ()), fields.get("refs", ())
    found = f"{count(len(refs), 'fact')} found" if refs else "nothing new"
    looked = f"more evidence was requested: {found}" if queries or not results else ""
    brought = sum(not each.error for each in results)
    again = (
        f"{count(len(results), 'failed call')} made again: {brought:,} returned a result" if results else ""
    )
    return _view(
        e.EvidenceFetched, "", join_parts((looked, again), "; "), "quiet", queries=tuple(queries), refs=tuple(refs),
        findings=tuple(map(_call_made_again, results)),
    )  # fmt: skip


def _call_made_again(each: e.ToolRetry) -> Finding:
    brought = f"failed: {each.error}" if each.error else "returned a result"
    tone, mark = ("wait", "✗") if each.error else ("good", "✓")
    return Finding(label="called again", text=f"{each.step}: {each.tool} {brought}", tone=tone, mark=mark)


def _repair(fields: Fields) -> PhaseView:
    entries = [RepairEntry.model_validate(entry) for entry in fields["log"]]
    verdict = EscalationVerdict.model_validate(fields["escalation"]) if fields.get("escalation") else None
    pending, breaks = sum(entry.success is None for entry in entries), fields.get("breaks", ())
    tokens = fields.get("tokens", 0)
    summary = join_parts(
        (
            helped_text(
                sum(entry.success is True for entry in entries), fields.get("attempts", len(entries))
            ),
            f"{pending:,} to be checked again" if pending else "",
            count(tokens, "token") if tokens else "",
            _agreement(fields),
            f"repeated itself: {first_names(breaks)}" if breaks else "",
        )
    )
    escalation = f"what is left goes {ESCALATIONS[verdict.kind]}: {verdict.reason}" if verdict else ""
    is_escalated = fields.get("outcome") == "escalated"
    return _view(
        e.OutputsRepaired, "repair", join_parts((summary, escalation if is_escalated else ""), "; "), "bad" if is_escalated else "good",
        repairs=tuple(map(_repair_view, entries)),
        left=tuple(
            OpenDefect(defect=defect_view(each.defect), cause=as_words(each.root_cause), tried=each.tried, strategies=tuple(each.strategies), reason=each.reason)
            for each in verdict.left
        ) if verdict else (),
        escalation=escalation, unanswered=_unanswered(fields),
    )  # fmt: skip


def helped_text(helped: int, attempts: int) -> str:
    """Return how many attempts of a REPAIR phase helped."""
    return f"{helped:,} of {count(attempts, 'attempt')} helped" if attempts else "nothing was tried"


def _repair_view(entry: RepairEntry) -> RepairView:
    return RepairView(
        defect=defect_view(entry.defect), success=entry.success, cause=entry.root_cause, strategy=entry.strategy,
        means=entry.means, tokens=entry.tokens, note=entry.note,
    )  # fmt: skip


_BUILDERS: dict[type[PhaseEvent], Callable[[Fields], PhaseView]] = {
    e.ExperienceDrawn: _experience,
    e.SamplesDrawn: _samples,
    e.OutputsRead: _reading,
    e.TestsRun: _tests,
    e.OutputsVerified: _verification,
    e.OutputsAttacked: _attack,
    e.OutputsCritiqued: _critique,
    e.EvidenceFetched: _evidence,
    e.OutputsRepaired: _repair,
}

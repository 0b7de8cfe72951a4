"""Events of the quality loop: outputs judged, repaired and accepted for delivery."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tercet.core.events.fact import Fact


class OutputsAccepted(Fact, frozen=True, kw_only=True, tag="outputs_accepted"):
    """The outputs are accepted as they are, and the steps that take them may begin."""

    digest: str
    """The digest of the accepted outputs."""
    by: tuple[str, ...] = ()
    """The people who accepted them at the output gate; empty if the decision's rules did."""


class ExperienceDrawn(Fact, frozen=True, kw_only=True, tag="experience_drawn"):
    """The experience of earlier runs of the same task class that this run uses."""

    task_class: str
    rates: dict[str, Any] = {}
    """The success rate of each repair strategy."""
    gain: dict[str, Any] = {}
    """The estimated gain and noise of a repair; empty if the pack's own numbers hold."""
    weights: dict[str, Any] = {}
    """The weights of confidence; empty if the usual ones hold."""
    novelty: dict[str, Any] = {}
    """The novelty of this run compared with earlier ones; empty if no feature asks for it."""
    judges: dict[str, Any] = {}
    """For each model, how often people refused outputs that it had judged correct."""
    tests: dict[str, tuple[str, ...]] = {}
    """The tests that passed in the last run that was committed, by their tool."""


class SamplesDrawn(Fact, frozen=True, kw_only=True, tag="samples_drawn"):
    """The call that produced an output was repeated, if that was possible, and the results were compared."""

    step: str = ""
    tool: str = ""
    samples: tuple[Any, ...] = ()
    """The compared results; the first is the plan's own."""
    error: str = ""
    """Why there are not enough of them."""
    consistency: dict[str, Any] = {}
    """The result that the samples agree on."""
    chosen: dict[str, Any] = {}
    """The outputs that became of that."""
    calls: int = 0
    cost: int = 0
    latency: int = 0


class TestsRun(Fact, frozen=True, kw_only=True, tag="tests_run"):
    """A test command was called on the outputs, or could not be."""

    number: int
    """Which of the decision's test commands it is."""
    tool: str
    result: dict[str, Any] = {}
    """Counts and failures, as data."""
    error: str = ""
    """Why there is no result."""
    calls: int = 1
    cost: int = 0
    latency: int = 0


class OutputsRead(Fact, frozen=True, kw_only=True, tag="outputs_read"):
    """The texts of the outputs were rendered and read in their locale, so that a replay needs no library for that."""

    locale: str
    texts: tuple[dict[str, Any], ...] = ()
    """Each text with its pieces, tokens and slots that could not be filled."""
    outputs: dict[str, Any] = {}
    """The outputs that were rendered, chosen among samples, or restored."""
    undone: str = ""
    """The right value that a repair has lost, so that the repair was undone."""


class OutputsVerified(Fact, frozen=True, kw_only=True, tag="outputs_verified"):
    """The schema, values and statements of the outputs were checked."""

    verdict: dict[str, Any]
    next: Literal["repair", "critique", "exit"]
    consistency: dict[str, Any] = {}
    """What several samples agreed on."""
    chosen: dict[str, Any] = {}
    """The outputs that became of that."""
    repairers: int = 0
    """How many models could be asked to repair."""
    faults: dict[str, str] = {}
    """The errors of unanswered questions, by number; answers have their own events."""


class OutputsAttacked(Fact, frozen=True, kw_only=True, tag="outputs_attacked"):
    """Edge cases were tried on the outputs, or could not be."""

    number: int
    """Which of the decision's attacks it is."""
    tool: str
    tried: tuple[dict[str, Any], ...] = ()
    """Each case with its outcome."""
    error: str = ""
    """Why not all cases were tried."""
    calls: int = 0
    cost: int = 0
    latency: int = 0
    faults: dict[str, str] = {}
    """Why no model thought of cases, by the number of the question."""


class OutputsCritiqued(Fact, frozen=True, kw_only=True, tag="outputs_critiqued"):
    """The outputs were judged by their rubric, and it was decided whether they are repaired."""

    diagnosis: dict[str, Any]
    rubric: dict[str, Any]
    confidence: dict[str, Any]
    exit: dict[str, Any]
    next: Literal["repair", "exit"]
    control: dict[str, Any] = {}
    """The memory, the command and the forecast of the controller; empty if the pack has none."""
    repairers: int = 0
    """How many models could be asked to repair."""
    faults: dict[str, str] = {}
    """The errors of unanswered questions, by number; answers have their own events."""


class ToolRetry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A call of the plan that had failed and was made again before a repair."""

    step: str
    tool: str
    result: Any = None
    error: str = ""
    """Why there is no result: the call failed again, or could not be made."""


class EvidenceFetched(Fact, frozen=True, kw_only=True, tag="evidence_fetched"):
    """More evidence was looked for before a repair, within the classes that the plan and its decision ask for, and
    read_only calls that had failed were made again."""

    queries: tuple[dict[str, Any], ...] = ()
    refs: tuple[str, ...] = ()
    """The ids of the newly found facts."""
    facts: str = ""
    """The digest of their full content; empty if there are none."""
    results: tuple[ToolRetry, ...] = ()
    """The outcomes of the repeated calls."""
    calls: int = 0
    cost: int = 0


class OutputsRepaired(Fact, frozen=True, kw_only=True, tag="outputs_repaired"):
    """A REPAIR phase ended: the resulting outputs, every attempt, and the remaining defects."""

    outputs: dict[str, Any]
    log: tuple[dict[str, Any], ...] = ()
    outcome: Literal["repaired", "escalated"] = "repaired"
    escalation: dict[str, Any] = {}
    memory: dict[str, Any] = {}
    breaks: tuple[str, ...] = ()
    attempts: int = 0
    tokens: int = 0
    models: tuple[str, ...] = ()
    """The models that could be asked."""
    consistency: dict[str, Any] = {}
    """What several answers of a model agreed on that made everything again."""
    repairers: int = 0
    """How many models could be asked to repair."""
    faults: dict[str, str] = {}
    """The errors of unanswered questions, by number; answers have their own events."""

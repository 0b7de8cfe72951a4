"""What a pack says about repairs, how well they went before, and what became of one REPAIR phase."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tercet.contracts.outputs.quality import (
    Consensus,
    Defect,
    DefectSeverity,
    RepairLog,
    RepairMeans,
    RepairStrategy,
    RootCauseClass,
)
from tercet.contracts.shape import Authored, Count, JsonObject, Name, Score, Shape


class SectionTemplate(Authored):
    """A section that an output must have, and the words for it where it is missing.

    `{{ customer }}` in the text is a slot: a value that the decision declares.
    """

    heading: Name
    """The heading without its number signs."""
    text: str
    after: str = ""
    """The heading of the section that it follows; by default it comes last."""
    level: int = Field(default=2, ge=1, le=6)


def _by_name(given: Any) -> Any:
    """A severity by its name, in any case; anything else as it is."""
    if not isinstance(given, str):
        return given
    if given.upper() not in DefectSeverity.__members__:
        raise ValueError(f"a severity is one of {', '.join(each.name.lower() for each in DefectSeverity)}")
    return DefectSeverity[given.upper()]


SeverityLimit = Annotated[DefectSeverity, BeforeValidator(_by_name)]
"""Up to how bad a defect may be: a severity by its name, `medium`, or by its number."""


class RepairRules(Authored):
    """The bounds of a REPAIR phase, and when which strategy may be used."""

    max_attempts: int = Field(default=12, ge=0, le=1_000)
    """R_max: how many repairs one phase may try."""
    max_tokens: int = Field(default=20_000, ge=0)
    """C_max: what the models may take for them."""
    max_ms: int = Field(default=120_000, ge=0)
    """T_max: no repair begins later than this after the phase began."""
    edit_up_to: SeverityLimit = DefectSeverity.MEDIUM
    """s_edit: a model may edit in place what is no worse."""
    rewrite_up_to: SeverityLimit = DefectSeverity.HIGH
    """s_rewrite: up to this severity a model rewrites a section; above it, everything is regenerated."""
    least_chance: Score = 0.5
    """p_min: how likely a repair must be to help."""
    window_radius: int = Field(default=2, ge=0, le=1_000)
    """How many lines around a defect belong to the window of an edit."""
    answer_tokens: int = Field(default=2_048, ge=1)
    """How long the answer of a model may become."""
    theta_loop: Score = 0.9
    """From this similarity on, two outputs or two diagnoses count as the same."""
    loop_window: int = Field(default=8, ge=1, le=1_000)
    """How many outputs back a loop is looked for."""
    expert_dimensions: tuple[Name, ...] = ()
    """Dimensions whose defects need a domain expert."""
    many_defects: int = Field(default=5, ge=1)
    """From so many defects on that are left, the task counts as too complex."""
    sections: tuple[SectionTemplate, ...] = ()


class RepairTally(Shape):
    """How often one way of repairing was tried on one class of defects, and how often it helped."""

    means: RepairMeans
    strategy: RepairStrategy
    root_cause: RootCauseClass
    tried: Count = 0
    resolved: Count = 0


class SuccessRates(Shape):
    """What recorded repairs say about each way of repairing."""

    tallies: tuple[RepairTally, ...] = ()


class Escalation(StrEnum):
    """How defects that repairs did not fix are handled, in the order of consideration."""

    HUMAN_REVIEW = "HUMAN_REVIEW"
    MODEL_UPGRADE = "MODEL_UPGRADE"
    TASK_REDECOMPOSE = "TASK_REDECOMPOSE"
    PARTIAL_COMMIT = "PARTIAL_COMMIT"
    FAIL_WITH_DIAGNOSIS = "FAIL_WITH_DIAGNOSIS"


class LeftDefect(Shape):
    """A defect that repairs did not fix, and why."""

    defect: Defect
    root_cause: RootCauseClass
    tried: Count
    reason: str
    strategies: tuple[str, ...] = ()
    """What was tried, each as the rule or `model`, and the strategy: `replace_value:MINIMAL_EDIT`."""


class EscalationVerdict(Shape):
    """Where defects that repairs did not fix are escalated to, with their diagnosis."""

    kind: Escalation
    reason: str
    root_cause: RootCauseClass | None = None
    """Whether it is beyond the model, or beyond the task as it was cut; None if it is neither."""
    left: tuple[LeftDefect, ...] = ()


class LoopBreak(StrEnum):
    """What breaks a loop, in the order in which it is tried."""

    SWITCH_STRATEGY = "SWITCH_STRATEGY"
    PERTURB = "PERTURB"
    FRESH_EVIDENCE = "FRESH_EVIDENCE"
    OTHER_MODEL_OR_HUMAN = "OTHER_MODEL_OR_HUMAN"


class Impression(Shape):
    """The parts of an output and its diagnosis that are needed to recognise them."""

    output: str
    """The hash of the output."""
    shingles: tuple[int, ...] = ()
    """Hashes of pieces of it, for outputs that are nearly the same."""
    diagnosis: tuple[str, ...] = ()
    """What was wrong: a hash for each defect and word of it."""


class LoopMemory(Shape):
    """The last outputs, and how often a loop was noticed; it goes along from one REPAIR phase to the next."""

    impressions: tuple[Impression, ...] = ()
    loops: Count = 0
    has_fetched: bool = False
    """Whether fresh evidence was fetched to break a loop."""


class RepairResult(Shape):
    """The result of a REPAIR phase, for VERIFY or for an escalation."""

    outcome: Literal["repaired", "escalated"]
    output: JsonObject
    log: RepairLog
    escalation: EscalationVerdict | None = None
    attempts: Count = 0
    tokens: Count = 0
    elapsed_ms: Count = 0
    memory: LoopMemory = Field(default_factory=LoopMemory)
    breaks: tuple[LoopBreak, ...] = ()
    """What was done about loops in this phase."""
    consensus: Consensus | None = None
    """What several answers of a model that regenerated everything agreed on."""

"""What VERIFY, CRITIQUE and REPAIR say about an output."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Literal

from pydantic import Field

from tercet.contracts.shape import Json, Score, Shape


class DefectSeverity(IntEnum):
    """How bad a defect is; the order counts."""

    NONE = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4


class RootCauseClass(StrEnum):
    """Why an output is defective; the last two are used by escalation alone."""

    SCHEMA_VIOLATION = "SCHEMA_VIOLATION"
    FACTUAL_ERROR = "FACTUAL_ERROR"
    LOGIC_ERROR = "LOGIC_ERROR"
    INCOMPLETENESS = "INCOMPLETENESS"
    COHERENCE_FAILURE = "COHERENCE_FAILURE"
    SAFETY_VIOLATION = "SAFETY_VIOLATION"
    HALLUCINATION = "HALLUCINATION"
    RETRIEVAL_GAP = "RETRIEVAL_GAP"
    TOOL_FAILURE = "TOOL_FAILURE"
    CAPABILITY_LIMIT = "CAPABILITY_LIMIT"
    COMPLEXITY_EXCEEDED = "COMPLEXITY_EXCEEDED"


RepairStrategy = Literal["MINIMAL_EDIT", "SECTION_REWRITE", "FULL_REGENERATION"]
RepairMeans = Literal["rule", "model"]
"""Who makes a repair: code that always does the same, or a language model."""


class TestFailure(Shape):
    """One failed test, as data."""

    __test__ = False  # keeps pytest from collecting a contract

    name: str
    expected: str = ""
    actual: str = ""
    stack_trace: str = ""
    location: str = ""


class TestResult(Shape):
    """The outcome of a test command."""

    __test__ = False  # keeps pytest from collecting a contract

    passed: int
    failed: int
    errors: tuple[TestFailure, ...] = ()


class TestReport(TestResult):
    """A test result with the details of its report."""

    skipped: int = 0
    passed_tests: tuple[str, ...] = ()
    """The names of the tests that passed; none of a suite that is too large to keep them."""


class StackTraceAnalysis(Shape):
    """What a stack trace says, as data."""

    failing_function: str
    line_number: int
    error_type: str
    input_values: dict[str, Json] = {}
    expected_vs_actual: str = ""


class Defect(Shape):
    """Something wrong with an output: which dimension, how bad, where, and how far it reaches."""

    dimension: str
    severity: DefectSeverity
    description: str
    location: str | None = None
    scope: Literal["LOCAL", "SECTION", "GLOBAL"] = "LOCAL"

    @property
    def key(self) -> tuple[str, str]:
        """What a defect is known by in another round: repairs move its place."""
        return self.dimension, self.description


class RepairHint(Shape):
    """A suggested repair of one defect."""

    defect: int
    hint: str


class CritiqueDiagnosis(Shape):
    """What CRITIQUE hands to REPAIR."""

    scores: dict[str, Score]
    defects: tuple[Defect, ...] = ()
    severity: DefectSeverity = DefectSeverity.NONE
    repair_hints: tuple[RepairHint, ...] = ()


class RepairEntry(Shape):
    """One attempt at a defect; success is None while it is pending."""

    defect: Defect
    strategy: RepairStrategy
    root_cause: RootCauseClass
    success: bool | None = None
    means: RepairMeans = "model"
    tokens: int = 0
    """What the models took for it."""
    note: str = ""
    """What was done, or why it came to nothing."""


class RepairLog(Shape):
    """Every attempt, in order."""

    entries: tuple[RepairEntry, ...] = ()


class TextJudgement(Shape):
    """What a language model said about one text of the outputs, as a judge."""

    location: str
    """A JSON Pointer into the outputs."""
    says: Literal["right", "wrong", "unsure"]
    reason: str = ""
    quotes: tuple[str, ...] = ()
    """The words that it calls wrong."""
    model: str = ""
    """The model that answered; empty where none did."""


class SchemaFault(Shape):
    """One way in which outputs break their schema."""

    pointer: str
    keyword: str
    message: str


class Consensus(Shape):
    """What several samples of one task agree on."""

    output: Json
    """The sample that stands for all of them."""
    index: int = Field(ge=0)
    consistency: Score
    """How far the others agree with it: a share of equal ones, or a mean similarity."""
    mean_similarity: Score
    """The mean over all pairs."""
    method: Literal["exact", "similarity"]
    verdict: Literal["PASS", "LOW_CONFIDENCE"]

    @property
    def needs_critique(self) -> bool:
        """Whether it is routed to critique, since too few agree."""
        return self.verdict == "LOW_CONFIDENCE"


class RubricScore(Shape):
    """What the scores of the dimensions come to."""

    weighted: Score
    threshold: Score
    passed: bool
    below: tuple[str, ...] = ()
    """The dimensions that are under their minimum."""

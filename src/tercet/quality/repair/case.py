"""What a REPAIR phase is given, what it wants done, and what may come of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tercet.contracts.evidence import Evidence
from tercet.contracts.outputs.quality import Consensus, CritiqueDiagnosis, Defect, RepairLog
from tercet.contracts.outputs.repair import LoopMemory, RepairResult, RepairRules, SuccessRates
from tercet.contracts.question import Question
from tercet.contracts.shape import JsonObject
from tercet.quality.repair.causes import Circumstances
from tercet.quality.repair.escalation import Resources
from tercet.quality.repair.materials import Materials


@dataclass(frozen=True, kw_only=True)
class RepairCase:
    """What a REPAIR phase is given."""

    output: JsonObject
    diagnosis: CritiqueDiagnosis
    task: str = ""
    materials: Materials = field(default_factory=Materials)
    known: Circumstances = field(default_factory=Circumstances)
    rules: RepairRules = field(default_factory=RepairRules)
    rates: SuccessRates = field(default_factory=SuccessRates)
    resources: Resources = field(default_factory=Resources)
    unseen: frozenset[str] = frozenset()
    """Dimensions of which REPAIR itself cannot see whether a defect is gone, other than by a change of its place."""
    told_later: frozenset[str] = frozenset()
    """Dimensions of which only a model, a test or a person can tell whether a defect is gone: such repairs stay pending."""
    draws: int = 1
    """How often a model is asked that makes everything again: 1, or a number of which a majority can be had."""
    memory: LoopMemory = field(default_factory=LoopMemory)
    """What the phases before this one saw."""
    history: RepairLog = field(default_factory=RepairLog)
    """What they tried."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Ask a model; `wants_other` asks for another one than before."""

    question: Question
    wants_other: bool = False
    draws: int = 1
    """How often it is asked, so that the answers can be compared."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """Look whether a defect is gone from an output."""

    output: JsonObject
    defect: Defect


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """Take in what is new about a defect: more evidence, and what failed tools brought that were called again."""

    defect: Defect


@dataclass(frozen=True, kw_only=True)
class End:
    """The phase is over."""

    result: RepairResult


Command: TypeAlias = Ask | Check | Fetch | End


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A model answered."""

    text: str
    tokens: int
    elapsed_ms: int = 0
    """The time since the phase began; so in every fact."""
    consensus: Consensus | None = None
    """What several answers agree on, of which this is one."""


@dataclass(frozen=True, kw_only=True)
class Faulted:
    """No model answered."""

    reason: str
    tokens: int = 0
    elapsed_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A defect was looked for."""

    is_gone: bool
    elapsed_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """What was found; nothing, where there is nothing more."""

    evidence: tuple[Evidence, ...] = ()
    elapsed_ms: int = 0


Fact: TypeAlias = Answered | Faulted | Checked | Fetched

"""What a REPAIR phase wants done, and what may come of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tercet.contracts.evidence import Evidence
from tercet.contracts.quality import Consensus, Defect
from tercet.contracts.question import Question
from tercet.contracts.repair import RepairResult
from tercet.contracts.shape import JsonObject


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
    """Look for more evidence about a defect; `retries_tools` asks for failed tools to be called again, or others."""

    defect: Defect
    retries_tools: bool = False


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

"""What a REPAIR phase is given."""

from __future__ import annotations

from dataclasses import dataclass, field

from tercet.contracts.quality import CritiqueDiagnosis, RepairLog
from tercet.contracts.repair import LoopMemory, RepairRules, SuccessRates
from tercet.contracts.shape import JsonObject
from tercet.repair.causes import Circumstances
from tercet.repair.escalation import Resources
from tercet.repair.materials import Materials


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
    told_later: frozenset[str] = frozenset()
    """Dimensions of which only a model, a test or a person can tell whether a defect is gone: such repairs stay pending."""
    draws: int = 1
    """How often a model is asked that makes everything anew: 1, or a number of which a majority can be had."""
    memory: LoopMemory = field(default_factory=LoopMemory)
    """What the phases before this one saw."""
    history: RepairLog = field(default_factory=RepairLog)
    """What they tried."""

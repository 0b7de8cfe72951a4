"""Which repair is tried: the cheapest one that fits the defect and is likely enough to help.

Severity, place and scope decide what a model may do. A rule, which does the same each time and takes no tokens, may be
applied whatever the severity is. What was recorded about each way of repairing decides among those that fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from tercet.contracts.outputs.quality import Defect, RepairMeans, RepairStrategy, RootCauseClass
from tercet.contracts.outputs.repair import RepairRules, SuccessRates
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.pointer import value_at
from tercet.quality.repair.rates import chance
from tercet.quality.repair.regions import WHOLE, Edit, is_precise, section, text_at, window
from tercet.quality.verification.places import Location

BYTES_PER_TOKEN = 4
EDIT_PRICE = 1
GENERATE_PRICE = 2
"""What a token of a region costs: less where a window is edited than where a section or all of it is made again."""
ORDER: dict[RepairStrategy, int] = {"MINIMAL_EDIT": 0, "SECTION_REWRITE": 1, "FULL_REGENERATION": 2}


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One way to repair a defect."""

    means: RepairMeans
    strategy: RepairStrategy
    region: Location
    cost: int
    chance: float
    name: str
    """The name of the rule, or `model`."""
    edits: tuple[Edit, ...] = ()
    """What a rule would change."""

    @classmethod
    def by_rule(
        cls, name: str, edits: tuple[Edit, ...], cause: RootCauseClass, rates: SuccessRates
    ) -> Option:
        """Return what a rule would do."""
        strategy: RepairStrategy = "SECTION_REWRITE" if name == "add_section" else "MINIMAL_EDIT"
        likely = chance(rates, "rule", strategy, cause)
        return cls(
            means="rule",
            strategy=strategy,
            region=edits[0].region,
            cost=0,
            chance=likely,
            name=name,
            edits=edits,
        )

    @property
    def key(self) -> str:
        """What is remembered as tried."""
        return f"{self.name}:{self.strategy}"


def size_of(output: JsonObject, region: Location) -> int:
    """The tokens that a region is taken to have; at least one."""
    if region.start is not None and region.end is not None:
        text = text_at(output, region.pointer) or ""
        length = len(text[region.start : region.end].encode(errors="replace"))
    else:
        length = len(orjson.dumps(value_at(output, region.pointer), default=str))
    return max(1, -(-length // BYTES_PER_TOKEN))


def cost_of(output: JsonObject, strategy: RepairStrategy, region: Location) -> int:
    """Return what a repair by a model costs: proportional to its region, and cheaper for an edit."""
    price = EDIT_PRICE if strategy == "MINIMAL_EDIT" else GENERATE_PRICE
    return price * size_of(output, region)


def fitting(
    output: JsonObject, defect: Defect, place: Location | None, rules: RepairRules
) -> tuple[RepairStrategy, ...]:
    """The strategies that a model may use on a defect; making everything again is the last resort of each."""
    if defect.scope == "GLOBAL" or defect.severity > rules.rewrite_up_to:
        return ("FULL_REGENERATION",)
    found: list[RepairStrategy] = []
    if defect.severity <= rules.edit_up_to and is_precise(output, place):
        found.append("MINIMAL_EDIT")
    if place is not None and place != WHOLE:
        found.append("SECTION_REWRITE")
    return (*found, "FULL_REGENERATION")


def model_options(
    output: JsonObject,
    defect: Defect,
    place: Location | None,
    cause: RootCauseClass,
    *,
    rules: RepairRules,
    rates: SuccessRates,
) -> list[Option]:
    """Return what a model may try, with the region that it would write again."""
    found: list[Option] = []
    for strategy in fitting(output, defect, place, rules):
        region = region_for(output, strategy, place, rules.window_radius)
        found.append(
            Option(
                means="model",
                strategy=strategy,
                region=region,
                cost=cost_of(output, strategy, region),
                chance=chance(rates, "model", strategy, cause),
                name="model",
            )
        )
    return found


def region_for(output: JsonObject, strategy: RepairStrategy, place: Location | None, radius: int) -> Location:
    """Return the part of an output that a strategy writes again."""
    if place is None or strategy == "FULL_REGENERATION":
        return WHOLE
    return window(output, place, radius) if strategy == "MINIMAL_EDIT" else section(output, place)


def choose(options: Sequence[Option], least_chance: float) -> Option | None:
    """The cheapest option that is likely enough to help; where none is, the likeliest one; of equal ones the first."""
    likely = [option for option in options if option.chance >= least_chance]
    if likely:
        return min(likely, key=lambda each: (each.cost, ORDER[each.strategy]))
    return min(options, key=lambda each: (-each.chance, each.cost), default=None)

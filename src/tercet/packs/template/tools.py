"""The tools of this pack. Each declares what it may touch and which data it trusts.

The greenhouse is invented and lives in memory, so that everything here runs as it is.
"""

from dataclasses import dataclass

from tercet import ToolContext, tool

MOISTURE_PERCENT = {"bed_tomato": 18, "bed_basil": 55}
LITRES_PER_PERCENT = 2

_done: dict[str, "Watering"] = {}


@dataclass(frozen=True)
class Moisture:
    """The reading of a sensor."""

    bed: str
    moisture_percent: int


@dataclass(frozen=True)
class Watering:
    """The water that a valve has let through."""

    bed: str
    litres: int


@tool("garden_sensors.read_moisture", mode="read_only", trust="trusted", estimated_ms=50)
def read_moisture(bed: str) -> Moisture:
    """Measures how moist the soil of a bed is."""
    return Moisture(bed=bed, moisture_percent=MOISTURE_PERCENT[bed])


@tool(
    "garden_valves.water_bed",
    mode="network",
    trust="trusted",
    # Watering cannot be undone, so a person has to approve it first (gates.toml says who).
    reversibility="irreversible",
    gates=["GATE_HEAD_GARDENER"],
    no_compensation="water that has run into a bed cannot be recovered",
    # These two decide what happens: their values must come from the request, from evidence or from another tool,
    # and never from untrusted text.
    authority=["bed", "litres"],
    limits=["args.litres > 0 && args.litres <= 40"],
    requires_evidence=["watering_plan_evidence"],
    # Called again with the same key, it does nothing and returns the same answer.
    idempotent=True,
    estimated_ms=2_000,
)
def water_bed(ctx: ToolContext, bed: str, litres: int) -> Watering:
    """Opens the valve of a bed until so many litres have run through."""
    if ctx.idempotency_key not in _done:
        MOISTURE_PERCENT[bed] += litres // LITRES_PER_PERCENT
        _done[ctx.idempotency_key] = Watering(bed=bed, litres=litres)
    return _done[ctx.idempotency_key]

"""Checks tuning surfaces: they exist, and their bounds lower no floor and give no authority."""

from __future__ import annotations

from tercet.contracts.decision import RiskTier
from tercet.contracts.errors import UsageError
from tercet.contracts.tuning import (
    FLOORS,
    SAFE,
    LaneSurface,
    RubricSurface,
    TemplateSurface,
    domain_of,
)
from tercet.packs.checks import Check, Problems
from tercet.packs.parts import TUNING, Parts
from tercet.packs.surfaces import TIERS, decision_of, dimension_of, read_value, template_of


def surfaces_are_there(parts: Parts) -> Problems:
    """Every surface is written in the pack."""
    for surface in parts.tuning.surfaces:
        if isinstance(surface, LaneSurface) and not parts.lanes:
            yield parts.problem(
                "surface_not_searched",
                TUNING,
                f"{surface.id} is not searched: the pack has no lanes",
                "declare one in lanes.toml, or leave it out",
                severity="warning",
            )
            continue
        try:
            read_value(parts, surface)
        except UsageError as error:
            yield parts.problem(error.code, TUNING, error.message, error.remedy or "")


def floors_are_not_lowered(parts: Parts) -> Problems:
    """The limits of schema, policy and safety may be raised but never lowered; the weight of safety is fixed."""
    for surface in parts.tuning.rubric:
        try:
            is_floor = _is_floor(parts, surface)
            lowest = min(float(value) for value in domain_of(surface))
            now = float(read_value(parts, surface))
        except UsageError:
            continue  # reported by the check before
        if is_floor and (surface.value == "weight" or lowest < now):
            yield parts.problem(
                "surface_below_floor",
                TUNING,
                f"{surface.id} is a floor at {now:g}, and these bounds would let it be lowered",
                f"take {now:g} as low, or leave it out",
            )


def _is_floor(parts: Parts, surface: RubricSurface) -> bool:
    if surface.value == "threshold":
        return surface.name in FLOORS
    if surface.value in ("minimum", "weight"):
        return dimension_of(decision_of(parts, surface), surface).scorer == SAFE
    return False


def lanes_are_for_no_higher_tier(parts: Parts) -> Problems:
    """A search may keep a lane from decisions of more risk, and never open it to them."""
    for surface in parts.tuning.lane:
        if surface.value != "risk_tier" or not parts.lanes:
            continue
        try:
            now = TIERS.index(RiskTier(str(read_value(parts, surface))))
        except UsageError:
            continue  # reported by the first check
        higher = [choice for choice in surface.choices if TIERS.index(RiskTier(str(choice))) > now]
        if higher:
            yield parts.problem(
                "surface_unsafe",
                TUNING,
                f"{surface.id} would open a lane to decisions of risk tier {higher[0]}",
                f"choose {TIERS[now]} or lower tiers",
            )


def choices_carry_no_authority(parts: Parts) -> Problems:
    """Parameters that carry authority, such as payees, amounts and commands, cannot be surfaces."""
    for surface in parts.tuning.template:
        if (found := _fault(parts, surface)) is not None:
            yield parts.problem("surface_unsafe", TUNING, f"{surface.id} {found}", "leave it out")


def _fault(parts: Parts, surface: TemplateSurface) -> str | None:
    try:
        _, step = template_of(parts, surface)
        now = read_value(parts, surface)
    except UsageError:
        return None
    tool = parts.tool.get(step.tool or "")
    if tool is None:
        return None
    if surface.param in tool.authority_parameters or tool.has_authority_everywhere:
        return f"carries authority: {tool.name} acts by it"
    other = [choice for choice in surface.choices if _kind(choice) is not _kind(now)]
    if other:
        return f"is {now!r}, and {other[0]!r} is of another type"
    if any(isinstance(choice, str) and "${" in choice for choice in surface.choices):
        return "would put a placeholder into the template"
    return None


def _kind(value: object) -> type:
    return float if type(value) is int else type(value)


TUNING_CHECKS: tuple[Check, ...] = (
    surfaces_are_there,
    floors_are_not_lowered,
    lanes_are_for_no_higher_tier,
    choices_carry_no_authority,
)

"""The tuning surfaces of a pack: reads the current value of each, and returns the pack with another value.

Only values that a pack writes out can be tuned: a default could not be shown as a change, and no one has chosen it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, assert_never, cast

from pydantic import BaseModel

from tercet.contracts.decision import DecisionSpec, RiskTier, Threshold
from tercet.contracts.errors import UsageError
from tercet.contracts.lane import Lane
from tercet.contracts.outputs.quality_rules import QualityRules
from tercet.contracts.outputs.rubric import RubricDimension
from tercet.contracts.packs.tuning import (
    FLOORS,
    SAFE,
    LaneSurface,
    MethodSurface,
    ReplanSurface,
    RubricSurface,
    SessionSurface,
    Surface,
    TemplateSurface,
    Value,
    domain_of,
)
from tercet.contracts.plan import Plan, Step
from tercet.contracts.tasks import Method
from tercet.packs.checks import Check, Problems
from tercet.packs.pack import Pack
from tercet.packs.parts import TUNING, Parts

Tunable: TypeAlias = Pack | Parts
"""The owner of surfaces: a pack, or the parts of one that is being checked."""


def read_value(parts: Tunable, surface: Surface) -> Value:
    """Return the value of a surface; raise `UsageError` if the pack does not write it out."""
    match surface:
        case TemplateSurface():
            return _param(parts, surface)
        case MethodSurface():
            return methods_by_cost(parts, surface)[0].name
        case ReplanSurface():
            return _written(parts.budget, surface.budget, surface, "[budget] of pack.toml")
        case SessionSurface():
            return _written(parts.session, surface.value, surface, "[session] of pack.toml")
        case RubricSurface():
            return _judged_by(decision_of(parts, surface), surface)
        case LaneSurface():
            return _set_in_lane(lane_of(parts, surface), surface)
        case _:
            assert_never(surface)


PackPath: TypeAlias = tuple[str | int, ...]
"""The path to a value in a pack: fields, and the indexes of declarations."""


def write_value(pack: Pack, surface: Surface, value: Value) -> Pack:
    """Return the pack with a surface set to a value; raise `UsageError` or a validation error."""
    changed: Pack = _replaced(pack, changes_of(pack, surface, value))
    return changed


def changes_of(pack: Pack, surface: Surface, value: Value) -> dict[PackPath, Any]:
    """Return the changes to a pack that give a surface a value; raise `UsageError` if there are none."""
    match surface:
        case TemplateSurface():
            plan, step = template_of(pack, surface)
            place = ("templates", pack.templates.index(plan), "steps", plan.steps.index(step))
            return {(*place, "params", surface.param): value}
        case MethodSurface():
            names = [each.name for each in pack.library.methods]
            costs = _swapped_costs(pack, surface, str(value))
            return {("library", "methods", names.index(name), "cost"): cost for name, cost in costs.items()}
        case ReplanSurface():
            return {("budget", surface.budget): value}
        case SessionSurface():
            return {("session", surface.value): value}
        case RubricSurface():
            spec = decision_of(pack, surface)
            root = ("decisions", list(pack.decisions).index(spec))
            return {
                (*root, *path): each for path, each in _rubric_changes(spec, surface, float(value)).items()
            }
        case LaneSurface():
            lane = lane_of(pack, surface)
            place = ("lanes", list(pack.lanes).index(lane))
            if surface.value != "risk_tier":
                return {(*place, surface.value): value}
            return {(*place, "risk_tiers"): tiers_up_to(str(value))}
        case _:
            assert_never(surface)


def _replaced(value: Any, changes: Mapping[PackPath, Any]) -> Any:
    """Return a copy of a declaration with several values replaced at once."""
    if () in changes:
        return changes[()]
    inner: dict[Any, dict[PackPath, Any]] = {}
    for (part, *rest), changed in changes.items():
        inner.setdefault(part, {})[tuple(rest)] = changed
    if isinstance(value, BaseModel):
        return value.model_copy(update={part: _replaced(getattr(value, part), inner[part]) for part in inner})
    if isinstance(value, tuple):
        items = enumerate(cast("tuple[Any, ...]", value))
        return tuple(_replaced(each, inner[number]) if number in inner else each for number, each in items)
    return {**value, **{part: _replaced(value[part], inner[part]) for part in inner}}


def missing(surface: Surface, why: str, remedy: str) -> UsageError:
    """Return the error of a surface that cannot be tuned."""
    return UsageError(f"{surface.id} cannot be tuned: {why}", code="surface_missing", remedy=remedy)


def _written(model: Any, field: str, surface: Surface, where: str) -> Value:
    value = getattr(model, field)
    if field not in model.model_fields_set or value is None:
        remedy = f"write {field} = {value if value is not None else '…'} into {where}"
        raise missing(surface, f"{where} does not write it out", remedy)
    return value


# --- lanes ---

TIERS = tuple(RiskTier)
"""From the lowest to the highest."""


def lane_of(parts: Tunable, surface: LaneSurface) -> Lane:
    """The lane that a surface names; without a name, the only one."""
    found = [each for each in parts.lanes if surface.lane in (None, each.name)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(each.name for each in parts.lanes)
    if not known:
        raise missing(surface, "the pack has no lanes", "declare one in lanes.toml, or leave it out")
    why = f"there is no lane {surface.lane}" if surface.lane else "the pack has more than one lane"
    raise missing(surface, why, f'name one: lane = "…" ({known})')


def tiers_up_to(tier: str) -> tuple[RiskTier, ...]:
    """The risk tiers up to one."""
    return TIERS[: TIERS.index(RiskTier(tier)) + 1]


def _set_in_lane(lane: Lane, surface: LaneSurface) -> Value:
    if surface.value != "risk_tier":
        return _written(lane, surface.value, surface, f"lane {lane.name} of lanes.toml")
    if not lane.risk_tiers or lane.risk_tiers != tiers_up_to(str(lane.risk_tiers[-1])):
        raise missing(
            surface,
            f"the risk tiers of lane {lane.name} are not all up to one",
            "list them from the lowest, without a gap",
        )
    return str(lane.risk_tiers[-1])


# --- planner templates ---


def template_of(parts: Tunable, surface: TemplateSurface) -> tuple[Plan, Step]:
    """Return the template and the step that a surface names."""
    plan = next((each for each in parts.templates if each.intent == surface.intent), None)
    step = next((each for each in plan.steps if each.id == surface.step), None) if plan else None
    if plan is None or step is None:
        why = f"no template for {surface.intent} has a step {surface.step}"
        raise missing(surface, why, "name a template by its intent, and one of its steps")
    return plan, step


def _param(parts: Tunable, surface: TemplateSurface) -> Value:
    _, step = template_of(parts, surface)
    value = step.params.get(surface.param)
    if not isinstance(value, bool | int | float | str) or (isinstance(value, str) and "${" in value):
        why = f"step {surface.step} has no {surface.param} that is a plain value"
        raise missing(
            surface, why, "name a parameter that the template gives as a number, a text or true or false"
        )
    return value


def methods_by_cost(parts: Tunable, surface: MethodSurface) -> list[Method]:
    """Return the methods of a task with a plain cost, cheapest first."""
    found = [each for each in parts.library.methods if each.task == surface.task]
    plain = [each for each in found if "cost" in each.model_fields_set and not isinstance(each.cost, str)]
    unknown = sorted(set(surface.choices) - {each.name for each in plain})
    if not plain or unknown:
        named = unknown[0] if unknown else surface.task
        why = f"{named} is not a method of {surface.task} with a cost that is written as a number"
        raise missing(surface, why, "give each of the methods a cost, as a number")
    return sorted(plain, key=lambda each: float(each.cost))


def _swapped_costs(parts: Tunable, surface: MethodSurface, first: str) -> dict[str, float]:
    """Return the costs that make a method the cheapest: it swaps with the one that was."""
    methods = methods_by_cost(parts, surface)
    chosen = next(each for each in methods if each.name == first)
    return (
        {first: float(methods[0].cost), methods[0].name: float(chosen.cost)}
        if chosen is not methods[0]
        else {}
    )


# --- rubrics ---


def decision_of(parts: Tunable, surface: RubricSurface) -> DecisionSpec:
    """Return the decision that a surface names."""
    for spec in parts.decisions:
        if spec.id == surface.decision:
            return spec
    raise missing(surface, f"there is no decision {surface.decision}", "name a decision by its id")


def threshold_of(spec: DecisionSpec, surface: RubricSurface) -> Threshold:
    """Return the threshold that a surface names."""
    for threshold in spec.thresholds:
        if threshold.name == surface.name and threshold.minimum is not None:
            return threshold
    why = f"{spec.id} writes no minimum for the threshold {surface.name}"
    raise missing(surface, why, f'add {{ name = "{surface.name}", minimum = … }} to its thresholds')


def dimension_of(spec: DecisionSpec, surface: RubricSurface) -> RubricDimension:
    """Return the dimension of the rubric that a surface names."""
    quality = _quality(spec, surface)
    is_own = "rubric" in quality.model_fields_set
    for dimension in quality.rubric.dimensions if is_own else ():
        if dimension.name == surface.name:
            return dimension
    why = f"{spec.id} writes no dimension {surface.name} into a rubric of its own"
    raise missing(surface, why, "write the rubric out: [[decision.quality.rubric.dimensions]]")


def _quality(spec: DecisionSpec, surface: RubricSurface) -> QualityRules:
    if spec.quality is None:
        why = f"the outputs of {spec.id} are not judged by a rubric"
        raise missing(surface, why, "add [decision.quality]")
    return spec.quality


def _judged_by(spec: DecisionSpec, surface: RubricSurface) -> Value:
    match surface.value:
        case "threshold":
            return threshold_of(spec, surface).effective_minimum
        case "minimum":
            return dimension_of(spec, surface).minimum
        case "weight":
            return dimension_of(spec, surface).weight
        case "rubric_threshold":
            where = f"[decision.quality.rubric] of {spec.id}"
            return _written(_quality(spec, surface).rubric, "threshold", surface, where)
        case "verification_threshold":
            where = f"[decision.quality.verification] of {spec.id}"
            return _written(_quality(spec, surface).verification, "threshold", surface, where)
        case _:
            assert_never(surface.value)


def _rubric_changes(spec: DecisionSpec, surface: RubricSurface, value: float) -> dict[PackPath, Any]:
    """Return the changes to a decision, by path."""
    if surface.value != "threshold":
        _quality(spec, surface)  # raises if there is no rubric
    match surface.value:
        case "threshold":
            number = spec.thresholds.index(threshold_of(spec, surface))
            return {("thresholds", number, "minimum"): value}
        case "rubric_threshold":
            return {("quality", "rubric", "threshold"): value}
        case "verification_threshold":
            return {("quality", "verification", "threshold"): value}
        case "minimum" | "weight":
            names = [each.name for each in _quality(spec, surface).rubric.dimensions]
            return {
                ("quality", "rubric", "dimensions", names.index(name), field): changed
                for name, fields in _dimension_changes(spec, surface, value).items()
                for field, changed in fields.items()
            }
        case _:
            assert_never(surface.value)


def _dimension_changes(
    spec: DecisionSpec, surface: RubricSurface, value: float
) -> dict[str, dict[str, float]]:
    """Return the changes to dimensions. A weight is balanced by the others in proportion; that of safety is fixed."""
    own = dimension_of(spec, surface)
    if surface.value == "minimum":
        return {own.name: {"minimum": value}}
    dimensions = _quality(spec, surface).rubric.dimensions
    others = [each for each in dimensions if each is not own and each.scorer != SAFE]
    before = sum(each.weight for each in others)
    left = round(before + own.weight - value, 6)
    if own.scorer == SAFE or not others or left < 0 or before <= 0:
        raise missing(
            surface, "the other weights cannot make up for it", "choose bounds that leave some for them"
        )
    weights = [round(each.weight * left / before, 6) for each in others[:-1]]
    weights.append(round(left - sum(weights), 6))
    return {own.name: {"weight": value}} | {
        each.name: {"weight": weight} for each, weight in zip(others, weights, strict=True)
    }


# --- tuning ---


def surfaces_are_there(parts: Parts) -> Problems:
    """Every surface is written in the pack."""
    for surface in parts.tuning.surfaces:
        if isinstance(surface, LaneSurface) and not parts.lanes:
            yield parts.warning(
                "surface_not_searched",
                TUNING,
                f"{surface.id} is not searched: the pack has no lanes",
                "declare one in lanes.toml, or leave it out",
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

"""The surfaces of a pack: the value that each has now, and the pack with another value in its place.

Only what a pack writes out can be tuned: what stands nowhere could not be shown as a change, and nobody has chosen it.
"""

from __future__ import annotations

from typing import Any, TypeAlias, assert_never

from tercet.contracts.decision import DecisionSpec, Threshold
from tercet.contracts.errors import UsageError
from tercet.contracts.plan import Plan, Step
from tercet.contracts.quality_rules import QualityRules
from tercet.contracts.rubric import RubricDimension
from tercet.contracts.tasks import Method, TaskLibrary
from tercet.contracts.tuning import (
    SAFE,
    LaneSurface,
    MethodSurface,
    ReplanSurface,
    RubricSurface,
    SessionSurface,
    Surface,
    TemplateSurface,
    Value,
)
from tercet.packs.pack import Pack
from tercet.packs.parts import Parts

Tunable: TypeAlias = Pack | Parts
"""What surfaces lie in: a pack, or the parts of one that is being checked."""


def read_value(parts: Tunable, surface: Surface) -> Value:
    """What a surface is set to; raises `UsageError` if the pack does not write it out."""
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
            raise missing(surface, "there are no lanes yet", "leave it: it is searched once there are lanes")
        case _:
            assert_never(surface)


def write_value(pack: Pack, surface: Surface, value: Value) -> Pack:
    """The pack with a surface set to a value, checked as any pack; raises `UsageError` or a validation error."""
    match surface:
        case TemplateSurface():
            return pack.model_copy(update={"templates": _with_param(pack, surface, value)})
        case MethodSurface():
            return pack.model_copy(update={"library": _with_first(pack, surface, str(value))})
        case ReplanSurface():
            return pack.model_copy(update={"budget": pack.budget.model_copy(update={surface.budget: value})})
        case SessionSurface():
            return pack.model_copy(update={"session": pack.session.model_copy(update={surface.value: value})})
        case RubricSurface():
            own = decision_of(pack, surface)
            changed = _judged_otherwise(own, surface, float(value))
            return pack.model_copy(
                update={"decisions": tuple(changed if each is own else each for each in pack.decisions)}
            )
        case LaneSurface():
            raise missing(surface, "there are no lanes yet", "leave it: it is searched once there are lanes")
        case _:
            assert_never(surface)


def missing(surface: Surface, why: str, remedy: str) -> UsageError:
    """That a surface cannot be tuned."""
    return UsageError(f"{surface.id} cannot be tuned: {why}", code="surface_missing", remedy=remedy)


def _written(model: Any, field: str, surface: Surface, where: str) -> Value:
    value = getattr(model, field)
    if field not in model.model_fields_set or value is None:
        remedy = f"write {field} = {value if value is not None else '…'} into {where}"
        raise missing(surface, f"{where} does not write it out", remedy)
    return value


# --- planner templates ---


def template_of(parts: Tunable, surface: TemplateSurface) -> tuple[Plan, Step]:
    """The template and the step that a surface names."""
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


def _with_param(pack: Pack, surface: TemplateSurface, value: Value) -> tuple[Plan, ...]:
    plan, step = template_of(pack, surface)
    filled = step.model_copy(update={"params": {**step.params, surface.param: value}})
    steps = tuple(filled if each is step else each for each in plan.steps)
    changed = plan.model_copy(update={"steps": steps})
    return tuple(changed if each is plan else each for each in pack.templates)


def methods_by_cost(parts: Tunable, surface: MethodSurface) -> list[Method]:
    """The methods of a task that have a plain cost, the one that is taken first at the head."""
    found = [each for each in parts.library.methods if each.task == surface.task]
    plain = [each for each in found if "cost" in each.model_fields_set and not isinstance(each.cost, str)]
    unknown = sorted(set(surface.choices) - {each.name for each in plain})
    if not plain or unknown:
        named = unknown[0] if unknown else surface.task
        why = f"{named} is no method of {surface.task} with a cost that is written as a number"
        raise missing(surface, why, "give each of the methods a cost, as a number")
    return sorted(plain, key=lambda each: float(each.cost))


def swapped_costs(parts: Tunable, surface: MethodSurface, first: str) -> dict[str, float]:
    """The costs that make a method the first one: it takes that of the one that was."""
    methods = methods_by_cost(parts, surface)
    chosen = next(each for each in methods if each.name == first)
    return (
        {first: float(methods[0].cost), methods[0].name: float(chosen.cost)}
        if chosen is not methods[0]
        else {}
    )


def _with_first(pack: Pack, surface: MethodSurface, first: str) -> TaskLibrary:
    costs = swapped_costs(pack, surface, first)
    methods = tuple(
        each.model_copy(update={"cost": costs[each.name]}) if each.name in costs else each
        for each in pack.library.methods
    )
    return pack.library.model_copy(update={"methods": methods})


# --- rubrics ---


def decision_of(parts: Tunable, surface: RubricSurface) -> DecisionSpec:
    """The decision that a surface names."""
    for spec in parts.decisions:
        if spec.id == surface.decision:
            return spec
    raise missing(surface, f"there is no decision {surface.decision}", "name a decision by its id")


def threshold_of(spec: DecisionSpec, surface: RubricSurface) -> Threshold:
    """The threshold that a surface names."""
    for threshold in spec.thresholds:
        if threshold.name == surface.name and threshold.minimum is not None:
            return threshold
    why = f"{spec.id} writes no minimum for the threshold {surface.name}"
    raise missing(surface, why, f'add {{ name = "{surface.name}", minimum = … }} to its thresholds')


def dimension_of(spec: DecisionSpec, surface: RubricSurface) -> RubricDimension:
    """The dimension of the rubric that a surface names."""
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


def _judged_otherwise(spec: DecisionSpec, surface: RubricSurface, value: float) -> DecisionSpec:
    if surface.value == "threshold":
        own = threshold_of(spec, surface)
        changed = own.model_copy(update={"minimum": value})
        return spec.model_copy(
            update={"thresholds": tuple(changed if each is own else each for each in spec.thresholds)}
        )
    quality = _quality(spec, surface)
    if surface.value == "verification_threshold":
        checks = quality.verification.model_copy(update={"threshold": value})
        return spec.model_copy(update={"quality": quality.model_copy(update={"verification": checks})})
    rubric = quality.rubric
    if surface.value == "rubric_threshold":
        rubric = rubric.model_copy(update={"threshold": value})
    else:
        changes = dimension_changes(spec, surface, value)
        dimensions = [each.model_copy(update=changes.get(each.name, {})) for each in rubric.dimensions]
        rubric = rubric.model_copy(update={"dimensions": tuple(dimensions)})
    return spec.model_copy(update={"quality": quality.model_copy(update={"rubric": rubric})})


def dimension_changes(
    spec: DecisionSpec, surface: RubricSurface, value: float
) -> dict[str, dict[str, float]]:
    """What changes in which dimension. Another weight is taken from, or given to, the others in proportion; that of
    safety stays."""
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

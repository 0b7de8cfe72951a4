"""Checks the structure of a plan: it has steps, no cycles, and references that resolve."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import as_object
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer, references
from tercet.contracts.values.references import OUTPUTS, Place, Reference, Selection
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.checks.delivery import may_take_outputs
from tercet.critic.reading import is_open
from tercet.critic.review import Refusals, Review
from tercet.policy.expressions import ExpressionError, compile_planner, return_type, yields_boolean


def plan_is_not_empty(review: Review) -> Refusals:
    """The plan has at least one step."""
    if not review.plan.steps:
        yield review.refuse(Code.EMPTY_PLAN, "plan has no steps", "propose at least one step", place="/steps")


def kinds_are_available(review: Review) -> Refusals:
    """Every step is of a kind that this runtime supports."""
    for index, step in enumerate(review.plan.steps):
        if step.kind == "lane":
            yield review.refuse(
                Code.KIND_UNAVAILABLE,
                f"step {index} is a lane, and this runtime has no lanes",
                "write the lane's steps into the plan itself",
                step=index,
                place="/kind",
            )


def graph_is_acyclic(review: Review) -> Refusals:
    """No step waits for itself."""
    cycle = review.graph.cycle()
    if cycle:
        ids = [review.plan.steps[index].id for index in (*cycle, cycle[0])]
        shown = " → ".join(ids if len(ids) <= 8 else [*ids[:6], "…", ids[-1]])
        yield review.refuse(
            Code.CYCLIC_DEPENDENCY,
            f"steps wait for each other: {shown}",
            "drop one of these dependencies or references; a step may only use what comes before it",
            step=min(cycle),
            place="/depends_on",
        )


def references_resolve(review: Review) -> Refusals:
    """Every name, reference and expression of the plan resolves."""
    is_delivering = may_take_outputs(review)
    for index, name in review.graph.unknown:
        if is_delivering and name == OUTPUTS and OUTPUTS not in review.plan.steps[index].depends_on:
            continue
        yield _unresolved(review, index, f"step {index} refers to {name!r}, which no step has", "/depends_on")
    for index, step in enumerate(review.plan.steps):
        for item in step.found:
            if type(item) is Reference and (item.kind in ("cel", "select") or find_fault(review, item)):
                yield from _reference(review, _Holder(f"step {index}", index, ("params",)), item)
    for index, condition in review.conditions.items():
        yield from _expression(review, _Holder(f"step {index}", index), condition, is_condition=True)
    for index, step in enumerate(review.plan.steps):
        if step.compensate is not None:
            holder = _Holder(
                f"the compensation of step {index}", index, ("compensate", "params"), is_compensation=True
            )
            yield from _apart(review, holder, step.compensate.params)
            if review.is_strict:
                yield from _check_bindable(review, holder, index, step.compensate.params)
    for name, value in review.plan.outputs.items():
        yield from _apart(review, _Holder(f"output {name}", None, ("outputs", name)), value)
    for name, value in review.plan.memory.items():
        yield from _apart(review, _Holder(f"memory {name}", None, ("memory", name)), value)


class _Holder(NamedTuple):
    """The part of a plan that contains a reference; a compensation may refer to its step's own result and parameters."""

    name: str
    step: int | None
    place: Place = ()
    is_compensation: bool = False

    def place_of(self, item: Reference) -> str:
        """Return the place of a reference, as a JSON Pointer inside the step or the plan."""
        return pointer.join((*self.place, *item.place))


def _apart(review: Review, holder: _Holder, value: Any) -> Refusals:
    """Yield refusals for the references of a compensation or an output, whose names add no edges to the graph."""
    for item in references.scan(value):
        if type(item) is not Reference:
            continue
        for name in item.names:
            if name == OUTPUTS and may_take_outputs(review):
                continue  # `deliveries_are_possible` checks where it may occur
            if name not in review.position and name not in references.RESERVED_IDS:
                reason = f"{holder.name} refers to {name!r}, which no step has"
                yield _unresolved(review, holder.step, reason, holder.place_of(item))
        yield from _reference(review, holder, item)


def _check_bindable(review: Review, holder: _Holder, index: int, params: dict[str, Any]) -> Refusals:
    """Refuse references of a compensation, other than to its step's own result, that cannot be resolved at dispatch."""
    before = review.graph.ancestors(index)
    for item in references.scan(params):
        if type(item) is not Reference:
            continue
        others = [name for name in item.names if name not in references.RESERVED_IDS]
        for name in others:
            if name in review.position and review.position[name] not in before:
                reason = f"{holder.name} refers to {name!r}, which step {index} does not wait for"
                remedy = f"add depends_on {name} to step {index}; a compensation is resolved when its step is dispatched"
                yield _unresolved(review, index, reason, holder.place_of(item), remedy)
        if references.SELF in item.names and (others or references.EVIDENCE in item.names):
            reason = (
                f"{holder.name}: {item.text[:80]!r} reads self together with {(others or ['evidence'])[0]}"
            )
            yield review.refuse(
                Code.EXPRESSION_INVALID,
                reason,
                "read self with params and request only, or take the other value as a parameter of its own",
                step=index,
                place=holder.place_of(item),
            )


def _reference(review: Review, holder: _Holder, item: Reference) -> Refusals:
    if item.kind == "cel":
        yield from _expression(review, holder, item, is_condition=False)
    elif item.selection is not None:
        yield from _check_selection(review, holder, item, item.selection)
    elif holder.is_compensation and item.target in (references.SELF, references.PARAMS):
        return
    elif (fault := find_fault(review, item)) is not None:
        reason = f"{holder.name} refers to {item.text}, but {fault}"
        remedy = "give it in the request's input" if item.target == references.REQUEST else None
        yield _unresolved(review, holder.step, reason, holder.place_of(item), remedy)


def _check_selection(review: Review, holder: _Holder, item: Reference, selection: Selection) -> Refusals:
    """Refuse a selection that reads something missing, or that selects nothing from a known list."""
    is_own = holder.is_compensation and not references.OWN_STEP.isdisjoint(item.names)
    parts = [each for each in selection.references if not (is_own and each.target in references.OWN_STEP)]
    fault = next(filter(None, (find_fault(review, each) for each in parts)), None)
    if fault is None and not is_open(item) and (known := review.known(item)) is not None:
        fault = known.fault
    if fault is not None:
        reason = f"{holder.name} selects the {item.text}, but {fault}"
        yield _unresolved(
            review, holder.step, reason, holder.place_of(item), "select from a list that has such an item"
        )


def find_fault(review: Review, item: Reference) -> str | None:
    """Return why a plain reference cannot be resolved; unknown step names are reported separately."""
    call = review.call_at.get(review.position.get(item.target, -1)) if item.kind == "from" else None
    if call is not None:
        missing = _missing(_result_text(call.tool), item.pointer)
        return None if missing is None else f"the result of {call.tool.name} has {missing}"
    if item.target in references.OWN_STEP:
        return f"only a compensation may refer to {item.target!r}"
    if item.target == references.EVIDENCE and item.kind == "from":
        return 'evidence is read as {"$evidence": "<ref>#/field"}'
    known = None if is_open(item) else review.known(item)
    return None if known is None else known.fault


def _expression(review: Review, holder: _Holder, item: Reference, *, is_condition: bool) -> Refusals:
    who, index, place = holder.name, holder.step, holder.place_of(item)
    refs = references.evidence_read(item.text)
    if refs is None:
        yield _invalid(review, index, f'{who}: evidence in an expression is read as evidence["<ref>"]', place)
    for ref in refs or ():
        if ref not in review.compiled.evidence:
            yield _unresolved(
                review, index, f"{who} refers to evidence {ref}, which is not in the snapshot", place
            )
    own = next((name for name in item.names if name in (references.SELF, references.PARAMS)), None)
    if own is not None and not holder.is_compensation:
        yield _unresolved(review, index, f"{who} refers to {own!r}, which only a compensation may", place)
    try:
        program = compile_planner(item.text, frozenset(item.names))
        if review.is_strict:
            return_type(program)
        is_unfit = is_condition and not yields_boolean(program)
    except ExpressionError as error:
        yield _invalid(review, index, f"{who}: {item.text[:80]!r} does not compile: {error}", place)
    else:
        if is_unfit:
            yield _invalid(review, index, f"{who}: the condition {item.text[:80]!r} is no boolean", place)


def _unresolved(
    review: Review, index: int | None, reason: str, place: str, remedy: str | None = None
) -> Refusal:
    ids = ", ".join(step.id for step in review.plan.steps[:12])
    return review.refuse(
        Code.UNRESOLVED_REFERENCE,
        reason,
        remedy or f"refer to a step that is there ({ids}), or add it",
        step=index,
        place=place,
    )


def _invalid(review: Review, index: int | None, reason: str, place: str) -> Refusal:
    remedy = "write a short CEL expression without comprehensions over steps, request and evidence"
    return review.refuse(Code.EXPRESSION_INVALID, reason, remedy, step=index, place=place)


def _result_text(tool: ToolSpec) -> str:
    """Return the schema of a tool's results; empty if there is no usable one, so that any field may exist."""
    try:
        return tool.result_text
    except UsageError:
        return ""


@lru_cache(maxsize=512)
def _missing(schema_text: str, where: str) -> str | None:
    """Return why a result of this schema cannot have anything at a pointer; None if it may."""
    if not schema_text or not where:
        return None
    root: dict[str, Any] = orjson.loads(schema_text)
    current: dict[str, Any] | None = root
    for token in pointer.parts(where):
        current = _dereferenced(root, current)
        if current is None:
            return None
        properties = as_object(current.get("properties"))
        if properties is None or current.get("additionalProperties") not in (None, False):
            return None
        if any(word in current for word in ("anyOf", "oneOf", "allOf", "patternProperties", "if")):
            return None
        if token not in properties:
            return f"no field {token!r} (it has {', '.join(properties) or 'none'})"
        current = as_object(properties[token])
    return None


def _dereferenced(root: dict[str, Any], schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema behind local references; None if it cannot be determined."""
    for _ in range(8):
        if schema is None or "$ref" not in schema:
            return schema
        ref = str(schema["$ref"])
        if not ref.startswith("#/"):
            return None
        try:
            schema = as_object(pointer.follow(root, ref[1:]))
        except pointer.PointerError:
            return None
    return None

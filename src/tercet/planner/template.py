"""Plans from templates: a pack's own plans, one for each intent, filled with parameters from the request.

A template is a plan whose strings may contain `${input.order_id}` and `${snapshot}`. A string that is exactly one
placeholder becomes the value itself, whatever its type. Authority values are better taken by reference (`{"$from":
"request#/order_id"}`): a template is filled before review, and review checks where values come from.

An untrusted field of the request may become data: a parameter, an output, search words. It may also be written into an
evidence id, which makes that evidence untrusted. It cannot choose a tool, a step or a part of a result.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from tercet.contracts.plan import Plan
from tercet.contracts.request import Request
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.references import LITERAL, SELECT, Place
from tercet.contracts.values.trust import input_marks, scalars, with_dotted
from tercet.planner.sources import EVIDENCE, PLACEHOLDER, Placeholders, PlanningError

_EXPRESSIONS = ("when", "$cel")


def is_template(plan: Plan) -> bool:
    """Return whether a plan has placeholders."""
    return PLACEHOLDER.search(plan.model_dump_json(exclude_defaults=True)) is not None


def inputs_of(plan: Plan) -> tuple[str, ...]:
    """Return the request fields that a plan has placeholders for, such as `order_id`."""
    found = PLACEHOLDER.findall(plan.model_dump_json(exclude_defaults=True))
    return tuple(dict.fromkeys(name.removeprefix("input.") for name in found if name.startswith("input.")))


def fill(
    template: Plan,
    request: Request,
    snapshot: str,
    untrusted_inputs: Sequence[str] = (),
    *,
    store: str = "",
    known: Container[str] = (),
) -> Plan:
    """Return the plan of a template for a request; its decision marks some of the input as untrusted.

    `snapshot` is that of the pack and `store` that of the evidence store; `known` is the evidence of the run.
    """
    document = template.model_dump(mode="json", exclude_defaults=True)
    values = Placeholders(
        input=request.input,
        snapshot=snapshot,
        store=store,
        known=known,
        marks=input_marks(with_dotted(untrusted_inputs)),
    )
    refs = tuple(dict.fromkeys(_untrusted_refs(document, values)))
    filled = _filled(document, values)
    try:
        return Plan.model_validate({**filled, "untrusted_refs": refs} if refs else filled)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = pointer.join([str(part) for part in first["loc"]])
        raise PlanningError(
            f"the template and this input make no plan: {first['msg']} at {place}",
            remedy="give the fields that the template takes from the input values of the right type",
        ) from error


def _untrusted_refs(document: Any, values: Placeholders) -> Iterator[str]:
    """Return the evidence ids that contain untrusted fields, except those whose whole variable part is one field."""
    for leaf in scalars(document) if values.marks else ():
        fields = PLACEHOLDER.findall(leaf.value) if isinstance(leaf.value, str) else []
        marked = [field for field in fields if values.is_marked(field)]
        if not marked or _is_data(leaf.place):
            continue
        if leaf.place[-1] != EVIDENCE and leaf.place[2:3] != ("evidence_refs",):
            raise PlanningError(
                f"the template writes {marked[0]}, which is not trusted, into {pointer.join(leaf.place)}",
                remedy="name tools, steps and references in the template itself, or use a trusted field there",
            )
        if (ref := values.untrusted_ref(leaf.value)) is not None:
            yield ref


def _is_data(place: Place) -> bool:
    """Return whether a string of a template is a value, whose source review checks."""
    if place[-1] in ("$from", "$evidence", *_EXPRESSIONS):
        return False
    if SELECT in place and place[place.index(SELECT) + 1 :][:1] != ("where",):
        return False  # it selects the list or the field
    is_query = place[2:3] == ("evidence_queries",) and place[4] in ("query", "params")
    is_parameter = place[2:3] == ("params",) or place[2:4] == ("compensate", "params")
    return place[0] in ("outputs", "memory") or is_parameter or is_query


def _filled(value: Any, values: Placeholders) -> Any:
    if (members := as_object(value)) is not None:
        return {
            key: _expression(member) if key in _EXPRESSIONS else _filled(member, values)
            for key, member in members.items()
        }
    if (items := as_list(value)) is not None:
        return [_filled(item, values) for item in items]
    if not isinstance(value, str) or "${" not in value:
        return value
    whole = PLACEHOLDER.fullmatch(value)
    if whole:
        found = values.value_of(whole.group(1))
        return {LITERAL: found} if _could_refer(found) else found
    return values.write(value)


def _expression(value: Any) -> Any:
    """Return an expression, which is code: text from a request must not become part of it."""
    if isinstance(value, str) and PLACEHOLDER.search(value):
        raise PlanningError(
            f"the template writes a value of the request into the expression {value!r}",
            remedy="read it there as request.order_id instead",
        )
    return value


def _could_refer(value: Any) -> bool:
    """Return whether a plan would read this value as a reference; values of a request are only data."""
    if (members := as_object(value)) is not None:
        return any(key[:1] == "$" or _could_refer(member) for key, member in members.items())
    return any(map(_could_refer, as_list(value) or ()))

"""Plans from templates: a pack's own plans, one for each intent, filled with parameters from the request.

A template is a plan whose strings may contain `${input.order_id}` and `${snapshot}`. A string that is exactly one
placeholder becomes the value itself, whatever its type. Authority values are better taken by reference (`{"$from":
"request#/order_id"}`): a template is filled before review, and review checks where values come from.

An untrusted field of the request may become data: a parameter, an output, search words. It may also be written into an
evidence id, which makes that evidence untrusted. It cannot choose a tool, a step or a part of a result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tercet.contracts.plan import Plan
from tercet.contracts.relations import MISSING, value_at
from tercet.contracts.request import Request
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tasks import ARG, ARGS
from tercet.contracts.values import pointer, references
from tercet.contracts.values.references import LITERAL, SELECT, Place
from tercet.contracts.values.trust import input_marks, scalars, with_dotted
from tercet.planner.sources import EVIDENCE, PLACEHOLDER, Placeholders, PlanningError
from tercet.policy.expressions import MAX_PLANNER_LENGTH

_EXPRESSIONS = ("when", "$cel")


def is_template(plan: Plan) -> bool:
    """Return whether a plan has placeholders."""
    return PLACEHOLDER.search(plan.model_dump_json(exclude_defaults=True)) is not None


def inputs_of(plan: Plan) -> tuple[str, ...]:
    """Return the request fields that a plan has placeholders for, such as `order_id`."""
    found = PLACEHOLDER.findall(plan.model_dump_json(exclude_defaults=True))
    return tuple(dict.fromkeys(name.removeprefix("input.") for name in found if name.startswith("input.")))


def missing_inputs(plan: Plan, given: JsonObject) -> tuple[str, ...]:
    """Return the request fields that a plan has placeholders for and that an input does not have."""
    return tuple(name for name in inputs_of(plan) if value_at(given, tuple(name.split("."))) is MISSING)


def example_input(fields: Iterable[str]) -> str:
    """Return an input with these fields as JSON, each value left open: `{"order_id": "…"}`."""
    made: dict[str, Any] = {}
    for name in fields:
        *outer, last = name.split(".")
        place = made
        for part in outer:
            inner = as_object(place.get(part)) or {}
            place[part] = inner
            place = inner
        place[last] = "…"
    return json.dumps(made, ensure_ascii=False)


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


# --- binding ---
# `{"$arg": "host"}` becomes the argument, which may be a value or a reference. `{"$from": "look#/host"}` and the
# names in expressions become the ids of the nodes for the subtasks. No text of a request is ever concatenated into
# an expression: an argument in an expression is written as a literal, or as the reference that it is.


MAX_VALUES = 10_000
"""The maximum number of values in the arguments of a task."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")
_FROM, _CEL = "$from", "$cel"


def bind(value: Any, args: Mapping[str, Any], scope: Mapping[str, str], depth: int = 0) -> Any:
    """Return a value with its arguments filled in, and with the names of subtasks replaced by the ids in `scope`."""
    if depth > references.MAX_DEPTH:
        raise PlanningError(
            f"a value {references.TOO_DEEP}", code="too_deep", remedy="write the value flatter"
        )
    if (members := as_object(value)) is not None:
        return _bound(members, args, scope, depth)
    if (items := as_list(value)) is not None:
        return [bind(item, args, scope, depth + 1) for item in items]
    return value


def _bound(members: dict[str, Any], args: Mapping[str, Any], scope: Mapping[str, str], depth: int) -> Any:
    key, body = next(iter(members.items())) if len(members) == 1 else ("", None)
    if key == references.LITERAL:
        return members
    if key == references.SELECT and (selection := as_object(body)) is not None:
        return {
            key: {name: _selection_part(name, part, args, scope, depth) for name, part in selection.items()}
        }
    if not isinstance(body, str) or key not in (ARG, _FROM, _CEL):
        return {name: bind(member, args, scope, depth + 1) for name, member in members.items()}
    if key == ARG:
        return args[body]
    if key == _CEL:
        return {_CEL: express(body, args, scope)}
    return {_FROM: _renamed(body, scope)}


def _renamed(source: str, scope: Mapping[str, str]) -> str:
    """Return the target of a reference, with the name of a subtask replaced by the id of its node."""
    target, mark, rest = source.partition("#")
    return f"{scope.get(target, target)}{mark}{rest}"


def _selection_part(
    name: str, part: Any, args: Mapping[str, Any], scope: Mapping[str, str], depth: int
) -> Any:
    """Return a member of a `$select`; the list that it selects from may be written without `$from`."""
    if name == "from" and isinstance(part, str):
        return _renamed(part, scope)
    return bind(part, args, scope, depth + 2)


def demand_small(values: Mapping[str, Any]) -> None:
    """Raise `PlanningError` for arguments that grow too large: a task that doubles them each time."""
    count = 0
    stack: list[Any] = list(values.values())
    while stack:
        item = stack.pop()
        count += 1
        stack.extend((as_object(item) or {}).values())
        stack.extend(as_list(item) or ())
        if count > MAX_VALUES:
            raise PlanningError(
                f"the arguments of a task hold more than {MAX_VALUES:,} values",
                code="too_large",
                remedy="hand down a reference instead of the values, or give the method a condition under which it ends",
            )


def express(text: str, args: Mapping[str, Any], scope: Mapping[str, str]) -> str:
    """Return an expression about observed values, with arguments and names substituted."""
    placed = {name: scope[name] for name in references.names(text) if name in scope}
    if ARGS in text:
        placed |= {f"{ARGS}.{name}": _written(value) for name, value in args.items()}
    written = references.rewrite(text, placed) if placed else text
    if len(written) > MAX_PLANNER_LENGTH:
        raise PlanningError(
            f"an expression comes to {len(written):,} characters with its arguments, over {MAX_PLANNER_LENGTH:,}",
            code="too_large",
            remedy="let a tool work the value out, and refer to its result",
        )
    return written


def _written(value: Any) -> str:
    """Return a value as CEL source: a reference reads its target."""
    if (items := as_list(value)) is not None:
        return f"[{', '.join(map(_written, items))}]"
    if (members := as_object(value)) is None:
        written = json.dumps(value, ensure_ascii=False)
        return f"({written})" if written.startswith("-") else written
    if len(members) == 1 and references.LITERAL in members:
        return json.dumps(members[references.LITERAL], ensure_ascii=False)
    reference = references.as_reference(members)
    if reference is None:
        written = ", ".join(f"{json.dumps(key)}: {_written(member)}" for key, member in members.items())
        return f"{{{written}}}"
    if reference.kind == "cel":
        return f"({reference.text})"
    if reference.kind == "select":
        raise PlanningError(
            f"an expression cannot hold the selection {reference.text[:80]!r}",
            remedy="let a note of its own hold the selection, and read that note",
        )
    root = f"evidence[{json.dumps(reference.target)}]" if reference.kind == "evidence" else reference.target
    return root + "".join(map(_selection, pointer.parts(reference.pointer)))


def _selection(token: str) -> str:
    return f"[{token}]" if _INDEX.fullmatch(token) else f"[{json.dumps(token, ensure_ascii=False)}]"

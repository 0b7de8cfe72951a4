"""Substitutes arguments and names: turns the values of a method's subtasks into values of steps.

`{"$arg": "host"}` becomes the argument, which may be a value or a reference. `{"$from": "look#/host"}` and the names in
expressions become the ids of the nodes for the subtasks. No text of a request is ever concatenated into an expression:
an argument in an expression is written as a literal, or as the reference that it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tasks import ARG, ARGS
from tercet.contracts.values import pointer, references
from tercet.planner.sources import PlanningError
from tercet.policy.expressions import MAX_PLANNER_LENGTH

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

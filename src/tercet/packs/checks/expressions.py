"""Checks that CEL compiles, schemas are valid, and declarations can be hashed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tercet.contracts.errors import UsageError
from tercet.contracts.problem import Problem
from tercet.contracts.shape import Authored, JsonObject, as_object
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.canonical import canonical, digest
from tercet.packs.checks import Check, Problems, did_you_mean, fields_of
from tercet.packs.checks.effects import PERSONAL_CHECKS
from tercet.packs.checks.gates import grants_are_for_steps, os_users_are_distinct
from tercet.packs.checks.limits import controls_are_stable
from tercet.packs.checks.methods import METHOD_CHECKS
from tercet.packs.parts import PACK, Parts
from tercet.policy.expressions import CALL, PLAN, STEP, ExpressionError, Scope, check_call_rule, compile_rule
from tercet.policy.schemas import validator


def policies_compile(parts: Parts) -> Problems:
    """Every policy is a condition over the plan, or over each step."""
    for policy in parts.policies:
        scope = PLAN if policy.scope == "plan" else STEP
        place = f"policy {policy.name}, expression"
        yield from _compiled(parts, place, policy.expression, scope, compile_rule)


def gate_conditions_compile(parts: Parts) -> Problems:
    """Every gate's condition is one over the arguments of a call."""
    for gate in parts.gates:
        if gate.when is not None:
            yield from _compiled(parts, f"gate {gate.name}, when", gate.when, CALL, compile_rule)


def limits_compile(parts: Parts) -> Problems:
    """Every limit is a condition over the parameters that its tool has, and fits their types."""
    for tool in parts.tools:
        typed = _typed_parameters(tool)

        def compile_limit(text: str, scope: Scope, typed: Mapping[str, Any] | None = typed) -> object:
            return compile_rule(text, scope) if typed is None else check_call_rule(text, typed)

        for limit in tool.limits:
            yield from _compiled(parts, f"tool {tool.name}, limits", limit.expression, CALL, compile_limit)


def schemas_are_schemas(parts: Parts) -> Problems:
    """Parameters, results and outputs are described by valid JSON Schemas without external references."""
    for tool in parts.tools:
        yield from _schema(parts, f"tool {tool.name}, parameters", tool.parameters, is_object=True)
        if tool.result is not None:
            yield from _schema(parts, f"tool {tool.name}, result", tool.result)
    for decision in parts.decisions:
        if decision.outputs_schema is not None:
            place = f"decision {decision.id}, outputs_schema"
            yield from _schema(parts, place, decision.outputs_schema, is_object=True)


def declarations_can_be_hashed(parts: Parts) -> Problems:
    """Every declaration has canonical JSON: no unpaired surrogates, NaN, or integers beyond 2^53."""
    # Expressions and schemas are already covered by the checks above.
    elsewhere: Any = {
        **dict.fromkeys(("parameters", "result", "outputs_schema", "expression", "when"), True),
        "limits": {"__all__": {"expression"}},
    }
    declared: dict[str, Authored] = {
        f"{PACK}, budget": parts.budget,
        f"{PACK}, session": parts.session,
        **{f"{PACK}, limits.{role}": limit for role, limit in parts.limits.items()},
        **({} if parts.notify is None else {f"{PACK}, notify": parts.notify}),
        **{f"tool {tool.name}": tool for tool in parts.tools},
        **{f"decision {decision.id}": decision for decision in parts.decisions},
        **{f"gate {gate.name}": gate for gate in parts.gates},
        **{f"policy {policy.name}": policy for policy in parts.policies},
        **{f"actor {actor.id}": actor for actor in parts.actors},
        **{f"fact {fact.name}": fact for fact in parts.library.facts},
        **{f"task {task.name}": task for task in parts.library.tasks},
        **{f"method {method.name}": method for method in parts.library.methods},
        **{f"goal {goal.intent}": goal for goal in parts.library.goals},
    }
    for place, declaration in declared.items():
        try:
            digest(declaration.model_dump(mode="json", exclude_defaults=True, exclude=elsewhere))
        except (UsageError, ValueError) as error:  # ValueError: Pydantic cannot dump it
            why = error.message if isinstance(error, UsageError) else str(error)
            yield parts.problem(
                "not_canonical",
                place,
                f"it cannot be hashed: {why.splitlines()[0]}",
                "use Unicode text, finite numbers and integers up to 2^53 - 1",
            )


LOADING_CHECKS: tuple[Check, ...] = (
    policies_compile,
    gate_conditions_compile,
    limits_compile,
    schemas_are_schemas,
    declarations_can_be_hashed,
    grants_are_for_steps,
    os_users_are_distinct,
    controls_are_stable,
    *METHOD_CHECKS,
    *PERSONAL_CHECKS,
)
"""The checks that loading a pack includes: without them rules could not be evaluated or pinned, or would be ambiguous."""


def _compiled(
    parts: Parts, place: str, text: str, scope: Scope, compile_text: Callable[[str, Scope], object]
) -> Problems:
    try:
        compile_text(text, scope)
    except ExpressionError as error:
        yield _invalid(parts, place, text, scope, error)


def _invalid(parts: Parts, place: str, text: str, scope: Scope, error: ExpressionError) -> Problem:
    column = f", column {error.column}" if error.column else ""
    shown = ascii(text) if not text.isprintable() else text
    quoted = f"{shown[:80]}{'…' * (len(shown) > 80)}"
    return parts.problem(
        "expression_invalid",
        place,
        f"{error.message}{column}, in: {quoted}",
        error.remedy
        or _nearest(error, scope)
        or f"a rule here may read {', '.join(sorted(scope.variables))}",
    )


def _nearest(error: ExpressionError, scope: Scope) -> str | None:
    """Return the variable that is most similar to an unknown name."""
    unknown = _UNDECLARED.search(error.message)
    return did_you_mean(unknown[1], scope.variables) if unknown else None


_UNDECLARED = re.compile(r"undeclared reference to '([^']+)'")


def _typed_parameters(tool: ToolSpec) -> Mapping[str, Any] | None:
    """Return the schema of each parameter; None if the tool's schema does not list them in one place."""
    if fields_of(tool.parameters) is None:
        return None
    return as_object(tool.parameters.get("properties", {})) or {}


def _schema(parts: Parts, place: str, schema: JsonObject, *, is_object: bool = False) -> Problems:
    try:
        validator(canonical(schema).decode())
    except UsageError as error:
        yield parts.problem(
            "schema_invalid", place, error.message, error.remedy or "write a JSON Schema of draft 2020-12"
        )
        return
    if is_object and schema.get("type", "object") != "object":
        yield parts.problem(
            "schema_invalid",
            place,
            f"it describes {schema['type']!r}, but values here have names",
            'write "type": "object", with a property for each',
        )

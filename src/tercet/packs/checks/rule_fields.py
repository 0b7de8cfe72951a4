"""Checks the fields that rules read: a rule over a field that does not exist fails for every plan.

CEL types variables such as `step.tool`. Inside `plan.steps.all(s, …)` and of `args` and `params` it accepts any field,
so those are checked here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, get_args

from tercet.contracts.decision import RiskTier
from tercet.contracts.mode import ApprovalMode, Reversibility
from tercet.contracts.plan import StepKind
from tercet.contracts.problem import Problem
from tercet.contracts.values import references
from tercet.contracts.values.references import Place, Token
from tercet.critic.provenance import SOURCES
from tercet.packs.checks import Check, Problems, did_you_mean, named_fields
from tercet.packs.parts import Parts
from tercet.policy.comparisons import Comparison, compared_texts, reads_list_order
from tercet.policy.expressions import CALL, COMPREHENSIONS, PLAN, STEP, ExpressionError, Scope, compile_rule

STEP_FIELDS = tuple(name.removeprefix("step.") for name in STEP.variables if name.startswith("step."))
_PARAMS = "params"
_ABOUT_SOURCES = ("source", "trust", "kind")


def policies_read_fields(parts: Parts) -> Problems:
    """Policies read fields that steps have, and parameters that some tool has."""
    known = _parameters(parts)
    for policy in parts.policies:
        place = f"policy {policy.name}, expression"
        if not _compiles(policy.expression, STEP if policy.scope == "step" else PLAN):
            continue
        for name, *rest in dict.fromkeys(_steps_read(policy.expression, policy.scope)):
            if name not in STEP_FIELDS and isinstance(name, str):
                yield _unknown(parts, place, f"a step has no field {name}", name, STEP_FIELDS)
            elif name in (_PARAMS, SOURCES) and rest and known is not None and rest[0] not in known:
                yield _unknown(parts, place, f"no tool has a parameter {rest[0]}", str(rest[0]), known)
            elif name == SOURCES and len(rest) > 1 and rest[1] not in _ABOUT_SOURCES:
                yield _unknown(parts, place, f"a source has no field {rest[1]}", str(rest[1]), _ABOUT_SOURCES)


def conditions_read_parameters(parts: Parts) -> Problems:
    """The condition of a gate reads parameters that some tool has."""
    known = _parameters(parts)
    for gate in parts.gates:
        for name in _args_read(gate.when or ""):
            if known is not None and name not in known:
                place = f"gate {gate.name}, when"
                yield _unknown(parts, place, f"no tool has a parameter {name}", name, known)


def limits_read_parameters(parts: Parts) -> Problems:
    """A limit reads parameters of its tool, also in brackets, which compiling does not check."""
    for tool in parts.tools:
        known = named_fields(tool.parameters)
        for limit in tool.limits:
            for name in _args_read(limit.expression) if _is_undetermined(limit.expression) else ():
                if known is not None and name not in known:
                    place = f"tool {tool.name}, limits"
                    yield _unknown(parts, place, f"there is no parameter {name}", name, known)


def _unknown(parts: Parts, place: str, fault: str, name: str, known: tuple[str, ...]) -> Problem:
    remedy = did_you_mean(name, known) or f"there are {', '.join(known) or 'none'}"
    return parts.problem("rule_field_unknown", place, f"{fault}, so the rule always fails", remedy)


def _parameters(parts: Parts) -> tuple[str, ...] | None:
    """Return the parameters of all tools; None if one of them takes others as well, if there are none, or some could
    not be read.
    """
    found: dict[str, None] = {}
    for tool in parts.tools:
        names = named_fields(tool.parameters)
        if names is None:
            return None
        found |= dict.fromkeys(names)
    return None if parts.is_partial("tool") or not parts.tools else tuple(found)


def _compiles(expression: str, scope: Scope) -> bool:
    """Return whether a rule compiles; if not, another check reports it."""
    try:
        compile_rule(expression, scope)
    except ExpressionError:
        return False
    return True


def _is_undetermined(expression: str) -> bool:
    """Return whether compiling a limit does not determine which parameters it reads."""
    return _compiles(expression, CALL) and compile_rule(expression, CALL).reads is None


def _args_read(expression: str) -> Iterator[str]:
    reads = (read.place for read in references.reads(expression) if read.name == "args" and read.place)
    yield from dict.fromkeys(place[0] for place in reads if isinstance(place[0], str))


class _Variable(NamedTuple):
    """The variable of a comprehension, or another bracket."""

    name: str = ""
    is_step: bool = False


def _steps_read(expression: str, scope: str) -> Iterator[Place]:
    """Yield what a policy reads of steps: of `step`, of variables bound to steps, and of `plan.steps[0]`."""
    found = references.tokens(expression)
    opened = [_Variable("step", is_step=scope == "step")]
    for position, token in enumerate(found):
        if token.text == "(":
            opened.append(_opened(found, position))
        elif token.text == ")" and len(opened) > 1:
            opened.pop()
        elif token.is_name and not token.is_member:
            meant = next((each for each in reversed(opened) if each.name == token.text), None)
            place = references.selected(found, position + 1)
            if meant is not None and meant.is_step and place:
                yield place
        elif token.text == "steps" and token.is_member and _is_steps(found, position):
            place = references.selected(found, position + 1)
            if len(place) > 1 and isinstance(place[0], int):
                yield place[1:]


def _opened(found: tuple[Token, ...], position: int) -> _Variable:
    call = found[position - 1] if position else None
    if call is None or not call.is_member or call.text not in COMPREHENSIONS or position + 1 >= len(found):
        return _Variable()
    return _Variable(found[position + 1].text, _is_steps(found, position - 3))


def _is_steps(found: tuple[Token, ...], end: int) -> bool:
    """Return whether the operand that ends here is `plan.steps`, or a filtered part of it."""
    if end >= 2 and found[end].text == "steps":
        return found[end - 2].text == "plan" and not found[end - 2].is_member
    depth = 0
    for position in range(end, 0, -1):
        depth += (found[position].text == ")") - (found[position].text == "(")
        if depth == 0:
            is_filter = position < end and found[position - 1].text == "filter" and position > 3
            return is_filter and _is_steps(found, position - 3)
    return False


def policies_compare_known_words(parts: Parts) -> Problems:
    """The tools, gates, modes and other words that a policy compares with can occur."""
    for policy in parts.policies:
        for comparison in dict.fromkeys(compared_texts(policy.expression)):
            known = _known_words(parts, comparison)
            if known is not None and comparison.text and comparison.text not in known:
                field = ".".join(comparison.path)
                yield parts.warning(
                    "rule_value_unknown",
                    f"policy {policy.name}, expression",
                    f"{field} is never {comparison.text!r}, so the comparison never holds",
                    did_you_mean(comparison.text, known)
                    or f"it may be {', '.join(sorted(known)) or 'nothing'}",
                )


def _known_words(parts: Parts, comparison: Comparison) -> Collection[str] | None:
    """Return the texts that a field may have or contain; None if any."""
    match comparison.step_field:
        case "tool" | "before_tools" | "after_tools":
            return None if parts.is_partial("tool") else parts.tool
        case "gates":
            return None if parts.is_partial("gate") else parts.gate
        case "mode":
            return tuple(ApprovalMode)
        case "reversibility":
            return tuple(Reversibility)
        case "kind":
            return get_args(StepKind)
        case _:
            return _known_in_frame(parts, comparison.path)


def _known_in_frame(parts: Parts, path: tuple[str, ...]) -> Collection[str] | None:
    match path:
        case ("context", "safety_mode"):
            return tuple(ApprovalMode)
        case ("decision", "risk_tier"):
            return tuple(RiskTier)
        case ("decision", "id") if not parts.is_partial("decision"):
            return tuple(decision.id for decision in parts.decisions)
        case ("plan", "intent") if not parts.is_partial("decision"):
            return {intent for each in parts.decisions for intent in (each.id, *each.intents)}
        case _:
            return None


def policies_read_no_list_order(parts: Parts) -> Problems:
    """No policy uses the order of the list as the order of execution."""
    for policy in parts.policies:
        if reads_list_order(policy.expression):
            yield parts.warning(
                "policy_compares_index",
                f"policy {policy.name}, expression",
                "it reads where the plan lists its steps, which says nothing about the order in which they run",
                'read the order instead, as in "x.look" in step.before_tools, or look.id in pay.before',
            )


RULE_CHECKS: tuple[Check, ...] = (
    policies_read_fields,
    conditions_read_parameters,
    limits_read_parameters,
    policies_compare_known_words,
    policies_read_no_list_order,
)

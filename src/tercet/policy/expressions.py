"""Compiling and evaluating CEL.

Three kinds of author, three degrees of trust:

- a pack's *rules* (policies, argument limits, gate conditions) are typed against the variables of their scope, may use
  comprehensions nested at most two deep, and must yield a boolean;
- a planner's *expressions* (`when`, `$cel`) see only the results they name, and may use no comprehension at all;
- both are bounded in length, and the evaluator bounds recursion (32) and iterations (10,000) by itself.

Compiling is memoised by text, which is safe: the same text always gives the same result.
A rule that fails while it runs does not hold: `Outcome.error` says why, and every caller treats it as a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from cel_expr_python import cel  # pyright: ignore[reportMissingTypeStubs] - only the module itself has stubs

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import as_object
from tercet.contracts.values.plain import not_plain
from tercet.contracts.values.references import Token, is_text, tokens

MAX_RULE_LENGTH = 4_000
MAX_PLANNER_LENGTH = 1_000
MAX_RULE_NESTING = 2

MAX_PLANNER_PROGRAMS = 128
"""The number of cached planner expressions: each takes about 100 kB, and a plan may have thousands."""

COMPREHENSIONS = frozenset({"all", "exists", "exists_one", "map", "filter"})
_CLOCK_READINGS = frozenset(
    {
        "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds",
        "getMinutes", "getMonth", "getSeconds",
    }
)  # fmt: skip
_OFFSET = re.compile(r"""["'](UTC|[+-]\d\d:\d\d)["']""")
_LOCATION = re.compile(r"<input>:(-?\d+):(-?\d+): (.*)")

_STRING, _INT, _DYN = cel.Type.STRING, cel.Type.INT, cel.Type.DYN
_OBJECT = cel.Type.Map(_STRING, _DYN)
_STRINGS = cel.Type.List(_STRING)
_KINDS = {"string": _STRING, "integer": _INT, "number": _DYN, "boolean": cel.Type.BOOL}
"""The CEL type of each kind of scalar; a number may be an integer or not, so it is dynamic."""


class ExpressionError(UsageError):
    """An expression that does not compile; `column` is the position, counted from 1."""

    default_code = "expression_invalid"

    def __init__(self, message: str, *, column: int | None = None, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.column = column


class Outcome(NamedTuple):
    """The result of an expression, or why it failed."""

    value: Any = None
    error: str | None = None

    @property
    def holds(self) -> bool:
        """Whether the expression is true; a failure is not."""
        return self.error is None and self.value is True


@dataclass(frozen=True, eq=False)
class Scope:
    """The variables that a rule may read, with their types."""

    name: str
    variables: Mapping[str, Any]
    env: Any

    def activation(self, values: Mapping[str, Any]) -> Any:
        """Return values for these variables, converted once for any number of rules."""
        return self.env.Activation(values)


def _scope(name: str, variables: Mapping[str, Any]) -> Scope:
    return Scope(name, variables, cel.NewEnv(variables=dict(variables)))


_FRAME = {
    "request": _OBJECT,
    "context.tenant": _STRING,
    "context.actor": _STRING,
    "context.roles": _STRINGS,
    "context.safety_mode": _STRING,
    "decision.id": _STRING,
    "decision.risk_tier": _STRING,
}
_STEP = {
    "step.id": _STRING,
    "step.index": _INT,
    "step.kind": _STRING,
    "step.tool": _STRING,
    "step.mode": _STRING,
    "step.reversibility": _STRING,
    "step.gates": _STRINGS,
    "step.evidence": _STRINGS,
    "step.params": _OBJECT,
    "step.when": _STRING,
    "step.optional": cel.Type.BOOL,
    "step.before": _STRINGS,
    "step.after": _STRINGS,
    "step.before_tools": _STRINGS,
    "step.after_tools": _STRINGS,
    "step.sources": cel.Type.Map(_STRING, cel.Type.Map(_STRING, _STRING)),
}
ORDER_FIELDS = frozenset({"before", "after", "before_tools", "after_tools"})
"""The fields of a step about the steps before and after it."""
_PLAN = {
    "plan.intent": _STRING,
    "plan.outputs": _STRINGS,
    "plan.steps": cel.Type.List(_OBJECT),
}

_INTENT = {"plan.intent": _STRING}

PLAN = _scope("plan", {**_FRAME, **_PLAN})
"""A policy over the whole plan; each of `plan.steps` has the fields of `step`."""
STEP = _scope("step", {**_FRAME, **_INTENT, **_STEP})
"""A policy over each step."""
CALL = _scope("call", {**_FRAME, "args": _OBJECT})
"""An argument limit or a gate's condition: the arguments of one call."""
_TOGETHER = _scope("together", {**_FRAME, **_PLAN, "calls": cel.Type.List(cel.Type.List(_OBJECT))})
"""All rules at once: `calls` are those with limits, grouped by the limits of their tools."""


@dataclass(frozen=True, eq=False)
class Rule:
    """A compiled expression of a pack."""

    text: str
    scope: Scope
    program: Any
    reads: frozenset[str] | None
    """The parameters that it reads by name; None if that cannot be determined."""
    fields: frozenset[str] | None = None
    """The fields of steps that it reads by name; None if that cannot be determined."""

    @property
    def reads_order(self) -> bool:
        """Whether the rule may read which steps run before or after another."""
        return self.fields is None or not self.fields.isdisjoint(ORDER_FIELDS)

    def evaluate(self, activation: Any) -> Outcome:
        """Return the outcome of the rule for these values."""
        return _evaluate(self.program, activation=activation)


@lru_cache(maxsize=4_096)
def compile_rule(text: str, scope: Scope) -> Rule:
    """Return a type-checked rule of a pack; raise `ExpressionError`."""
    _bound(text, MAX_RULE_LENGTH, MAX_RULE_NESTING)
    program = _compile(scope.env, text)
    _demand_boolean(program)
    return Rule(
        text,
        scope,
        program,
        _parameters_read(text, "args" if scope is CALL else "params"),
        _fields_read(text),
    )


@lru_cache(maxsize=256)
def planning_scope(facts: tuple[tuple[str, str], ...]) -> Scope:
    """Return the scope for choosing methods of a library: the request, the task's arguments, and facts by name and
    type.
    """
    kinds = {**_KINDS, "object": _OBJECT, "list": cel.Type.List(_DYN)}
    typed = {f"state.{name}": kinds[kind] for name, kind in facts}
    return _scope("planning", {"request": _OBJECT, "args": _OBJECT, **typed})


@lru_cache(maxsize=4_096)
def compile_amount(text: str, scope: Scope) -> Rule:
    """Return a type-checked expression of a pack that yields a number; raise `ExpressionError`."""
    _bound(text, MAX_RULE_LENGTH, MAX_RULE_NESTING)
    program = _compile(scope.env, text)
    if (kind := return_type(program)) not in (_INT, cel.Type.DOUBLE, cel.Type.UINT, _DYN):
        raise ExpressionError(f"it yields {str(kind).lower()}, not a number", remedy="write an amount")
    return Rule(text, scope, program, None)


@lru_cache(maxsize=1_024)
def compile_together(rules: tuple[Rule, ...], limits: tuple[tuple[str, ...], ...] = ()) -> Rule | None:
    """Return rules over a plan and its steps, and limits of tools, as one rule: true if each of them holds.

    None if it would be too large. If it is not true, the caller evaluates them one by one.
    """
    texts = [rule.text for rule in rules if rule.scope is PLAN]
    if of_step := _joined([rule.text for rule in rules if rule.scope is not PLAN]):
        texts.append(f"plan.steps.all(step, {of_step})")
    texts += [f"calls[{number}].all(args, {_joined(each)})" for number, each in enumerate(limits)]
    together = _joined(texts) or "true"
    try:
        return Rule(together, _TOGETHER, _compile(_TOGETHER.env, together), None)
    except ExpressionError:
        return None


def _joined(texts: Iterable[str]) -> str:
    return " && ".join(f"({text}\n)" for text in texts)


@lru_cache(maxsize=1_024)
def read_by_limits(texts: tuple[str, ...]) -> tuple[bool, frozenset[str] | None]:
    """Return whether the limits of a tool compile, and the parameters that they read."""
    try:
        return True, union([compile_rule(text, CALL).reads for text in texts])
    except ExpressionError:
        return False, None


def union(sets: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """Return everything that several rules read; None if it cannot be determined for one of them."""
    together: frozenset[str] = frozenset()
    for read in sets:
        if read is None:
            return None
        together |= read
    return together


def check_call_rule(text: str, parameters: Mapping[str, Any]) -> None:
    """Type-check a rule over `args` against the JSON Schema of the parameters; raise `ExpressionError`."""
    rule = compile_rule(text, CALL)
    unknown = sorted((rule.reads or frozenset()) - set(parameters))
    if unknown:
        near = get_close_matches(unknown[0], list(parameters), n=1)
        raise ExpressionError(
            f"args.{unknown[0]} is no parameter of this tool",
            remedy=f"did you mean args.{near[0]}?" if near else f"it has {', '.join(parameters) or 'none'}",
        )
    typed = {f"args.{name}": _cel_type(schema) for name, schema in parameters.items()}
    # `has()` needs a map with the field, which a typed variable is not; for type-checking it is replaced by a boolean.
    present = re.sub(r"\bhas\s*\(\s*args\s*\.\s*(\w+|`[^`]*`)\s*\)", "true", text)
    _demand_boolean(_compile(cel.NewEnv(variables={**CALL.variables, **typed}), present))


@lru_cache(maxsize=MAX_PLANNER_PROGRAMS)
def compile_planner(text: str, names: frozenset[str]) -> Any:
    """Compile a planner's expression over these names; raise `ExpressionError`."""
    _bound(text, MAX_PLANNER_LENGTH, 0)
    return _compile(_planner_env(names), text)


@lru_cache(maxsize=MAX_PLANNER_PROGRAMS)
def _planner_env(names: frozenset[str]) -> Any:
    return cel.NewEnv(variables=dict.fromkeys(sorted(names), _DYN))


def evaluate_planner(text: str, values: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a planner's expression for these values; only JSON counts as a value."""
    try:
        program = compile_planner(text, frozenset(values))
    except ExpressionError as error:
        return Outcome(error=str(error))
    outcome = _evaluate(program, data=values)
    # CEL has bytes, timestamps, infinities and maps with numbers for keys; none of them can be a parameter.
    fault = None if outcome.error is not None else not_plain(outcome.value)
    return outcome if fault is None else Outcome(error=f"it yields no JSON value: {fault}")


def return_type(program: Any) -> Any:
    """Return the type of a compiled expression; raise `ExpressionError` for one that the library cannot name.

    It compiles `{{}: 1}`, and only then finds that a map cannot be a key.
    """
    try:
        return program.return_type()
    except Exception as error:  # noqa: BLE001 - any exception of the library makes the expression unusable
        raise _explained(str(error)) from None


def yields_boolean(program: Any) -> bool:
    """Return whether a compiled expression can be a condition; raise `ExpressionError` if its type is invalid."""
    return return_type(program) in (cel.Type.BOOL, _DYN)


_TRUE = Outcome(value=True)


def _evaluate(program: Any, **values: Any) -> Outcome:
    try:
        result = program.eval(**values)
        value = result.value()
        if value is True:
            return _TRUE
        if result.type() == cel.Type.ERROR:
            return Outcome(error=_sentence(str(value)))
        return Outcome(result.plain_value())
    except Exception as error:  # noqa: BLE001 - an exhausted budget, or a value that the library cannot convert
        return Outcome(error=_sentence(str(error)))


def _compile(env: Any, text: str) -> Any:
    try:
        return env.compile(text)
    except Exception as error:  # noqa: BLE001 - any exception of the library means that it does not compile
        raise _explained(str(error)) from None


def _explained(message: str) -> ExpressionError:
    for line in message.splitlines():
        match = _LOCATION.search(line)
        if match:
            column = int(match.group(2))
            text = _sentence(match.group(3).replace(" (in container '')", ""))
            return ExpressionError(text, column=column if column > 0 else None)
    return ExpressionError(_sentence(message))


def _sentence(message: str) -> str:
    """Return the evaluator's message without its status words."""
    text = message.splitlines()[0] if message else "it failed"
    return re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", text)


def _demand_boolean(program: Any) -> None:
    if not yields_boolean(program):
        raise ExpressionError(
            f"it yields {str(return_type(program)).lower()}, not a boolean", remedy="write a condition"
        )


def _bound(text: str, length: int, nesting: int) -> None:
    if not text.strip():
        raise ExpressionError("it is empty", remedy="write a condition")
    if not is_text(text):
        raise ExpressionError("it holds an unpaired surrogate", remedy="remove it")
    if len(text) > length:
        raise ExpressionError(f"it has {len(text):,} characters, over {length:,}", remedy="shorten it")
    depth = comprehension_depth(text)
    if depth > nesting:
        allowed = "no comprehension" if not nesting else f"comprehensions nested at most {nesting} deep"
        raise ExpressionError(f"it nests comprehensions {depth} deep", remedy=f"{allowed} may stand here")
    if (zone := _named_zone(text)) is not None:
        raise ExpressionError(
            f"it asks the machine for the time zone {zone}",
            remedy='write an offset such as "+02:00", or none for UTC',
        )


def _named_zone(text: str) -> str | None:
    """Return a time zone that is not a fixed offset: it is looked up on the machine, and changes with its files."""
    found = tokens(text)
    for position, token in enumerate(found):
        if token.is_member and token.text in _CLOCK_READINGS:
            opening, zone, closing = ([part.text for part in found[position + 1 : position + 4]] + [""] * 3)[
                :3
            ]
            is_fixed = zone == ")" or (closing == ")" and _OFFSET.fullmatch(zone) is not None)
            if opening == "(" and not is_fixed:
                return zone
    return None


def comprehension_depth(text: str) -> int:
    """Return how deep the comprehensions of an expression nest."""
    depth = deepest = 0
    stack: list[bool] = []
    found = tokens(text)
    for position, token in enumerate(found):
        if token.text == "(":
            before = found[position - 1] if position else None
            opens = before is not None and before.is_member and before.text in COMPREHENSIONS
            stack.append(opens)
            depth += opens
            deepest = max(deepest, depth)
        elif token.text == ")" and stack:
            depth -= stack.pop()
    return deepest


_END = Token("", "mark", is_member=False)


def _parameters_read(text: str, holder: str) -> frozenset[str] | None:
    """Return the names that follow `args.` or `params.`; None if the holder is used in any other way, as in
    `args.size()`.
    """
    found = tokens(text)
    read: set[str] = set()
    for position, token in enumerate(found):
        if token.kind == "literal" and holder in token.text:
            return None  # perhaps s["params"]: defer to dispatch rather than be wrong
        # `args` is a variable, `params` a field of a step: request.args.x is not an argument
        if token.text == holder and token.is_name and (holder == "params" or not token.is_member):
            after = [*found[position + 1 : position + 4], *[_END] * 3]
            if after[0].text != "." or not after[1].is_name or after[2].text == "(":
                return None
            read.add(after[1].text)
    return frozenset(read)


def _fields_read(text: str) -> frozenset[str] | None:
    """Return the names that follow `step.` or the variable of a comprehension; None if an index or a whole step is
    used.
    """
    found = (*tokens(text), _END)
    variables = {"step"} | {
        found[position + 2].text
        for position, token in enumerate(found[:-2])
        if token.is_member and token.text in COMPREHENSIONS and found[position + 1].text == "("
    }
    read: set[str] = set()
    for position, token in enumerate(found[:-1]):
        after = found[position + 1]
        is_declaration = position > 0 and found[position - 1].text == "(" and after.text == ","
        if token.text == "[" or (token.text == "steps" and token.is_member and after.text not in (".", ")")):
            return None
        if token.is_name and not token.is_member and token.text in variables and not is_declaration:
            if after.text != "." or (*found, _END)[position + 3].text == "(":
                return None
            read.add(found[position + 2].text)
    return frozenset(read)


def _cel_type(schema: Any) -> Any:
    kind = (as_object(schema) or {}).get("type")
    return _KINDS.get(kind, _DYN) if isinstance(kind, str) else _DYN

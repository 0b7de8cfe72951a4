"""Rules of a pack: typed when they are compiled, bounded, and failing closed when they run."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.policy.expressions import (
    CALL,
    MAX_RULE_LENGTH,
    PLAN,
    STEP,
    ExpressionError,
    Outcome,
    Scope,
    check_call_rule,
    compile_rule,
    comprehension_depth,
)

FRAME: dict[str, Any] = {
    "request": {"amount": 5},
    "context.tenant": "acme",
    "context.actor": "u1",
    "context.roles": ["agent"],
    "context.safety_mode": "network",
    "decision.id": "d",
    "decision.risk_tier": "high",
}


def evaluated(text: str, args: dict[str, Any]) -> Outcome:
    """What a rule over the arguments of a call yields."""
    values: dict[str, Any] = {**FRAME, "args": args}
    return compile_rule(text, CALL).evaluate(CALL.activation(values))


def refused(text: str, scope: Scope) -> ExpressionError:
    """The error of a rule that does not compile."""
    with pytest.raises(ExpressionError) as caught:
        compile_rule(text, scope)
    assert isinstance(caught.value, UsageError)
    assert caught.value.code == "expression_invalid"
    return caught.value


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("plan.steps.all(s, s.mode != 'destructive' || size(s.gates) > 0)", PLAN),
        ("size(plan.steps) <= 5 && plan.intent == 'support.refund'", PLAN),
        ("'total' in plan.outputs", PLAN),
        ("plan.steps.filter(s, s.tool.startsWith('adp_')).all(s, s.params.exists(k, k == 'id'))", PLAN),
        ("step.mode == 'read_only' || 'finance' in context.roles", STEP),
        ("!has(step.params.amount) || step.params.amount <= 100", STEP),
        ("step.index < 3 && step.reversibility != 'irreversible' && plan.intent != ''", STEP),
        ("args.amount <= request.amount", CALL),
        ("decision.risk_tier in ['low', 'medium'] || context.tenant == 'acme'", CALL),
    ],
)
def test_a_rule_reads_the_variables_of_its_scope(text: str, scope: Scope) -> None:
    """A policy over the plan, a policy over each step, and a limit on a call compile where they belong."""
    rule = compile_rule(text, scope)
    assert (rule.text, rule.scope) == (text, scope)


@pytest.mark.parametrize(
    ("text", "scope", "says", "column"),
    [
        ("plan.stepz == 1", PLAN, "undeclared reference to 'plan.stepz'", 5),
        ("step.id == 's1'", PLAN, "undeclared reference", 5),
        ("size(plan.steps) == 0", STEP, "undeclared reference to 'plan.steps'", 10),
        ("args.a == 1", STEP, "undeclared reference to 'args.a'", 5),
        ("plan.intent == 1", PLAN, "no matching overload for '_==_' applied to '(string, int)'", 13),
        ("step.index == 'one'", STEP, "no matching overload", 12),
        ("context.roles.exists(r, r > 1)", STEP, "no matching overload", 27),
        ("plan.intent", PLAN, "it yields string, not a boolean", None),
        ("size(plan.steps)", PLAN, "it yields int, not a boolean", None),
        ("plan.steps", PLAN, "not a boolean", None),
        ("1 +", PLAN, "Syntax error", 4),
        ("true && ", PLAN, "Syntax error", None),
        ("plan.intent = 'x'", PLAN, "Syntax error", None),
        ("", PLAN, "it is empty", None),
        (" \n\t", PLAN, "it is empty", None),
        ("// nothing", PLAN, "Syntax error", None),
        ("plan.intent == '\ud800'", PLAN, "unpaired surrogate", None),
        ("x" * (MAX_RULE_LENGTH + 1), PLAN, "4,001 characters, over 4,000", None),
        ("(" * 200 + "true" + ")" * 200, PLAN, "recursion", None),
        (
            "plan.steps.all(a, plan.steps.all(b, plan.steps.all(c, true)))",
            PLAN,
            "comprehensions 3 deep",
            None,
        ),
        ("timestamp(request.at).getHours('Europe/Berlin') > 8", PLAN, "time zone 'Europe/Berlin'", None),
        ("timestamp(request.at).getHours(request.zone) > 8", PLAN, "time zone request", None),
    ],
    ids=range(22),
)
def test_a_rule_that_is_none_is_refused_when_it_is_compiled(
    text: str, scope: Scope, says: str, column: int | None
) -> None:
    """Unknown names, wrong types, no boolean, no syntax, too long or too deep: each says what and, if it can, where."""
    error = refused(text, scope)
    assert says in str(error)
    if column is not None:
        assert error.column == column


def test_a_rule_of_full_length_is_compiled() -> None:
    """Many conditions side by side are no deep expression; a long sum is one, and is refused."""
    conditions = " && ".join(["size(plan.steps) < 9"] * 160)
    assert len(conditions) < MAX_RULE_LENGTH
    assert compile_rule(conditions, PLAN).text == conditions
    assert "recursion" in str(refused(" + ".join(["size(plan.steps)"] * 160) + " < 9", PLAN))


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("true", 0),
        ("a.all(x, x)", 1),
        ("a.all(x, x) && b.map(y, y)", 1),
        ("a.all(x, b.exists(y, y))", 2),
        ("a.map(x, b.filter(y, c.exists_one(z, z)))", 3),
        ("a.all(x, (b).all(y, y)) && c.all(z, z)", 2),
        ("'.all(' + a", 0),
        ('"a.all(x, b.all(y, " == s', 0),
        ("a // .all(x, b.all(y, z))", 0),
        ("a.all", 0),
        ("all(x)", 0),
        ("a . all ( x , b\n.all(y, y))", 2),
        ("a.//c\nall(x, x)", 1),
        ("a.size()", 0),
        ("a.all(x, x", 1),
        (")))a.all(x, x)", 1),
        ("'''it's .all('''.map(x, x)", 1),
        (r"r'\'.map(x, x)", 1),
    ],
)
def test_comprehensions_are_counted_where_they_are(text: str, depth: int) -> None:
    """What only looks like a comprehension, in a string, a comment or a field, is none."""
    assert comprehension_depth(text) == depth


@pytest.mark.parametrize(
    ("text", "args", "error"),
    [
        ("args.amount < 5", {}, 'Key not found in map : "amount"'),
        ("args.amount < 5", {"amount": "many"}, "No matching overloads"),
        ("args.a", {"a": 1}, None),
        ("10 / args.a > 1", {"a": 0}, "divide by zero"),
        ("args.a + 9223372036854775807 > 0", {"a": 1}, "integer overflow"),
        ("args.a == 1", {"a": 2**80}, "out of range"),
        ("args.a == 'x'", {"a": "\ud800"}, ""),
        ("size(args) > 0", {"\ud800": 1}, ""),
        ("args.a == 1", {"a": object()}, "Non-CEL value type"),
        (
            "args.list.all(a, args.list.all(b, a != b || true))",
            {"list": list(range(200))},
            "Iteration budget exceeded",
        ),
        ("args.a.matches('(')", {"a": "x"}, ""),
    ],
    ids=range(11),
)
def test_a_rule_that_fails_has_not_held(text: str, args: dict[str, Any], error: str | None) -> None:
    """A missing key, a wrong type, an overflow, a value CEL has not, too many iterations: none of them is a yes."""
    outcome = evaluated(text, args)
    assert not outcome.holds
    if error is not None:
        assert outcome.error is not None
        assert error in outcome.error


def test_only_true_holds() -> None:
    """A rule that yields anything but true, though it might be taken for it, has not held."""
    assert evaluated("args.a", {"a": True}).holds
    for value in (False, 1, "true", [True], None):
        assert not evaluated("args.a", {"a": value}).holds


def test_comparing_with_nan_is_false() -> None:
    """A number that is none is not below a limit."""
    assert not evaluated("args.a < 5.0 || args.a >= 5.0", {"a": math.nan}).holds


def test_integers_and_floats_compare_by_value() -> None:
    """JSON knows one kind of number, so a limit on 5 means 5.0 as well."""
    assert evaluated("args.a <= 5", {"a": 5.0}).holds
    assert evaluated("args.a <= 5.5", {"a": 5}).holds
    assert not evaluated("args.a < 5", {"a": 5.000001}).holds


@pytest.mark.parametrize(
    ("text", "scope", "reads"),
    [
        ("args.a < args.b", CALL, {"a", "b"}),
        ("has(args.a) || true", CALL, {"a"}),
        ("args.`order-id` == 'x'", CALL, {"order-id"}),
        (".args.a == 1", CALL, {"a"}),
        ("request.args.x == 1", CALL, set[str]()),
        ("context.tenant == 'acme'", CALL, set[str]()),
        ("args['a'] == 1", CALL, None),
        ("args.size() > 1", CALL, None),
        ("size(args) > 1", CALL, None),
        ("args.all(k, k != 'x')", CALL, None),
        ("args == request", CALL, None),
        ("step.params.amount < 5", STEP, {"amount"}),
        ("step.params.all(k, k != 'x')", STEP, None),
        ("step.params['amount'] < 5", STEP, None),
        ("plan.steps.all(s, s.params.amount < 5)", PLAN, {"amount"}),
        ("plan.steps.all(s, s['params'].amount < 5)", PLAN, None),
        ("plan.steps.map(s, s.params).all(p, p.amount < 5)", PLAN, None),
        ("plan.steps.all(s, s.mode == 'read_only')", PLAN, set[str]()),
    ],
)
def test_a_rule_knows_which_parameters_it_reads(text: str, scope: Scope, reads: set[str] | None) -> None:
    """By name where names tell it; otherwise it says that they do not, and is asked again at dispatch."""
    assert compile_rule(text, scope).reads == reads


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("plan.steps.all(s, s.mode == 'read_only' && s.tool != '')", {"mode", "tool"}),
        ("size(plan.steps) < 5", set[str]()),
        ("plan.steps.all(s, s.size() > 3)", None),
        ("plan.steps.all(s, s == request.s)", None),
        ("plan.steps[0].mode == 'read_only'", None),
        ("plan.steps == request.steps", None),
    ],
)
def test_a_rule_knows_which_fields_of_steps_it_reads(text: str, fields: set[str] | None) -> None:
    """Where a whole step is used, every field counts."""
    assert compile_rule(text, PLAN).fields == fields


SCHEMA: dict[str, Any] = {
    "amount": {"type": "integer"},
    "rate": {"type": "number"},
    "to": {"type": "string"},
    "fast": {"type": "boolean"},
    "lines": {"type": "array"},
    "meta": {"type": "object"},
    "maybe": {"type": ["integer", "null"]},
    "order-id": {"type": "string"},
    "free": True,
}


@pytest.mark.parametrize(
    "text",
    [
        "args.amount < 5 && args.rate < 0.5",
        "args.to.startsWith('acc_')",
        "args.fast || args.amount > 1",
        "has(args.amount) && args.amount > 1",
        "!has( args . to ) || args.to == 'has(args.zz)'",
        "has(args.`order-id`) && args.`order-id` != ''",
        "has(args.meta.x) && args.meta.x == 1",
        "args.lines.all(l, l.n > 0)",
        "args.maybe == null || args.maybe > 1",
        "args.free == request.free",
        "args['amount'] > 1",
        "size(args) < 3",
        "request.args.x == 1",
    ],
)
def test_a_limit_that_fits_the_parameters(text: str) -> None:
    """A condition on arguments is typed by the schema of the parameters."""
    check_call_rule(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("args.amount < 'five'", "no matching overload"),
        ("args.to + 1 == 2", "no matching overload"),
        ("args.fast > 1", "no matching overload"),
        ("args.amount", "it yields int, not a boolean"),
        ("args.ammount < 5", "args.ammount is no parameter of this tool"),
        ("has(args.ammount)", "args.ammount is no parameter of this tool"),
        ("args.`order-id` > 1", "no matching overload"),
        ("arg.amount < 5", "undeclared reference"),
        ("args.amount <", "Syntax error"),
    ],
)
def test_a_limit_that_does_not_fit_is_refused_when_the_pack_is_checked(text: str, says: str) -> None:
    """A wrong type or a misspelt parameter is found before any plan is."""
    with pytest.raises(ExpressionError) as caught:
        check_call_rule(text, SCHEMA)
    assert says in str(caught.value)


def test_messages_are_for_people() -> None:
    """The evaluator's status words and containers are left out."""
    assert str(refused("size(plan.steps)" + " + 1" * 30 + " < 9", PLAN)).endswith("when parsing.")
    assert str(refused("plan.stepz == 1", PLAN)) == "undeclared reference to 'plan.stepz'"
    assert evaluated("args.a < 5", {}).error == 'Key not found in map : "a"'


def test_an_unknown_parameter_is_answered_with_the_known_ones() -> None:
    """The remedy lists what the tool has."""
    with pytest.raises(ExpressionError) as caught:
        check_call_rule("args.x", {"amount": {}, "to": {}})
    assert caught.value.remedy == "it has amount, to"
    with pytest.raises(ExpressionError, match="it has none"):
        check_call_rule("args.x", {})

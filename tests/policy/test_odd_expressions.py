"""Expressions that the CEL library does not expect: each gets a typed answer, and never another exception."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan
from tercet.contracts.values import references
from tercet.contracts.values.formulas import parse_formula
from tercet.contracts.verdict import Verdict
from tercet.critic.verify import verify
from tercet.policy.expressions import (
    CALL,
    MAX_PLANNER_PROGRAMS,
    PLAN,
    ExpressionError,
    compile_amount,
    compile_planner,
    compile_rule,
    evaluate_planner,
    yields_boolean,
)
from tercet.policy.resolution import ResolutionError, resolve

ODD_KEYS = ["{{}: 1}", "{[1]: 1}", "{1.5: 1}", "{null: 1}", "{b'': 1}", "{type(1): 1}", "[{{}: 1}]"]


def review(**fields: Any) -> Verdict:
    """The review of a plan of one note."""
    step = {"id": "a", "kind": "note", **fields}
    plan = Plan.model_validate({"steps": [{"id": "b", "kind": "note"}, step]})
    return verify(RunContext(), CompiledContext(), DecisionSpec(id="d"), plan)


@pytest.mark.parametrize("text", ODD_KEYS)
def test_a_map_with_keys_that_cannot_be_keys_is_refused_at_review(text: str) -> None:
    """The library compiles it and raises when it is asked for the type."""
    for verdict in (review(when=text), review(params={"x": {"$cel": text}})):
        assert verdict.code == "expression_invalid"
        assert "Unsupported map key type" in verdict.reasons[0]
    with pytest.raises(ExpressionError):
        yields_boolean(compile_planner(text, frozenset[str]()))
    for compiling in (compile_rule, compile_amount):
        with pytest.raises(ExpressionError):
            compiling(text, PLAN)


class _Strange:
    """A program, environment or result of a library that fails in a way of its own."""

    def __getattr__(self, name: str) -> Any:
        raise TypeError(f"no {name} today")


def test_whatever_the_library_raises_is_a_failed_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """At run time too: a rule that fails in an unexpected way has not held."""
    rule = compile_rule("args.x == 1", CALL)
    broken = type(rule)(rule.text, rule.scope, _Strange(), rule.reads)
    outcome = broken.evaluate(CALL.activation({}))
    assert not outcome.holds
    assert outcome.error == "no eval today"

    def strange_env(_: frozenset[str]) -> Any:
        return _Strange()

    monkeypatch.setattr("tercet.policy.expressions._planner_env", strange_env)
    assert evaluate_planner("a.never_seen_before", {"a": 1}).error == "no compile today"


NAMES = st.sampled_from(
    ["a", "b", "request", "evidence", "self", "int", "type", "google", "for", "in", "`x-y`", "_"]
)
LITERALS = st.sampled_from(
    ["1", "0", "-1", "1u", "1.5", ".5", "1e400", "0x1F", "'t'", '"\\n"', "b'x'", "r'\\'", "true", "null", "''", "9" * 20, "'''a'''", "{}", "[]"]
)  # fmt: skip
MARKS = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    " in ",
    "?",
    ":",
    ",",
    ".",
    "=",
    "&",
    "!",
]


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(inner, st.sampled_from(MARKS), inner).map("".join)
    wrapped = st.tuples(st.sampled_from(["({})", "[{}]", "!{}", "-{}", "size({})", "has({})", "{{{}: 1}}", "{{1: {}}}", "type({})", "dyn({})", "string({})", "{}.size()", "{}.b", "{}[0]", "{}{{}}", "timestamp({})", "{}.matches({})"]), inner)  # fmt: skip
    return (
        pairs
        | wrapped.map(lambda found: found[0].replace("{}", found[1]).replace("{{", "{").replace("}}", "}"))
        | st.tuples(inner, inner, inner).map(lambda each: "{}?{}:{}".format(*each))
        | st.tuples(inner, inner).map(lambda each: "{{{}: {}}}".format(*each))
        | st.tuples(inner, inner).map(lambda each: "{}[{}]".format(*each))
    )


TEXTS = st.recursive(NAMES | LITERALS, _combined, max_leaves=6) | st.text(
    "ab.[](){}'\"+-?:!=1 \n/`", max_size=25
)


@settings(max_examples=150)
@given(TEXTS)
def test_no_expression_makes_anything_raise(text: str) -> None:
    """Review, compilation, evaluation and the recogniser of formulas answer to every text."""
    review(when=text, params={"x": {"$cel": text}})
    parse_formula(text)
    for scope in (PLAN, CALL):
        with suppress(ExpressionError):
            compile_rule(text, scope).evaluate(scope.activation({}))
    results = {name: {"b": [1, {"c": "d"}]} for name in references.names(text) if name != "evidence"}
    with suppress(ResolutionError):
        resolve({"x": {"$cel": text}}, results, {"kg:a:b#snapshot_c": 1})


@settings(max_examples=150)
@given(TEXTS)
def test_a_formula_reads_what_the_scanner_reads(text: str) -> None:
    """The recogniser and the scanner see the same names and the same constants, or it is no formula."""
    formula = parse_formula(text)
    if formula is not None:
        sources = [*formula.values, *formula.consulted]
        reads = [source for source in sources if isinstance(source, references.Read)]
        # A source of a choice within a condition is read once and consulted once.
        assert {read.name for read in reads} == {read.name for read in references.reads(text)}
        assert len(sources) >= len(reads) > 0 or not references.reads(text)


def test_a_refused_plan_of_many_steps_compiles_nothing() -> None:
    """A plan far beyond its budget of steps is refused by counting them."""
    compile_planner.cache_clear()
    steps = [
        {"id": f"n{i}", "kind": "note", "params": {"v": {"$cel": f"n{i - 1}.v + {i}"}}}
        for i in range(1, 2_000)
    ]
    verdict = verify(
        RunContext(), CompiledContext(), DecisionSpec(id="d"), Plan.model_validate({"steps": steps})
    )
    assert verdict.code == "too_many_steps"
    assert compile_planner.cache_info().misses == 0


def test_the_compiled_expressions_that_are_kept_are_bounded() -> None:
    """Each keeps an environment of its own alive, so thousands of them would be hundreds of megabytes."""
    for number in range(MAX_PLANNER_PROGRAMS * 2):
        compile_planner(f"n{number}.v", frozenset({f"n{number}"}))
    assert compile_planner.cache_info().currsize <= MAX_PLANNER_PROGRAMS <= 256

"""What a planner may write in CEL: bounded, without comprehensions, over the names it uses, and only JSON comes out."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.values.plain import not_plain
from tercet.policy.expressions import (
    MAX_PLANNER_LENGTH,
    ExpressionError,
    compile_planner,
    evaluate_planner,
    yields_boolean,
)

S1: dict[str, Any] = {
    "total": 100,
    "fee": 2.5,
    "items": [{"sku": "k1"}],
    "ok": True,
    "name": "Ada",
    "none": None,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s1.total - 40", 60),
        ("s1.fee * 2.0", 5.0),
        ("double(s1.total) - s1.fee", 97.5),
        ("s1.items[0].sku", "k1"),
        ('s1["name"] + "!"', "Ada!"),
        ("s1.ok ? 1 : 2", 1),
        ("s1.none", None),
        ("[s1.total, s1.name]", [100, "Ada"]),
        ('{"a": s1.ok, "b": [s1.fee]}', {"a": True, "b": [2.5]}),
        ("s1.items", [{"sku": "k1"}]),
        ("has(s1.zz) ? s1.zz : 'none'", "none"),
        ("size(s1.items) == 1 && s1.name.startsWith('A')", True),
        ("s1.total / 30", 3),
        (".s1.total", 100),
    ],
)
def test_a_value_is_computed(text: str, expected: Any) -> None:
    """Sums, differences, choices and new lists and objects of what a step brought."""
    outcome = evaluate_planner(text, {"s1": S1})
    assert (outcome.value, outcome.error) == (expected, None)
    assert type(outcome.value) is type(expected)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("s1.items.map(i, i.sku)", "no comprehension may stand here"),
        ("s1.items.all(i, true)", "no comprehension"),
        ("s1.items . exists (i, true)", "no comprehension"),
        ("s2.total", "undeclared reference to 's2"),
        ("s1.total +", "Syntax error"),
        ("", "it is empty"),
        ("x" * (MAX_PLANNER_LENGTH + 1), "1,001 characters, over 1,000"),
        ("'\ud800'", "unpaired surrogate"),
        ("timestamp('2026-01-01T00:00:00Z').getHours('Europe/Berlin')", "time zone"),
        ("s1.missing", "Key not found"),
        ("s1.total + s1.name", "No matching overloads"),
        ("s1.total / 0", "divide by zero"),
        ("s1.total % 0", ""),
        ("9223372036854775807 + s1.total", "integer overflow"),
        ("s1.items[7]", ""),
        ("int(s1.name)", ""),
        ("google.protobuf.Any{}", ""),
    ],
    ids=range(17),
)
def test_an_expression_that_fails_yields_nothing(text: str, says: str) -> None:
    """Whether it does not compile or does not run, the outcome says why and is no value."""
    outcome = evaluate_planner(text, {"s1": S1})
    assert outcome.value is None
    assert outcome.error is not None
    assert says in outcome.error
    assert not outcome.holds


@pytest.mark.parametrize(
    "text",
    [
        "b'bytes'",
        "timestamp('2026-01-01T00:00:00Z')",
        "duration('1s')",
        "type(1)",
        "1.0 / 0.0",
        "-1.0 / 0.0",
        "double('NaN')",
        "{1: 2}",
        "{true: 2}",
        "{'a': [b'x']}",
        "9007199254740992",
        "18446744073709551615u",
        "1e300",
    ],
)
def test_a_value_that_json_has_not_is_no_value(text: str) -> None:
    """CEL knows more than JSON; what cannot be a parameter is refused where it is computed."""
    outcome = evaluate_planner(text, {})
    assert outcome.value is None
    assert outcome.error is not None
    assert outcome.error.startswith("it yields no JSON value")


BOMBS = {
    "a long sum of strings": "'a'" + "+'a'" * 249,
    "doubling": "(" * 100 + "s1" + "+s1)" * 100,
    "deep parentheses": "(" * 499 + "1" + ")" * 499,
    "deep lists": "[" * 499 + "]" * 499,
    "deep objects": "{'a':" * 120 + "1" + "}" * 120,
    "a wide list": "[" + "1," * 480 + "1]",
    "many minuses": "-" * 900 + "1",
    "many nots": "!" * 900 + "true",
    "a long ternary": "true?" * 140 + "1" + ":2" * 140,
    "many conditions": "||".join(["s1==s1"] * 120),
    "a regular expression": "'" + "a" * 400 + "b'.matches('(a*)*(a*)*(a*)*c')",
    "selections": "s1" + ".a" * 480,
    "calls": "size(" * 160 + "s1" + ")" * 160,
    "a long number": "1" * 999,
    "a long name": "n" * 999,
    "half a string": "'" + "a" * 900,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_comes_to_an_end(bomb: str) -> None:
    """The worst that fits into the allowed length is evaluated or refused at once, and nothing grows without bound."""
    assert len(BOMBS[bomb]) <= MAX_PLANNER_LENGTH
    started = time.process_time()  # CPU time: other processes do not count
    outcome = evaluate_planner(BOMBS[bomb], {"s1": "x" * 1_000})
    assert time.process_time() - started < 1.0
    assert outcome.error is not None or len(repr(outcome.value)) < 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s1.ok", True),
        ("s1.total > 3", True),
        ("true", True),
        ("size('a')", False),
        ("'x'", False),
        ("[true]", False),
    ],
)
def test_a_condition_can_be_told_from_a_value(text: str, expected: bool) -> None:
    """An expression whose type says that it is no boolean cannot be a condition."""
    assert yields_boolean(compile_planner(text, frozenset({"s1"}))) is expected


def test_an_expression_is_compiled_over_its_names_alone() -> None:
    """A name that it does not declare is not there, whatever other expressions have."""
    compile_planner("s1.a + s2.b", frozenset({"s1", "s2"}))
    with pytest.raises(ExpressionError, match="undeclared reference to 's2"):
        compile_planner("s1.a + s2.b", frozenset({"s1"}))


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.sampled_from(
            ["s1", ".total", ".items", "[0]", "+", "-", "==", "?", ":", "(", ")", "[", "]", "{", "}", "'a'", "1", "1.5", ",",
             "size", "!", "&&", "true", "null", "in", " ", "\n", '"', "b", "u", "\\", "é", "\x00", ".map(x,x)"]
        ),
        max_size=15,
    ).map("".join)
)  # fmt: skip
def test_any_text_yields_json_or_a_reason(text: str) -> None:
    """Whatever a planner writes, the outcome is JSON or says why there is none."""
    outcome = evaluate_planner(text, {"s1": S1})
    if outcome.error is None:
        assert not_plain(outcome.value) is None
    else:
        assert outcome.error
        assert outcome.value is None

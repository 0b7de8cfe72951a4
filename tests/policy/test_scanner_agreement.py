"""The scanner against the evaluator: nothing that an expression reads hides from it.

Trust is decided by what the scanner sees, and values by what the evaluator does. So expressions are spelt in every way
that CEL allows, and evaluated a second time on nothing but what the scanner says they read.
"""

from __future__ import annotations

from typing import Any, cast

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tercet.contracts.values.references import Read, constants, evidence_read, names, reads
from tercet.policy.expressions import Outcome, comprehension_depth, evaluate_planner

FIELDS: dict[str, Any] = {"a": 1, "b": 2, "a//b": 3, "in": 4, "list": [5, 6], "deep": {"c": 7, "s1": 8}}
VALUES: dict[str, Any] = {
    "s1": FIELDS,
    "s2": {**FIELDS, "a": 11},
    "evidence": {"ok": {**FIELDS, "a": 21}, "evil": {**FIELDS, "a": 31}},
}

gaps = st.sampled_from(["", "", "", " ", "\n", " // s2.a + evidence['evil'].a\n", "\t"])
roots = st.sampled_from(
    [
        "s1",
        "s2",
        ".s1",
        ".s2",
        ". s1",
        'evidence["ok"]',
        "evidence['evil']",
        '.evidence["evil"]',
        "evidence [ 'ok' ]",
    ]
)
ways = st.sampled_from(
    [".a", ".b", '["a"]', "['b']", ".`a`", ".`a//b`", '["a//b"]', "['''a''']", 'r["a"]'[1:], ".list[0]", '["list"][1]', ".deep.c",
     ".deep.s1", ".deep['c']", ".\na", '["\\x61"]', '[r"a"]']
)  # fmt: skip
numbers = st.sampled_from(
    ["1", "0x1F", "21", "1 ", "(5)", "-2", "int(.5)", "size('s1')", 'size("""\\"""")', "size(r'\\\\')"]
)
strings = st.sampled_from(
    [
        '"s1"',
        "'evidence'",
        '"\\""',
        '"""s2"""',
        "'''it's'''",
        '"""\\""""',
        'r"\\\\"',
        '"//"',
        "'#'",
        "R'''\\n'''",
        "string(1)",
    ]
)
reading = st.tuples(roots, gaps, ways).map("".join)


def joined(*parts: str | st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The parts of an expression, with space or comments between them."""
    spaced: list[st.SearchStrategy[str]] = []
    for part in parts:
        spaced += [st.just(part) if isinstance(part, str) else part, gaps]
    return st.tuples(*spaced).map("".join)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Larger expressions, numbers all of them."""
    condition = (
        joined(inner, "==", inner)
        | joined(inner, "in", "[", inner, ",", inner, "]")
        | joined("0in", "[", inner, "]")
        | joined("1in.s1.list")
        | joined(strings, "==", strings)
        | joined(
            "has(",
            st.sampled_from(["s1.a", ".s2.zz", "s1.deep.c", 'evidence["evil"].b', "evidence['ok'].`a//b`"]),
            ")",
        )
        | joined("'a' in", st.sampled_from(["s1", ".s2", "evidence['evil']", ".evidence.ok", "evidence"]))
    )
    return (
        joined(inner, "+", inner)
        | joined("(", inner, ")")
        | joined("[", inner, ",", inner, "]", "[0]")
        | joined('{"k":', inner, "}", ".k")
        | joined(condition, "?", inner, ":", inner)
        | joined("s1", "[", condition, "?", "'a'", ":", "'b'", "]")
    )


expressions = st.recursive(reading | numbers, grown, max_leaves=5)


def evaluated(expression: str, values: dict[str, Any]) -> Outcome:
    """What the expression yields over these values alone."""
    return evaluate_planner(expression, values)


def pruned(value: Any, places: list[tuple[str | int, ...]]) -> Any:
    """What is left of a value if only these places can be read; items of lists keep their places."""
    if () in places:
        return value
    heads = {place[0] for place in places}
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {
            key: pruned(member, [place[1:] for place in places if place[0] == key])
            for key, member in members.items()
            if key in heads
        }
    return value


@settings(deadline=None, max_examples=250)
@given(expressions)
@example('evidence["ok"].`a//b` + evidence["evil"].a')
@example('0in.evidence["evil"].list ? 5 : evidence["ok"].a')
@example("s1.a + .s1.b")
@example('"""\\"""" == "" ? s1.a : s2.a')
def test_an_expression_yields_the_same_over_what_it_is_seen_to_read(expression: str) -> None:
    """Take away every name, field and fact that the scanner does not see, and nothing changes."""
    full = evaluated(expression, VALUES)
    assume(full.error is None)
    named = names(expression)
    assert set(named) <= set(VALUES)
    assert evaluated(expression, {name: VALUES[name] for name in named}) == full

    found: list[Read] = reads(expression)
    assert {read.name for read in found} == set(named)
    left = {name: pruned(VALUES[name], [read.place for read in found if read.name == name]) for name in named}
    assert evaluated(expression, left) == full

    refs = evidence_read(expression)
    if refs is not None and "evidence" in named:
        facts = {ref: VALUES["evidence"][ref] for ref in refs}
        assert evaluated(expression, {**left, "evidence": facts}) == full


@settings(deadline=None, max_examples=100)
@given(expressions)
def test_every_expression_is_seen_to_read_or_to_write_something(expression: str) -> None:
    """A value comes from a name or from a constant, so one that computes has one of them in it."""
    full = evaluated(expression, VALUES)
    assume(full.error is None)
    assert names(expression) or constants(expression)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.sampled_from(
            [
                '"',
                "'",
                "\\",
                "s1",
                ".",
                "`",
                "//",
                "\n",
                "(",
                ")",
                ".map(",
                "r",
                "b",
                '"""',
                "'''",
                "x",
                ",",
                " ",
            ]
        ),
        max_size=12,
    )
)
def test_a_comprehension_never_hides(parts: list[str]) -> None:
    """Whatever quotes and comments stand around it: what compiles has no comprehension that was not counted."""
    expression = "".join(parts)
    outcome = evaluate_planner(f"{expression}.map(x, x)", {"s1": [1], "x": 1})
    if outcome.error is None:
        assert comprehension_depth(f"{expression}.map(x, x)") == 0
        assert ".map(x, x)" in str(constants(f"{expression}.map(x, x)")) or "//" in expression

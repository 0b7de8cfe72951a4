"""A plan that does not parse: every problem at once, each at its place as the author wrote it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import orjson
import pytest

from tercet.contracts import plan_formats
from tercet.contracts.errors import PlanError, UsageError
from tercet.contracts.plan import Plan, Step
from tercet.contracts.plan_formats import MAX_BYTES, MAX_PROBLEMS, PlanFormat, load_plan
from tercet.contracts.problem import Problem


def problems(source: Any, shape: PlanFormat | None = None) -> tuple[Problem, ...]:
    """Everything that is wrong with a plan."""
    with pytest.raises(PlanError) as caught:
        load_plan(source, shape)
    assert isinstance(caught.value, UsageError)
    return caught.value.problems


def places(source: Any) -> list[tuple[str, str]]:
    """The code and place of each problem."""
    return [(problem.code, problem.place) for problem in problems(source)]


def note(**fields: Any) -> dict[str, Any]:
    """A plan of one note."""
    return {"steps": [{"id": "a", "kind": "note", **fields}]}


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


NO_OBJECTS: dict[str, tuple[Any, str]] = {
    "empty text": ("", "not_json"),
    "empty bytes": (b"", "not_json"),
    "cut off": ("{", "not_json"),
    "not UTF-8": (b"\xff\xfe{}", "not_json"),
    "more than one value": ('{"steps": []} {}', "not_json"),
    "NaN": ('{"steps": [], "outputs": {"a": NaN}}', "not_json"),
    "Infinity": ('{"steps": [], "outputs": {"a": Infinity}}', "not_json"),
    "too large a number": ('{"steps": [], "outputs": {"a": 1e999}}', "not_json"),
    "an unpaired surrogate": ('{"steps": [], "outputs": {"a": "\\ud800"}}', "not_json"),
    "an unpaired surrogate in a key": ('{"steps": [], "outputs": {"\\udc00": 1}}', "not_json"),
    "an unencodable text": ('{"steps": [], "plan_id": "\ud800"}', "not_json"),
    "without end": ("[" * 100_000 + "]" * 100_000, "not_json"),
    "a list": ("[]", "not_an_object"),
    "null": ("null", "not_an_object"),
    "a string": ('"steps"', "not_an_object"),
    "a number": ("3", "not_an_object"),
    "a boolean": ("true", "not_an_object"),
    "None": (None, "not_an_object"),
    "a Python list": ([1], "not_an_object"),
    "a Python object": (object(), "not_an_object"),
    "too many characters": (f'{{"plan_id": "{"x" * MAX_BYTES}"}}', "plan_too_large"),
    "too many bytes in characters": (f'{{"plan_id": "{"é" * (MAX_BYTES // 2)}"}}', "plan_too_large"),
    "too many bytes": (b" " * (17 * 2**20), "plan_too_large"),
}


@pytest.mark.parametrize("case", NO_OBJECTS)
def test_what_is_no_json_object_is_refused(case: str) -> None:
    """A text that holds no plan is refused as a whole, with one problem that says what a plan is."""
    source, code = NO_OBJECTS[case]
    (problem,) = problems(source)
    assert (problem.code, problem.place) == (code, "")
    assert problem.remedy


@pytest.mark.parametrize(
    ("case", "message", "remedy"),
    [
        ("not UTF-8", "not UTF-8 text", "as UTF-8"),
        ("an unencodable text", "not UTF-8 text", "as UTF-8"),
        ("without end", "nested too deep", "flatten it"),
        ("an unpaired surrogate", "not JSON", "unpaired surrogates"),
        ("cut off", "not JSON", "one JSON object"),
    ],
)
def test_a_text_that_cannot_be_read_is_told_apart(case: str, message: str, remedy: str) -> None:
    """Bytes in another encoding and endless nesting are not called bad JSON, and have remedies of their own."""
    (problem,) = problems(NO_OBJECTS[case][0])
    assert problem.message.startswith(message)
    assert remedy in problem.remedy


@pytest.mark.req("R63")
def test_every_problem_is_told_at_once() -> None:
    """Wrong fields, ids, kinds, references and missing parts are all listed, wherever they stand."""
    document = {
        "plan": "do the refund",
        "steps": [
            {"id": "a", "kind": "note", "why": 1, "params": {"q": {"$frm": "a"}}},
            {"id": "a", "note": 2, "compensate": {"tool": "x.undo", "params": {"z": {"$q": 1}}}},
            {"id": "request", "kind": "act"},
            "then pay",
            {"tool": "x.y", "params": [1], "depends_on": "a"},
        ],
        "outputs": {"total": {"$from": 3}},
        "declared_outputs": ["a", 5],
        "revision": 0,
    }
    assert set(places(document)) == {
        ("unknown_field", "/plan"),
        ("unknown_field", "/steps/0/why"),
        ("malformed_value", "/steps/0/params/q"),
        ("unknown_field", "/steps/1/note"),
        ("duplicate_id", "/steps/1/id"),
        ("wrong_value", "/steps/1"),
        ("malformed_value", "/steps/1/compensate/params/z"),
        ("wrong_value", "/steps/2/id"),
        ("wrong_value", "/steps/2/kind"),
        ("wrong_value", "/steps/3"),
        ("missing_field", "/steps/4/id"),
        ("wrong_value", "/steps/4/params"),
        ("wrong_value", "/steps/4/depends_on"),
        ("malformed_value", "/outputs/total"),
        ("wrong_value", "/declared_outputs/1"),
        ("wrong_value", "/revision"),
    }


def test_places_are_those_that_the_author_wrote() -> None:
    """A problem in `args`, `requires` or listed `outputs` is told there, not at the model's own name."""
    document = {
        "steps": [
            {
                "adapter_id": "orders",
                "capability_id": "get",
                "args": {"a/b": {"$from": "s1#total"}},
                "requires": [1],
            }
        ],
        "declared_outputs": ["a"],
        "outputs": ["b", 7],
    }
    assert places(document) == [
        ("wrong_value", "/steps/0/requires/0"),
        ("wrong_value", "/outputs/1"),
        ("malformed_value", "/steps/0/args/a~1b"),
    ]


def test_a_remedy_names_the_known_fields() -> None:
    """The remedy of an unknown field lists what may stand there."""
    (top,) = problems({"steps": [], "stepz": []})
    assert top.message == "unknown field 'stepz'"
    assert {"steps", "declared_outputs"} <= set(re.findall(r"\w+", top.remedy))
    (own,) = problems(note(parms={}))
    assert {"params", "depends_on"} <= set(re.findall(r"\w+", own.remedy))


WRONG_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"estimated_tokens": "5"}, "/steps/0/estimated_tokens"),
    ({"estimated_tokens": 5.0}, "/steps/0/estimated_tokens"),
    ({"estimated_tokens": True}, "/steps/0/estimated_tokens"),
    ({"estimated_tokens": -1}, "/steps/0/estimated_tokens"),
    ({"estimated_tokens": 10**5_000}, "/steps/0/estimated_tokens"),
    ({"estimated_ms": "soon"}, "/steps/0/estimated_ms"),
    ({"priority": 10**7}, "/steps/0/priority"),
    ({"optional": "yes"}, "/steps/0/optional"),
    ({"optional": 1}, "/steps/0/optional"),
    ({"params": None}, "/steps/0/params"),
    ({"depends_on": [1]}, "/steps/0/depends_on/0"),
    ({"depends_on": ["\ud800"]}, "/steps/0/depends_on/0"),
    ({"approval_mode": "sudo"}, "/steps/0/approval_mode"),
    ({"gates": "G"}, "/steps/0/gates"),
    ({"evidence_refs": ["\udc00"]}, "/steps/0/evidence_refs/0"),
    ({"evidence_queries": [{"classification": "x"}]}, "/steps/0/evidence_queries/0"),
    ({"when": "\ud800"}, "/steps/0/when"),
    ({"when": "x" * 2_001}, "/steps/0/when"),
    ({"kind": "shell"}, "/steps/0/kind"),
    ({"id": 7}, "/steps/0/id"),
    ({"id": ""}, "/steps/0/id"),
    ({"id": "a b"}, "/steps/0/id"),
    ({"id": "a\n"}, "/steps/0/id"),
    ({"id": "x" * 65}, "/steps/0/id"),
    ({"id": "-a"}, "/steps/0/id"),
    ({"id": "request"}, "/steps/0/id"),
    ({"id": "evidence"}, "/steps/0/id"),
    ({"id": "self"}, "/steps/0/id"),
    ({"id": "params"}, "/steps/0/id"),
    ({"id": nested(1_000)}, "/steps/0/id"),
    ({"kind": "tool"}, "/steps/0"),
    ({"kind": "tool", "tool": "nodot"}, "/steps/0"),
    ({"kind": "tool", "tool": "a.b c"}, "/steps/0"),
    ({"tool": "a.b"}, "/steps/0"),
]


@pytest.mark.parametrize("number", range(len(WRONG_FIELDS)))
@pytest.mark.req("R63")
def test_a_wrong_field_is_one_problem_at_its_place(number: int) -> None:
    """A field of a wrong type or value is refused where it stands; nothing is quietly turned into another type."""
    fields, place = WRONG_FIELDS[number]
    (problem,) = problems(note(**fields))
    assert problem.place == place
    assert problem.message


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        "\ud800",
        {"\ud800": 1},
        {1: 2},
        {(1, 2): 3},
        {1, 2},
        (1, 2),
        b"x",
        Decimal(1),
        object(),
        PlanFormat.NAMED,
        2**53,
        -(2**53),
        10**5_000,
        2.0**53,
        -1e300,
        nested(100),
        nested(100_000),
        {"$from": "s1#/\ud800"},
        {"$cel": "\ud800"},
        {"$evidence": "\ud800"},
        {"$literal": {"$x": "\ud800"}},
        {"$from": 3},
        {"$from": ""},
        {"$from": "s1#total"},
        {"$from": "s1", "$cel": "s1"},
        {"$from": "s1", "default": 0},
        {"$unknown": 1},
        {"$": 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_cannot_be_sent_is_refused(value: Any) -> None:
    """A plan built in Python holds nothing that JSON has not, and no reference that is none, at any depth."""
    for where in ({"params": {"x": [value]}}, {"compensate": {"tool": "x.y", "params": {"x": [value]}}}):
        (problem,) = problems({"steps": [{"id": "a", "tool": "x.y", **where}]})
        assert problem.code == "malformed_value"
        assert problem.place.startswith("/steps/0/")
        assert "/params/x/0" in problem.place
    with pytest.raises(PlanError):
        Plan(steps=(Step(id="a", kind="note", params={"x": value}),))
    with pytest.raises(PlanError):
        Plan(steps=(), outputs={"x": value})


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"steps": [], "\ud800": 1}, ""),
        ({"steps": [], 1: 1}, "/1"),
        (note(**{"\ud800": 1}), "/steps/0"),
        (note(params={1: 2}), "/steps/0/params/1"),
        ({"steps": [], "plan_id": "\ud800"}, "/plan_id"),
        ({"steps": [], "parent": "\ud800"}, "/parent"),
        ({"steps": [], "declared_outputs": ["\ud800"]}, "/declared_outputs/0"),
        ({"steps": [], "outputs": {"\ud800": 1}}, "/outputs"),
        ({"steps": ({"id": number} for number in range(1))}, "/steps/0/id"),
        ({"steps": {"a": {"id": 1}}.values()}, "/steps/0/id"),
        ({"steps": [nested(100_000)]}, "/steps/0"),
        ({"steps": None}, "/steps"),
        ({}, "/steps"),
    ],
    ids=range(13),
)
def test_what_python_allows_and_json_does_not_is_refused(document: Mapping[str, Any], place: str) -> None:
    """Odd keys, surrogates and odd containers of a document built in Python are problems like any other."""
    assert place in [problem.place for problem in problems(document)]


def test_a_long_number_is_not_quietly_rounded() -> None:
    """Two account numbers that a JSON reader would take for one are refused, not rounded."""
    for digits in ("9007199254740992", "18446744073709551617", "1" * 40, "1e21"):
        text = f'{{"steps": [{{"id": "a", "kind": "note", "params": {{"account": {digits}}}}}]}}'
        assert places(text) == [("malformed_value", "/steps/0/params/account")]


def test_a_plan_may_have_ten_thousand_steps_and_no_more() -> None:
    """The bound on steps is refused as one problem, not as ten thousand."""
    steps = [{"id": f"n{index}", "kind": "note"} for index in range(10_001)]
    assert len(load_plan({"steps": steps[:-1]}).steps) == 10_000
    assert places(orjson.dumps({"steps": steps})) == [("wrong_value", "/steps")]


def test_ten_thousand_problems_are_cut() -> None:
    """A document in which nothing is right is answered with the first problems, in good time."""
    assert len(problems({"steps": [{"id": "a", "x": 1} for _ in range(10_000)]})) == MAX_PROBLEMS


def test_a_duplicate_id_names_the_step_that_has_it() -> None:
    """Also the id that an indexed step gets from its position counts."""
    (problem,) = problems({"steps": [{"id": "s1", "kind": "note", "args": {}}, {"kind": "note"}]})
    assert (problem.code, problem.place) == ("duplicate_id", "/steps/1/id")
    assert problem.message == "step 1 has the id 's1' of step 0"


def test_the_error_says_how_many_problems_there_are() -> None:
    """The text of the error counts the problems and shows the first one whole."""
    with pytest.raises(PlanError) as caught:
        load_plan({"steps": [], "x": 1, "y": 2})
    assert str(caught.value).startswith("the plan has 2 problems: /x: unknown field 'x'; known here: ")
    assert str(caught.value).endswith("(and 1 more)")
    assert caught.value.code == "plan_invalid"


def test_words_are_for_people_who_write_json() -> None:
    """A message speaks of lists and objects, and shows the beginning of what was given."""
    (steps,) = problems({"steps": {"id": "a"}})
    assert steps.message == "it should be a list (here: {'id': 'a'})"
    (long,) = problems({"steps": ["x" * 10_000]})
    assert long.message.startswith("it should be an object (here: 'xxx")
    assert len(long.message) < 120


def test_only_problems_that_are_reported_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of a megabyte with nothing but wrong fields costs no more words than one with a hundred."""
    explained: list[str] = []
    explain = plan_formats.explained

    def count(detail: Any, location: list[str | int]) -> Problem:
        explained.append(detail["type"])
        return explain(detail, location)

    monkeypatch.setattr(plan_formats, "explained", count)
    assert len(problems({f"x{number}": 1 for number in range(1_000)})) == MAX_PROBLEMS
    assert len(explained) == MAX_PROBLEMS

"""Whatever stands in a document, loading it gives a plan or a `PlanError`, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import orjson
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tercet.contracts.errors import PlanError
from tercet.contracts.plan import Plan, Step
from tercet.contracts.plan_formats import PlanFormat, load_plan, print_plan
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.steps import graph

FIELDS = [
    *Plan.model_fields,
    *Step.model_fields,
    *("adapter_id", "capability_id", "args", "requires", "classification", "query", "limit"),
    *("decision_id", "after_step", "$from", "$cel", "$evidence", "$literal", "$", "unknown"),
]
WORDS = [
    "tool",
    "note",
    "lane",
    "s0",
    "s1",
    "a.b",
    "s1#/x",
    "s1#x",
    "request",
    "",
    "\x00",
    "~",
    "1",
    "network",
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(WORDS)
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=12,
)
plan_like: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"steps": st.lists(st.dictionaries(st.sampled_from(FIELDS), values, max_size=6), max_size=4) | values},
    optional={name: values for name in Plan.model_fields if name != "steps"},
)

GOOD: list[dict[str, Any]] = [
    {
        "plan_id": "p",
        "intent": "i",
        "steps": [
            {"id": "s1", "tool": "a.b", "params": {"x": [1, {"y": {"$from": "request#/z"}}]}},
            {"id": "s2", "tool": "a.b", "depends_on": ["s1"], "requires": ["G"], "when": "s1.ok"},
            {"id": "s3", "kind": "note", "params": {"t": {"$cel": "s1.a + s2.b"}}},
        ],
        "outputs": {"t": {"$from": "s3#/t"}},
        "decision_checkpoints": [{"decision_id": "d", "after_step": "s2"}],
    },
    {
        "steps": [
            {"kind": "tool", "adapter_id": "a", "capability_id": "b", "args": {"x": 1}},
            {"kind": "tool", "adapter_id": "a", "capability_id": "c", "args": {}, "depends_on": [0]},
        ],
        "declared_outputs": ["t"],
    },
]


def loads_or_refuses(source: Any, shape: PlanFormat | None = None) -> None:
    """A plan that loads can be used in full; one that does not is refused with places in the document."""
    try:
        plan = load_plan(source, shape)
    except PlanError as refused:
        problems = refused.problems
    else:
        assert plan.hash.startswith("sha256:")
        assert len(graph.build(plan).predecessors) == len(plan.steps)
        assert all(load_plan(print_plan(plan, printed)) == plan for printed in PlanFormat)
        return
    assert problems
    assert all(problem.message for problem in problems)
    assert all(problem.place == "" or problem.place.startswith("/") for problem in problems)


@settings(deadline=None, max_examples=200)
@given(values, st.none() | st.sampled_from(PlanFormat))
@example({"steps": [[[[1]]]]}, None)
def test_any_json_value_loads_or_is_refused(value: Any, shape: PlanFormat | None) -> None:
    """Any JSON value, as a text and as Python data."""
    loads_or_refuses(value, shape)
    loads_or_refuses(json.dumps(value), shape)


@settings(deadline=None, max_examples=150)
@given(plan_like, st.none() | st.sampled_from(PlanFormat))
def test_anything_that_looks_like_a_plan_loads_or_is_refused(
    document: dict[str, Any], shape: PlanFormat | None
) -> None:
    """Documents made of the right words in the wrong places."""
    loads_or_refuses(document, shape)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(GOOD), st.data())
def test_a_spoilt_plan_loads_or_is_refused(good: dict[str, Any], data: st.DataObject) -> None:
    """A good plan with up to three members replaced, removed or added, anywhere in it."""
    document = copy.deepcopy(good)
    for _ in range(data.draw(st.integers(1, 3))):
        _spoil(document, data)
    loads_or_refuses(document)


def _containers(value: Any) -> Iterator[Any]:
    """Every object and list in a value that holds something."""
    members = list((as_object(value) or {}).values()) or as_list(value) or []
    if members:
        yield value
    for member in members:
        yield from _containers(member)


def _spoil(document: Any, data: st.DataObject) -> None:
    spots = list(_containers(document))
    if not spots:
        return
    spot = data.draw(st.sampled_from(spots))
    members = as_object(spot)
    keys: list[Any] = list(range(len(spot))) if members is None else list(members)
    key = data.draw(st.sampled_from(keys))
    match data.draw(st.sampled_from(["replace", "remove", "add"])):
        case "replace":
            spot[key] = data.draw(values)
        case "remove":
            del spot[key]
        case _ if members is not None:
            members[data.draw(st.sampled_from(FIELDS))] = data.draw(values)
        case _:
            spot.append(data.draw(values))


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode(errors="surrogatepass")))
def test_any_bytes_load_or_are_refused(source: bytes) -> None:
    """Bytes that may be no JSON at all."""
    loads_or_refuses(source)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(GOOD), st.integers(0, 400), st.binary(max_size=3))
def test_a_damaged_text_loads_or_is_refused(good: dict[str, Any], at: int, damage: bytes) -> None:
    """The text of a good plan with some bytes of it overwritten."""
    source = orjson.dumps(good)
    loads_or_refuses(source[:at] + damage + source[at + len(damage) :])


@settings(deadline=None, max_examples=100)
@given(plan_like)
def test_the_model_itself_raises_only_typed_errors(document: dict[str, Any]) -> None:
    """Validating without a loader ends in a plan, a `PlanError` or Pydantic's own error."""
    try:
        plan = Plan.model_validate(document)
    except (PlanError, ValidationError):
        return
    assert plan.model_copy() == plan

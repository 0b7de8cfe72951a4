"""From what a model answers to a plan: one object is found or a typed reason given, whatever the text is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.plan import Plan
from tercet.contracts.question import Reply
from tercet.planner.answer import read_answer
from tercet.planner.sentences import Assignment
from tercet.planner.sources import PlanningError

from .desk import RULES, SEND, assignment

GOOD: dict[str, Any] = {
    "steps": [
        {"tool": "shop.find", "params": {"order": {"$from": "request#/order"}}},
        {"tool": "shop.refund", "params": {"payment": {"$from": "s1#/payment"}, "amount": 5, "note": None}},
    ],
    "outputs": {"refund_id": {"$from": "s2#/refund_id"}},
}
GOOD_TEXT = json.dumps(GOOD)


def read(text: str, asked: Assignment | None = None, *, is_cut: bool = False) -> Plan:
    """The plan that a text comes to."""
    return read_answer(Reply(text=text, model="a:b", is_cut=is_cut), asked or assignment())


def code_of(text: str, *, is_cut: bool = False) -> str:
    """The code of the reason why a text is no plan."""
    with pytest.raises(PlanningError) as refused:
        read(text, is_cut=is_cut)
    assert refused.value.remedy
    assert len(str(refused.value)) < 1_000
    return refused.value.code


@pytest.mark.req("R60", "R62", "R63")
def test_an_answer_becomes_a_typed_plan() -> None:
    """Steps get the ids that the prompt promised and run in their order; what is null is left out; outputs are declared."""
    plan = read(GOOD_TEXT)
    assert [(step.id, step.tool, step.depends_on) for step in plan.steps] == [
        ("s1", "shop.find", ()),
        ("s2", "shop.refund", ("s1",)),
    ]
    assert "note" not in plan.steps[1].params
    assert plan.output_names == ("refund_id",)
    assert plan.intent == "refund"


def test_a_null_that_is_the_default_is_left_out() -> None:
    """A model can leave `cc: list[str] | None = None` out only by null, and a list is read as it is."""
    asked = assignment(tools={SEND.name: SEND}, outputs_kept=("refund_id",))
    params = {"to": ["ord_1"], "text": "hello", "cc": None, "tags": ["any"]}
    plan = read(json.dumps({"steps": [{"tool": "mail.send", "params": params}]}), asked)
    assert plan.steps[0].params == {"to": ["ord_1"], "text": "hello", "tags": ["any"]}


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{GOOD_TEXT}\n```",
        f"Sure, here it is:\n\n{GOOD_TEXT}\n\nI hope {{this}} helps.",
        f"{{braces}} first, then {GOOD_TEXT}",
        json.dumps(GOOD, indent=4),
    ],
)
def test_words_around_one_object_do_no_harm(text: str) -> None:
    """A code block, words before and after, and braces that are no object."""
    assert read(text).hash == read(GOOD_TEXT).hash


@pytest.mark.req("R63")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("I would first look up the order and then refund it.", "answer_not_json"),
        ("", "answer_not_json"),
        ("null", "answer_not_json"),
        ("[1, 2]", "answer_not_json"),
        (GOOD_TEXT[:-30], "answer_cut_off"),
        (GOOD_TEXT[:60], "answer_cut_off"),
        ('{"steps": [{"tool": "sho', "answer_cut_off"),
        ('{"answer": "refund it"}', "answer_not_a_plan"),
        ('{"steps": "look up, refund"}', "answer_not_a_plan"),
        ('{"steps": [1, null]}', "answer_not_a_plan"),
        ('{"steps": [{"tool": "no name", "params": {}}]}', "answer_not_a_plan"),
        ('{"steps": [{"tool": "a.b", "params": {"x": {"$form": "s1"}}}]}', "answer_not_a_plan"),
        ('{"steps": [], "approve": true}', "answer_not_a_plan"),
        ('{"steps": [], "steps": []}', "answer_not_json"),
        ('{"steps": [{"tool": "a.b", "params": {"n": NaN}}]}', "answer_not_json"),
        ('{"steps": [{"tool": "a.b", "params": {"n": 1e999}}]}', "answer_not_json"),
        ('{"steps": [{"tool": "a.b", "params": {"n": ' + "9" * 5_000 + "}}]}", "answer_not_json"),
        ('{"steps": [{"tool": "a.b", "params": {"n": 99999999999999999999}}]}', "answer_not_a_plan"),
        ('{"steps": [{"tool": "a.b" "params": {}}]}', "answer_not_json"),
        (f"{GOOD_TEXT}\n{GOOD_TEXT}", "answer_not_json"),
        ('{"steps":' + "[" * 100_000, "answer_not_json"),
        ('{"steps": [{"tool": "a.b", "params": ' + '{"a":' * 90 + "1" + "}" * 93, "answer_not_json"),
        ("{" * 100_000, "answer_not_json"),
        ('{"steps": [{"tool": "a.b", "params": {"t": "\\ud800"}}]}', "answer_not_a_plan"),
        (json.dumps({"steps": [{"tool": "shop.find"}] * 10_000}), "answer_too_long"),
        (json.dumps({"steps": [{"tool": "shop.find"}] * 4}), "answer_too_long"),
        ("x" * 300_000, "answer_too_long"),
    ],
)
def test_everything_else_gets_a_typed_reason(text: str, code: str) -> None:
    """Prose, half of it, another shape, too much of it, and what only looks like JSON."""
    assert code_of(text) == code


def test_an_answer_that_the_provider_cut_is_called_so() -> None:
    """Even where the text ends at a place at which a parser has another complaint."""
    assert code_of('{"steps": [{"tool": "shop.find", tr', is_cut=True) == "answer_cut_off"


def test_what_is_not_a_planners_to_say_is_not_taken_over() -> None:
    """Who the plan revises, and for what intent, is the runtime's."""
    plan = read(json.dumps({**GOOD, "plan_id": "x", "parent": "y", "revision": 9, "intent": "steal"}))
    assert (plan.plan_id, plan.parent, plan.revision, plan.intent) == ("", None, 1, "refund")


def test_ids_are_mended_where_they_are_missing_or_stand_twice() -> None:
    """A step's own id stays if no other has it; dependencies that a model writes stay too."""
    steps: list[dict[str, Any]] = [
        {"id": "look", "tool": "shop.find", "params": {}},
        {"id": "look", "tool": "shop.find", "params": {}, "depends_on": []},
        {"tool": "shop.find", "params": {}},
    ]
    plan = read(json.dumps({"steps": steps}))
    assert [(step.id, step.depends_on) for step in plan.steps] == [
        ("look", ()),
        ("s2", ()),
        ("s3", ("s2",)),
    ]


BEFORE = Plan.model_validate(
    {
        "intent": "refund",
        "steps": [
            {"id": "s1", "tool": "shop.find", "params": {"order": "ord_1"}},
            {"id": "s2", "tool": "shop.refund", "params": {"payment": {"$from": "s1#/payment"}, "amount": 9}},
            {"id": "s3", "tool": "shop.find", "params": {"order": "ord_1"}, "evidence_refs": [RULES]},
        ],
        "outputs": {"refund_id": {"$from": "s2#/refund_id"}, "total": {"$from": "s1#/total"}},
    }
)


@pytest.mark.req("R75")
def test_a_part_takes_the_place_of_what_was_given_up() -> None:
    """What stays is word for word what it was; the new step waits for what the old one waited for."""
    asked = assignment(before=BEFORE, kept=("s1", "s3"), done=("s1",), first=4, outputs_kept=("total",))
    plan = read(
        json.dumps({"steps": [GOOD["steps"][1]], "outputs": {"refund_id": {"$from": "s4#/refund_id"}}}), asked
    )
    assert [step.id for step in plan.steps] == ["s1", "s3", "s4"]
    assert [step.hash for step in plan.steps[:2]] == [BEFORE.steps[0].hash, BEFORE.steps[2].hash]
    assert plan.steps[2].depends_on == ("s1",)
    assert plan.outputs == {"total": {"$from": "s1#/total"}, "refund_id": {"$from": "s4#/refund_id"}}
    assert (plan.revision, plan.parent) == (2, BEFORE.hash)


@pytest.mark.req("R75")
def test_a_step_that_is_said_again_is_the_one_that_stays() -> None:
    """A model that writes the whole plan, whatever it was asked for, repeats nothing; references follow."""
    asked = assignment(before=BEFORE, kept=("s1",), done=("s1",), first=4, outputs_kept=("total",))
    find = {"tool": "shop.find", "params": {"order": "ord_1"}}
    refund = {"tool": "shop.refund", "params": {"payment": {"$from": "s4#/payment"}, "amount": 9}}
    plan = read(
        json.dumps({"steps": [find, refund], "outputs": {"refund_id": {"$from": "s5#/refund_id"}}}), asked
    )
    assert [step.id for step in plan.steps] == ["s1", "s5"]
    assert plan.steps[1].params["payment"] == {"$from": "s1#/payment"}
    assert plan.steps[1].depends_on == ("s1",)


def test_an_id_of_a_step_that_stays_is_not_taken_again() -> None:
    """A model that counts from one again does not write over what was done."""
    asked = assignment(before=BEFORE, kept=("s1", "s3"), first=4)
    plan = read(json.dumps({"steps": [{"id": "s1", "tool": "shop.find", "params": {}}]}), asked)
    assert [step.id for step in plan.steps] == ["s1", "s3", "s4"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A good answer with something else in one place, or with a piece cut out."""
    document: Any = json.loads(GOOD_TEXT)
    place: Any = document
    for _ in range(draw(st.integers(0, 4))):
        if not isinstance(place, dict | list) or not place:
            break
        keys: list[Any] = [*place] if isinstance(place, dict) else [*range(len(place))]  # pyright: ignore[reportUnknownArgumentType]
        key = draw(st.sampled_from(keys))
        if draw(st.booleans()):
            place[key] = draw(JSON)
            break
        place = place[key]  # pyright: ignore[reportUnknownVariableType]
    text = json.dumps(document)
    cut = draw(st.integers(0, len(text)))
    return text if draw(st.booleans()) else text[:cut] + text[cut + draw(st.integers(1, 5)) :]


@given(st.text() | JSON.map(json.dumps) | mutated(), st.booleans())
def test_no_answer_breaks_the_reader(text: str, is_cut: bool) -> None:
    """Whatever a model writes becomes a plan that parses, or a typed reason."""
    try:
        plan = read(text, is_cut=is_cut)
    except PlanningError as error:
        code = error.code
    else:
        code = ""
        assert Plan.model_validate(plan.model_dump(mode="json")) == plan
        assert len(plan.steps) <= 3
    assert code in ("", "answer_not_json", "answer_cut_off", "answer_not_a_plan", "answer_too_long")

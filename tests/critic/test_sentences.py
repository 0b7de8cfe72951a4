"""A sentence in a request: the critic accepts what it names, and what a model is offered is what the critic accepts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.mode import Trust
from tercet.contracts.relations import FieldSpec
from tercet.contracts.tool import ToolSpec
from tercet.contracts.verdict import Verdict
from tercet.planner.sentences import Assignment, offered_values

from .houses import SHOP, House, plan, refused, step, tool

PARAMETERS = ("channel", "recipient", "amount", "order_id", "count", "link", "due_date", "email")
USE = tool(
    "desk.use",
    "local_write",
    parameters={"properties": {name: {} for name in PARAMETERS}},
    authority=PARAMETERS,
    kinds={"recipient": "person"},
    no_compensation="a test",
)
PATTERN = r"to (?P<recipient>\S+)"


def desk(text: str, *patterns: str, **decision: Any) -> House:
    """A house whose request is a sentence."""
    field = FieldSpec(of="request.task", kind="sentence", patterns=patterns)
    return SHOP.with_tools(USE).asked(task=text).deciding(fields=(field,), **decision)


def review(house: House, name: str, value: Any) -> Verdict:
    return house.review(plan(step("s1", USE, params={name: value})))


def is_unbound(verdict: Verdict) -> bool:
    found = refused(verdict)
    return found is not None and found[1] == "unbound_argument"


def offered(house: House, name: str, declared: ToolSpec = USE) -> tuple[Any, ...]:
    assignment = Assignment(
        compiled=house.compiled, spec=house.spec, tools={declared.name: declared}, max_steps=1
    )
    return offered_values(assignment, declared, (name,))


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("Tell Bob about it", "recipient", "Bob"),
        ("Tell Bob that $50 are due", "channel", "Bob"),
        ("Pay $50 for ord_7", "amount", 50),
        ("Pay $50 for ord_7", "amount", "50"),
        ("Pay $50 for ord_7", "order_id", "ord_7"),
        ("Read https://example.com/a.", "link", "https://example.com/a"),
        ("Do it by 9 May 2026", "due_date", "2026-05-09"),
    ],
)
def test_what_a_sentence_names_has_a_source(text: str, name: str, value: Any) -> None:
    verdict = review(desk(text), name, value)
    assert verdict.outcome == "ok"
    (source,) = verdict.sources
    assert source.trust is Trust.TRUSTED
    assert "of request.task" in source.detail


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("Tell Bob about it", "recipient", "Tell Bob about it"),
        ("Tell Bob about it", "recipient", {"$from": "request#/task"}),
        ("Tell Bob about it", "recipient", "Bo"),
        ("Tell Bob about it", "link", "Bob"),
        ("Tell Bob and Alice", "recipient", "Bob"),
        ("Pay $50 for ord_7", "order_id", "50"),
        ("Pay $50 for ord_7", "amount", 7),
        ("Summarise <email>tell Bob</email>", "recipient", "Bob"),
    ],
)
def test_what_it_does_not_name_has_none(text: str, name: str, value: Any) -> None:
    assert is_unbound(review(desk(text), name, value))


def test_a_pattern_of_the_pack_tells_two_people_apart() -> None:
    house = desk("Send the letter of Alice to Bob", PATTERN)
    assert review(house, "recipient", "Bob").outcome == "ok"
    assert is_unbound(review(house, "recipient", "Alice"))


def test_a_group_of_a_pattern_may_be_a_kind() -> None:
    house = desk("Invite Alice, says Bob", r"Invite (?P<person>\w+)")
    assert review(house, "recipient", "Alice").outcome == "ok"
    verdict = review(house, "channel", "Alice")
    assert is_unbound(verdict)
    assert verdict.sources[0].detail == "'Alice' is named in request.task, but not for this parameter"


@pytest.mark.parametrize("name", ["recipient", "channel"])
def test_a_value_beside_others_that_fit_is_explained(name: str) -> None:
    (source,) = review(desk("Tell Bob and Alice"), name, "Bob").sources
    assert (
        source.detail
        == "'Bob' is one of several things in request.task that fit, and no pattern tells them apart"
    )


# --- what a model is offered ---

PIECES = st.sampled_from(
    ["pay", "to", "Bob", "Alice", "$50", "$60", "7", "ord_7", "ord_8", "https://example.com/a", "9 May 2026", "'a b'",
     "bob@example.com", "#general", "<email>", "</email>", "\n> ", "and", ".", "(", ")"]
)  # fmt: skip


@given(
    st.lists(PIECES, max_size=8).map(" ".join),
    st.sampled_from(PARAMETERS),
    st.booleans(),
)
def test_the_critic_accepts_what_a_model_is_offered_and_nothing_else(
    text: str, name: str, has_pattern: bool
) -> None:
    house = desk(text, *([PATTERN] if has_pattern else []))
    values = offered(house, name)
    for value in values:
        assert review(house, name, value).outcome == "ok"
    for value in ("Bob", "Alice", 50, 60, 7, "7", "ord_7", "ord_8", "general", "a b", "2026-05-09"):
        if value not in values:
            assert is_unbound(review(house, name, value))


def test_a_model_is_offered_what_a_person_would_be_asked_about() -> None:
    text = "Tell Bob and Alice"
    assert offered(desk(text), "recipient") == ()
    house = desk(text, unbound_gate="SUPPORT")
    assert offered(house, "recipient") == ("Bob", "Alice")
    assert review(house, "recipient", "Bob").outcome == "ok"
    (source,) = review(house, "recipient", "Bob").sources
    assert source.trust is Trust.UNTRUSTED

"""The fast path: what it lets pass, the checks let pass, with the same verdict."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tercet.critic.verify as critic
from critic.authority_strategies import authority_cases
from critic.houses import SHOP, tool
from critic.naive import Case
from critic.strategies import (
    cases,
    continued_cases,
    cyclic_cases,
    examples,
    faulty_refunds,
    lax_cases,
    mutated_refunds,
    nonsense,
    ordinary,
    ordinary_cases,
)
from tercet.contracts.plan import Plan
from tercet.critic.fast_path import certainly_passes
from tercet.critic.review import Review
from tercet.critic.value_trust import ValueTrust


def is_certain(case: Case) -> bool:
    """Whether the fast path lets a plan pass."""
    return certainly_passes(ValueTrust(Review(*case)))


def assert_same_verdict(case: Case) -> bool:
    """The verdict is the one of the checks alone; return whether the fast path gave it."""
    quick = critic.verify(*case)
    with patch.object(critic, "certainly_passes", return_value=False):
        slow = critic.verify(*case)
    assert quick.model_dump_json() == slow.model_dump_json()
    return is_certain(case)


ANY_CASE = st.one_of(
    cases(),
    continued_cases(),
    cyclic_cases(),
    lax_cases(),
    mutated_refunds(),
    nonsense(),
    authority_cases(),
    faulty_refunds().map(lambda faulty: faulty[0]),
)


@examples(200)
@given(ANY_CASE)
def test_a_quick_yes_is_the_verdict_of_the_checks(case: Case) -> None:
    """Whatever the plan, the fast path changes no byte of the verdict."""
    assert_same_verdict(case)


@examples(300)
@given(ordinary_cases())
def test_a_quick_yes_to_an_ordinary_plan_is_the_verdict_of_the_checks(case: Case) -> None:
    """Plans that the fast path is made for, spoilt in one or two places, get the verdict of the checks."""
    assert_same_verdict(case)


def test_an_ordinary_plan_is_decided_quickly() -> None:
    """The plan that the changes begin with passes by the fast path, so the comparison is about something."""
    assert assert_same_verdict(ordinary().parsed())


def test_the_fast_path_is_taken_and_left() -> None:
    """Of the changed ordinary plans, some pass by the fast path and some are left to the checks."""
    taken: Counter[bool] = Counter()

    @settings(max_examples=150, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(ordinary_cases())
    def sample(case: Case) -> None:
        taken[is_certain(case)] += 1

    sample()
    assert min(taken[True], taken[False]) > 20, taken


@pytest.mark.parametrize(
    ("amounts", "is_quick"),
    [
        ((1, 2), True),
        ((1, "1"), True),
        (("one", "two"), True),
        ((1, 1), False),
        ((1, 1.0), False),
        ((1, 2.0), False),
        ((1, True), False),
    ],
)
def test_calls_are_told_apart_by_a_text_or_an_integer(amounts: tuple[Any, Any], is_quick: bool) -> None:
    """Numbers count by value, so floats are left to the checks; whatever is decided quickly, they decide alike."""
    house = SHOP.deciding(required_evidence=(), required_outputs=()).with_tools(
        tool("do.it", "local_write", no_compensation="nothing is left")
    )
    steps = [{"id": f"s{n}", "tool": "do.it", "params": {"n": each}} for n, each in enumerate(amounts)]
    case = Case(*house, Plan.model_validate({"steps": steps}))
    assert assert_same_verdict(case) is is_quick

"""A review is cheap: counted in function calls, which are the same on every machine."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from tercet.contracts.plan import Plan
from tercet.critic.verify import verify

from .houses import SHOP, look_up, plan, step

HOUSE = SHOP.allowing(max_steps=1_000, tool_calls=1_000, tokens=10**9, cost_microcents=10**12)


def chain(length: int) -> Plan:
    """A look-up, and notes that each refer to the one before and to the look-up."""
    notes = [
        step(
            f"n{n}",
            params={"of": {"$from": f"n{n - 1}#/sum" if n else "s1#/total"}, "sum": {"$cel": "s1.total + 1"}},
        )
        for n in range(length)
    ]
    return plan(look_up(), *notes)


def calls(length: int) -> int:
    """How many functions a review of a plan of this length calls, once its context has been seen."""
    fresh, counted = chain(length), 0

    def count(_: FrameType, event: str, __: Any) -> None:
        nonlocal counted
        counted += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        verdict = verify(HOUSE.ctx, HOUSE.compiled, HOUSE.spec, fresh)
    finally:
        sys.setprofile(before)
    assert verdict.ok, verdict.reasons
    return counted


@pytest.mark.req("R101")
def test_a_review_costs_the_same_each_time_and_grows_with_the_plan() -> None:
    """The second review of a plan takes as many calls as the first, and ten times the steps no more than twelve times."""
    calls(10)  # what is cached for a context is there
    # The fewest of some: what the collector of cycles happens to do in between is counted as well.
    short, again, long = (min(calls(length) for _ in range(4)) for length in (30, 30, 300))
    assert again == short
    assert long < 12 * short

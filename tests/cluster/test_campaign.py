"""The fault campaign finds what it looks for: a wrong end, a missing, repeated or unwanted effect, and code of another version."""

from __future__ import annotations

import random

import pytest

from acceptance.effects import Effect
from cluster.faults import FATES, Order, draw_orders, judge
from tercet.journal.protocol import SessionRow


def effect(step: str, version: str = "1.0.0") -> Effect:
    """One effect of a session."""
    return Effect(f"key-{step}", step, f"order.x@{version}", 1, warrant="ses_1")


def row(status: str) -> SessionRow:
    """The row of a session that has ended, pinned to version 1.0.0."""
    return SessionRow(
        session_id="ses_1", tenant="default", status=status, pack="orders@1.0.0", pack_hash="", snapshot="",
        intent="order.sell", owner="agent", started_at=0, updated_at=0,
    )  # fmt: skip


CHARGED = [effect("s1"), effect("s2")]


@pytest.mark.parametrize(
    ("fate", "status", "happened", "said"),
    [
        ("approved", "completed", CHARGED, ""),
        ("denied", "rejected", [effect("s1"), effect("~s1")], ""),
        ("approved", "in_progress", CHARGED, "is in_progress, and not completed"),
        ("approved", "completed", [*CHARGED, effect("s2")], "had the effects {'s1': 1, 's2': 2}"),
        ("approved", "completed", CHARGED[:1], "had the effects {'s1': 1}"),
        ("denied", "rejected", [effect("s1")], "had the effects {'s1': 1}"),
        ("cancelled", "cancelled", [*CHARGED, effect("~s1")], "had the effects"),
        ("approved", "completed", [effect("s1"), effect("s2", "2.0.0")], "met the code of 2.0.0"),
    ],
)
def test_what_is_wrong_with_a_session_is_found(
    fate: str, status: str, happened: list[Effect], said: str
) -> None:
    """Each mistake alone is a violation, and a session as it should be is none."""
    found = judge(Order(number=1, fate=fate, session="ses_1"), row(status), happened)
    assert [said in line for line in found] == ([True] if said else [])


def test_a_seed_draws_the_same_orders_again() -> None:
    """Every fate is there, however few sessions; another seed draws another order."""
    first, again, other = (draw_orders(random.Random(seed), 40) for seed in (7, 7, 8))  # noqa: S311
    assert first == again
    assert first != other
    assert {order.fate for order in draw_orders(random.Random(1), 5)} == set(FATES)  # noqa: S311
    assert len(first) == 40

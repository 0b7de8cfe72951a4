"""Values that an approver has set count for their place in their call, and for nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from critic.strategies import Doc
from critic.test_flow_properties import TRUSTED, is_bound, pay, read, review


def changed(value: Any, **fields: Any) -> Doc:
    """A value that an approver has set in the payment of step s0."""
    return {"step_id": "s0", "tool": "bank.pay", "place": "/to", "value": value, "by": "gil", **fields}


def test_a_literal_that_an_approver_set_carries_authority() -> None:
    """It has no other source, and needs none."""
    assert not is_bound(review(pay("acc_9")))
    assert is_bound(review(pay("acc_9"), changed=[changed("acc_9")]))
    assert is_bound(review(pay({"iban": ["acc_9", 5]}), changed=[changed({"iban": ["acc_9", 5]})]))


@pytest.mark.parametrize(
    "other",
    [{"step_id": "s1"}, {"tool": "shop.read"}, {"place": "/from"}, {"place": "/to/0"}, {"value": "acc_8"}],
    ids=lambda other: next(iter(other)),
)
def test_it_vouches_for_no_other_step_tool_parameter_or_value(other: Doc) -> None:
    """Each of them alone leaves the literal without a source."""
    assert not is_bound(review(pay("acc_9"), pay(TRUSTED), changed=[{**changed("acc_9"), **other}]))


def test_values_beside_the_one_that_was_set_still_need_a_source() -> None:
    """Setting one part of a parameter does not vouch for the rest of it."""
    both = [changed("acc_9", place="/to/0")]
    assert is_bound(review(pay(["acc_9", TRUSTED]), changed=both))
    assert not is_bound(review(pay(["acc_9", "acc_7"]), changed=both))


def test_a_look_up_by_a_set_value_has_a_trusted_result() -> None:
    """It was looked up for whom the approver named."""
    looked = read("ord_9"), pay({"$from": "s0"}, depends_on=["s0"])
    tools = {"shop.read": {"mode": "read_only", "trust": "trusted"}}
    assert not is_bound(review(*looked, tools=tools))
    key = {"step_id": "s0", "tool": "shop.read", "place": "/key", "value": "ord_9", "by": "gil"}
    assert is_bound(review(*looked, tools=tools, changed=[key]))

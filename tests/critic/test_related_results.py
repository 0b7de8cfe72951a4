"""Results that an effect reads, and whether they relate to the request."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.plan import Step
from tercet.critic.dispatch import recheck_results
from tercet.critic.review import Review

from .houses import LOOKUP, SHOP, look_up, pay, plan, step, ticket

HOUSE = SHOP.deciding(bind=({"tool": LOOKUP.name, "field": "order_id", "equals": "request.order_id"},)).asked(
    order_id="ord_881"
)
OTHERS: dict[str, Any] = {"s1": {"order_id": "ord_882", "payment_id": "pay_8862", "total": 5}}
OWN: dict[str, Any] = {"s1": {"order_id": "ord_881", "payment_id": "pay_8861", "total": 5}}
READ = {"$from": "s1#/payment_id"}


@pytest.mark.parametrize(
    "steps",
    [
        (look_up(), pay("e", READ)),
        (look_up(), step("n", params={"id": READ}), pay("e", {"$from": "n#/id"})),
        (look_up(), ticket("e", "a refund", when="s1.total > 1")),
        (look_up(), ticket("e", compensate={"tool": "tickets.close", "params": {"id": READ}})),
        (
            look_up(),
            step("n", params={"id": READ}),
            ticket("e", compensate={"tool": "tickets.close", "params": {"id": {"$from": "n#/id"}}}),
        ),
    ],
    ids=[
        "directly",
        "through a note",
        "in its condition",
        "in its compensation",
        "in its compensation, through a note",
    ],
)
def test_an_effect_that_depends_on_the_result_of_another_request_is_refused(steps: tuple[Step, ...]) -> None:
    """However it reads the result; with the result of its own request it is not refused."""
    review = Review(HOUSE.ctx, HOUSE.compiled, HOUSE.spec, plan(*steps))
    refusal = recheck_results(review, "e", OTHERS)
    assert refusal is not None
    assert refusal.code == "unbound_argument"
    assert "does not relate to the request" in refusal.reason
    assert recheck_results(review, "e", OWN) is None

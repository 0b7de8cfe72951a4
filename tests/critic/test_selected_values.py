"""`$select` under review: what a selected value is value_trust, and when it is known."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.critic.checks.flow import origins
from tercet.critic.memory import sources_of
from tercet.critic.review import Review

from .houses import REFUND, SHOP, WINDOW, codes, evidence, pay, plan, refused, step, takes, tool

LEDGER = tool(
    "ledger.list",
    parameters=takes("order_id"),
    result={"type": "object", "properties": {"rows": {"type": "array"}}},
    untrusted=("/rows/*/memo", "/rows/0/sender"),
)
HOUSE = SHOP.with_tools(LEDGER)
WINDOWS = "kg:refund_window:all#snapshot_may"


def listed(order_id: Any = None) -> Any:
    """The step that lists the payments of the requested order."""
    return step("s1", LEDGER, params={"order_id": order_id or {"$from": "request#/order_id"}})


def selected(**body: Any) -> dict[str, Any]:
    """A selection from the listed rows."""
    return {"$select": {"from": "s1#/rows", **body}}


@pytest.mark.parametrize(
    "body",
    [
        {"field": "payment_id"},
        {"order": "largest", "by": "amount", "field": "payment_id"},
        {"where": {"order": {"$from": "request#/order_id"}}, "field": "payment_id"},
        {"where": {"order": "ord_881"}, "field": "payment_id"},
    ],
)
def test_a_selection_by_trusted_fields_is_trusted(body: dict[str, Any]) -> None:
    """The list is a trusted result, and trusted values decide which item it is."""
    assert refused(HOUSE.review(plan(listed(), pay("pay", selected(**body))))) is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"field": "memo"}, "s1#/rows/*/memo"),
        ({"field": ""}, "s1#/rows/*"),
        ({"where": {"memo": "ord_881"}, "field": "payment_id"}, "s1#/rows/*/memo"),
        ({"order": "largest", "by": "memo", "field": "payment_id"}, "s1#/rows/*/memo"),
        ({"where": {"sender": "ord_881"}, "field": "payment_id"}, "s1#/rows/*/sender"),
        ({"where": {"order": "pay_6666"}, "field": "payment_id"}, "it selects by 'pay_6666'"),
        ({"where": {"order": {"$from": "mail#/body"}}, "field": "payment_id"}, "mail#/body"),
    ],
)
def test_an_untrusted_field_or_value_that_decides_makes_a_selection_untrusted(
    body: dict[str, Any], why: str
) -> None:
    """Marked fields in `where`, `by` or `field`, and values without a source, refuse it in an authority parameter."""
    verdict = HOUSE.review(plan(listed(), step("mail", "inbox.read"), pay("pay", selected(**body))))
    assert codes(verdict) == ["unbound_argument"]
    assert why in verdict.reasons[0]
    assert "selected: " in verdict.reasons[0]


def test_a_selection_from_an_untrusted_list_is_untrusted() -> None:
    """A look-up by a value without a source lists somebody's rows, whichever item is picked."""
    assert codes(HOUSE.review(plan(listed("ord_999"), pay("pay", selected(field="payment_id"))))) == [
        "unbound_argument"
    ]


def test_a_selection_from_known_evidence_is_checked_at_review() -> None:
    """Its value is known, so the schema and the limits of the tool are checked, and an empty selection is refused."""
    rows = [{"payment_id": "pay_8861", "amount": 7, "kind": "x"}, {"payment_id": "pay_1", "amount": 500_000}]
    house = HOUSE.with_evidence(evidence(WINDOWS, {"rows": rows}))
    source = {"$evidence": f"{WINDOWS}#/rows"}

    def amount(order: str, **where: Any) -> Any:
        body = {"from": source, "order": order, "by": "amount", "field": "amount", "where": where}
        return pay("pay", None, {"$select": body})

    assert refused(house.review(plan(amount("smallest")))) is None
    assert codes(house.review(plan(amount("largest")))) == ["argument_not_permitted"]
    empty = house.review(plan(amount("smallest", kind="ord_881")))
    assert codes(empty)[0] == "unresolved_reference"
    assert "no item matches" in empty.reasons[0]
    assert WINDOWS in Review(house.ctx, house.compiled, house.spec, plan(amount("smallest"))).pinned[0]


def test_a_selection_from_a_result_is_open_until_dispatch() -> None:
    """Rules over it are decided once the list is known."""
    verdict = HOUSE.review(
        plan(listed(), pay("pay", None, selected(order="largest", by="amount", field="amount")))
    )
    assert refused(verdict) is None
    assert any("limit" in each or "payments.refund" in each for each in verdict.deferred)


def test_a_gate_shows_what_was_selected() -> None:
    """The approver reads which item of which list it is."""
    drafted = plan(listed(), pay("pay", selected(order="largest", by="amount", field="payment_id")))
    shown = origins(Review(HOUSE.ctx, HOUSE.compiled, HOUSE.spec, drafted), "pay")
    assert shown[0].came_from == "selected: largest amount of s1#/rows, its payment_id"
    assert shown[0].trust == "trusted"


def test_an_unknown_step_or_evidence_in_a_selection_is_refused() -> None:
    """Every name in it leads somewhere."""
    unknown = HOUSE.review(plan(pay("pay", selected(field="payment_id"))))
    assert codes(unknown)[0] == "unresolved_reference"
    missing = {"$select": {"from": {"$evidence": "kg:a:b#snapshot_c#/x"}}}
    assert codes(HOUSE.review(plan(step("n", params={"x": missing}))))[0] == "evidence_unresolved"
    own = {"$select": {"from": "self#/x"}}
    assert codes(HOUSE.review(plan(step("n", params={"x": own}))))[0] == "unresolved_reference"


def test_memory_names_what_a_selection_reads() -> None:
    """What a suggestion is made of includes the evidence and the steps of a selection."""
    body = {"from": {"$evidence": f"{WINDOW}#/rows"}, "where": {"a": {"$from": "s1#/x"}}}
    assert sources_of({"$select": body}) == (WINDOW, "s1")


def test_a_proposed_compensation_may_select_from_its_own_result() -> None:
    """`self` is the result of the step that it compensates."""
    way = {
        "tool": "payments.cancel",
        "params": {"refund_id": {"$select": {"from": "self#/refunds", "field": "id"}}},
    }
    refund = REFUND.model_copy(update={"result": {"type": "object"}})
    verdict = HOUSE.with_tools(refund).review(plan(pay("pay", compensate=way)))
    assert refused(verdict) is None


def test_a_selected_value_vouches_only_for_its_kind() -> None:
    """The kind is that of the field that is yielded: an amount of the list is not the id of a payment."""
    verdict = HOUSE.review(plan(listed(), pay("pay", selected(order="largest", by="amount", field="amount"))))
    assert codes(verdict) == ["unbound_argument"]
    assert "is amount, and the parameter takes id" in verdict.reasons[0]
    assert refused(HOUSE.review(plan(listed(), pay("pay", None, selected(field="total_cents"))))) is None
    declared = LEDGER.model_copy(update={"result_kinds": {"/rows/*/amount": "id"}})
    house = SHOP.with_tools(declared)
    assert refused(house.review(plan(listed(), pay("pay", selected(field="amount"))))) is None

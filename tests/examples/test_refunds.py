"""The refund desk: its plans before the critic, and its tools on a real database."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tercet.context import compile as compile_context
from tercet.contracts.errors import NotDone
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.request import Actor, Request
from tercet.contracts.verdict import Verdict
from tercet.critic.verify import verify
from tercet.packs import Pack
from tercet.runtime import Runtime
from tercet.tools import ToolContext

REFUNDS = Path(__file__).parents[2] / "examples" / "refunds"


@pytest.fixture(scope="module")
def pack() -> Pack:
    """The pack as it is shipped."""
    return Pack.load(REFUNDS)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of its own for one test."""
    path = tmp_path / "refunds.db"
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(path))
    return path


def review(pack: Pack, plan: Any, *roles: str) -> Verdict:
    """The critic's verdict on one of the example's plans, or on a document."""
    source = (REFUNDS / "plans" / f"{plan}.json").read_bytes() if isinstance(plan, str) else plan
    context = pack.run_context(actor=Actor(id="somebody", roles=roles), plan_origin="caller")
    compiled = compile_context(pack, Request(intent="support.refund"), context)
    compiled = compiled.model_copy(update={"request": None})
    return verify(context, compiled, pack.decision_for("support.refund"), load_plan(source))


def call(pack: Pack, name: str, key: str | None = None, **params: Any) -> Any:
    """Calls a tool as the executor would."""
    tool = next(tool for tool in pack.tools if tool.name == name)
    context = ToolContext(
        tenant="t", run_id="r", step_id="s1", actor="agt_support", idempotency_key=key or ""
    )
    return tool.call(**({} if key is None else {"ctx": context}), **params)


def named(*steps: dict[str, Any]) -> dict[str, Any]:
    """A plan in the named shape with the outputs that the decision wants."""
    return {"steps": list(steps), "declared_outputs": ["refund_amount_inr", "refund_reason_class"]}


LOOK = {"id": "look", "tool": "adp_orders.lookup", "params": {"order_id": "ord_881"}}
PAY = {
    "id": "pay",
    "tool": "adp_payments.issue_refund",
    "params": {"payment_id": "pay_8861", "amount_inr": 24500},
    "depends_on": ["look"],
    "evidence_refs": ["kg:refund_window:rw_881#snapshot_kg_2026_05_09_T0930"],
}
TELL = {
    "id": "tell",
    "depends_on": ["pay"],
    "tool": "adp_messages.notify_customer",
    "params": {"recipient": {"$from": "look#/customer_email"}, "text": "Your money is on its way."},
}


@pytest.mark.parametrize(
    ("plan", "reasons", "offending"),
    [
        ("plan_a", "step 1 requires evidence class refund_window_evidence, none pinned", 1),
        ("plan_b", "2 steps, 2 required outputs covered", None),
        ("plan_003", "plan does not produce required output refund_amount_inr", None),
        ("plan_003_bound", "3 steps, 2 required outputs covered", None),
        ("plan_with_letter", "4 steps, 2 required outputs covered", None),
    ],
)
def test_the_plans_end_as_their_page_says(pack: Pack, plan: str, reasons: str, offending: int | None) -> None:
    """Each plan of the example gets the verdict for which it was written."""
    verdict = review(pack, plan)
    assert (verdict.reasons, verdict.offending_step) == ((reasons,), offending)
    assert verdict.ok == (" covered" in reasons)


def test_the_printed_plan_runs_once_it_is_complete(pack: Pack) -> None:
    """Each thing that the published plan leaves out is refused by itself, in the order that the page lists."""
    printed, bound = (
        json.loads((REFUNDS / "plans" / f"{name}.json").read_bytes())
        for name in ("plan_003", "plan_003_bound")
    )
    asked = Request(intent="support.refund", input={"order_id": "ord_881", "window_id": "rw_881"})
    found: list[tuple[str | None, str | None]] = []

    def review_it() -> None:
        verdict = pack.verify(printed, request=asked)
        found.append((verdict.code, verdict.step_id))

    review_it()
    printed["outputs"] = bound["outputs"]
    review_it()
    for number in (1, 2):
        printed["steps"][number]["evidence_refs"] = bound["steps"][number]["evidence_refs"]
    review_it()
    for number in (1, 2):
        printed["steps"][number]["params"] = bound["steps"][number]["params"]
        review_it()
    assert found == [
        ("output_not_declared", None),
        ("evidence_not_pinned", "s3"),
        ("argument_invalid", "s2"),
        ("argument_invalid", "s3"),
        (None, None),
    ]


@pytest.mark.usefixtures("shop")
async def test_the_completed_plan_gets_the_published_verdict(pack: Pack) -> None:
    """It runs through its gate and its decision checkpoint, and is accepted with the scores of each step."""
    plan = load_plan((REFUNDS / "plans" / "plan_003_bound.json").read_bytes())
    asked = Request(intent="support.refund", input={"order_id": "ord_881", "window_id": "rw_881"})
    async with Runtime(pack) as runtime:
        result = await runtime.run(asked, plan=plan, actor=pack.actors[0])
        assert result.gate is not None
        approver = next(actor for actor in pack.actors if "finance_lead" in actor.roles)
        await runtime.approve(result.gate.id, actor=approver)
        result = await runtime.resume(result.session_id)
        assert (result.status, result.outputs["refund_amount_inr"]) == ("completed", 24500)
        record = await runtime.record(result.session_id)
    verdict = record.run_verdict
    assert verdict is not None
    assert (verdict.plan_id, verdict.verdict) == ("plan_refund_01", "accept")
    assert [score.step_id for score in verdict.step_scores] == ["s1", "s2", "s3"]
    assert (verdict.step_scores[2].approval_gate, verdict.step_scores[2].approver) == (
        "GATE_FINANCE_APPROVAL",
        approver.id,
    )
    assert [(each.decision_id, each.after_step) for each in record.decisions or ()] == [
        ("support.refund.execute", "s2")
    ]


def test_a_verified_refund_waits_for_finance(pack: Pack) -> None:
    """Plan B may run, and its payment waits for the finance gate."""
    assert [(d.step, d.gate) for d in review(pack, "plan_b").gates] == [(1, "GATE_FINANCE_APPROVAL")]


def test_a_large_refund_waits_for_a_director_too(pack: Pack) -> None:
    """INR 64,000 needs a second pair of eyes, and the letter to the customer a third."""
    assert {(d.step_id, d.gate) for d in review(pack, "plan_with_letter").gates} == {
        ("refund", "GATE_FINANCE_APPROVAL"),
        ("refund", "GATE_DIRECTOR_APPROVAL"),
        ("letter", "GATE_SUPPORT_APPROVAL"),
    }


@pytest.mark.parametrize(
    ("plan", "came_from"),
    [
        ("plan_hijacked", "literal"),
        ("plan_hijacked_by_reference", "kg:refund_form:rf_881#snapshot_kg_2026_05_09_T0930#/pay_to"),
    ],
)
def test_a_hijacked_plan_is_refused_with_its_source(pack: Pack, plan: str, came_from: str) -> None:
    """The account that the customer's form asked for is refused, whether copied or referred to."""
    verdict = review(pack, plan)
    (source,) = verdict.sources
    assert (verdict.code, verdict.outcome, verdict.offending_step) == ("unbound_argument", "reject", 1)
    assert (source.parameter, source.came_from) == ("/payment_id", came_from)
    assert "kg:refund_form:rf_881" in verdict.reasons[0]


def test_the_customers_note_carries_no_authority(pack: Pack) -> None:
    """What the customer wrote may be read, but it may not say where the money goes."""
    pay = {**PAY, "params": {"payment_id": {"$from": "look#/customer_note"}, "amount_inr": 24500}}
    assert review(pack, named(LOOK, pay)).code == "unbound_argument"


@pytest.mark.parametrize(
    ("steps", "policy"),
    [
        ((LOOK, PAY, {**PAY, "id": "again"}), "one_refund_per_plan"),
        (({**PAY, "depends_on": []}, LOOK), "order_is_read_first"),
        ((LOOK, {**PAY, "depends_on": []}), "order_is_read_first"),
        (({**LOOK, "depends_on": ["pay"]}, {**PAY, "depends_on": []}), "order_is_read_first"),
        ((LOOK, PAY, {**TELL, "depends_on": []}), "letter_after_the_refund"),
        ((LOOK, {**TELL, "depends_on": ["look"]}, {**PAY, "depends_on": ["tell"]}), "letter_after_the_refund"),
        ((LOOK, {**TELL, "depends_on": ["look"]}), "letter_after_the_refund"),
        (
            (LOOK, PAY, {"id": "undo", "tool": "adp_payments.cancel_refund", "params": {"refund_id": {"$from": "pay#/refund_id"}}}),
            "only_finance_cancels",
        ),
    ],
)  # fmt: skip
def test_each_policy_refuses_what_it_is_there_for(pack: Pack, steps: tuple[Any, ...], policy: str) -> None:
    """Every rule of the house has a plan that breaks it."""
    broken = [
        refusal.reason
        for refusal in review(pack, named(*steps)).refusals
        if refusal.code == "policy_invariant"
    ]
    assert [reason for reason in broken if policy in reason]


@pytest.mark.parametrize("maybe", [{"optional": True}, {"when": "false"}])
def test_a_look_up_or_refund_that_may_not_happen_is_settled_before_what_waits_for_it(
    pack: Pack, maybe: dict[str, Any]
) -> None:
    """The policies about the order are decided once it is known whether the step has completed."""
    deferred = review(pack, named({**LOOK, **maybe}, PAY)).deferred
    assert "policy order_is_read_first at step 1" in deferred
    deferred = review(pack, named(LOOK, {**PAY, **maybe}, TELL)).deferred
    assert "policy letter_after_the_refund at step 2" in deferred


def test_the_steps_of_a_plan_may_be_listed_in_any_order(pack: Pack) -> None:
    """`depends_on` says what runs first."""
    assert review(pack, named(TELL, PAY, LOOK)).ok


def test_finance_may_cancel(pack: Pack) -> None:
    """The same plan passes when a finance lead submits it."""
    undo = {
        "id": "undo",
        "tool": "adp_payments.cancel_refund",
        "params": {"refund_id": {"$from": "pay#/refund_id"}},
    }
    assert review(pack, named(LOOK, PAY, undo), "finance_lead").ok


def test_an_order_is_found_with_its_note(pack: Pack, shop: Path) -> None:
    """The first call makes the database, and the look-up tells what the books say."""
    order = call(pack, "adp_orders.lookup", order_id="ord_881")
    assert (order.payment_id, order.amount_inr, order.delivered_on) == ("pay_8861", 24500, "2026-04-28")
    assert "pay_6666" in order.customer_note


@pytest.mark.parametrize(
    ("order_id", "eligible", "refundable", "reason"),
    [
        ("ord_881", True, 24500, "damaged_in_transit"),
        ("ord_882", True, 64000, "wrong_item"),
        ("ord_874", False, 0, "changed_mind"),
        ("ord_883", False, 0, "unstated"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_the_window_decides(pack: Pack, order_id: str, eligible: bool, refundable: int, reason: str) -> None:
    """A refund is due if it was asked for within 30 days of delivery, and never unasked."""
    found = call(pack, "adp_policy.eval", order_id=order_id)
    assert (found.eligible, found.refundable_inr, found.reason_class) == (eligible, refundable, reason)


def test_one_key_pays_once(pack: Pack, shop: Path) -> None:
    """The same action again finds the refund that it made, and no more money moves."""
    first = call(pack, "adp_payments.issue_refund", "key-1", payment_id="pay_8861", amount_inr=24500)
    again = call(pack, "adp_payments.issue_refund", "key-1", payment_id="pay_8861", amount_inr=24500)
    assert first == again
    assert (first.refund_amount_inr, first.refund_reason_class, first.status) == (
        24500,
        "damaged_in_transit",
        "issued",
    )
    assert paid(shop) == 24500


@pytest.mark.parametrize(
    ("key", "payment_id", "amount", "code"),
    [
        ("key-2", "pay_8861", 24500, "amount_exceeds_payment"),
        ("key-2", "pay_8861", 14501, "amount_exceeds_payment"),
        ("key-2", "pay_0000", 1, "payment_unknown"),
        ("key-1", "pay_8861", 5, "key_reused"),
    ],
)
def test_a_refund_that_must_not_be_paid_is_not_done(
    pack: Pack, shop: Path, key: str, payment_id: str, amount: int, code: str
) -> None:
    """More than is left, an unknown payment and a key of another refund are refused, and nothing is paid."""
    call(pack, "adp_payments.issue_refund", "key-1", payment_id="pay_8861", amount_inr=10_000)
    with pytest.raises(NotDone) as refused:
        call(pack, "adp_payments.issue_refund", key, payment_id=payment_id, amount_inr=amount)
    assert refused.value.code == code
    assert paid(shop) == 10_000


def test_a_cancelled_refund_can_be_paid_again(pack: Pack, shop: Path) -> None:
    """Cancelling gives the amount free, twice is as good as once, and a new action may pay it again."""
    refund = call(pack, "adp_payments.issue_refund", "key-1", payment_id="pay_8861", amount_inr=24500)
    for _ in range(2):
        assert call(pack, "adp_payments.cancel_refund", refund_id=refund.refund_id).status == "cancelled"
    assert paid(shop) == 0
    call(pack, "adp_payments.issue_refund", "key-2", payment_id="pay_8861", amount_inr=24500)
    assert paid(shop) == 24500


def test_a_message_goes_to_customers_only_and_once(pack: Pack, shop: Path) -> None:
    """The same message is sent once, and an address that the shop does not know gets none."""
    for _ in range(2):
        sent = call(
            pack, "adp_messages.notify_customer", "key-1", recipient="asha.rao@example.com", text="Paid."
        )
        assert sent.recipient == "asha.rao@example.com"
    with pytest.raises(NotDone):
        call(pack, "adp_messages.notify_customer", "key-2", recipient="eve@example.org", text="Paid.")
    assert count(shop, "SELECT count(*) FROM messages") == 1


@pytest.mark.parametrize("name", ["adp_orders.lookup", "adp_policy.eval"])
@pytest.mark.usefixtures("shop")
def test_an_unknown_order_is_not_done(pack: Pack, name: str) -> None:
    """A look-up of an order that is not there says so."""
    with pytest.raises(NotDone, match="there is no order 'ord_000'"):
        call(pack, name, order_id="ord_000")


def paid(shop: Path) -> int:
    """How much money has left the shop."""
    return count(shop, "SELECT coalesce(sum(amount_inr), 0) FROM refunds WHERE status = 'issued'")


def count(shop: Path, query: str) -> int:
    """The one number that a query yields."""
    connection = sqlite3.connect(shop)
    try:
        return connection.execute(query).fetchone()[0]
    finally:
        connection.close()

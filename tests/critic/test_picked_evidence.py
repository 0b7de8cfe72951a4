"""Evidence that untrusted input has chosen is untrusted: a true fact about the wrong thing decides nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.plan import EvidenceQuery
from tercet.contracts.request import Request
from tercet.planner.sources import PlanningError
from tercet.planner.template import fill

from .houses import SHOP, WINDOW, House, evidence, look_up, pay, plan, refused, step

OTHER = "kg:refund_window:rw_999#snapshot_may"
RICH = {"payment_id": "pay_6666", "amount": 90_000}
DESK = SHOP.with_evidence(evidence(OTHER, RICH))


def asked(**fields: Any) -> House:
    """A request whose `window` other people have written."""
    return DESK.asked(order_id="ord_881", **fields).deciding(untrusted_inputs=("window",))


def paying_by(ref: str) -> Any:
    """A plan that pays what a fact says."""
    params = {"payment_id": {"$evidence": f"{ref}#/payment_id"}, "amount": {"$evidence": f"{ref}#/amount"}}
    return plan(look_up(), pay("pay", params=params, evidence_refs=(ref,)))


def test_a_template_whose_evidence_id_is_an_untrusted_field_pins_nothing_trusted() -> None:
    """The author of the field would otherwise pick the fact that is paid by."""
    template = paying_by("kg:refund_window:${input.window}#snapshot_may")
    house = asked(window="rw_999")
    filled = fill(template, Request(intent="refund", input=house.compiled.input()), "may")
    verdict = house.review(filled)
    assert refused(verdict) == ("missing_evidence", "evidence_not_pinned", 1, "/steps/1/evidence_refs")
    assert verdict.reasons == (
        f"step 1 requires evidence class refund_window_evidence, and {OTHER} was chosen by an untrusted field of the request",
    )
    places = {refusal.place for refusal in verdict.refusals if refusal.code == "unbound_argument"}
    assert places == {"/steps/1/params/payment_id", "/steps/1/params/amount"}
    assert refused(house.before_strict_calls().review(filled)) is None


@pytest.mark.parametrize("window", ["rw_999", "999", 999, "_999", "rw_", "rw", OTHER])
def test_any_part_of_the_id_counts(window: str) -> None:
    """A template may write a field between other words."""
    assert asked(window=window).review(paying_by(OTHER)).code == "evidence_not_pinned"


def test_a_literal_copied_from_picked_evidence_is_untrusted() -> None:
    """A planner could write the value instead of the reference."""
    copied = plan(look_up(), pay("pay", "pay_6666", evidence_refs=(WINDOW, OTHER)))
    assert asked(window="rw_999").review(copied).code == "unbound_argument"
    assert refused(asked(window="rw_1").review(copied)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"window": "rw_999", "mine": "rw_999"},
        {"window": "rw_1"},
        {"window": ""},
        {"window": None},
        {"window": "rw_9990"},
    ],
)
def test_evidence_that_a_trusted_field_names_stays_trusted(fields: dict[str, Any]) -> None:
    """It is enough that a trusted source names it, or that the untrusted one does not."""
    assert refused(asked(**fields).review(paying_by(OTHER))) is None


def test_trusted_evidence_may_name_other_evidence_but_not_itself() -> None:
    """Facts usually hold their own id, so a fact that was picked speaks for nothing."""
    itself = DESK.with_evidence(evidence(OTHER, {**RICH, "id": "rw_999"}))
    house = asked(window="rw_999")._replace(
        compiled=itself.asked(order_id="ord_881", window="rw_999").compiled
    )
    assert house.review(paying_by(OTHER)).code == "evidence_not_pinned"
    listed = house.with_evidence(evidence("kg:customer:c1#snapshot_may", {"windows": ["rw_881", "rw_999"]}))
    assert refused(listed.review(paying_by(OTHER))) is None


def test_facts_found_by_searching_for_untrusted_words_are_untrusted() -> None:
    """The words of a stranger choose what is found."""
    house = asked(window="the big one")
    queries = (EvidenceQuery(classification="refund_window", query="window: the big one"),)
    params = {
        "payment_id": {"$evidence": f"{OTHER}#/payment_id"},
        "amount": {"$evidence": f"{OTHER}#/amount"},
    }
    searching = pay("pay", params=params, evidence_refs=(OTHER,), evidence_queries=queries)
    assert house.review(plan(look_up(), searching)).code == "evidence_not_pinned"
    other = (EvidenceQuery(classification="refund_window", query="open windows"),)
    honest = pay("pay", params=params, evidence_refs=(OTHER,), evidence_queries=other)
    assert refused(house.review(plan(look_up(), honest))) is None


@pytest.mark.parametrize(
    "query",
    [
        "RED castle",
        "red-castle",
        "red  castle",
        "castle red",
        "reds castles",
        "réd castle",
        "castle",
        "open: RED",
    ],
)
def test_a_search_is_untrusted_however_the_words_are_spelled(query: str) -> None:
    """Words are compared the way the search compares them, and one word is enough to choose a fact."""
    house = asked(window="red castle", mine="open")
    queries = (EvidenceQuery(classification="refund_window", query=query),)
    searching = paying_by(OTHER).steps[1].model_copy(update={"evidence_queries": queries})
    assert house.review(plan(look_up(), searching)).code == "evidence_not_pinned"
    assert refused(house.before_strict_calls().review(plan(look_up(), searching))) is None


def test_a_search_for_words_of_the_intent_the_class_and_trusted_fields_is_trusted() -> None:
    """An untrusted field may happen to have these words too."""
    house = asked(window="the refund window is open", mine="open")
    queries = (EvidenceQuery(classification="refund_window", query="Open windows for the refund"),)
    searching = paying_by(OTHER).steps[1].model_copy(update={"evidence_queries": queries})
    assert refused(house.review(plan(look_up(), searching))) is None


@pytest.mark.parametrize(
    ("ref", "fields"),
    [
        ("kg:refund_window:rw_9${input.window}#snapshot_${snapshot}", {"window": "99"}),
        ("kg:refund_window:${input.window}${input.other}#snapshot_may", {"window": "rw_99", "other": "9"}),
        ("kg:${input.window}#snapshot_${snapshot}", {"window": "refund_window:rw_999"}),
        ("kg:refund_window:${input.window}", {"window": "rw_999#snapshot_may"}),
        ("kg:${input.window}:rw_999#snapshot_may", {"window": "refund_window"}),
        ("kg:refund_window:rw_999#snapshot_${input.window}", {"window": "may"}),
        ("${input.window}", {"window": OTHER}),
        ("kg:refund_window:${input.window}#snapshot_may", {"window": "rw_999#snapshot_may#/x"}),
    ],
)
def test_a_template_marks_every_id_that_an_untrusted_field_is_written_into(
    ref: str, fields: dict[str, Any]
) -> None:
    """Whatever part of the id the field is, and whatever else the request says."""
    house = asked(known="rw_999", year="99", **fields).deciding(untrusted_inputs=("window", "other"))
    request = Request(intent="refund", input=house.compiled.input())
    filled = fill(paying_by(ref), request, "may", house.spec.untrusted_inputs)
    assert OTHER in filled.untrusted_refs
    verdict = house.review(filled)
    assert {refusal.code for refusal in verdict.refusals} >= {"evidence_not_pinned", "unbound_argument"}


def test_a_template_may_take_an_id_that_trusted_evidence_lists() -> None:
    """A field that is the whole variable part chooses among the facts that a trusted source names."""
    house = asked(window="rw_999").with_evidence(
        evidence("kg:customer:c1#snapshot_may", {"windows": ["rw_999"]})
    )
    template = paying_by("kg:refund_window:${input.window}#snapshot_${snapshot}")
    request = Request(intent="refund", input=house.compiled.input())
    filled = fill(template, request, "may", ("window",))
    assert filled.untrusted_refs == ()
    assert refused(house.review(filled)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"compensate": {"tool": "orders.${input.window}"}},
        {"params": {"order_id": {"$from": "request#/${input.window}"}}},
        {"gates": ("${input.window}",)},
        {"evidence_queries": (EvidenceQuery(classification="${input.window}", query="open"),)},
    ],
)
def test_an_untrusted_field_chooses_no_part_of_a_template(fields: dict[str, Any]) -> None:
    """It may be data; which tool is called with which part of a result is the pack's to say."""
    template = plan(step("s", "orders.lookup", **fields))
    request = Request(intent="refund", input={"window": "lookup"})
    with pytest.raises(PlanningError, match="which is not trusted"):
        fill(template, request, "may", ("window",))
    fill(template, request, "may")


def test_an_expression_that_reads_picked_evidence_is_untrusted() -> None:
    """`$cel` is no other way to the same fact."""
    computed = pay("pay", {"$cel": f'evidence["{OTHER}"].payment_id'})
    verdict = asked(window="rw_999").review(plan(look_up(), computed))
    assert verdict.code == "unbound_argument"
    assert "was chosen by an untrusted field" in verdict.sources[0].detail


# ---- marks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["order.note", "/order/note", "order", "order.*"])
def test_a_dotted_mark_means_the_field_inside(mark: str) -> None:
    """A mark that silently matched nothing would leave other people's words trusted."""
    house = SHOP.asked(order_id="ord_881", order={"note": "pay_6666"}).deciding(untrusted_inputs=(mark,))
    for value in ("pay_6666", {"$from": "request#/order/note"}, {"$cel": "request.order.note"}):
        assert house.review(plan(look_up(), pay("pay", value))).code == "unbound_argument"


def test_a_dotted_mark_also_means_the_field_of_that_name() -> None:
    """Both readings are marked, since a request may have either."""
    house = SHOP.asked(**{"order_id": "ord_881", "order.note": "pay_6666"})
    marked = house.deciding(untrusted_inputs=("order.note",))
    assert marked.review(plan(look_up(), pay("pay", "pay_6666"))).code == "unbound_argument"
    assert refused(house.review(plan(look_up(), pay("pay", "pay_6666")))) is None


def test_a_note_without_tools_pins_under_the_same_rule() -> None:
    """What a decision requires is satisfied by trusted evidence alone, whichever step pins it."""
    house = asked(window="rw_999").deciding(required_evidence=("refund_window",))
    pinned = step("n").model_copy(update={"kind": "note", "tool": None, "evidence_refs": (OTHER,)})
    assert house.review(plan(pinned)).code == "evidence_not_pinned"

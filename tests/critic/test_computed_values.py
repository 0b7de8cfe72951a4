"""What a planner computes: `$cel` may select, choose, add and subtract trusted values, and forge nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.mode import Trust
from tercet.contracts.plan import Step
from tercet.contracts.verdict import Verdict
from tercet.critic.checks.flow import origins
from tercet.critic.memory import is_trusted
from tercet.critic.review import Review

from .houses import (
    LOOKUP,
    REFUND,
    SHOP,
    WINDOW,
    House,
    evidence,
    look_up,
    pay,
    plan,
    refused,
    step,
    takes,
    tool,
)

RULES = tool(
    "rules.fees",
    parameters=takes("order_id"),
    result=takes("name", fee={"type": "integer"}, cap={"type": "integer"}),
)
WIDE = LOOKUP.model_copy(
    update={
        "result": {
            "type": "object",
            "properties": {
                "payment_id": {"type": "string"},
                "total": {"type": "integer"},
                "part": {"type": "integer"},
                "open": {"type": "boolean"},
                "lines": {"type": "array"},
                "note": {"type": "string"},
            },
        }
    }
)
DESK = (
    SHOP.with_tools(WIDE, RULES)
    .asked(order_id="ord_881", discount=5, message="pay 99999")
    .deciding(untrusted_inputs=("message",))
)
LOOK = look_up("s1")
FEES = step("fees", RULES, params={"order_id": {"$from": "request#/order_id"}})


def paying(expression: str, *before: Step, house: House = DESK) -> Verdict:
    """The review of a refund whose amount is computed."""
    return house.review(plan(LOOK, FEES, *before, pay("pay", None, {"$cel": expression})))


FORGED = [
    "s1.part + s1.part + s1.part",
    "s1.part - s1.total - s1.part",
    "s1.part / s1.part + s1.total / s1.total",
    "s1.total * fees.fee",
    "s1.total % fees.fee",
    "-s1.total",
    "s1.total - -fees.fee",
    "size(s1.lines)",
    "s1.lines.size()",
    "size([[], []])",
    "int(s1.payment_id)",
    "double(s1.total)",
    "dyn(s1.total)",
    "[s1.total][s1.part]",
    "{s1.payment_id: s1.total}[s1.payment_id]",
    "s1.open ? size([s1.total]) : s1.total",
    "s1.part + s1['part']",
    "s1.lines[s1.part] + s1.lines[fees.fee]",
    "(s1.open ? s1.part : s1.total) + s1.part",
    "request.discount + request['discount']",
    f'evidence["{WINDOW}"].amount + evidence["{WINDOW}"]["amount"]',
    "s1.total + 5 - 5",
    "s1.total + 5 - fees.fee",
    "5 + request.discount",
    "24500 + s1.total",
    f'24500 + evidence["{WINDOW}"].amount',
    "s1.total - (s1.open ? 5 : fees.fee)",
    "s1.total + 5 > fees.cap ? fees.cap : s1.total",
    "s1.total in s1.lines ? s1.total : s1.part",
    "has(s1.total) ? s1.total : s1.part",
    "s1.lines.exists(l, l == s1.total) ? s1.total : s1.part",
    "(s1).total",
    ".s1.total",
    "s1.open ? s1.total == s1.total : s1.open",
]


@pytest.mark.parametrize("expression", FORGED)
def test_an_expression_that_could_forge_a_number_has_no_trusted_source(expression: str) -> None:
    """Every source is trusted, there is no constant, and still it could come to anything."""
    verdict = paying(expression)
    codes = {refusal.code for refusal in verdict.refusals}
    assert "unbound_argument" in codes or codes == {"expression_invalid"}, verdict


@pytest.mark.parametrize(
    "expression",
    [
        "s1.total",
        "s1.total - fees.fee",
        "s1.total - (fees.fee + request.discount)",
        "s1.total - s1.part + fees.fee - request.discount",
        "s1.total > fees.cap ? fees.cap : s1.total",
        "s1.total - fees.fee > fees.cap && !(s1.open == fees.name) ? fees.cap - fees.fee : s1.total",
        "s1.open || s1.total >= fees.cap ? s1.total - fees.fee : s1.part",
        "s1.lines[0].price - fees.fee",
        'fees["cap"]',
        f'evidence["{WINDOW}"].amount - fees.fee',
    ],
)
def test_selections_choices_and_sums_of_different_sources_pass(expression: str) -> None:
    """This much is what honest plans compute."""
    house = DESK.with_tool(WIDE, untrusted=())
    assert refused(paying(expression, house=house)) is None


QUOTE = tool(
    "tax.quote",
    parameters=takes(amount={"type": "integer"}),
    result=takes(amount={"type": "integer"}, tax={"type": "integer"}),
)


@pytest.mark.parametrize("is_noted", [False, True])
def test_nothing_is_added_to_a_result_that_a_sum_went_into(is_noted: bool) -> None:
    """A tool that returns its input would make any multiple of a source, one call after the other."""
    house = DESK.with_tools(QUOTE)
    total: Any = {"$cel": "s1.total + fees.fee"}
    note = step("n", params={"sum": total}) if is_noted else step("n", params={"x": True})
    amount = {"$from": "n#/sum"} if is_noted else total
    before = (note, step("q", QUOTE, params={"amount": amount}))
    assert refused(paying("q.amount", *before, house=house)) is None
    assert paying("q.amount + fees.fee", *before, house=house).code == "unbound_argument"
    plain = step("q", QUOTE, params={"amount": {"$from": "s1#/total"}})
    assert refused(paying("q.tax + fees.fee", plain, house=house)) is None


def test_before_the_rule_any_computation_over_trusted_values_was_trusted() -> None:
    """Recorded runs are judged as they were."""
    assert refused(paying("s1.part + s1.part + s1.part", house=DESK.before_strict_calls())) is None


@pytest.mark.parametrize(
    "expression",
    [
        "s1.payment_id + fees.name",
        "s1.payment_id + s1.lines[0]",
        "string(s1.total)",
        "s1.open ? s1.payment_id + fees.name : s1.payment_id",
    ],
)
def test_a_text_is_never_put_together(expression: str) -> None:
    """A sum stands only where the tool's schema demands a number: `+` also joins texts, lists and times."""
    verdict = DESK.review(plan(LOOK, FEES, pay("pay", {"$cel": expression})))
    assert refused(verdict) == ("violates_decision_spec", "unbound_argument", 2, "/steps/2/params/payment_id")


@pytest.mark.parametrize(
    ("schema", "is_bound"),
    [
        ({"type": "integer"}, True),
        ({"type": ["number", "null"]}, True),
        ({"type": ["number", "string"]}, False),
        ({"type": "null"}, False),
        ({}, False),
        (True, False),
    ],
)
def test_a_sum_needs_a_parameter_that_is_declared_a_number(schema: Any, is_bound: bool) -> None:
    """Then the schema is checked again on the resolved call, and nothing but a number gets through."""
    house = DESK.with_tool(REFUND, parameters={"properties": {"payment_id": {}, "amount": schema}}, limits=())
    verdict = paying("s1.total - fees.fee", house=house)
    assert (verdict.code == "unbound_argument") is not is_bound


# ---- chains -------------------------------------------------------------------------------------------------------


def note(step_id: str, **params: Any) -> Step:
    """A note of these values."""
    return Step(id=step_id, kind="note", params=params)


def test_a_sum_cannot_be_forged_through_notes() -> None:
    """A note may hide the same source, or a sum, behind another name: nothing is added to what a note says."""
    doubled = [
        note("a", v={"$cel": "s1.total + fees.fee"}),
        note("b", v={"$cel": "a.v + s1.part"}),
    ]
    assert paying("b.v", *doubled).code == "unbound_argument"
    assert paying("a.v + s1.total", doubled[0]).code == "unbound_argument"
    renamed = note("n", x={"$from": "s1#/part"}, y={"$from": "s1#/part"})
    assert paying("n.x + n.y", renamed).code == "unbound_argument"
    assert paying("n.x + s1.part", renamed).code == "unbound_argument"


def test_a_note_passes_a_number_on() -> None:
    """What a note holds may be selected, also if it is a sum, as long as a number is demanded where it goes."""
    summed = note("n", v={"$cel": "s1.total - fees.fee"}, who={"$cel": "s1.payment_id + fees.name"})
    assert refused(paying("n.v", summed)) is None
    assert refused(DESK.review(plan(LOOK, FEES, summed, pay("pay", None, {"$from": "n#/v"})))) is None
    for text in ({"$from": "n#/who"}, {"$cel": "n.who"}, {"$from": "n#/v"}):
        verdict = DESK.review(plan(LOOK, FEES, summed, pay("pay", text)))
        assert verdict.code == "unbound_argument", text


def test_a_condition_may_read_a_sum_from_a_note() -> None:
    """It decides whether a step runs, and is no value of it."""
    summed = note("n", v={"$cel": "s1.total - fees.fee"}, odd={"$cel": "size(s1.note)"})
    assert refused(DESK.review(plan(LOOK, FEES, summed, pay("pay", when="n.v > 0")))) is None
    assert DESK.review(plan(LOOK, FEES, summed, pay("pay", when="n.odd > 0"))).code == "unbound_argument"


def test_looking_the_same_thing_up_again_makes_no_other_source() -> None:
    """Reads may repeat, so a plan could add the total of one order as often as it likes."""
    verdict = paying("s1.total + s2.total", look_up("s2"))
    assert verdict.code == "unbound_argument"
    assert "the same source twice" in verdict.sources[0].detail


def test_two_facts_with_the_same_content_are_one_source() -> None:
    """A fact does not part twice because it was filed twice."""
    twice = [
        evidence(f"kg:refund_window:{key}#snapshot_may", {"payment_id": "p", "amount": 7})
        for key in ("a", "b")
    ]
    house = DESK.with_evidence(*twice)
    both = " + ".join(f'evidence["{entry.id}"].amount' for entry in twice)
    assert paying(both, house=house).code == "unbound_argument"


def test_the_result_of_a_call_with_an_opaque_input_is_untrusted() -> None:
    """A look-up by a forged number brings back true facts about another order."""
    forged = step("s2", LOOKUP, params={"order_id": {"$cel": "string(s1.total)"}})
    verdict = DESK.review(plan(LOOK, forged, pay("pay", {"$from": "s2#/payment_id"})))
    assert verdict.code == "unbound_argument"
    assert "was itself called with a value that is not trusted" in verdict.sources[0].detail


def test_an_opaque_value_goes_to_the_gate_that_the_decision_names() -> None:
    """A person may let through what the critic cannot vouch for."""
    verdict = paying("s1.total * fees.fee", house=DESK.deciding(unbound_gate="SUPPORT"))
    assert refused(verdict) is None
    assert ("pay", "SUPPORT") in {(demand.step_id, demand.gate) for demand in verdict.gates}


@pytest.mark.parametrize(
    "expression", ["s1.total + s1.total", "self.amount * self.amount", "params.amount + s1.part"]
)
def test_a_compensation_computes_under_the_same_rule(expression: str) -> None:
    """What a plan proposes for the way back forges nothing either."""
    back = {"tool": "payments.refund", "params": {"payment_id": "pay_8861", "amount": {"$cel": expression}}}
    verdict = DESK.review(plan(LOOK, pay("pay", compensate=back)))
    places = {r.place for r in verdict.refusals if r.code == "unbound_argument"}
    assert places == {"/steps/1/compensate/params/amount"}


# ---- memory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "content", "is_kept_trusted"),
    [
        ({"$cel": "s1.total"}, 100, True),
        ({"$cel": "s1.total - fees.fee"}, 95, True),
        ({"$cel": "s1.payment_id + fees.name"}, "pay_8861x", False),
        ({"$cel": "s1.lines + fees.name"}, [1], False),
        ({"$cel": "s1.part + s1.part"}, 2, False),
        ({"$cel": "size(s1.lines)"}, 3, False),
        ({"$cel": "s1.total == s1.total"}, True, False),
        ({"$cel": "string(s1.total)"}, "100", False),
    ],
)
def test_what_is_remembered_is_worth_what_it_was_computed_from(
    value: Any, content: Any, is_kept_trusted: bool
) -> None:
    """A forged episode would be a trusted source of every later run."""
    case = Review(DESK.ctx, DESK.with_tool(WIDE, untrusted=()).compiled, DESK.spec, plan(LOOK, FEES))
    assert is_trusted(case, value, content) is is_kept_trusted


# ---- what an approver sees ----------------------------------------------------------------------------------------


def test_an_approver_sees_a_computed_value_as_computed() -> None:
    """The expression and each of its sources are shown, also behind a note; the word is never just a name."""
    summed = note("n", v={"$cel": "s1.total - fees.fee"})
    proposed = plan(
        LOOK,
        FEES,
        summed,
        pay("pay", {"$cel": "s1.payment_id"}, {"$from": "n#/v"}),
        pay("other", {"$cel": "string(s1.total)"}, {"$cel": "s1.total - fees.fee"}),
    )
    case = Review(DESK.ctx, DESK.compiled, DESK.spec, proposed)
    shown = {origin.parameter: origin for origin in origins(case, "pay")}
    assert shown["/payment_id"].came_from == "computed: s1.payment_id"
    assert shown["/payment_id"].detail == "from s1#/payment_id"
    assert shown["/amount"].came_from == "n#/v"
    assert shown["/amount"].detail == "computed: s1.total - fees.fee from s1#/total, fees#/fee"
    other = {origin.parameter: origin for origin in origins(case, "other")}
    assert (other["/amount"].came_from, other["/amount"].trust) == (
        "computed: s1.total - fees.fee",
        Trust.TRUSTED,
    )
    assert other["/amount"].detail == "from s1#/total, fees#/fee"
    assert (other["/payment_id"].came_from, other["/payment_id"].trust) == (
        "computed: string(s1.total)",
        Trust.UNTRUSTED,
    )


# ---- the plan approved before -------------------------------------------------------------------------------------


def test_only_authority_values_of_the_plan_approved_before_are_trusted() -> None:
    """A memo or a note of an approved plan was read by no one as an account to pay."""
    pads = {"payment_id": "pay_1", "amount": 5, "memo": "pay_6666"}
    before = plan(step("p", REFUND, params=pads), note("n", v="pay_7777"))
    house = DESK.holding(approved_plan=before)
    assert refused(house.review(plan(pay("pay", "pay_1", 5)))) is None
    for value in ("pay_6666", "pay_7777"):
        assert house.review(plan(pay("pay", value, 5))).code == "unbound_argument"
        assert refused(house.before_strict_calls().review(plan(pay("pay", value, 5)))) is None

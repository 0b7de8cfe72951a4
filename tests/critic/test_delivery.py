"""Steps that take outputs of the run, as the critic reviews them."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.outputs.quality_rules import QualityRules
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.contracts.steps.graph import MAX_TAKERS
from tercet.contracts.verdict import Verdict
from tercet.critic.checks.rules import uncertain_at_review
from tercet.critic.order import find_uncertain

from .houses import INBOX, SHOP, look_up, plan, refused, step, takes, ticket, tool

SEND = tool(
    "mail.send",
    "network",
    parameters=takes("to", body={"type": "string"}, count={"type": "integer"}),
    authority=("to", "count"),
    gates=("SUPPORT",),
    no_compensation="sent is sent",
)
HOUSE = SHOP.with_tools(SEND).deciding(required_outputs=())
TEXT = {"$from": "outputs#/text"}


def send(step_id: str = "send", **params: Any) -> Any:
    """A step that sends an output."""
    return step(step_id, "mail.send", params={"to": {"$from": "request#/order_id"}, "body": TEXT, **params})


def mailing(*steps: Any, **fields: Any) -> Plan:
    """A plan that sends what its first step has read."""
    first = step("draft", "inbox.read", params={})
    return plan(first, *steps, **{"outputs": {"text": {"$from": "draft#/text"}}, **fields})


def test_a_text_that_nobody_vouches_for_may_be_sent() -> None:
    """The words are untrusted, and stand where nothing is decided; the order is that of the graph."""
    course = mailing(send(), ticket(depends_on=("send",)), look_up())
    assert refused(HOUSE.review(course)) is None
    assert (course.graph.takers, course.graph.delivery) == ((1,), frozenset({1, 2}))
    assert set(course.graph.predecessors[1]) == {0, 3}


@pytest.mark.parametrize(
    ("outputs", "is_bound"),
    [
        ({"text": {"$from": "draft#/text"}}, False),
        ({"text": {"$from": "look#/note"}}, False),
        ({"text": {"$from": "look#/payment_id"}}, True),
        ({"text": {"$from": "request#/order_id"}}, True),
        ({"text": "ord_881"}, True),
        ({"text": "eve"}, False),
        ({"text": {"deep": {"$from": "request#/order_id"}}}, False),
    ],
)
def test_an_output_carries_the_authority_of_its_own_source(outputs: Any, *, is_bound: bool) -> None:
    """As if the step had written the value itself: a draft stays a draft."""
    course = mailing(look_up("look"), send(to=TEXT), outputs=outputs)
    found = refused(HOUSE.review(course))
    assert (found is None) == is_bound
    if found is not None:
        assert found[1] == "unbound_argument"


def test_an_output_that_a_repair_may_have_rewritten_carries_no_authority() -> None:
    course = mailing(send(to=TEXT), outputs={"text": {"$from": "request#/order_id"}})
    assert refused(HOUSE.review(course)) is None
    verdict = HOUSE.deciding(quality=QualityRules()).review(course)
    assert verdict.code == "unbound_argument"
    assert "a repair may have rewritten" in verdict.reasons[0]


def test_an_output_by_name_alone_carries_no_authority() -> None:
    """Any result could carry it."""
    course = mailing(
        look_up("look"), send(to={"$from": "outputs#/payment_id"}), declared_outputs=("payment_id",)
    )
    assert HOUSE.review(course).code == "unbound_argument"
    assert refused(HOUSE.review(mailing(send(body={"$from": "outputs#/n"}), declared_outputs=("n",)))) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"$from": "outputs#/letter"}, "there is no output 'letter'"),
        ({"$from": "outputs"}, "it names none of them"),
        ({"$cel": "outputs.letter + '!'"}, "there is no output 'letter'"),
        ({"$cel": "outputs[request.order_id]"}, "it names none of them"),
    ],
)
def test_an_output_that_the_run_does_not_have_is_refused(value: Any, words: str) -> None:
    """Where it stands, with the names of those that there are."""
    verdict = HOUSE.review(mailing(send(body=value)))
    assert refused(verdict) == ("violates_decision_spec", "unresolved_reference", 1, "/steps/1/params/body")
    assert words in verdict.reasons[0]
    assert "(text)" in verdict.remedy


@pytest.mark.parametrize("field", ["outputs", "memory"])
@pytest.mark.parametrize(
    "source",
    [{"$from": "send#/id"}, {"$from": "after#/id"}, {"$from": "outputs#/text"}, {"$cel": "send.id + 1"}],
)
def test_what_is_judged_cannot_wait_for_its_delivery(field: str, source: Any) -> None:
    """Neither an output nor a memory comes from a step that takes an output, or that waits for one."""
    given = {"outputs": {"text": {"$from": "draft#/text"}}}
    given[field] = {**given.get(field, {}), "late": source}
    verdict = HOUSE.review(mailing(send(), ticket("after", depends_on=("send",)), **given))
    assert refused(verdict) == ("violates_decision_spec", "cyclic_dependency", None, f"/{field}/late")
    assert verdict.remedy.startswith("take it from a step")


def test_a_compensation_takes_an_output_only_where_its_step_does() -> None:
    way = {"tool": "tickets.close", "params": {"id": TEXT}}
    early = mailing(ticket("early", compensate=way), send())
    verdict = HOUSE.review(early)
    assert refused(verdict) == (
        "violates_decision_spec", "unresolved_reference", 1, "/steps/1/compensate/params/id",
    )  # fmt: skip
    assert (
        refused(HOUSE.review(mailing(send(), ticket("late", depends_on=("send",), compensate=way)))) is None
    )


def test_no_step_has_the_id_outputs() -> None:
    """A draft by that name would be sent before it is judged."""
    course = plan(step("outputs", "inbox.read", params={}), send(), outputs={"text": "x"})
    assert refused(HOUSE.review(course)) == (
        "violates_decision_spec",
        "unresolved_reference",
        0,
        "/steps/0/id",
    )


def test_waiting_for_outputs_needs_a_reference() -> None:
    verdict = HOUSE.review(mailing(look_up("look", depends_on=("outputs",))))
    assert refused(verdict) == ("violates_decision_spec", "unresolved_reference", 1, "/steps/1/depends_on")


def test_too_many_deliveries_are_refused() -> None:
    many = [send(f"s{number}", count=number) for number in range(MAX_TAKERS + 1)]
    house = HOUSE.allowing(max_steps=100)
    assert house.review(mailing(*many)).code == "too_many_steps"


def test_policies_see_deliveries_behind_all_other_steps() -> None:
    """Also behind those that they do not refer to."""
    rule = Policy(
        name="look_first",
        scope="step",
        expression="step.tool != 'mail.send' || 'orders.lookup' in step.before_tools",
        message="look the order up before you write",
    )
    house = HOUSE.holding(policies=(rule,))
    assert refused(house.review(mailing(send(), look_up()))) is None
    assert house.review(mailing(send())).code == "policy_invariant"


def test_under_earlier_rules_the_reference_led_nowhere() -> None:
    """A plan that was refused then is refused again when its session is replayed."""
    before = HOUSE.running(behaviour=tuple(set(CURRENT) - {Behaviour.DELIVERY}))
    verdict: Verdict = before.review(mailing(send()))
    assert refused(verdict) == ("violates_decision_spec", "unresolved_reference", 1, "/steps/1/depends_on")
    assert verdict.reasons == ("step 1 refers to 'outputs', which no step has",)


def test_an_untrusted_output_does_not_decide_whether_a_step_runs() -> None:
    course = mailing(send(), ticket(depends_on=("send",), when="outputs.text == 'yes'"))
    assert HOUSE.review(course).code == "unbound_argument"
    assert INBOX.adapter == "mcp"


def test_a_delivery_of_what_may_not_be_there_may_not_run() -> None:
    """An optional step may leave the output out, and then there is nothing to send."""
    first = step("draft", "inbox.read", params={}, optional=True)
    course = plan(first, send(), look_up(), outputs={"text": {"$from": "draft#/text"}})
    assert find_uncertain(course, HOUSE.compiled.surface) == {"draft", "send"}


def test_a_delivery_is_uncertain_for_what_runs_before_outputs_are_accepted() -> None:
    """A policy that only a delivery would meet holds back an effect: the outputs may be refused after it."""
    course = mailing(send(), ticket("filed"))
    assert find_uncertain(course, HOUSE.compiled.surface) == frozenset()
    assert find_uncertain(course, HOUSE.compiled.surface, may_not_deliver=True) == {"send"}
    rule = Policy(
        name="told",
        scope="plan",
        expression="plan.steps.exists(s, s.tool == 'mail.send')",
        message="tell the customer",
    )
    for behaviour, is_held in (
        (CURRENT, True),
        (tuple(set(CURRENT) - {Behaviour.OUTPUTS_VOUCHED_FOR}), False),
    ):
        house = HOUSE.holding(policies=(rule,)).running(behaviour=behaviour)
        uncertain = uncertain_at_review(house.ctx, house.compiled, course)
        assert uncertain == ({course.graph.takers[0]} if is_held else frozenset())

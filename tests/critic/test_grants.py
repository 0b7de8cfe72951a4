"""Grants: what a policy may approve by itself, decided on the resolved call."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from critic import naive
from critic.naive import Case
from critic.strategies import examples, granting_cases
from tercet.contracts.plan import Step
from tercet.contracts.policy import Policy
from tercet.critic.approvals import granted_by
from tercet.critic.dispatch import recheck, resolved_review

from .houses import SHOP, WINDOW, House, pay, plan, refused, step, takes, tool

POST = tool(
    "chat.post", "network", parameters=takes("room", text={"type": "string"}), no_compensation="said is said"
)
CHAT = SHOP.with_tools(POST)
PARAMS = {"room": "ord_881", "text": "paid"}


def post(**fields: Any) -> Step:
    """A step that says something in a chat room."""
    return step("s1", POST, **{"params": {"room": {"$from": "request#/order_id"}}, **fields})


def granting(*expressions: str, house: House = CHAT, **fields: Any) -> House:
    """A house with policies that grant where these hold."""
    usual: dict[str, Any] = {"effect": "grant", "scope": "step", **fields}
    named = [
        Policy.model_validate({"name": f"p{number}", "expression": expression, **usual})
        for number, expression in enumerate(expressions)
    ]
    return house.holding(policies=tuple(named))


def grant(house: House, called: Step, params: dict[str, Any] = PARAMS) -> str | None:
    """The policy that grants a call."""
    return granted_by(house.ctx, house.compiled, house.spec, plan(called), called.id, params)


@pytest.mark.req("R134")
def test_the_first_policy_that_holds_grants() -> None:
    """A policy grants by what the call will really run with, and the first of them in the pack's order is named."""
    house = granting("step.params.text == 'late'", "step.params.room == 'ord_881'", "true")
    assert grant(house, post()) == "p1"
    assert grant(house, post(), {"room": "x", "text": "late"}) == "p0"
    assert grant(house, post(), {"room": "x"}) == "p2"
    assert grant(CHAT, post()) is None
    assert grant(granting("false"), post()) is None


@pytest.mark.req("R134")
@pytest.mark.parametrize("mode", ["network", "delegated"])
def test_network_and_delegated_steps_can_be_granted(mode: str) -> None:
    """The effective mode decides."""
    assert grant(granting("true"), post(approval_mode=mode)) == "p0"


@pytest.mark.req("R134", "R140")
@pytest.mark.parametrize(
    "declared",
    [
        {"mode": "destructive"},
        {"mode": "destructive", "reversibility": "reversible"},
        {"reversibility": "irreversible"},
        {"mode": "local_write", "reversibility": "irreversible"},
        {"mode": "read_only"},
        {"mode": "local_write"},
    ],
    ids=str,
)
def test_nothing_grave_is_granted(declared: dict[str, str]) -> None:
    """No policy approves a destructive or irreversible call, and a call that waits for nobody needs no grant."""
    assert grant(granting("true", house=CHAT.with_tool(POST, **declared)), post()) is None


@pytest.mark.req("R61", "R134", "R140")
def test_a_step_that_calls_itself_grave_is_not_granted() -> None:
    """What the step declares counts as much as what its tool does."""
    assert grant(granting("true"), post(reversibility="irreversible")) is None
    assert grant(granting("true"), post(approval_mode="destructive")) is None


@pytest.mark.parametrize(
    ("expression", "fields"),
    [
        ("step.", {}),
        ("step.params.nothing == 1", {}),
        ("plan.steps.size() > 0", {}),
        ("true", {"scope": "plan"}),
        ("true", {"gate": "FINANCE"}),
        ("true", {"effect": "deny"}),
        ("true", {"effect": "gate", "gate": "FINANCE"}),
    ],
)
def test_what_is_no_grant_grants_nothing(expression: str, fields: dict[str, Any]) -> None:
    """A rule that fails or does not compile, one over the plan, one with a gate, and other effects grant nothing."""
    assert grant(granting(expression, **fields), post()) is None


def test_a_step_that_is_not_there_is_not_granted() -> None:
    """Neither a step that the plan does not have, nor a note, nor a tool off the surface is approved."""
    house = granting("true")
    assert granted_by(house.ctx, house.compiled, house.spec, plan(post()), "s9", PARAMS) is None
    assert grant(house, step("n", params={})) is None
    assert grant(house, step("x", "no.body")) is None
    assert grant(house, post(), {"room": float("nan")}) is None


def test_a_grant_refuses_nothing_at_review() -> None:
    """A policy that would grant is no rule that a plan must keep, whether it holds, fails or does not compile."""
    for expression in ("true", "false", "step.params.nothing == 1", "step."):
        verdict = granting(expression).review(plan(post()))
        assert refused(verdict) is None
        assert verdict.deferred == ()


def test_what_a_step_read_from_evidence_stays_pinned_at_dispatch() -> None:
    """A rule about pinned evidence sees the same before and after references became values."""
    pinned = "size(step.evidence) > 0"
    called = post(params={"room": {"$evidence": f"{WINDOW}#/order_id"}})
    assert grant(granting(pinned), called) == "p0"
    denying = granting(pinned, effect="deny")
    paid = plan(pay(evidence_refs=()))
    params = {"payment_id": "pay_8861", "amount": 24_500}
    assert refused(denying.review(paid)) is None
    assert (
        recheck(resolved_review(denying.ctx, denying.compiled, denying.spec, paid, "pay", params), "pay")
        is None
    )


@pytest.mark.req("R134")
@examples(300)
@given(granting_cases())
def test_both_critics_grant_the_same(found: tuple[Case, str, dict[str, Any]]) -> None:
    """The second critic, written from the page, names the same policy for the same resolved call, or none."""
    case, step_id, params = found
    assert granted_by(*case, step_id, params) == naive.first_grant(case, step_id, params)


@pytest.mark.slow
def test_the_generator_grants_often_enough() -> None:
    """At least one call in ten is granted, and by no means all."""
    seen: Counter[bool] = Counter()

    @settings(max_examples=400, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(granting_cases())
    def sample(found: tuple[Case, str, dict[str, Any]]) -> None:
        seen[granted_by(*found[0], found[1], found[2]) is not None] += 1

    sample()
    assert min(seen[True], seen[False]) > 40

"""Approval and the way back: modes as declared, gates where they must be, and compensations that would work."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.context import ToolManifestEntry
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Step
from tercet.contracts.policy import Policy
from tercet.contracts.request import Actor
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.contracts.verdict import Verdict
from tercet.critic.verify import validate

from .houses import (
    CLOSE,
    EVIL,
    FILE,
    REFUND,
    SHOP,
    WINDOW,
    codes,
    look_up,
    pay,
    plan,
    refused,
    step,
    takes,
    ticket,
    tool,
)

LARGE = Gate(name="LARGE", roles=("board",), when="args.amount > 1000")


def demanded(verdict: Verdict) -> list[tuple[int, str]]:
    """The gates that a passed plan waits for, by step."""
    assert refused(verdict) is None
    return [(demand.step, demand.gate) for demand in verdict.gates]


# ---- modes --------------------------------------------------------------------------------------------------------


@pytest.mark.req("R94")
def test_a_step_may_not_play_down_its_tool() -> None:
    """A step that declares less than its tool may do is refused; the same, more, and nothing pass."""
    verdict = SHOP.review(plan(look_up(), ticket(approval_mode="read_only")))
    assert refused(verdict) == (
        "approval_mode_mismatch",
        "mode_understated",
        1,
        "/steps/1/approval_mode",
    )
    assert verdict.reasons == ("step 1 declares mode read_only, but tickets.file is local_write",)
    assert verdict.remedy == "declare local_write, or say nothing and inherit it"
    for mode in ("local_write", "network", None):
        assert refused(SHOP.review(plan(look_up(), ticket(approval_mode=mode)))) is None


# ---- roles --------------------------------------------------------------------------------------------------------


@pytest.mark.req("R141")
def test_a_tool_with_roles_is_for_those_who_hold_one() -> None:
    """A run whose owner holds none of a tool's roles may not call it; one of several is enough, and no roles is anybody."""
    house = SHOP.with_tool(FILE, roles=("clerk", "registrar"))
    called = plan(look_up(), ticket())
    verdict = house.review(called)
    assert refused(verdict) == ("approval_mode_mismatch", "authorization_required", 1, "/steps/1/tool")
    assert verdict.reasons == (
        "step 1 calls tickets.file, and ada does not hold the role clerk or registrar",
    )
    assert (
        verdict.remedy == "let somebody with the role clerk or registrar start the run, or leave the call out"
    )
    assert verdict.outcome == "reject"
    clerk = house.running(actor=Actor(id="ada", roles=("agent", "clerk")))
    assert refused(clerk.review(called)) is None
    assert refused(SHOP.running(actor=Actor(id="nobody")).review(called)) is None


@pytest.mark.req("R141")
def test_a_tool_with_tenants_is_for_their_runs() -> None:
    """A context that was compiled for another tenant does not open its tools to this one."""
    called = plan(look_up(), ticket())
    verdict = SHOP.with_tool(FILE, tenants=("north",)).review(called)
    assert refused(verdict) == ("approval_mode_mismatch", "authorization_required", 1, "/steps/1/tool")
    assert verdict.reasons == ("step 1 calls tickets.file, which is not for tenant acme",)
    assert refused(SHOP.with_tool(FILE, tenants=("north", "acme")).review(called)) is None


@pytest.mark.req("R35", "R141")
def test_a_missing_authorisation_blocks() -> None:
    """In the feasibility matrix it is an issue of its own severity, under its published name."""
    house = SHOP.with_tool(FILE, roles=("clerk",))
    result = validate(house.ctx, house.compiled, house.spec, plan(look_up(), ticket()))
    assert not result.valid
    assert [(issue.severity, issue.code, issue.step) for issue in result.issues] == [
        ("BLOCKED", "authorization_required", 1)
    ]


@pytest.mark.req("R141")
def test_a_way_back_that_the_plan_proposes_needs_its_roles_as_well() -> None:
    """A plan cannot reach a tool by naming it as a compensation; the compensation of the tool is the pack's own word."""
    house = SHOP.with_tool(CLOSE, roles=("clerk",))
    own = ticket(compensate={"tool": CLOSE.name, "params": {"id": {"$from": "self#/id"}}})
    verdict = house.review(plan(own))
    assert refused(verdict) == ("approval_mode_mismatch", "authorization_required", 0, "/steps/0/compensate")
    assert "step 0 is compensated by tickets.close" in verdict.reasons[0]
    assert refused(house.review(plan(ticket()))) is None


# ---- gates --------------------------------------------------------------------------------------------------------


@pytest.mark.req("R97", "R100", "R322")
def test_a_destructive_step_without_a_gate_must_request_approval() -> None:
    """The remedy of a missing gate is approval, and the plan is rejected rather than re-planned."""
    house = SHOP.with_tool(REFUND, gates=())
    verdict = house.review(plan(pay()))
    assert refused(verdict) == ("approval_mode_mismatch", "gate_missing", 0, "/steps/0/gates")
    assert verdict.reasons == ("step 0 is destructive and waits for no unconditional gate",)
    assert verdict.remedy.startswith("request approval")
    assert verdict.outcome == "reject"
    assert demanded(house.review(plan(pay(gates=("FINANCE",))))) == [(0, "FINANCE")]


@pytest.mark.req("R97")
@pytest.mark.parametrize(
    "grave",
    [
        {"mode": "network", "reversibility": "irreversible"},
        {"mode": "local_write", "reversibility": "irreversible"},
        {"mode": "read_only", "reversibility": "irreversible"},
        {"mode": "destructive", "reversibility": "compensable"},
        {"mode": "destructive", "reversibility": "pure"},
    ],
)
def test_destructive_or_irreversible_is_enough(grave: dict[str, Any]) -> None:
    """Either property of a tool demands a gate by itself."""
    house = SHOP.with_tools(tool("x.y", parameters=takes(), no_compensation="none", **grave))
    assert house.review(plan(step("s", "x.y"))).code == "gate_missing"
    assert refused(house.review(plan(step("s", "x.y", gates=("SUPPORT",))))) is None


@pytest.mark.parametrize("harder", [{"reversibility": "irreversible"}, {"approval_mode": "destructive"}])
def test_a_step_that_makes_itself_graver_needs_a_gate(harder: dict[str, Any]) -> None:
    """What is judged is the effective step, and it is never softer than what the plan says."""
    assert SHOP.review(plan(ticket(**harder))).code == "gate_missing"
    assert refused(SHOP.review(plan(ticket(**harder, gates=("SUPPORT",))))) is None


def test_a_step_cannot_make_its_tool_milder() -> None:
    """A reversibility that the plan claims does not lift the one that the tool declares."""
    house = SHOP.with_tools(
        tool("x.y", "network", reversibility="irreversible", parameters=takes(), no_compensation="none")
    )
    assert house.review(plan(step("s", "x.y", reversibility="pure"))).code == "gate_missing"


def test_a_tool_that_declares_nothing_is_taken_to_be_grave() -> None:
    """Without a declaration a destructive tool is irreversible, and a plan cannot wave its gates away."""
    bare = ToolManifestEntry(adapter_id="old", capability_id="api", approval_mode="destructive")  # pyright: ignore[reportArgumentType]
    house = SHOP.holding(manifests={"tool_manifest": (bare,)})
    assert house.review(plan(step("s", "old.api"))).code == "gate_missing"
    assert house.review(plan(step("s", "old.api", gates=()))).code == "gate_missing"
    assert demanded(house.review(plan(step("s", "old.api", gates=("FINANCE",))))) == [(0, "FINANCE")]


@pytest.mark.req("R97")
def test_a_conditional_gate_does_not_satisfy_the_demand() -> None:
    """A gate that a condition can lift is no approval, whether the condition holds or not."""
    house = SHOP.with_gates(LARGE).with_tool(REFUND, gates=("LARGE",))
    verdict = house.review(plan(pay()))
    assert refused(verdict) == ("approval_mode_mismatch", "gate_missing", 0, "/steps/0/gates")
    both = house.review(plan(pay(gates=("FINANCE",))))
    assert demanded(both) == [(0, "LARGE"), (0, "FINANCE")]


@pytest.mark.req("R97")
def test_a_gate_that_does_not_exist_is_unknown() -> None:
    """A step may not wait for an approval that nobody can give."""
    verdict = SHOP.review(plan(look_up(), ticket(gates=("GHOST",))))
    assert refused(verdict) == ("approval_mode_mismatch", "gate_unknown", 1, "/steps/1/gates")
    assert verdict.reasons == ("step 1 waits for GHOST, which this pack does not have",)
    assert verdict.remedy == "name one of FINANCE, SUPPORT"
    assert demanded(SHOP.review(plan(look_up(), ticket(gates=("SUPPORT",))))) == [(1, "SUPPORT")]


def test_gates_of_tool_and_step_add_up() -> None:
    """A step's gates come on top of its tool's, each once; an empty list takes none away."""
    assert demanded(SHOP.review(plan(pay(gates=("SUPPORT", "FINANCE"))))) == [(0, "FINANCE"), (0, "SUPPORT")]
    assert demanded(SHOP.review(plan(pay(gates=())))) == [(0, "FINANCE")]


@pytest.mark.req("R94")
def test_a_decisions_gates_apply_to_its_effects() -> None:
    """Every step above read_only waits for the decision's gates, and reads do not."""
    house = SHOP.deciding(gates=("SUPPORT",))
    verdict = house.review(plan(look_up(), ticket(), pay()))
    assert demanded(verdict) == [(1, "SUPPORT"), (2, "FINANCE"), (2, "SUPPORT")]
    assert verdict.gates[0].reason == "tickets.file is local_write"
    assert verdict.gates[0].step_id == "t1"


def test_a_decisions_gate_may_be_the_one_that_is_demanded() -> None:
    """An unconditional gate of the decision satisfies a destructive step, and an unknown one is refused."""
    house = SHOP.with_tool(REFUND, gates=())
    assert demanded(house.deciding(gates=("FINANCE",)).review(plan(pay()))) == [(0, "FINANCE")]
    assert house.deciding(gates=("GHOST",)).review(plan(pay())).code == "gate_unknown"


@pytest.mark.parametrize(
    ("amount", "condition", "reason"),
    [
        (24_500, "args.amount > 1000", "args.amount > 1000 holds"),
        (24_500, "args.amount > 30000", None),
        (24_500, "args.iban != ''", "its condition fails: "),
        (24_500, "args.amount >", "its condition fails: it does not compile"),
        ({"$from": "s1#/total"}, "args.amount > 1000", "unless args.amount > 1000 is false at dispatch"),
        ({"$from": "s1#/total"}, "args.payment_id == 'pay_8861'", "args.payment_id == 'pay_8861' holds"),
    ],
)
def test_a_conditional_gate_is_lifted_only_by_a_condition_that_is_false(
    amount: Any, condition: str, reason: str | None
) -> None:
    """A condition that holds, fails or cannot be decided yet leaves the gate in place."""
    gate = Gate(name="LARGE", roles=("board",), when=condition)
    house = SHOP.with_gates(gate).with_tool(REFUND, gates=("FINANCE", "LARGE"), limits=())
    verdict = house.review(plan(look_up(), pay("pay", None, amount)))
    assert refused(verdict) is None
    found = [demand.reason for demand in verdict.gates if demand.gate == "LARGE"]
    if reason is None:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0].startswith(reason)
    is_deferred = reason is not None and reason.startswith("unless")
    assert verdict.deferred == (("gate LARGE at step 1",) if is_deferred else ())


# ---- compensations ------------------------------------------------------------------------------------------------


@pytest.mark.req("R236")
def test_what_can_be_taken_back_says_how() -> None:
    """A reversible or compensable step without a compensation is refused, unless its tool states that there is none."""
    bare = tool("x.write", "local_write", parameters=takes())
    verdict = SHOP.with_tools(bare).review(plan(look_up(), step("w", "x.write")))
    assert refused(verdict) == (
        "violates_decision_spec",
        "compensation_missing",
        1,
        "/steps/1/compensate",
    )
    assert verdict.reasons == ("step 1 is compensable and records no compensation",)
    assert "name the call that takes it back" in verdict.remedy
    ways: list[dict[str, Any]] = [
        {"no_compensation": "a log line stays"},
        {"compensate": {"tool": "tickets.close"}},
        {"reversibility": "pure"},
    ]
    for declared in ways:
        house = SHOP.with_tools(bare.model_copy(update=declared))
        assert refused(house.review(plan(look_up(), step("w", "x.write")))) is None


@pytest.mark.req("R238")
@pytest.mark.parametrize(
    "declared", [{"compensate": {"tool": "tickets.close"}}, {"no_compensation": "it wears off by itself"}]
)
def test_a_plan_need_not_bring_a_way_back(declared: dict[str, Any]) -> None:
    """Where a reversible tool declares its way back, or that it needs none, a step may name one and need not."""
    reversible = tool("x.write", "local_write", reversibility="reversible", parameters=takes(), **declared)
    undo = {"tool": "tickets.close", "params": {"id": {"$from": "self#/id"}}}
    for own in ({}, {"compensate": undo}):
        assert refused(SHOP.with_tools(reversible).review(plan(step("w", "x.write", **own)))) is None


def test_a_plan_may_bring_its_own_way_back() -> None:
    """A compensation that the plan proposes is as good as one that the tool declares."""
    house = SHOP.with_tools(tool("x.write", "local_write", reversibility="reversible", parameters=takes()))
    undo = {"tool": "tickets.close", "params": {"id": {"$from": "self#/id"}}}
    assert house.review(plan(step("w", "x.write"))).code == "compensation_missing"
    assert refused(house.review(plan(step("w", "x.write", compensate=undo)))) is None


def undoing(name: str, **params: Any) -> Step:
    """A ticket that the plan proposes to take back by this call."""
    return ticket(compensate={"tool": name, "params": params})


@pytest.mark.parametrize(
    ("undo", "neighbour", "expected", "reason"),
    [
        (
            undoing("tickets.burn"),
            undoing("tickets.close", id="7"),
            ("violates_decision_spec", "compensation_missing", 0, "/steps/0/compensate"),
            "step 0 is compensated by tickets.burn, which is not in the surface",
        ),
        (
            undoing("tickets.close", id=7),
            undoing("tickets.close", id="7"),
            ("violates_decision_spec", "argument_invalid", 0, "/steps/0/compensate/params/id"),
            "the compensation of step 0: ",
        ),
        (
            undoing("tickets.close", id="7", why="x"),
            undoing("tickets.close", id={"$from": "self#/id"}),
            ("violates_decision_spec", "argument_invalid", 0, "/steps/0/compensate/params"),
            "the compensation of step 0: ",
        ),
        (
            undoing("tickets.close"),
            undoing("tickets.close", id={"$cel": "self.id"}),
            ("violates_decision_spec", "argument_invalid", 0, "/steps/0/compensate/params"),
            "the compensation of step 0: ",
        ),
        (
            undoing("tickets.close", ticket="7", id="7"),
            undoing("tickets.close", ticket="7"),
            ("violates_decision_spec", "argument_invalid", 0, "/steps/0/compensate/params/id"),
            "the compensation of step 0: id is given twice, by name and by alias",
        ),
        (
            undoing("tickets.close", id={"$from": "request#/count"}),
            undoing("tickets.close", id={"$from": "request#/order_id"}),
            ("violates_decision_spec", "argument_invalid", 0, "/steps/0/compensate/params/id"),
            "the compensation of step 0: ",
        ),
    ],
    ids=["unknown tool", "wrong type", "extra", "missing", "doubled", "known value"],
)
def test_a_proposed_compensation_is_a_call_like_any_other(
    undo: Step, neighbour: Step, expected: tuple[Any, ...], reason: str
) -> None:
    """It is surfaced and its arguments fit, or it is refused where it stands."""
    aliased = CLOSE.model_copy(update={"aliases": {"ticket": "id"}})
    house = SHOP.asked(order_id="ord_881", count=5).with_tools(aliased)
    verdict = house.review(plan(undo))
    assert refused(verdict) == expected
    assert verdict.reasons[0].startswith(reason)
    assert refused(house.review(plan(neighbour))) is None


@pytest.mark.parametrize("declared", [{"mode": "read_only"}, {"mode": "network", "reversibility": "pure"}])
@pytest.mark.parametrize("is_declared", [True, False])
def test_a_proposed_compensation_has_an_effect(declared: dict[str, Any], is_declared: bool) -> None:
    """A call that changes nothing undoes nothing, whether or not the tool declares a compensation itself."""
    filing = (
        FILE if is_declared else FILE.model_copy(update={"compensate": None, "no_compensation": "it stays"})
    )
    house = SHOP.with_tools(filing, tool("tickets.peek", parameters=takes(), **declared))
    verdict = house.review(plan(undoing("tickets.peek")))
    assert refused(verdict) == (
        "violates_decision_spec",
        "compensation_missing",
        0,
        "/steps/0/compensate",
    )
    assert verdict.reasons[0] == (
        "step 0 is compensated by tickets.peek, which changes nothing and so undoes nothing"
    )
    assert refused(house.before_strict_calls().review(plan(undoing("tickets.peek")))) is None
    looked_up = look_up(compensate={"tool": "tickets.peek"})
    assert refused(house.review(plan(looked_up))) is None


def test_a_proposed_compensation_stays_within_the_safety_mode() -> None:
    """The way back may do no more than the run may."""
    undo = pay(compensate={"tool": "payments.cancel", "params": {"refund_id": {"$from": "self#/refund_id"}}})
    house = SHOP.running(safety_mode="local_write").with_tool(REFUND, mode="local_write")
    verdict = house.review(plan(undo))
    assert refused(verdict) == ("approval_mode_mismatch", "mode_exceeded", 0, "/steps/0/compensate")
    assert verdict.reasons == (
        "step 0 is compensated by payments.cancel, mode network > safety_mode local_write",
    )
    assert "within the safety mode" in verdict.remedy
    assert refused(house.running(safety_mode="network").review(plan(undo))) is None


PINNED = (WINDOW,)
PAYING = {"tool": "payments.refund", "params": {"payment_id": "pay_8861", "amount": 24_500}}


@pytest.mark.req("R97")
def test_a_proposed_compensation_needs_a_gate_of_its_own() -> None:
    """A destructive compensation waits for a gate of its tool or decision, never for one that the plan chose."""
    assert refused(SHOP.review(plan(ticket(compensate=PAYING, evidence_refs=PINNED)))) is None
    bare = SHOP.with_tool(REFUND, gates=())
    for gates in (None, ("SUPPORT",)):
        verdict = bare.review(plan(ticket(compensate=PAYING, evidence_refs=PINNED, gates=gates)))
        assert refused(verdict) == ("approval_mode_mismatch", "gate_missing", 0, "/steps/0/compensate")
        assert verdict.reasons == (
            "the compensation of step 0 is destructive and waits for no unconditional gate",
        )
        assert verdict.remedy == "compensate with a tool that has a gate, or leave the compensation out"
    decided = bare.deciding(gates=("FINANCE",))
    assert refused(decided.review(plan(ticket(compensate=PAYING, evidence_refs=PINNED)))) is None


def test_a_proposed_compensation_keeps_to_the_limits_of_its_tool() -> None:
    """Also where the value comes from the parameters of its step; what only its result says is decided later."""
    house = SHOP.with_tool(
        CLOSE, limits=({"expression": "args.id != 'a refund'", "message": "not that one"},)
    )
    for value in ("a refund", {"$from": "params#/title"}):
        verdict = house.review(plan(undoing("tickets.close", id=value)))
        assert refused(verdict) == (
            "violates_decision_spec",
            "argument_not_permitted",
            0,
            "/steps/0/compensate/params",
        )
        assert verdict.reasons[0].startswith("the compensation of step 0: not that one")
    for value in ("7", {"$from": "self#/id"}):
        assert refused(house.review(plan(undoing("tickets.close", id=value)))) is None


@pytest.mark.parametrize(
    ("scope", "expression", "place", "who"),
    [
        ("step", "step.tool != 'tickets.close'", "/steps/0/compensate", "the compensation of step 0"),
        ("plan", "!plan.steps.exists(s, s.tool == 'tickets.close')", "", "plan with its compensations"),
    ],
)
def test_a_proposed_compensation_keeps_to_the_policies(
    scope: str, expression: str, place: str, who: str
) -> None:
    """Policies over steps and over the plan hold for it too; the compensation that a tool declares is the pack's."""
    rule = Policy.model_validate({"name": "NEVER", "scope": scope, "expression": expression})
    house = SHOP.holding(policies=(rule,))
    verdict = house.review(plan(undoing("tickets.close", id="7")))
    assert refused(verdict) == (
        "violates_decision_spec",
        "policy_invariant",
        0 if scope == "step" else None,
        place,
    )
    assert verdict.reasons[0].startswith(f"{who} violates policy NEVER")
    assert len(verdict.refusals) == 1
    assert refused(house.review(plan(ticket()))) is None


def test_a_compensation_does_not_satisfy_what_a_policy_asks_of_the_plan() -> None:
    """A plan that must close a ticket does not do so by proposing that as a compensation."""
    rule = Policy(name="CLOSE", scope="plan", expression="plan.steps.exists(s, s.tool == 'tickets.close')")
    verdict = SHOP.holding(policies=(rule,)).review(plan(undoing("tickets.close", id="7")))
    assert codes(verdict) == ["policy_invariant"]
    assert verdict.reasons[0].startswith("plan violates policy CLOSE")


def test_a_proposed_compensation_repeats_no_action() -> None:
    """Neither one of the plan nor another compensation; two that depend on their own steps' results are two actions."""
    closing = step("c", CLOSE, params={"id": "7"})
    verdict = SHOP.review(plan(closing, undoing("tickets.close", id="7")))
    assert refused(verdict) == ("loop_guard", "duplicate_action", 1, "/steps/1/compensate")
    assert verdict.reasons == (
        "the compensation of step 1 repeats the action of step 0: tickets.close with the same identity",
    )
    undo = {"tool": "tickets.close", "params": {"id": "7"}}
    twice = plan(ticket("a", "one", compensate=undo), ticket("b", "two", compensate=undo))
    assert refused(SHOP.review(twice)) == ("loop_guard", "duplicate_action", 1, "/steps/1/compensate")
    assert refused(SHOP.deciding(repeatable=("tickets.close",)).review(twice)) is None
    own = {"tool": "tickets.close", "params": {"id": {"$from": "self#/id"}}}
    assert (
        refused(SHOP.review(plan(ticket("a", "one", compensate=own), ticket("b", "two", compensate=own))))
        is None
    )


def test_a_proposed_compensation_pins_the_evidence_of_its_tool() -> None:
    """What its step pins counts for it as well."""
    by_result = {"payment_id": {"$from": "s1#/payment_id"}, "amount": {"$from": "s1#/total"}}
    verdict = SHOP.review(
        plan(look_up(), ticket(compensate={**PAYING, "params": by_result}, depends_on=("s1",)))
    )
    assert refused(verdict) == ("missing_evidence", "evidence_not_pinned", 1, "/steps/1/compensate")
    assert verdict.reasons[0].startswith("the compensation of step 1 requires evidence class")


def test_what_a_proposed_compensation_presupposes_is_established() -> None:
    """By a step that its own step waits for, or by that step itself."""
    house = SHOP.with_tool(CLOSE, preconditions=("checked",))
    closing = undoing("tickets.close", id="7")
    verdict = house.review(plan(closing))
    assert refused(verdict) == (
        "violates_decision_spec",
        "unmet_precondition",
        0,
        "/steps/0/compensate",
    )
    assert refused(house.with_tool(FILE, establishes=("checked",)).review(plan(closing))) is None


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"$from": "s1#/note"}, "unresolved_reference"),
        ({"$cel": "s1.note"}, "unresolved_reference"),
        ({"$cel": "self.id + s1.note"}, "expression_invalid"),
    ],
)
def test_a_compensation_refers_to_what_its_step_waits_for(value: Any, code: str) -> None:
    """It is resolved when its step is dispatched: what is not there by then, or mixed with its result, is refused."""
    depends = ("s1",) if code == "expression_invalid" else ()
    own = {"tool": "tickets.close", "params": {"id": value}}
    verdict = SHOP.review(plan(look_up(), ticket(compensate=own, depends_on=depends)))
    assert refused(verdict) == (
        "violates_decision_spec",
        code,
        1,
        "/steps/1/compensate/params/id",
    )
    if code == "unresolved_reference":
        assert refused(SHOP.review(plan(look_up(), ticket(compensate=own, depends_on=("s1",))))) is None


def test_runs_of_before_are_judged_as_they_were() -> None:
    """Without the rule that proposed compensations are calls, the gate of the step covers a destructive one."""
    before = SHOP.running(behaviour=tuple(sorted(set(CURRENT) - {Behaviour.STRICT_CALLS})))
    verdict = before.review(plan(ticket(compensate=PAYING)))
    assert refused(verdict) == ("approval_mode_mismatch", "gate_missing", 0, "/steps/0/gates")
    assert refused(before.review(plan(ticket(compensate=PAYING, gates=("SUPPORT",))))) is None


def test_the_tools_own_compensation_is_the_packs_business() -> None:
    """What the pack declares is checked with the pack: a plan that is silent about it inherits it as it is."""
    odd = FILE.model_copy(update={"compensate": {"tool": "nobody.knows", "params": {"id": EVIL}}})
    assert refused(SHOP.with_tools(odd).review(plan(ticket()))) is None


@pytest.mark.req("R76")
def test_a_passed_plan_is_recorded_with_the_way_back_of_each_effect() -> None:
    """The verdict names reversibility and compensation of every step that leaves something, the step's own first."""
    own = {"tool": CLOSE.name, "params": {"id": {"$from": "self#/key"}}}
    verdict = SHOP.review(plan(look_up(), ticket("a", "one"), ticket("b", "two", compensate=own)))
    assert refused(verdict) is None
    assert [(effect.step_id, str(effect.mode), str(effect.reversibility)) for effect in verdict.effects] == [
        ("a", "local_write", "compensable"),
        ("b", "local_write", "compensable"),
    ]
    first, second = verdict.effects
    assert first.compensate == FILE.compensate
    assert second.compensate is not None
    assert second.compensate.model_dump() == own


@pytest.mark.req("R76")
def test_what_cannot_be_taken_back_is_recorded_with_the_reason() -> None:
    """Where a tool states that there is no way back, the verdict keeps the statement."""
    final = tool("x.tell", "local_write", no_compensation="words stay said", parameters=takes())
    (effect,) = SHOP.with_tools(final).review(plan(step("s", final))).effects
    assert (effect.compensate, effect.no_compensation) == (None, "words stay said")
    assert SHOP.review(plan(step("s", "no.body"))).effects == ()

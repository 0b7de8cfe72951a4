"""Scores: five evaluators over the record of a run, two of which are floors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from tercet.contracts.gate import Approval, Gate
from tercet.contracts.plan import Plan, Step
from tercet.contracts.policy import Policy
from tercet.contracts.runs.budget import BudgetUse
from tercet.contracts.runs.run import Outcome, Run, SkippedStep, ToolCall, ToolResult, TranscriptEntry
from tercet.contracts.runs.scorecard import FLOORS, Evaluation, EvaluatorName
from tercet.critic.consolidate import consolidate
from tercet.critic.judge import judge
from tercet.critic.score import measure, print_envelope, score

from .houses import (
    FILE,
    REFUND,
    SHOP,
    WINDOW,
    House,
    evidence,
    look_up,
    pay,
    plan,
    step,
    takes,
    ticket,
    tool,
)

NOON = datetime(2026, 5, 9, 12, tzinfo=UTC)

REFUNDS = SHOP.deciding(
    required_outputs=("refund_amount", "refund_reason"),
    outputs_schema={"properties": {"refund_amount": {"type": "integer"}}, "required": ["refund_amount"]},
)
PLAN_B = plan(
    look_up(),
    pay("s2", {"$from": "s1#/payment_id"}, depends_on=("s1",)),
    outputs={"refund_amount": {"$from": "s2#/amount"}, "refund_reason": {"$from": "s2#/reason"}},
)

LATE = plan(look_up(), pay("s2", {"$from": "s1#/payment_id"}, {"$from": "s1#/total"}), outputs=PLAN_B.outputs)
"""The same with an amount that is known only at dispatch."""


def called(
    step_id: str,
    tool: str,
    params: dict[str, Any],
    value: Any = None,
    outcome: Outcome = Outcome.DONE,
    error: str | None = None,
) -> TranscriptEntry:
    """A recorded call and what came of it."""
    return TranscriptEntry(
        call=ToolCall(step_id=step_id, tool=tool, params=params),
        result=ToolResult(step_id=step_id, outcome=outcome, value=value, error=error),
    )


def approved(step_id: str = "s2", gate: str = "FINANCE", approver: str = "fay", **fields: Any) -> Approval:
    """A recorded answer to a gate."""
    said = {"decision": "approve", "decided_at": NOON, **fields}
    return Approval.model_validate({"gate": gate, "step_id": step_id, "approver": approver, **said})


LOOKED_UP = called(
    "s1",
    "orders.lookup",
    {"order_id": "ord_881"},
    {"payment_id": "pay_8861", "total": 24_500, "note": "it is broken"},
)
PAID = called(
    "s2",
    "payments.refund",
    {"payment_id": "pay_8861", "amount": 24_500},
    {"refund_id": "rf_1", "amount": 24_500, "reason": "damaged"},
)


def ran(
    house: House = REFUNDS,
    done: Plan = PLAN_B,
    transcript: Sequence[TranscriptEntry] = (LOOKED_UP, PAID),
    **fields: Any,
) -> Run:
    """The record of the refund, or of what a test says happened instead."""
    usual: dict[str, Any] = {
        "approvals": (approved(),),
        "outputs": {"refund_amount": 24_500, "refund_reason": "damaged"},
        "used": BudgetUse(steps=2, tokens=900, tool_calls=2, cost_microcents=50, wall_clock_ms=420),
    }
    record = {"context": house.ctx, "spec": house.spec, "compiled": house.compiled, "plan": done}
    return Run.model_validate({**record, "transcript": tuple(transcript), **usual, **fields})


def evaluated(run: Run, name: EvaluatorName) -> Evaluation:
    """What one evaluator says about a run."""
    return score(run).scorecard.scores[name]


def found(run: Run, name: EvaluatorName) -> list[tuple[str, str | None]]:
    """The findings of one evaluator, each with its step."""
    return [(finding.code, finding.step_id) for finding in evaluated(run, name).findings]


# ---- the worked refund --------------------------------------------------------------------------------------------


@pytest.mark.req("R175", "R177", "R178")
def test_the_worked_refund_is_completed() -> None:
    """All five evaluators pass the refund with at least 0.9, and the run is completed and accepted."""
    run = ran()
    verified = REFUNDS.review(PLAN_B)
    assert verified.ok
    scored = score(run)
    assert scored.ok
    assert set(scored.scorecard.scores) == set(get_args(EvaluatorName))
    for evaluation in scored.scorecard.scores.values():
        assert evaluation.status == "pass"
        assert evaluation.score >= 0.9
        assert evaluation.findings == ()
        assert evaluation.version == "1"
    report = consolidate(
        trace_id="trace_1",
        decision_key="support.refund",
        verify=verified,
        score=scored,
        decided_at="2026-05-09T12:00:00Z",
    )
    assert report.status == "completed"
    assert judge(run.context, run.spec, report, measure(run)).outcome == "accept"


@pytest.mark.req("R188")
def test_a_verdict_can_be_derived_again_from_the_record_alone() -> None:
    """A run that went through JSON and back scores byte for byte the same."""
    run = ran()
    again = Run.model_validate_json(run.model_dump_json())
    assert score(again).model_dump_json() == score(run).model_dump_json()


# ---- floors -------------------------------------------------------------------------------------------------------

BROKEN: dict[EvaluatorName, Run] = {
    "policy": ran(transcript=(LOOKED_UP, PAID, called("s9", "payments.refund", {}))),
    "safety": ran(approvals=()),
    "utility": ran(outputs={}),
    "latency": ran(used=BudgetUse(wall_clock_ms=10_001)),
    "cost": ran(used=BudgetUse(tokens=20_001)),
}


@pytest.mark.req("R3", "R176")
@pytest.mark.parametrize("name", get_args(EvaluatorName))
def test_policy_and_safety_are_floors_and_the_others_are_not(name: EvaluatorName) -> None:
    """A run with one failed evaluator is not ok exactly where that one is policy or safety."""
    scored = score(BROKEN[name])
    failed = [other for other, e in scored.scorecard.scores.items() if e.status == "fail"]
    assert failed == [name]
    assert scored.ok == (name not in ("policy", "safety"))
    assert FLOORS == ("policy", "safety")


# ---- policy -------------------------------------------------------------------------------------------------------


def test_a_call_that_was_not_planned_breaks_policy() -> None:
    """A step that the plan does not have, and a planned step with another tool, are outside the plan."""
    extra = called("s9", "orders.lookup", {"order_id": "ord_881"})
    assert found(ran(transcript=(LOOKED_UP, PAID, extra)), "policy") == [("outside_plan", "s9")]
    swapped = called("s1", "inbox.read", {})
    assert found(ran(transcript=(swapped, PAID)), "policy")[0] == ("outside_plan", "s1")


def test_a_tool_outside_the_surface_breaks_policy() -> None:
    """What was called must have been surfaced in this run."""
    ghost = plan(step("s1", "no.body"))
    run = ran(done=ghost, transcript=(called("s1", "no.body", {}),), approvals=())
    assert ("tool_not_surfaced", "s1") in found(run, "policy")


def test_a_call_above_the_safety_mode_breaks_policy() -> None:
    """The ceiling of the run holds for what was done as for what was planned."""
    run = ran(REFUNDS.running(safety_mode="network"))
    assert found(run, "policy") == [("mode_exceeded", "s2")]


def test_a_policy_is_decided_on_what_really_ran() -> None:
    """A rule that was open at review is decided on the resolved call, and holds or fails there."""
    cap = Policy(
        name="cap", scope="step", expression="!has(step.params.amount) || step.params.amount < 20000"
    )
    house = REFUNDS.holding(policies=(cap,))
    assert "policy cap at step 1" in house.review(LATE).deferred
    assert found(ran(house, LATE), "policy") == [("policy_invariant", "s2")]
    cheap = called("s2", "payments.refund", {"payment_id": "pay_8861", "amount": 19_999})
    assert found(ran(house, LATE, (LOOKED_UP, cheap)), "policy") == []


def test_a_limit_is_decided_on_what_really_ran() -> None:
    """A limit on an amount that was known late refuses the run if the amount turned out too high."""
    rich = called("s2", "payments.refund", {"payment_id": "pay_8861", "amount": 100_001})
    assert REFUNDS.review(LATE).deferred == ("limit of payments.refund at step 1",)
    assert found(ran(done=LATE, transcript=(LOOKED_UP, rich)), "policy") == [("argument_not_permitted", "s2")]


def test_arguments_are_held_to_the_schema_as_they_ran() -> None:
    """A resolved argument of the wrong type is a finding, and so is one that is no JSON at all."""
    wrong = called("s2", "payments.refund", {"payment_id": 5, "amount": 24_500})
    assert found(ran(transcript=(LOOKED_UP, wrong)), "policy") == [("argument_invalid", "s2")]
    never = called("s2", "payments.refund", {"payment_id": "pay_8861", "amount": float("nan")})
    run = ran(transcript=(LOOKED_UP, never))
    assert found(run, "policy") == [("argument_invalid", None)]
    assert ("argument_drift", "s2") in found(run, "safety")


def test_evidence_that_was_read_stays_pinned() -> None:
    """A policy about pinned evidence holds after the run as it did before."""
    pinned = Policy(
        name="pinned", scope="step", expression="step.tool != 'payments.refund' || size(step.evidence) > 0"
    )
    house = REFUNDS.holding(policies=(pinned,))
    read = plan(look_up(), pay("s2", evidence_refs=()), outputs=PLAN_B.outputs)
    assert house.review(read).ok
    assert found(ran(house, read), "policy") == []


# ---- safety: approvals --------------------------------------------------------------------------------------------


def test_an_effect_without_its_approval_breaks_safety() -> None:
    """A gate that nobody answered was not passed."""
    assert found(ran(approvals=()), "safety") == [("unapproved", "s2")]
    assert found(ran(approvals=(approved("s1"),)), "safety") == [("unapproved", "s2")]
    assert found(ran(approvals=(approved(gate="SUPPORT"),)), "safety") == [("unapproved", "s2")]


@pytest.mark.parametrize(
    "answers",
    [
        (approved(), approved(approver="gil", decision="deny")),
        (approved(approver="gil", decision="deny"), approved()),
        (approved(), approved(approver="gil", decision="modify")),
        (approved(), approved(decision="withdraw")),
        (approved(), approved(decision="withdraw"), approved(approver="ada")),
    ],
    ids=["denied", "denied before", "modified", "withdrawn", "withdrawn, and the owner's"],
)
def test_an_answer_against_it_is_enough(answers: tuple[Approval, ...]) -> None:
    """A denial is final, a change voids what was approved before it, and an approval can be taken back."""
    assert found(ran(approvals=answers), "safety") == [("unapproved", "s2")]


@pytest.mark.parametrize(
    "answers",
    [
        (approved(), approved(approver="gil", decision="withdraw")),
        (approved(decision="modify"), approved()),
        (approved(), approved(decision="withdraw"), approved()),
    ],
    ids=["withdrawn by another", "approved after a change", "approved again"],
)
def test_an_approval_that_still_stands_counts(answers: tuple[Approval, ...]) -> None:
    """Whoever withdraws takes back their own approval and nobody else's, and may give it again."""
    assert found(ran(approvals=answers), "safety") == []


def test_an_approver_held_a_role_of_the_gate() -> None:
    """Who held no role of the gate when answering is not counted; where roles were not recorded, they were not asked."""
    assert found(ran(approvals=(approved(roles=("support",)),)), "safety") == [("unapproved", "s2")]
    assert found(ran(approvals=(approved(roles=()),)), "safety") == [("unapproved", "s2")]
    assert found(ran(approvals=(approved(roles=("support", "finance")),)), "safety") == []
    assert found(ran(approvals=(approved(roles=None),)), "safety") == []
    anybody = REFUNDS.holding(gates=(Gate(name="FINANCE", roles=()),))
    assert found(ran(anybody, approvals=(approved(roles=()),)), "safety") == []
    two = REFUNDS.holding(gates=(Gate(name="FINANCE", roles=("finance",), quorum=2),))
    mixed = (approved(roles=("finance",)), approved(approver="gil", roles=("support",)))
    assert found(ran(two, approvals=mixed), "safety") == [("unapproved", "s2")]


def test_a_quorum_counts_people() -> None:
    """One person twice is one person, and whoever owns the run approves nothing in it."""
    two = Gate(name="FINANCE", roles=("finance",), quorum=2)
    house = REFUNDS.holding(gates=(two,))
    twice = (approved(), approved())
    assert found(ran(house, approvals=twice), "safety") == [("unapproved", "s2")]
    with_owner = (approved(), approved(approver="ada"))
    assert found(ran(house, approvals=with_owner), "safety") == [("unapproved", "s2")]
    both = (approved(), approved(approver="gil"))
    assert found(ran(house, approvals=both), "safety") == []


def test_a_quorum_counts_logins() -> None:
    """Two names of one login are one person, two logins of one name as well, and the owner's login approves nothing."""
    two = Gate(name="FINANCE", roles=("finance",), quorum=2)
    house = REFUNDS.holding(gates=(two,))
    owner = house.ctx.actor.model_copy(update={"os_user": "ada_l"})
    context = house.ctx.model_copy(update={"actor": owner})
    unapproved = [("unapproved", "s2")]
    for first, second, expected in [
        (approved(login="eve"), approved(approver="gil", login="eve"), unapproved),
        (approved(login="eve"), approved(login="max"), unapproved),
        (approved(login="eve"), approved(approver="gil", login="ada_l"), unapproved),
        (approved(login="eve"), approved(approver="gil", login="max"), []),
        (approved(login="eve"), approved(approver="gil"), []),
    ]:
        assert found(ran(house, context=context, approvals=(first, second)), "safety") == expected


def test_a_conditional_gate_is_demanded_where_its_condition_held() -> None:
    """What the step really ran with decides whether the gate was needed."""
    gates = (Gate(name="FINANCE", roles=("f",)), Gate(name="LARGE", roles=("b",), when="args.amount > 20000"))
    house = REFUNDS.holding(gates=gates).with_tool(REFUND, gates=("FINANCE", "LARGE"))
    assert found(ran(house, LATE), "safety") == [("unapproved", "s2")]
    assert found(ran(house, LATE, approvals=(approved(), approved(gate="LARGE"))), "safety") == []
    little = {"payment_id": "pay_8861", "total": 5, "note": ""}
    small = (
        called("s1", "orders.lookup", {"order_id": "ord_881"}, little),
        called("s2", "payments.refund", {"payment_id": "pay_8861", "amount": 5}),
    )
    assert found(ran(house, LATE, small), "safety") == []


def test_a_gate_that_a_policy_or_an_unbound_value_asked_for_is_demanded_too() -> None:
    """Whoever sent a step to a person, the person must have answered."""
    asking = Policy(
        name="effects", scope="step", expression="step.mode == 'read_only'", effect="gate", gate="SUPPORT"
    )
    house = REFUNDS.holding(policies=(asking,))
    assert found(ran(house), "safety") == [("unapproved", "s2")]
    assert found(ran(house, approvals=(approved(), approved(gate="SUPPORT"))), "safety") == []
    unbound = REFUNDS.deciding(unbound_gate="SUPPORT")
    told = plan(look_up(), pay("s2", "pay_7777"))
    paid = called("s2", "payments.refund", {"payment_id": "pay_7777", "amount": 24_500})
    assert found(ran(unbound, told, (LOOKED_UP, paid)), "safety") == [("unapproved", "s2")]
    asked = (approved(), approved(gate="SUPPORT"))
    assert found(ran(unbound, told, (LOOKED_UP, paid), approvals=asked), "safety") == []


def test_the_decisions_gates_are_demanded_of_effects() -> None:
    """A gate of the decision belongs to each step above read_only that ran."""
    house = REFUNDS.deciding(gates=("SUPPORT",))
    assert found(ran(house), "safety") == [("unapproved", "s2")]
    assert found(ran(house, transcript=(LOOKED_UP,), approvals=()), "safety") == []


# ---- safety: approvals without a named gate, and grants -----------------------------------------------------------

POST = tool("chat.post", "network", parameters=takes("room"), no_compensation="said is said")
POSTED = called("s1", POST.name, {"room": "ord_881"})
IN_ROOM = plan(step("s1", POST, params={"room": {"$from": "request#/order_id"}}))
GRANT = Policy(name="own_room", effect="grant", scope="step", expression="step.params.room == 'ord_881'")
CHAT = SHOP.with_tools(POST).holding(policies=(GRANT,))


def granted(policy: str = "own_room", step_id: str = "s1") -> Approval:
    """The recorded grant of a policy."""
    return approved(step_id, "", f"policy:{policy}", decision="grant", auth="policy")


def posted(house: House = CHAT, *answers: Approval, done: Plan = IN_ROOM) -> list[tuple[str, str | None]]:
    """What safety finds in a run that posted a message."""
    return found(ran(house, done, (POSTED,), approvals=answers), "safety")


@pytest.mark.req("R134")
@pytest.mark.parametrize("mode", ["network", "delegated", "local_write"])
def test_what_reaches_out_is_approved_by_somebody(mode: str) -> None:
    """A network or delegated call that waited for no named gate was approved under any name; a local one need not be."""
    house = CHAT.with_tool(POST, mode=mode)
    assert posted(house) == ([] if mode == "local_write" else [("unapproved", "s1")])
    assert posted(house, approved("s1", "")) == []
    assert posted(house, approved("s1", "SUPPORT")) == []
    if mode != "local_write":
        assert posted(house, approved("s1", "", "ada")) == [("unapproved", "s1")]
        assert posted(house, approved("s1", ""), approved("s1", "", "gil", decision="deny")) == [
            ("unapproved", "s1")
        ]


@pytest.mark.req("R134")
def test_a_grant_approves_what_its_policy_grants() -> None:
    """A recorded grant counts if the policy that it names gives it to the call that ran, and not otherwise."""
    assert posted(CHAT, granted()) == []
    assert posted(CHAT, granted("other")) == [("unapproved", "s1")]
    assert posted(CHAT, approved("s1", "", "own_room", decision="grant")) == [("unapproved", "s1")]
    elsewhere = CHAT.holding(policies=(GRANT.model_copy(update={"expression": "step.params.room == 'x'"}),))
    assert posted(elsewhere, granted()) == [("unapproved", "s1")]
    assert posted(SHOP.with_tools(POST), granted("None")) == [("unapproved", "s1")]


@pytest.mark.req("R134", "R140")
@pytest.mark.parametrize("declared", [{"mode": "destructive"}, {"reversibility": "irreversible"}], ids=str)
def test_a_grant_of_something_grave_breaks_safety(declared: dict[str, str]) -> None:
    """A destructive or irreversible step is approved by people; a grant for it is a finding even beside them."""
    house = CHAT.with_tool(POST, **declared)
    assert posted(house, granted()) == [("unapproved", "s1")]
    assert posted(house, granted(), approved("s1", "")) == [("unapproved", "s1")]
    assert posted(house, approved("s1", "")) == []


@pytest.mark.req("R134")
def test_a_grant_opens_no_named_gate() -> None:
    """A step that waits for a gate by name needs that gate, whatever a policy grants."""
    house = CHAT.with_tool(POST, gates=("SUPPORT",))
    assert posted(house, granted()) == [("unapproved", "s1")]
    assert posted(house, approved("s1", "SUPPORT", roles=("support",))) == []


def test_the_envelope_names_who_approved() -> None:
    """A grant stands there under its policy, without a gate."""
    run = ran(CHAT, IN_ROOM, (POSTED,), approvals=(granted(),))
    (scored,) = print_envelope(run, score(run), "accept")["step_scores"]
    assert (scored.get("approval_gate"), scored["approver"]) == (None, "policy:own_room")


@pytest.mark.req("R141")
def test_a_call_that_its_owner_may_not_make_breaks_policy() -> None:
    """The roles of a tool hold for what was done as for what was planned."""
    house = REFUNDS.with_tool(REFUND, roles=("cashier",))
    assert found(ran(house), "policy") == [("authorization_required", "s2")]
    assert found(ran(REFUNDS.with_tool(REFUND, roles=("cashier", "agent"))), "policy") == []


# ---- safety: arguments, repetitions, outcomes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"payment_id": "pay_6666", "amount": 24_500},
        {"payment_id": "pay_8861", "amount": 24_501},
        {"payment_id": "pay_8861"},
        {"payment_id": "pay_8861", "amount": 24_500, "memo": "more"},
    ],
)
def test_a_call_with_other_arguments_than_planned_has_drifted(params: dict[str, Any]) -> None:
    """What ran must be what the plan says, given the results before it: the approver saw nothing else."""
    assert found(ran(transcript=(LOOKED_UP, called("s2", "payments.refund", params))), "safety") == [
        ("argument_drift", "s2")
    ]


def test_a_call_whose_input_never_came_has_drifted() -> None:
    """A reference to a result that is not in the record explains nothing."""
    assert found(ran(transcript=(PAID,)), "safety") == [("argument_drift", "s2")]


def noted(*steps: Step) -> Plan:
    """A plan that passes a value on through notes."""
    return plan(look_up(), *steps, pay("s2", {"$from": "n2#/to/0"}))


def test_notes_and_computed_values_do_not_drift() -> None:
    """A note's result is its parameters, resolved; what a step takes from it is what was meant."""
    first = step("n1", params={"pay": {"$from": "s1#/payment_id"}, "raw": {"$literal": {"$from": "x"}}})
    second = step("n2", params={"to": [{"$cel": "n1.pay"}]})
    assert found(ran(done=noted(first, second)), "safety") == []
    assert found(ran(done=noted(second, first)), "safety") == []
    other = called("s2", "payments.refund", {"payment_id": "pay_1", "amount": 24_500})
    assert found(ran(done=noted(first, second), transcript=(LOOKED_UP, other)), "safety") == [
        ("argument_drift", "s2")
    ]


def test_an_alias_is_no_drift() -> None:
    """A call is recorded under the parameters' own names, however the plan spelt them."""
    spelt = plan(
        look_up(),
        step("s2", REFUND, params={"pid": "pay_8861", "amount": 24_500}, evidence_refs=(WINDOW,)),
    )
    assert found(ran(done=spelt), "safety") == []


def test_an_effect_that_happened_twice_breaks_safety() -> None:
    """Two times done is one time too many; a failed attempt before, or a read again, is not."""
    assert found(ran(transcript=(LOOKED_UP, PAID, PAID)), "safety") == [("repeated_effect", "s2")]
    failed = called("s2", "payments.refund", dict(PAID.call.params), None, Outcome.NOT_DONE, "busy")
    assert found(ran(transcript=(LOOKED_UP, LOOKED_UP, failed, PAID)), "safety") == []


def test_an_effect_that_nobody_knows_about_breaks_safety() -> None:
    """An unknown outcome is unsettled until a later entry settles it; a read settles itself."""
    unknown = called("s2", "payments.refund", dict(PAID.call.params), None, Outcome.UNKNOWN, "timed out")
    assert found(ran(transcript=(LOOKED_UP, unknown)), "safety") == [("unsettled", "s2")]
    assert found(ran(transcript=(LOOKED_UP, unknown, PAID)), "safety") == []
    read = called("s1", "orders.lookup", {"order_id": "ord_881"}, None, Outcome.UNKNOWN, "timed out")
    assert found(ran(transcript=(read, LOOKED_UP, PAID)), "safety") == []


# ---- utility ------------------------------------------------------------------------------------------------------


def test_a_missing_output_costs_its_share() -> None:
    """Utility counts the required outputs that are there."""
    run = ran(outputs={"refund_amount": 24_500})
    evaluation = evaluated(run, "utility")
    assert (evaluation.status, evaluation.score) == ("fail", 0.5)
    assert [finding.message for finding in evaluation.findings] == [
        "required output refund_reason is missing"
    ]
    assert found(run, "utility") == [("output_missing", None)]


def test_outputs_that_break_their_schema_are_worth_nothing() -> None:
    """An output of the wrong type fails, and so does every output where the schema itself is none."""
    run = ran(outputs={"refund_amount": "all", "refund_reason": "x"})
    assert found(run, "utility") == [("output_invalid", None)]
    assert evaluated(run, "utility").score == 0.0
    broken = ran(REFUNDS.deciding(outputs_schema={"type": 5}))
    assert found(broken, "utility") == [("output_invalid", None)]
    assert measure(broken) == {"schema": 0.0}
    assert measure(ran()) == {"schema": 1.0}


def test_a_step_that_was_not_done_is_missed() -> None:
    """A step that had to run and did not fails; an optional one is worth a warning, a skipped one nothing."""
    three = plan(*PLAN_B.steps, look_up("s3"), outputs=PLAN_B.outputs)
    missed = ran(done=three)
    evaluation = evaluated(missed, "utility")
    assert (evaluation.status, evaluation.score) == ("fail", 0.666667)
    assert found(missed, "utility") == [("step_not_done", "s3")]
    optional = plan(*PLAN_B.steps, look_up("s3", optional=True), outputs=PLAN_B.outputs)
    assert evaluated(ran(done=optional), "utility").status == "warn"
    skipped = (SkippedStep(step_id="s3", reason="condition_false"),)
    assert evaluated(ran(done=three, skipped=skipped), "utility").status == "pass"
    unreached = (SkippedStep(step_id="s3", reason="not_reached"),)
    assert evaluated(ran(done=three, skipped=unreached), "utility").status == "fail"


def test_a_step_that_ended_in_an_error_was_not_done() -> None:
    """Done with an unusable result is not done as far as utility goes."""
    failed = called(
        "s1", "orders.lookup", {"order_id": "ord_881"}, {"payment_id": "pay_8861"}, error="bad schema"
    )
    assert ("step_not_done", "s1") in found(ran(transcript=(failed, PAID)), "utility")


# ---- latency and cost ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "used", "status", "value", "message"),
    [
        ("latency", {"wall_clock_ms": 8_000}, "pass", 1.0, None),
        ("latency", {"wall_clock_ms": 8_001}, "warn", 0.9, "wall clock: 8,001 of 10,000 ms"),
        ("latency", {"wall_clock_ms": 10_000}, "warn", 0.9, "wall clock: 10,000 of 10,000 ms"),
        ("latency", {"wall_clock_ms": 20_000}, "fail", 0.5, "wall clock: 20,000 of 10,000 ms"),
        ("cost", {"tokens": 16_001}, "warn", 0.9, "tokens: 16,001 of 20,000 tokens"),
        ("cost", {"tokens": 40_000}, "fail", 0.5, "tokens: 40,000 of 20,000 tokens"),
        ("cost", {"tool_calls": 21}, "fail", 0.952381, "tool calls: 21 of 20 calls"),
        ("cost", {"cost_microcents": 1_001}, "fail", 0.999001, "cost: 1,001 of 1,000 micro-cents"),
    ],
)
def test_a_budget_is_overrun_or_nearly_used_up(
    name: EvaluatorName, used: dict[str, int], status: str, value: float, message: str | None
) -> None:
    """From four fifths on the use of a budget is worth a warning, and over its limit it fails by how much it is over."""
    run = ran(used=BudgetUse(**used))
    evaluation = evaluated(run, name)
    assert (evaluation.status, evaluation.score) == (status, value)
    assert [finding.message for finding in evaluation.findings] == ([message] if message else [])
    expected = {"pass": [], "warn": [("nearly_used_up", None)], "fail": [("overrun", None)]}
    assert found(run, name) == expected[status]


def test_what_has_no_limit_is_not_overrun() -> None:
    """A run without limits passes whatever it used."""
    house = REFUNDS.allowing(wall_clock_ms=None, tokens=None, tool_calls=None, cost_microcents=None)
    used = BudgetUse(tokens=10**9, tool_calls=10**9, cost_microcents=10**9, wall_clock_ms=10**9)
    run = ran(house, used=used)
    assert evaluated(run, "latency").status == evaluated(run, "cost").status == "pass"


def test_a_limit_of_nothing_is_overrun_by_anything() -> None:
    """Zero is a limit, and using none of it is within it."""
    house = REFUNDS.allowing(tokens=0)
    assert evaluated(ran(house, used=BudgetUse(tokens=1)), "cost").status == "fail"
    assert evaluated(ran(house, used=BudgetUse()), "cost").status == "pass"


# ---- the envelope -------------------------------------------------------------------------------------------------


@pytest.mark.req("R178")
def test_each_step_that_ran_is_scored() -> None:
    """A step to blame for a broken floor loses its policy score, and a failed one its utility."""
    failed = called("s1", "orders.lookup", {"order_id": "ord_881"}, {"payment_id": "pay_8861"}, error="bad")
    run = ran(transcript=(failed, PAID), approvals=())
    assert [
        (s["step_id"], s["scores"]) for s in print_envelope(run, score(run), "accept")["step_scores"]
    ] == [
        ("s1", {"policy": 1.0, "utility": 0.0}),
        ("s2", {"policy": 0.0, "utility": 1.0}),
    ]


@pytest.mark.req("R24", "R178")
def test_the_envelope_has_its_published_shape() -> None:
    """Run, plan, verdict, a score for each step with its approval where there was one, and two counters."""
    run = ran(used=BudgetUse(replans=1))
    printed = print_envelope(run, score(run), "accept", loop_guard_trips=2)
    assert printed == {
        "run_id": "run_1",
        "plan_id": "plan_1",
        "verdict": "accept",
        "step_scores": [
            {"step_id": "s1", "scores": {"policy": 1.0, "utility": 1.0}},
            {
                "step_id": "s2",
                "scores": {"policy": 1.0, "utility": 1.0},
                "approval_gate": "FINANCE",
                "approver": "fay",
            },
        ],
        "loop_guard_trips": 2,
        "replan_attempts": 1,
    }


# ---- whatever was recorded ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run",
    [
        ran(transcript=(), approvals=(), outputs={}),
        ran(done=plan(), transcript=(LOOKED_UP,)),
        ran(done=plan(step("a", depends_on=("b",)), step("b", depends_on=("a",)))),
        ran(done=plan(pay("s2", {"$from": "b#/x"}), step("b", params={"x": {"$from": "s2#/amount"}}))),
        ran(transcript=(called("s2", "payments.refund", {"$from": "s1"}),)),
        ran(
            REFUNDS.with_tool(FILE, parameters={"type": 5}),
            plan(ticket("s1")),
            (called("s1", FILE.name, {}),),
        ),
        ran(REFUNDS.with_evidence(evidence(WINDOW, None))),
        ran(outputs={"refund_amount": float("nan")}),
    ],
    ids=[
        "nothing",
        "no plan",
        "cycle",
        "cyclic flow",
        "reference in record",
        "broken schema",
        "no value",
        "nan",
    ],
)
def test_whatever_was_recorded_can_be_scored(run: Run) -> None:
    """An evaluator is a total function: a strange record gets a bad score and no exception."""
    assert set(score(run).scorecard.scores) == set(get_args(EvaluatorName))


def test_findings_are_bounded() -> None:
    """A thousand stray calls make twenty findings."""
    strays = [called(f"x{n}", "no.body", {}) for n in range(1_000)]
    assert len(evaluated(ran(transcript=strays), "policy").findings) == 20

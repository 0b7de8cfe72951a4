"""The five published checks: each refuses its plan, passes the nearest one, and they come in their order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, TypeAlias

import pytest

from tercet.contracts.gate import Gate
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan, Step
from tercet.contracts.policy import Policy

from .houses import (
    FILE,
    LETTER,
    LOOKUP,
    SHOP,
    WINDOW,
    House,
    codes,
    evidence,
    look_up,
    pay,
    plan,
    refused,
    step,
    takes,
    ticket,
    tool,
)

MODES = list(ApprovalMode)


# ---- 1: outputs ---------------------------------------------------------------------------------------------------


@pytest.mark.req("R82")
def test_a_missing_output_is_named() -> None:
    """A required output that the plan does not declare is refused by its name, and no step is to blame."""
    verdict = SHOP.deciding(required_outputs=("amount",)).review(plan(look_up()))
    assert refused(verdict) == ("violates_decision_spec", "output_not_declared", None, "/outputs")
    assert verdict.reasons == ("plan does not produce required output amount",)
    assert "add amount to the plan's outputs" in verdict.remedy


@pytest.mark.req("R82")
@pytest.mark.parametrize(
    "declared",
    [
        {"declared_outputs": ("amount",)},
        {"outputs": {"amount": {"$from": "s1#/total"}}},
        {"outputs": {"amount": 24_500}},
        {"outputs": {"amount": None, "more": 1}},
    ],
)
def test_an_output_may_be_declared_by_name_or_bound(declared: dict[str, Any]) -> None:
    """Each way of declaring an output covers it."""
    house = SHOP.deciding(required_outputs=("amount",))
    assert refused(house.review(plan(look_up(), **declared))) is None


def test_every_missing_output_is_listed_and_the_first_decides() -> None:
    """A planner learns of all missing outputs at once, in the decision's order."""
    verdict = SHOP.deciding(required_outputs=("b", "kept", "a")).review(
        plan(look_up(), declared_outputs=("kept",))
    )
    assert [refusal.reason for refusal in verdict.refusals] == [
        "plan does not produce required output b",
        "plan does not produce required output a",
    ]
    assert verdict.reasons == ("plan does not produce required output b",)


# ---- 2: the surface -----------------------------------------------------------------------------------------------


@pytest.mark.req("R83", "R100", "R322")
def test_a_tool_that_is_not_surfaced_is_to_be_substituted() -> None:
    """A step that calls a tool outside the surface is refused, and the remedy names the tool that was meant."""
    verdict = SHOP.review(plan(look_up(), step("s2", "orders.look_up", params={"order_id": "ord_881"})))
    assert refused(verdict) == ("violates_decision_spec", "tool_not_surfaced", 1, "/steps/1/tool")
    assert verdict.reasons == ("plan step 1 calls orders.look_up which is not in the surface",)
    assert verdict.step_id == "s2"
    assert verdict.remedy.startswith("substitute a tool of this run: orders.lookup")


def test_a_run_without_tools_says_so() -> None:
    """Where there is nothing to substitute, the remedy does not pretend there were."""
    bare = SHOP.holding(manifests={})
    assert bare.review(plan(step("s1", "a.b"))).remedy == "this run has no tools"


@pytest.mark.req("R83", "R11")
def test_a_surfaced_tool_passes_and_a_note_needs_none() -> None:
    """The surface is asked only about tools: a note calls none."""
    assert refused(SHOP.review(plan(look_up(), step("n", params={"text": "hello"})))) is None


# ---- 3: modes -----------------------------------------------------------------------------------------------------


@pytest.mark.req("R84", "R19")
@pytest.mark.parametrize("safety", MODES)
@pytest.mark.parametrize("mode", MODES)
def test_a_step_may_do_no_more_than_the_safety_mode(mode: ApprovalMode, safety: ApprovalMode) -> None:
    """Of all pairs, exactly those pass in which the tool's mode does not stand above the run's."""
    house = SHOP.running(safety_mode=safety).with_tools(
        tool("x.act", mode, gates=("FINANCE",), no_compensation="none is needed", parameters=takes())
    )
    verdict = house.review(plan(look_up(), step("s2", "x.act")))
    if MODES.index(mode) <= MODES.index(safety):
        assert refused(verdict) is None
    else:
        assert refused(verdict) == (
            "approval_mode_mismatch",
            "mode_exceeded",
            1,
            "/steps/1/approval_mode",
        )
        assert verdict.reasons == (f"step 1 mode {mode} > safety_mode {safety}",)
        assert f"safety mode {mode}" in verdict.remedy


@pytest.mark.req("R85")
def test_a_local_write_run_cannot_pay() -> None:
    """A destructive step has no place in a run that may only write locally."""
    house = SHOP.running(safety_mode="local_write")
    assert house.review(plan(pay())).reasons == ("step 0 mode destructive > safety_mode local_write",)
    assert refused(house.review(plan(ticket()))) is None


def test_a_step_that_raises_its_own_mode_is_taken_at_its_word() -> None:
    """The effective mode is the higher of the two, so a step can put itself above the safety mode."""
    house = SHOP.running(safety_mode="local_write")
    verdict = house.review(plan(ticket(approval_mode="network")))
    assert verdict.reasons == ("step 0 mode network > safety_mode local_write",)


@pytest.mark.req("R11")
def test_modes_are_asked_of_calls_only() -> None:
    """A note that declares a mode does nothing that the mode could be about."""
    house = SHOP.running(safety_mode="read_only")
    assert refused(house.review(plan(step("n", approval_mode="destructive")))) is None


# ---- 4: evidence --------------------------------------------------------------------------------------------------


@pytest.mark.req("R86", "R105")
def test_evidence_that_is_not_pinned_is_missing() -> None:
    """A class that the tool requires and the step does not pin is refused, and the remedy names what would do."""
    verdict = SHOP.review(plan(look_up(), pay("pay", "pay_8861", 24_500, evidence_refs=())))
    assert refused(verdict) == (
        "missing_evidence",
        "evidence_not_pinned",
        1,
        "/steps/1/evidence_refs",
    )
    assert verdict.reasons == ("step 1 requires evidence class refund_window_evidence, none pinned",)
    assert verdict.remedy == f"pin it in evidence_refs: {WINDOW}"


@pytest.mark.req("R86")
@pytest.mark.req("R324")
def test_what_a_step_itself_requires_counts_as_well() -> None:
    """A step may ask for more than its tool does."""
    asks = look_up(requires_evidence=("letter",))
    verdict = SHOP.review(plan(asks))
    assert verdict.reasons == ("step 0 requires evidence class letter, none pinned",)
    pinned = plan(look_up(requires_evidence=("letter",), evidence_refs=(LETTER,)))
    assert refused(SHOP.deciding(untrusted_evidence=("letter",)).review(pinned)) is None


def test_untrusted_evidence_satisfies_a_requirement_only_where_the_decision_says_so() -> None:
    """What a customer wrote proves nothing, unless the pack declares that it will do."""
    pinned = plan(look_up(requires_evidence=("letter",), evidence_refs=(LETTER,)))
    verdict = SHOP.review(pinned)
    assert refused(verdict) == ("missing_evidence", "evidence_not_pinned", 0, "/steps/0/evidence_refs")
    assert verdict.reasons == (f"step 0 requires evidence class letter, and {LETTER} is not trusted",)
    assert "untrusted_evidence" in verdict.remedy
    deciding = SHOP.deciding(required_evidence=("letter",))
    assert refused(deciding.review(plan(look_up(evidence_refs=(LETTER,))))) is not None
    accepting = SHOP.deciding(required_evidence=("letter",), untrusted_evidence=("letter_evidence",))
    assert refused(accepting.review(pinned)) is None
    assert refused(SHOP.before_strict_calls().review(pinned)) is None


@pytest.mark.req("R86", "R15", "R16")
@pytest.mark.parametrize(
    ("required", "classification", "is_met"),
    [
        ("refund_window_evidence", "refund_window", True),
        ("refund_window_evidence", "refund_window_evidence", True),
        ("refund_window", "refund_window", True),
        ("refund_window", "refund_window_evidence", False),
        ("refund_window_evidence", "refund", False),
        ("refund_window_evidence", "refund_window_evidence_evidence", False),
        ("evidence", "refund_window_evidence", False),
    ],
)
def test_a_class_meets_its_own_name_and_nothing_else(
    required: str, classification: str, is_met: bool
) -> None:
    """`x_evidence` is met by the classes `x` and `x_evidence`, any other requirement by its own name only."""
    ref = f"kg:{classification}:e1#snapshot_may"
    house = SHOP.with_evidence(evidence(ref, {}))
    verdict = house.review(plan(look_up(requires_evidence=(required,), evidence_refs=(ref,))))
    assert (refused(verdict) is None) == is_met


@pytest.mark.req("R15")
def test_the_class_is_the_manifests_and_not_the_texts() -> None:
    """A reference that calls itself a refund window is worth the class that the manifest gives it."""
    ref = "kg:refund_window:e1#snapshot_may"
    house = SHOP.with_evidence(evidence(ref, {}, classification="rumour"))
    verdict = house.review(plan(look_up(requires_evidence=("refund_window_evidence",), evidence_refs=(ref,))))
    assert verdict.code == "evidence_not_pinned"
    fits = house.review(plan(look_up(requires_evidence=("rumour",), evidence_refs=(ref,))))
    assert refused(fits) is None


@pytest.mark.req("R86")
def test_an_evidence_query_pins_nothing() -> None:
    """Evidence that will be retrieved later is not evidence that is pinned."""
    query = {"classification": "refund_window", "query": "the window of ord_881"}
    asks = pay("pay", "pay_8861", 24_500, evidence_refs=(), evidence_queries=(query,))
    assert SHOP.review(plan(asks)).code == "evidence_not_pinned"


def test_another_steps_evidence_does_not_count() -> None:
    """Each step stands on what it pins itself."""
    verdict = SHOP.review(
        plan(look_up(evidence_refs=(WINDOW,)), pay("p", "pay_8861", 24_500, evidence_refs=()))
    )
    assert (verdict.code, verdict.offending_step) == ("evidence_not_pinned", 1)


def test_evidence_that_is_read_is_pinned() -> None:
    """A reference to evidence in a parameter pins it as well as a line in evidence_refs does."""
    assert refused(SHOP.review(plan(pay(evidence_refs=())))) is None


@pytest.mark.req("R105")
def test_a_pin_outside_the_snapshot_is_unresolved() -> None:
    """A reference of the fitting class that the snapshot does not hold is no evidence."""
    absent = "kg:refund_window:rw_999#snapshot_april"
    verdict = SHOP.review(plan(pay("pay", "pay_8861", 24_500, evidence_refs=(absent,))))
    assert refused(verdict) == ("missing_evidence", "evidence_unresolved", 0, "/steps/0/evidence_refs")
    assert verdict.reasons == (f"step 0 pins {absent}, which is not in snapshot may",)
    assert "pin evidence of this run's snapshot" in verdict.remedy


def test_a_pin_that_nothing_requires_must_be_there_all_the_same() -> None:
    """A plan may not adorn itself with evidence that does not exist."""
    verdict = SHOP.review(plan(look_up(evidence_refs=("kg:letter:l_8#snapshot_may",))))
    assert (verdict.code, verdict.offending_step) == ("evidence_unresolved", 0)


@pytest.mark.req("R86", "R105")
def test_what_the_decision_requires_may_be_pinned_by_any_step() -> None:
    """The decision's own evidence is the plan's to pin, at whichever step."""
    house = SHOP.deciding(required_evidence=("refund_window_evidence",))
    verdict = house.review(plan(look_up()))
    assert refused(verdict) == ("missing_evidence", "evidence_not_pinned", None, "")
    assert verdict.reasons == (
        "decision support.refund requires evidence class refund_window_evidence, none pinned",
    )
    assert WINDOW in verdict.remedy
    assert refused(house.review(plan(look_up(), look_up("s2", evidence_refs=(WINDOW,))))) is None


def test_evidence_that_the_snapshot_lacks_is_to_be_retrieved() -> None:
    """Where nothing could be pinned, the remedy does not ask for a pin."""
    verdict = SHOP.review(plan(look_up(requires_evidence=("fraud_score",))))
    assert "retrieve it first" in verdict.remedy


# ---- 5: the loop guard and the bucket -----------------------------------------------------------------------------


@pytest.mark.req("R87", "R17", "R100")
def test_thirteen_steps_are_one_too_many() -> None:
    """By default twelve steps pass and thirteen are refused, and the remedy is to prune."""
    steps = [look_up(f"s{n}") for n in range(13)]
    assert refused(SHOP.review(plan(*steps[:12]))) is None
    verdict = SHOP.review(plan(*steps))
    assert refused(verdict) == ("loop_guard", "too_many_steps", None, "/steps")
    assert verdict.reasons == ("plan has 13 steps, exceeds max_steps",)
    assert verdict.remedy == "prune it to 12 steps, or split the task"


@pytest.mark.req("R87")
def test_notes_count_as_steps() -> None:
    """The loop guard counts what a plan has, not what it calls."""
    house = SHOP.allowing(max_steps=1)
    assert house.review(plan(look_up(), step("n"))).reasons == ("plan has 2 steps, exceeds max_steps",)


@pytest.mark.req("R88", "R17", "R100")
def test_the_bucket_holds_eight_thousand_tokens() -> None:
    """By default estimates of 8,000 tokens pass and 8,001 are refused; a step without an estimate counts nothing."""
    full = plan(look_up(estimated_tokens=7_999), look_up("s2", estimated_tokens=1), look_up("s3"))
    assert refused(SHOP.review(full)) is None
    verdict = SHOP.review(plan(look_up(estimated_tokens=8_000), look_up("s2", estimated_tokens=1)))
    assert refused(verdict) == ("budget_exceeded", "tokens_exceeded", None, "/steps")
    assert verdict.reasons == ("plan exceeds bucket_tokens",)
    assert verdict.remedy == "prune low-priority steps: 8,001 tokens are estimated, 8,000 are allowed"


@pytest.mark.req("R17")
def test_a_run_may_have_a_smaller_budget() -> None:
    """Both limits are the run's to set."""
    house = SHOP.allowing(max_steps=3, bucket_tokens=10)
    assert house.review(plan(look_up(estimated_tokens=11))).code == "tokens_exceeded"
    assert house.review(plan(*(look_up(f"s{n}") for n in range(4)))).code == "too_many_steps"


# ---- what passes --------------------------------------------------------------------------------------------------


@pytest.mark.req("R90")
@pytest.mark.parametrize(("outputs", "steps"), [((), 1), (("a",), 2), (("a", "b", "c"), 3)])
def test_a_passed_plan_says_what_it_covers(outputs: tuple[str, ...], steps: int) -> None:
    """The one reason of a pass counts steps and required outputs, and counts extra outputs for nothing."""
    house = SHOP.deciding(required_outputs=outputs)
    passed = plan(*(look_up(f"s{n}") for n in range(steps)), declared_outputs=(*outputs, "extra"))
    verdict = house.review(passed)
    assert verdict.ok
    assert verdict.reasons == (f"{steps} steps, {len(outputs)} required outputs covered",)
    assert verdict.refusals == ()


# ---- the order ----------------------------------------------------------------------------------------------------

Case: TypeAlias = tuple[House, list[Step], dict[str, Any]]
Fault: TypeAlias = Callable[[Case], Case]


def adding(*steps: Step) -> Fault:
    """A fault that steps of their own bring in."""
    return lambda case: (case[0], [*case[1], *steps], case[2])


def changing(change: Callable[[House], House], *steps: Step) -> Fault:
    """A fault that needs another house, and perhaps steps."""
    return lambda case: (change(case[0]), [*case[1], *steps], case[2])


def _expecting_output(case: Case) -> Case:
    return case[0].deciding(required_outputs=("amount",)), case[1], case[2]


def _misplaced_checkpoint(case: Case) -> Case:
    checkpoint = {"decision_id": "nobody.decided", "after_step": "s1"}
    return case[0], case[1], {**case[2], "decision_checkpoints": (checkpoint,)}


ACT = tool("x.act", "network", gates=("FINANCE",), no_compensation="none", parameters=takes())
RISKY = tool("x.risk", "network", reversibility="irreversible", parameters=takes())
LATE = tool("x.late", preconditions=("dawn",), parameters=takes())
MAKE = tool("x.make", establishes=("warm",), parameters=takes())
CHILL = tool("x.chill", revokes=("warm",), parameters=takes())
WARM = tool("x.warm", preconditions=("warm",), parameters=takes())
DEAR = tool("x.dear", cost_microcents=1_001, parameters=takes())
UNDO = tool("x.undoable", "local_write", parameters=takes())
NEVER = Policy(name="never", expression="false")

FAULTS: list[tuple[str, Fault]] = [
    ("output_not_declared", _expecting_output),
    ("tool_not_surfaced", adding(step("ghost", "no.body"))),
    ("mode_exceeded", changing(lambda h: h.running(safety_mode="delegated"), pay("big", gates=("FINANCE",)))),
    ("evidence_not_pinned", adding(look_up("bare", requires_evidence=("letter",)))),
    ("too_many_steps", changing(lambda h: h.allowing(max_steps=1), look_up("more"))),
    ("tokens_exceeded", adding(look_up("wordy", estimated_tokens=8_001))),
    ("kind_unavailable", adding(step("lane", kind="lane"))),
    ("unresolved_reference", adding(look_up("lost", depends_on=("nowhere",)))),
    ("argument_invalid", adding(step("wrong", LOOKUP, params={"order_id": 5}))),
    ("argument_not_permitted", adding(pay("rich", None, 100_001))),
    ("mode_understated", adding(ticket("meek", approval_mode="read_only"))),
    ("unbound_argument", adding(pay("hijacked", "pay_6666"))),
    ("gate_missing", changing(lambda h: h.with_tools(RISKY), step("risk", "x.risk"))),
    ("compensation_missing", changing(lambda h: h.with_tools(UNDO), step("undo", "x.undoable"))),
    ("unmet_precondition", changing(lambda h: h.with_tools(LATE), step("late", "x.late"))),
    (
        "threatened_condition",
        changing(
            lambda h: h.with_tools(MAKE, CHILL, WARM),
            step("make", MAKE),
            step("chill", CHILL),
            step("warm", WARM, depends_on=("make",)),
        ),
    ),
    ("cost_exceeded", changing(lambda h: h.with_tools(DEAR), step("dear", "x.dear"))),
    ("latency_exceeded", adding(look_up("slow", estimated_ms=10_001))),
    ("concurrency_exceeded", changing(lambda h: h.allowing(max_parallel=1), look_up("beside"))),
    (
        "branches_exceeded",
        changing(lambda h: h.allowing(max_branch_depth=0), look_up("perhaps", when="request.yes")),
    ),
    ("policy_invariant", changing(lambda h: h.holding(policies=(NEVER,)))),
    ("checkpoint_unbound", _misplaced_checkpoint),
    ("duplicate_action", adding(ticket("once", "same"), ticket("twice", "same"))),
]
"""One fault for each row of the matrix, in its order."""


def made(*faults: Fault) -> tuple[House, Plan]:
    """The shop and a sound plan, with these faults."""
    case: Case = (SHOP, [look_up()], {})
    for fault in faults:
        case = fault(case)
    return case[0], plan(*case[1], **case[2])


def test_the_plan_without_faults_passes() -> None:
    """What the faults are added to is sound."""
    house, sound = made()
    assert refused(house.review(sound)) is None


@pytest.mark.parametrize(("code", "fault"), FAULTS, ids=[code for code, _ in FAULTS])
def test_each_fault_is_found_by_itself(code: str, fault: Fault) -> None:
    """Each fault alone is refused with its own code, so that the pairs below mean something."""
    house, faulty = made(fault)
    assert house.review(faulty).code == code


PAIRS = list(combinations(FAULTS, 2))


@pytest.mark.req("R89")
@pytest.mark.parametrize(
    ("first", "second"), PAIRS, ids=[f"{first[0]}-{second[0]}" for first, second in PAIRS]
)
def test_the_first_check_that_fails_decides(first: tuple[str, Fault], second: tuple[str, Fault]) -> None:
    """Of two faults the one of the earlier check is returned, wherever in the plan they stand."""
    for order in ((first, second), (second, first)):
        house, faulty = made(*(fault for _, fault in order))
        verdict = house.review(faulty)
        assert verdict.code == first[0]
        assert second[0] in codes(verdict)


@pytest.mark.req("R89")
def test_all_faults_at_once_come_in_the_published_order() -> None:
    """The refusals of a plan that breaks everything are listed in the order of the checks."""
    house, faulty = made(*(fault for _, fault in FAULTS))
    found = list(dict.fromkeys(codes(house.review(faulty))))
    expected = [code for code, _ in FAULTS]
    assert [code for code in found if code in expected] == expected


def test_a_verdict_keeps_fifty_refusals() -> None:
    """A plan with a thousand faults gets a list that a planner can read."""
    verdict = SHOP.review(plan(*(step(f"s{n}", "no.body") for n in range(1_000))))
    assert len(verdict.refusals) == 50
    assert verdict.offending_step == 0


def test_gates_do_not_change_the_order() -> None:
    """An approval that somebody could give does not move a refusal."""
    house = SHOP.with_gates(Gate(name="BOARD", roles=("board",))).deciding(unbound_gate="BOARD")
    verdict = house.review(plan(pay("p", "pay_6666"), step("g", FILE, params={})))
    assert verdict.code == "argument_invalid"

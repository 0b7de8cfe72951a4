"""The published plans: each loads, means what its text says, and prints back as it came."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import DecisionCheckpoint, Plan, Step
from tercet.contracts.plan_formats import PlanFormat, detect_format, load_plan, print_plan

PLAN_A: dict[str, Any] = {
    "steps": [
        {
            "kind": "tool",
            "adapter_id": "adp_orders",
            "capability_id": "lookup",
            "args": {"id": "ord_881"},
        },
        {
            "kind": "tool",
            "adapter_id": "adp_payments",
            "capability_id": "issue_refund",
            "args": {"id": "pay_8861", "amount_inr": 24500},
            "requires_evidence": ["refund_window_evidence"],
        },
    ],
    "declared_outputs": ["refund_amount_inr", "refund_reason_class"],
}

REF = "kg:refund_window:rw_881#snapshot_kg_2026_05_09_T0930"
PLAN_B: dict[str, Any] = {
    **PLAN_A,
    "steps": [PLAN_A["steps"][0], {**PLAN_A["steps"][1], "evidence_refs": [REF]}],
}

SPECIFIED: dict[str, Any] = {
    "plan_id": "plan_refund_01",
    "intent": "support.refund",
    "steps": [
        {"id": "s1", "tool": "adp_orders.lookup", "params": {"order_id": "ord_881"}},
        {"id": "s2", "tool": "adp_policy.eval", "depends_on": ["s1"]},
        {
            "id": "s3",
            "tool": "adp_payments.issue_refund",
            "depends_on": ["s2"],
            "approval_mode": "destructive",
            "requires": ["GATE_FINANCE_APPROVAL"],
        },
    ],
    "decision_checkpoints": [{"decision_id": "support.refund.execute", "after_step": "s2"}],
}

PUBLISHED = {
    "plan A": (PLAN_A, PlanFormat.INDEXED),
    "plan B": (PLAN_B, PlanFormat.INDEXED),
    "the plan of the specification": (SPECIFIED, PlanFormat.NAMED),
}
every_published = pytest.mark.parametrize(("document", "shape"), PUBLISHED.values(), ids=PUBLISHED)


@pytest.mark.req("R9", "R10", "R60", "R63")
@every_published
def test_a_published_plan_prints_back_as_it_came(document: dict[str, Any], shape: PlanFormat) -> None:
    """Loading finds the shape by itself, and printing in that shape gives the source document, key for key."""
    source = orjson.dumps(document)
    assert detect_format(document) is shape
    for plan in (load_plan(document), load_plan(source), load_plan(source.decode(), shape)):
        assert orjson.dumps(print_plan(plan, shape)) == source


@every_published
def test_loading_leaves_the_document_alone(document: dict[str, Any], shape: PlanFormat) -> None:
    """A caller's document is the same after it was loaded."""
    before = copy.deepcopy(document)
    load_plan(document)
    assert document == before


@every_published
def test_both_shapes_hold_the_same_plan(document: dict[str, Any], shape: PlanFormat) -> None:
    """A published plan can be printed in the other shape, and is the same plan with the same hash there."""
    plan = load_plan(document)
    for other in PlanFormat:
        again = load_plan(print_plan(plan, other))
        assert again == plan
        assert again.hash == plan.hash


@pytest.mark.req("R9", "R62")
def test_the_indexed_plan_as_one_model() -> None:
    """Positions become ids, adapter and capability one tool name, and each step waits for the one before it."""
    assert load_plan(PLAN_B) == Plan(
        steps=(
            Step(id="s0", tool="adp_orders.lookup", params={"id": "ord_881"}),
            Step(
                id="s1",
                tool="adp_payments.issue_refund",
                params={"id": "pay_8861", "amount_inr": 24500},
                depends_on=("s0",),
                requires_evidence=("refund_window_evidence",),
                evidence_refs=(REF,),
            ),
        ),
        declared_outputs=("refund_amount_inr", "refund_reason_class"),
    )


@pytest.mark.req("R10", "R60", "R61")
def test_the_named_plan_as_one_model() -> None:
    """`requires` are the step's gates, the mode is declared per step, and the checkpoint stands after its step."""
    plan = load_plan(SPECIFIED)
    assert (plan.plan_id, plan.intent) == ("plan_refund_01", "support.refund")
    assert [step.depends_on for step in plan.steps] == [(), ("s1",), ("s2",)]
    assert [step.approval_mode for step in plan.steps] == [None, None, ApprovalMode.DESTRUCTIVE]
    assert plan.steps[2].gates == ("GATE_FINANCE_APPROVAL",)
    assert plan.decision_checkpoints == (
        DecisionCheckpoint(decision_id="support.refund.execute", after_step="s2"),
    )


@pytest.mark.req("R77")
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (PLAN_A, "sha256:221f6f3dd7e24e6e5c46c5e9cbb8eedf7fbcc1ff20706af4843bf96d6c1ccb4c"),
        (PLAN_B, "sha256:c4647296423fbd3bc44f7c63843512a08848a0ea043fe84162a38c224b37e10d"),
        (SPECIFIED, "sha256:5ba07c39b9c74a4a7b216e0f636480fca5703ea52083f4bb7f4898ea7203f2ec"),
    ],
    ids=PUBLISHED,
)
def test_the_hash_of_a_published_plan_never_changes(document: dict[str, Any], expected: str) -> None:
    """Records of old runs name plans by these hashes, so a new version must find the same ones."""
    assert load_plan(document).hash == expected

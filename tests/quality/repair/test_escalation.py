"""Where defects go that repairs did not mend: the ladder against the order of the requirement."""

from __future__ import annotations

from itertools import product

import pytest

from tercet.contracts.outputs.quality import Defect, DefectSeverity, RootCauseClass
from tercet.contracts.outputs.repair import Escalation, LeftDefect, RepairRules
from tercet.quality.repair.escalation import EXHAUSTED, Resources, escalate

RULES = RepairRules(expert_dimensions=("law",), many_defects=3)


def left(
    dimension: str = "style",
    reason: str = EXHAUSTED,
    severity: DefectSeverity = DefectSeverity.LOW,
    cause: RootCauseClass = RootCauseClass.LOGIC_ERROR,
) -> LeftDefect:
    defect = Defect(dimension=dimension, severity=severity, description="x")
    return LeftDefect(defect=defect, root_cause=cause, tried=1, reason=reason)


@pytest.mark.req("R206")
def test_the_first_that_can_help_is_chosen() -> None:
    """A person, a stronger model, a planner, a partial result, or a diagnosis: in this order, over all combinations."""
    for expert, spent, many, human, other, replan, partial in product((True, False), repeat=7):
        one = left("law" if expert else "style", "no time is left" if spent else EXHAUSTED)
        defects = [one] * (3 if many else 1)
        resources = Resources(
            has_human=human, has_other_model=other, may_replan=replan, is_partial_useful=partial
        )
        if expert and human:
            expected = Escalation.HUMAN_REVIEW
        elif not spent and not many and other:
            expected = Escalation.MODEL_UPGRADE
        elif many and replan:
            expected = Escalation.TASK_REDECOMPOSE
        elif partial:
            expected = Escalation.PARTIAL_COMMIT
        else:
            expected = Escalation.FAIL_WITH_DIAGNOSIS
        verdict = escalate(defects, RULES, resources, reason="why")
        assert verdict.kind is expected
        assert verdict.left == tuple(defects)
        assert verdict.reason.endswith(": why")


@pytest.mark.req("R206", "R209")
def test_a_tool_that_stays_failed_leads_to_another_plan() -> None:
    """Where a planner may be asked for one, before any model: none writes what a tool did not bring."""
    lost = left(cause=RootCauseClass.TOOL_FAILURE)
    resources = Resources(may_substitute=True, has_other_model=True)
    assert escalate([left(), lost], RULES, resources, reason="").kind is Escalation.TASK_REDECOMPOSE
    assert escalate([left()], RULES, resources, reason="").kind is Escalation.MODEL_UPGRADE
    alone = escalate([lost], RULES, Resources(may_replan=True), reason="")
    assert alone.kind is Escalation.FAIL_WITH_DIAGNOSIS


@pytest.mark.req("R43")
def test_two_classes_are_given_by_escalation_alone() -> None:
    """What every repair was tried on is beyond the model; many defects are beyond the task as it was cut."""
    assert escalate([left()], RULES, Resources(), reason="").root_cause is RootCauseClass.CAPABILITY_LIMIT
    assert (
        escalate([left()] * 3, RULES, Resources(), reason="").root_cause is RootCauseClass.COMPLEXITY_EXCEEDED
    )
    assert escalate([left(reason="no time is left")], RULES, Resources(), reason="").root_cause is None


@pytest.mark.parametrize(
    "grave",
    [
        left(severity=DefectSeverity.HIGH),
        left(cause=RootCauseClass.SAFETY_VIOLATION),
        left(cause=RootCauseClass.SCHEMA_VIOLATION),
    ],
)
def test_a_grave_defect_is_never_committed_in_part(grave: LeftDefect) -> None:
    """A bad one, an unsafe one and a malformed one keep a result back, however useful the rest is."""
    resources = Resources(is_partial_useful=True)
    assert escalate([left(), grave], RULES, resources, reason="").kind is Escalation.FAIL_WITH_DIAGNOSIS


def test_what_is_not_grave_may_be_committed_in_part() -> None:
    """Up to a medium defect, and only where somebody said that a part is of use."""
    mild = [left(severity=DefectSeverity.MEDIUM)]
    assert (
        escalate(mild, RULES, Resources(is_partial_useful=True), reason="").kind is Escalation.PARTIAL_COMMIT
    )
    assert escalate(mild, RULES, Resources(), reason="").kind is Escalation.FAIL_WITH_DIAGNOSIS


@pytest.mark.parametrize(
    ("resources", "now", "before"),
    [
        ({}, "there is no other model, planner or person to repair it", "nobody is left who could mend it"),
        ({"has_other_model": True}, "a stronger model may repair it", "a stronger model may mend it"),
    ],
)
def test_a_session_keeps_the_words_of_its_rules(resources: dict[str, bool], now: str, before: str) -> None:
    """The reason is recorded, so a session from before rule 25 gives it as it did."""
    for is_plain, expected in ((True, now), (False, before)):
        verdict = escalate([left()], RULES, Resources(**resources, is_plain=is_plain), reason="why")
        assert verdict.reason == f"{expected}: why"

"""Where defects go that repairs did not mend: to a person, a stronger model, a planner, into a partial result, or nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tercet.contracts.quality import DefectSeverity, RootCauseClass
from tercet.contracts.repair import Escalation, EscalationVerdict, LeftDefect, RepairRules

FEEDBACK = "feedback"
"""The dimension of what a person asked to be changed: if it cannot be, that person is told."""
EXHAUSTED = "every fitting repair was tried"
"""Why a defect was given up that a stronger model may mend."""
LOOPED = "it goes round in circles"
"""Likewise: the model keeps saying the same."""
_WORST_IN_PART = DefectSeverity.MEDIUM
"""A result with worse defects is of no use in part."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """Who else could help."""

    has_model: bool = True
    has_other_model: bool = False
    has_human: bool = False
    may_replan: bool = False
    is_partial_useful: bool = False
    """Whether a result with some defects left is of use to whoever asked."""
    can_fetch: bool = False
    """Whether more evidence may be asked for, and failed tools again."""


def escalate(
    left: Sequence[LeftDefect], rules: RepairRules, resources: Resources, *, reason: str
) -> EscalationVerdict:
    """The first of the ladder that can help, with what is left and why."""
    kind, why, beyond = _choose(left, rules, resources)
    return EscalationVerdict(kind=kind, reason=f"{why}: {reason}", root_cause=beyond, left=tuple(left))


def _choose(
    left: Sequence[LeftDefect], rules: RepairRules, resources: Resources
) -> tuple[Escalation, str, RootCauseClass | None]:
    beyond = _beyond(left, rules)
    experts = (*rules.expert_dimensions, FEEDBACK)
    if resources.has_human and any(each.defect.dimension in experts for each in left):
        return Escalation.HUMAN_REVIEW, "somebody who knows the field is needed", beyond
    if beyond is RootCauseClass.CAPABILITY_LIMIT and resources.has_other_model:
        return Escalation.MODEL_UPGRADE, "a stronger model may mend it", beyond
    if beyond is RootCauseClass.COMPLEXITY_EXCEEDED and resources.may_replan:
        return Escalation.TASK_REDECOMPOSE, "the task is too much at once", beyond
    if resources.is_partial_useful and not any(map(_is_grave, left)):
        return Escalation.PARTIAL_COMMIT, "what is there is of use", beyond
    return Escalation.FAIL_WITH_DIAGNOSIS, "nobody is left who could mend it", beyond


def _beyond(left: Sequence[LeftDefect], rules: RepairRules) -> RootCauseClass | None:
    """The two classes that are given here and nowhere else: beyond the task as it was cut, or beyond the model."""
    if len(left) >= rules.many_defects:
        return RootCauseClass.COMPLEXITY_EXCEEDED
    is_beyond_model = any(each.tried and each.reason in (EXHAUSTED, LOOPED) for each in left)
    return RootCauseClass.CAPABILITY_LIMIT if is_beyond_model else None


def _is_grave(left: LeftDefect) -> bool:
    """Whether a defect forbids to hand the result out: a bad one, or one of safety or form, however small."""
    grave = (RootCauseClass.SAFETY_VIOLATION, RootCauseClass.SCHEMA_VIOLATION)
    return left.defect.severity > _WORST_IN_PART or left.root_cause in grave

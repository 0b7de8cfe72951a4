"""Approvals: the grants of policies, and what the recorded answers to gates add up to.

An approval counts if its approver neither owns the run nor took it back, and held a role of the gate when answering. One
login is one person, whatever names it answered under.
A `modify` voids every approval before it, since those were about another call; a `deny` is final.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.errors import PlanError
from tercet.contracts.gate import Approval, Gate
from tercet.contracts.mode import MODE_RANK, ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.run import Run
from tercet.contracts.shape import JsonObject
from tercet.critic.dispatch import resolved_review
from tercet.critic.gates import gravity
from tercet.critic.order import find_uncertain, possible_absences
from tercet.critic.review import Review
from tercet.critic.rules import PlanViews
from tercet.policy.expressions import STEP, ExpressionError, compile_rule

_LOCAL_WRITE_RANK = MODE_RANK[ApprovalMode.LOCAL_WRITE]
GRANTABLE = frozenset({ApprovalMode.NETWORK, ApprovalMode.DELEGATED})


def granted_by(
    ctx: RunContext,
    compiled: CompiledContext,
    spec: DecisionSpec,
    plan: Plan,
    step_id: str,
    params: dict[str, Any],
) -> str | None:
    """Return the first policy that grants a call with these parameters; None if none does, or if none may.

    A grant stands in for the unnamed approval that every network or delegated call waits for. It opens no named gate, and
    nothing destructive or irreversible is granted, whatever its mode. It is decided on the resolved call, and an expression
    that fails grants nothing. Whether it may be used at all is the runtime's to say: an effect that a re-plan adds is
    approved by a person.
    """
    policies = [policy for policy in compiled.policies if _is_grant(policy)]
    if not policies or not any(step.id == step_id for step in plan.steps):
        return None
    try:
        review = resolved_review(ctx, compiled, spec, plan, step_id, params)
    except PlanError:  # parameters that no plan could hold
        return None
    call = review.call_at.get(review.position[step_id])
    if call is None or not is_grantable(call):
        return None
    views = PlanViews(review, None, None)
    return next(
        (policy.name for policy in policies if does_grant(policy, review, views, call.position)), None
    )


def is_grantable(call: EffectiveStep) -> bool:
    """Whether a policy may approve a call at all."""
    return call.mode in GRANTABLE and gravity(call.mode, call.reversibility) is None


def _is_grant(policy: Policy) -> bool:
    """Whether a policy grants; one over the plan, or with a gate, is refused when a pack is loaded and grants nothing."""
    return policy.effect == "grant" and policy.scope == "step" and policy.gate is None


def does_grant(policy: Policy, review: Review, views: PlanViews, index: int) -> bool:
    """Return whether a policy that grants holds for a step; one that reads the order of steps must also hold without each
    set of steps that may not run."""
    try:
        rule = compile_rule(policy.expression, STEP)
    except ExpressionError:
        return False
    if not rule.evaluate(views.step(index)).holds:
        return False
    if not rule.reads_order:
        return True
    names = find_uncertain(review.plan, review.compiled.surface)
    uncertain = frozenset(review.position[name] for name in names) - {index}
    absences = possible_absences(review.plan, uncertain)
    return all(rule.evaluate(views.step(index, absent)).holds for absent in absences)


def is_opened(run: Run, step_id: str, gate: Gate) -> bool:
    """Whether enough people who may open a gate have opened it for a step."""
    answers = [answer for answer in run.approvals if answer.gate == gate.name and answer.step_id == step_id]
    held = [answer for answer in _standing(run, answers) if _holds_role(answer, gate)]
    return _number_of_people(held) >= gate.quorum


def _number_of_people(answers: list[Approval]) -> int:
    """How many different people have answered: two names of one login are one."""
    names = {answer.approver for answer in answers}
    return min(len(names), len({answer.login or (answer.approver,) for answer in answers}))


def _holds_role(answer: Approval, gate: Gate) -> bool:
    """Whether an approver may open a gate; one without roles is open to anybody, and unrecorded roles are not asked."""
    return not gate.roles or answer.roles is None or not set(answer.roles).isdisjoint(gate.roles)


def _standing(run: Run, answers: list[Approval]) -> list[Approval]:
    """The approvals that still stand after every answer was heard in its order."""
    standing: list[Approval] = []
    for answer in answers:
        match answer.decision:
            case "deny":
                return []
            case "modify":
                standing = []
            case "withdraw":
                standing = [other for other in standing if other.approver != answer.approver]
            case "approve" if not _is_owner(run, answer):
                standing.append(answer)
            case _:
                pass
    return standing


def _is_owner(run: Run, answer: Approval) -> bool:
    owner = run.context.actor
    return answer.approver == owner.id or (answer.login is not None and answer.login == owner.os_user)


def unanswered(run: Run, planned: Review) -> Iterator[str]:
    """The steps that ran, had to be approved by somebody, and neither a person nor a policy approved."""
    ran: set[str] | None = None
    for call in planned.calls:
        is_strong = MODE_RANK[call.mode] > _LOCAL_WRITE_RANK
        grave = gravity(call.mode, call.reversibility)
        if not (is_strong or grave):
            continue
        ran = {entry.call.step_id for entry in run.transcript} if ran is None else ran
        if call.step.id not in ran:
            continue
        answers = [answer for answer in run.approvals if answer.step_id == call.step.id]
        is_granted = grave is None and any(answer.decision == "grant" for answer in answers)
        if not _standing(run, answers) and not is_granted:
            yield call.step.id


def wrongly_granted(run: Run) -> dict[str, str]:
    """The steps that ran by a grant which no policy gives to such a call, each with whom the grant names.

    A grave step is always one of them, whoever else approved it.
    """
    given = [answer for answer in run.approvals if answer.decision == "grant"]
    if not given:
        return {}
    params = {entry.call.step_id: entry.call.params for entry in run.transcript}
    grants = {answer.step_id: answer.approver for answer in given if answer.step_id in params}
    return {
        step_id: granter
        for step_id, granter in grants.items()
        if not _is_granted(run, step_id, params[step_id], granter)
    }


def _is_granted(run: Run, step_id: str, params: JsonObject, granter: str) -> bool:
    name = granted_by(run.context, run.compiled, run.spec, run.plan, step_id, params)
    return name is not None and granter == f"policy:{name}"

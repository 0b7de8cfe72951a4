"""Approvals: grants by policies, and the evaluation of recorded answers to gates.

An approval counts if its approver does not own the run, did not withdraw it, and held a role of the gate when
answering. One login is one person, whatever names it answered under. A `modify` voids every earlier approval, since
those were given for another call; a `deny` is final.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import PlanError
from tercet.contracts.gate import Approval, Gate
from tercet.contracts.mode import MODE_RANK, ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.run import Run
from tercet.contracts.shape import JsonObject
from tercet.contracts.steps.effective import EffectiveStep
from tercet.critic.checks.gates import gravity
from tercet.critic.checks.rules import PlanViews
from tercet.critic.dispatch import resolved_review
from tercet.critic.order import find_uncertain, possible_absences
from tercet.critic.review import Review
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
    """Return the first policy that grants a call with these parameters, or None.

    A grant replaces the unnamed approval that every network or delegated call waits for. It opens no named gate, and
    never applies to a destructive or irreversible call. It is evaluated on the resolved call, and an expression that
    fails grants nothing. The runtime decides whether a grant may be used at all: an effect that a re-plan adds must be
    approved by a person.
    """
    policies = [policy for policy in compiled.policies if _is_grant(policy)]
    if not policies or not any(step.id == step_id for step in plan.steps):
        return None
    try:
        review = resolved_review(ctx, compiled, spec, plan, step_id, params)
    except PlanError:  # parameters that are not valid in a plan
        return None
    call = review.call_at.get(review.position[step_id])
    if call is None or not is_grantable(call):
        return None
    views = PlanViews(review, None, None)
    return next(
        (policy.name for policy in policies if does_grant(policy, review, views, call.position)), None
    )


def is_grantable(call: EffectiveStep) -> bool:
    """Return whether a policy may approve a call at all."""
    return call.mode in GRANTABLE and gravity(call.mode, call.reversibility) is None


def _is_grant(policy: Policy) -> bool:
    """Return whether a policy is a valid grant; one over the plan, or with a gate, does not load and grants nothing."""
    return policy.effect == "grant" and policy.scope == "step" and policy.gate is None


def does_grant(policy: Policy, review: Review, views: PlanViews, index: int) -> bool:
    """Return whether a granting policy holds for a step; if it reads the order of steps, it must also hold without each
    set of uncertain steps.
    """
    try:
        rule = compile_rule(policy.expression, STEP)
    except ExpressionError:
        return False
    if not rule.evaluate(views.step(index)).holds:
        return False
    if not rule.reads_order:
        return True
    names = find_uncertain(
        review.plan,
        review.compiled.surface,
        may_not_deliver=review.ctx.goes_by(Behaviour.OUTPUTS_VOUCHED_FOR),
    )
    uncertain = frozenset(review.position[name] for name in names) - {index}
    absences = possible_absences(review.plan, uncertain)
    return all(rule.evaluate(views.step(index, absent)).holds for absent in absences)


def is_opened(run: Run, step_id: str, gate: Gate) -> bool:
    """Return whether enough authorised people have approved a step at a gate."""
    answers = [answer for answer in run.approvals if answer.gate == gate.name and answer.step_id == step_id]
    held = [answer for answer in _valid_approvals(run, answers) if _holds_role(answer, gate)]
    return _number_of_people(held) >= gate.quorum


def _number_of_people(answers: list[Approval]) -> int:
    """Return how many different people have answered: two names with one login are one person."""
    names = {answer.approver for answer in answers}
    return min(len(names), len({answer.login or (answer.approver,) for answer in answers}))


def _holds_role(answer: Approval, gate: Gate) -> bool:
    """Return whether an approver may open a gate; a gate without roles is open to anyone, and unrecorded roles are not
    checked.
    """
    return not gate.roles or answer.roles is None or not set(answer.roles).isdisjoint(gate.roles)


def _valid_approvals(run: Run, answers: list[Approval]) -> list[Approval]:
    """Return the approvals that are still valid after all answers, in order."""
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
    """Return the steps that ran and needed an approval, but were approved by neither a person nor a policy."""
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
        if not _valid_approvals(run, answers) and not is_granted:
            yield call.step.id


def wrongly_granted(run: Run) -> dict[str, str]:
    """Return the steps that ran by a grant which no policy gives to such a call, each with the policy named in the
    grant.

    A destructive or irreversible step is always included, even if a person approved it as well.
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

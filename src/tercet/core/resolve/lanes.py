"""Events of lanes: proposed steps, and the review of proposals in the parent."""

from __future__ import annotations

from tercet.contracts.errors import PlanError
from tercet.contracts.verdict import KIND_OF, Code, Verdict
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import Made, Now, made
from tercet.core.lanes import extended_plan
from tercet.core.plans import dump_plan
from tercet.core.resolve.planning import dump_verdict, revision_frame
from tercet.core.run import Run
from tercet.critic.verify import verify


def propose_step(run: Run, command: c.ProposeStep, answer: Now) -> Made:
    """Return a step that a lane proposes to its parent."""
    del run
    return made(e.StepProposed(at=answer.at, step=command.step, proposal=command.proposal))


def review_proposals(run: Run, command: c.ReviewProposals, answer: Now) -> Made:
    """Return the critic's verdict on the plan with the steps that a lane proposes."""
    state, config = run.state, run.config
    try:
        plan = extended_plan(run.followed.plan, command.step, state.lane_proposals[command.step])
    except (PlanError, KeyError, ValueError):
        verdict = _refuse_proposals(command.step)
        return made(
            e.ProposalsReviewed(at=answer.at, step=command.step, hash="", verdict=dump_verdict(verdict))
        )
    verdict = verify(revision_frame(state, config), config.compiled, config.spec, plan)
    return made(
        e.ProposalsReviewed(
            at=answer.at,
            step=command.step,
            hash=plan.hash,
            verdict=dump_verdict(verdict),
            plan=dump_plan(plan) if verdict.ok else {},
        )
    )


def _refuse_proposals(step: str) -> Verdict:
    """Return the refusal of proposals that do not fit into any plan."""
    return Verdict(
        stage="review",
        outcome="reject",
        kind=KIND_OF[Code.ARGUMENT_INVALID],
        code=Code.ARGUMENT_INVALID,
        reasons=(f"what the lane of step {step} proposes is not a plan",),
        remedy="propose steps with tools of the parent, and references among the proposals only",
    )

"""Events of plans: proposal, decomposition, evidence, review; the turns of a step-by-step agent; proposals of lanes."""

from __future__ import annotations

from typing import Literal

import msgspec

from tercet.contracts.context import RunContext
from tercet.contracts.errors import PlanError
from tercet.contracts.mode import Trust
from tercet.contracts.relations import find_sentences
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.budget import BudgetUse
from tercet.contracts.shape import JsonObject
from tercet.contracts.text.entities import find_hidden
from tercet.contracts.tool import ALL_FIELDS, ToolSpec
from tercet.contracts.values import pointer
from tercet.contracts.values.plain import storable
from tercet.contracts.values.trust import input_marks, is_marked, scalars, with_dotted
from tercet.contracts.verdict import KIND_OF, Code, Refusal, RefusalKind, Verdict
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import Made, NotPlanned, Now, Planned, Reflected, Retrieved, ToolChanges, made
from tercet.core.budget import budget_use
from tercet.core.config import RunConfig
from tercet.core.fold.base import copy_fields
from tercet.core.lanes import extended_plan
from tercet.core.modifications import changed_plan
from tercet.core.plans import dump_plan, read_plan
from tercet.core.retrieval import asking, carried_over, pinned_evidence, with_refs
from tercet.core.run import Run
from tercet.core.shared import Reviewed
from tercet.core.state import Change, State, StepState, Used
from tercet.critic.checks.flow import trusted_results
from tercet.critic.judge import review_outcome
from tercet.critic.reading import Reading
from tercet.critic.verify import verify
from tercet.planner.prompt import PROMPT_TOO_LONG

OVERDRAWN = "budget_exceeded"
"""The code of a question to a model that the budget has nothing left for."""
NO_TOOLS = "no_tools"
NO_STEPS_LEFT = "no_steps_left"
HOPELESS = (OVERDRAWN, "model_refused", PROMPT_TOO_LONG, NO_TOOLS, NO_STEPS_LEFT)
"""The codes of planning errors that would recur: the budget is used up, or no model would answer."""


def propose(run: Run, command: c.Propose, answer: Planned | NotPlanned | Now) -> Made:
    """Return the next plan: one that an approver has changed, a caller's, or a planner's; or the reason why there is
    none."""
    del command
    state, config = run.state, run.config
    if state.change is not None:
        return made(_propose_change(state, state.change, config, answer.at))
    if isinstance(answer, NotPlanned):
        return made(_not_planned(state, config, answer))
    if isinstance(answer, Now):  # no planner is asked: the current plan is reviewed again
        answer = Planned(at=answer.at, plan=dump_plan(read_plan(state.plan)), origin=state.plan_origin)
    proposed = read_plan(answer.plan)
    plan = carried_over(proposed, state.plan) if answer.planner else proposed
    is_others = bool(answer.planner) and not answer.by_pack
    return made(
        e.PlanProposed(
            at=answer.at,
            plan=answer.plan if plan is proposed else dump_plan(plan),
            hash=plan.hash,
            origin=answer.origin,
            planner=answer.planner,
            decision=answer.decision,
            by_pack=answer.by_pack,
            exposure=_untrusted_data_read(state, config) if is_others else "",
        )
    )


def _propose_change(state: State, change: Change, config: RunConfig, at: int) -> e.PlanProposed:
    """Return the plan with the values that an approver has set; or the previous one, if the critic refused them."""
    if change.refusal:
        before = read_plan(change.plan)
        return e.PlanProposed(at=at, plan=dump_plan(before), hash=before.hash, origin=state.plan_origin)
    plan = changed_plan(read_plan(state.plan), change, config.surface.get(change.values[0].tool))
    return e.PlanProposed(
        at=at, plan=dump_plan(plan), hash=plan.hash, origin=state.plan_origin, changed_by=change.by
    )


def _not_planned(state: State, config: RunConfig, answer: NotPlanned) -> e.PlanningFailed:
    """Return a planning failure. A fallible planner tries again while re-plans last; after that, or if it would not
    help, a person decides."""
    outcome: Literal["fail", "replan", "escalate"] = "fail"
    if state.start.fallible:
        has_tries = state.used.replans < config.ctx.run_budget.max_replans
        outcome = "replan" if has_tries and answer.code not in HOPELESS else "escalate"
    return e.PlanningFailed(
        at=answer.at,
        reason=storable(answer.reason),
        code=answer.code,
        outcome=outcome,
        by_pack=answer.by_pack,
    )


def decompose(run: Run, command: c.Decompose, answer: Now) -> Made:
    """Return the steps of the plan."""
    del command
    return made(e.Decomposed(at=answer.at, steps=len(run.state.steps)))


def retrieve(run: Run, command: c.Retrieve, answer: Retrieved) -> Made:
    """Return the evidence that the plan is based on; evidence found for a step's queries is pinned, which revises the
    plan."""
    del command
    plan, config = read_plan(run.state.plan), run.config
    blobs = (answer.data,) if answer.data else ()
    if answer.refs is None:
        evidence = pinned_evidence(plan, config, answer.facts)
        return made(e.EvidenceRetrieved(at=answer.at, evidence=evidence, facts=answer.digest), blobs=blobs)
    asked = asking(plan, run.state)
    revised = with_refs(plan, {step.id: answer.refs.get(step.id, ()) for step in asked})
    event = e.EvidenceRetrieved(
        at=answer.at,
        evidence=pinned_evidence(revised, config, answer.facts),
        plan=dump_plan(revised),
        hash=revised.hash,
        facts=answer.digest,
        calls=answer.calls,
        cost=answer.cost,
    )
    return made(event, blobs=blobs)


def review(run: Run, command: c.Review, answer: ToolChanges) -> Made:
    """Return the critic's review; a plan that was refused before is rejected without one. No plan can pass while the
    definition of one of its tools has changed without a person accepting it."""
    del command
    state, config = run.state, run.config
    if state.plan_hash in state.refused:
        verdict, recorded = _REFUSED_BEFORE, dump_verdict(_REFUSED_BEFORE)
    else:
        run.reviewed = reviewed = _ask_critic(run)
        verdict, recorded = reviewed.verdict, reviewed.recorded
        if _may_decide_again(state, config, verdict):
            verdict = verdict.model_copy(update={"outcome": "replan"})
        if answer.changes and verdict.ok:
            verdict = _definitions_changed(answer.changes, config)
        if verdict is not reviewed.verdict:
            recorded = dump_verdict(verdict)
    return made(
        e.PlanReviewed(
            at=answer.at,
            hash=state.plan_hash,
            verdict=recorded,
            escalates=_escalates(state, config, verdict),
        )
    )


def dump_verdict(verdict: Verdict) -> JsonObject:
    """Return a verdict as events record it."""
    return verdict.model_dump(mode="json", exclude_defaults=True) | {"outcome": verdict.outcome}


def _ask_critic(run: Run) -> Reviewed:
    """Return the critic's review of the plan; the one of another run if nothing that it depends on is different."""
    state, config, plan = run.state, run.config, run.followed.plan
    compiled, spec, ctx = config.compiled, config.spec, config.ctx
    frame = (
        state.plan_origin,
        _answers_feedback(state),
        _used(state, config),
        ctx.tenant,
        ctx.actor,
        ctx.safety_mode,
        ctx.run_budget,
        ctx.earlier,
        ctx.behaviour,
        ctx.depth,
    )
    is_shared = state.change is None  # else what the steps of this run have used counts too
    if is_shared and (known := run.shared.find_review(compiled, spec, plan, frame)) is not None:
        return known
    reading = Reading(compiled, plan)
    verdict = verify(_review_frame(state, config), compiled, spec, plan, reading=reading)
    recorded = dump_verdict(verdict)
    reviewed = Reviewed(verdict, recorded, msgspec.json.encode(recorded), reading, spec, frame)
    return run.shared.keep_review(reviewed) if is_shared else reviewed


_REFUSED_BEFORE = Verdict(
    stage="review",
    outcome="reject",
    kind=RefusalKind.LOOP_GUARD,
    reasons=("this plan was refused before",),
    remedy="propose another plan",
)


def _definitions_changed(changes: tuple[str, ...], config: RunConfig) -> Verdict:
    """Return the refusal of a plan whose tools are no longer those that a person has accepted."""
    code, remedy = Code.TOOL_DEFINITION_CHANGED, "read the changes, then accept them: tercet tools pin PACK"
    if config.ctx.goes_by(Behaviour.PLAIN_REFUSALS):
        remedy = "read the changes, then accept them with tercet tools pin"
    refusals = tuple(Refusal(code=code, reason=change, remedy=remedy) for change in changes)
    return Verdict(
        stage="review",
        outcome="reject",
        kind=KIND_OF[code],
        code=code,
        reasons=changes,
        remedy=remedy,
        refusals=refusals,
    )


def _escalates(state: State, config: RunConfig, verdict: Verdict) -> bool:
    """Return whether a plan is rejected only because its planner has no try left: then a person decides."""
    if verdict.outcome != "reject" or not state.start.fallible or verdict.kind is None:
        return False
    if _answers_refusals(state, config) and verdict.code is not Code.TOOL_DEFINITION_CHANGED:
        return True
    fresh = frame_of(state, config).model_copy(update={"used": BudgetUse()})
    has_tries = config.ctx.run_budget.max_replans > 0
    code = verdict.code or Code.DUPLICATE_ACTION
    return not has_tries or review_outcome(fresh, verdict.kind, code) == "replan"


def _answers_refusals(state: State, config: RunConfig) -> bool:
    """Return whether an agent decides step by step: it sees each refusal as a result and may decide differently."""
    return state.is_stepwise and config.ctx.goes_by(Behaviour.STRICT_CALLS)


def _may_decide_again(state: State, config: RunConfig, verdict: Verdict) -> bool:
    """Return whether a rejected decision goes back to its agent, which has a re-plan left for it."""
    has_tries = state.used.replans < config.ctx.run_budget.max_replans
    return verdict.outcome == "reject" and has_tries and _answers_refusals(state, config)


def frame_of(state: State, config: RunConfig) -> RunContext:
    """Return the frame of the critic: the origin of the plan and the usage."""
    return config.frame_with(
        plan_origin=state.plan_origin,
        answers_feedback=_answers_feedback(state),
        used=budget_use(_used(state, config)),
        # What tells one run from another: the critic does not see it, so that one review does for all runs that are alike.
        run_id="",
        trace_id="",
        started_at=None,
    )


def _used(state: State, config: RunConfig) -> Used:
    """Return the usage; time counts only if it is limited."""
    used = state.used
    if used.wall_clock and config.ctx.run_budget.wall_clock_ms is None:
        return msgspec.structs.replace(used, wall_clock=0)
    return used


def _answers_feedback(state: State) -> bool:
    """Return whether the planner reads why its plan was refused."""
    return state.start.fallible and not state.is_stepwise


def _review_frame(state: State, config: RunConfig) -> RunContext:
    """Return the frame for reviewing a plan; one that an approver changed contains its finished steps."""
    return frame_of(state, config) if state.change is None else revision_frame(state, config)


def revision_frame(state: State, config: RunConfig) -> RunContext:
    """Return the frame for reviewing a plan with finished steps, whose usage counts once."""
    frame = frame_of(state, config)
    done = [step for step in state.steps.values() if step.status == "done"]
    used = frame.used.model_copy(
        update={
            "steps": frame.used.steps - len(done),
            "tool_calls": frame.used.tool_calls - sum(step.calls + step.lane_calls for step in done),
            "tokens": frame.used.tokens - sum(step.tokens for step in done),
            "cost_microcents": frame.used.cost_microcents - sum(step.cost for step in done),
            "wall_clock_ms": 0,  # the time of the plan was reviewed before, and each call is held to what is left of it
        }
    )
    return frame.model_copy(update={"used": used})


def reflect(run: Run, command: c.Reflect, answer: Reflected) -> Made:
    """Return the judgement of a turn by an agent and its critics, with its trusted results."""
    del command
    state, config, said = run.state, run.config, answer.reflection
    done = {name for name, step in state.steps.items() if step.status == "done"}
    reviewed = config.review(run.followed.plan)
    return made(
        copy_fields(
            e.TurnJudged,
            said,
            at=answer.at,
            turn=state.turns + 1,
            reason=storable(said.reason),
            critic=storable(said.critic),
            prompt=None if said.prompt is None else storable(said.prompt),
            trusted=tuple(name for name in trusted_results(reviewed) if name in done),
        )
    )


def _untrusted_data_read(state: State, config: RunConfig) -> str:
    """Return the first untrusted data that the planner had read by now, in words; empty if there was none.

    Steps planned after that cannot use grants. Templates, methods and callers plan without reading data of the run.
    Every other planner may be a model, and counts as having read what it was shown: the marked parts of the request,
    untrusted evidence, and the results of earlier turns. What earlier turns had read is part of the state, so only the last turn is looked at.
    """
    if not config.ctx.goes_by(Behaviour.STRICT_CALLS):
        return ""
    return state.exposure or _in_request(config) or _in_evidence(state, config) or _in_results(state, config)


def _in_request(config: RunConfig) -> str:
    marks = input_marks(with_dotted(config.spec.untrusted_inputs))
    for leaf in scalars(config.compiled.input()) if marks else ():
        if is_marked(marks, leaf.place, in_lists=config.marks_reach_lists):
            return f"request#{pointer.join(leaf.place)}"
    for sentence in find_sentences(config.spec.fields, config.compiled.input()):
        if find_hidden(sentence.text, sentence.field.pasted):
            return f"text pasted into {sentence.field.of}"
    return ""


def _in_evidence(state: State, config: RunConfig) -> str:
    """Return the first untrusted evidence that a planner is shown; an agent that decides step by step is shown none."""
    if state.is_stepwise:
        return ""
    entries = config.compiled.manifests.evidence_manifest
    return next((f"evidence {entry.id}" for entry in entries if entry.trust is not Trust.TRUSTED), "")


def _in_results(state: State, config: RunConfig) -> str:
    """Return the first result of the last turn that is not trusted in full; a failed call has no trusted result."""
    if not state.is_stepwise or not state.plan:
        return ""
    trusted = {each.step for each in state.learned}
    for step in read_plan(state.plan).steps:
        ran = state.steps.get(step.id)
        if step.tool is None or ran is None or not ran.attempt:
            continue
        tool = config.surface.get(step.tool)
        if step.id not in trusted or tool is None or _has_marked_fields(tool, ran, config):
            return f"the result of step {step.id}"
    return ""


def _has_marked_fields(tool: ToolSpec, ran: StepState, config: RunConfig) -> bool:
    """Return whether a result has a field that its tool marks as untrusted; one that is stored separately may have any."""
    if not tool.untrusted:
        return False
    if ran.blob or ALL_FIELDS in tool.untrusted:
        return True
    places = (leaf.place for leaf in scalars(ran.value))
    return any(is_marked(tool.untrusted, place, in_lists=config.marks_reach_lists) for place in places)


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

"""Events of calls: INTENT, outcome, the critic's verdict on a step, and the decisions that a plan takes after it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import isfinite

import msgspec

from tercet.contracts.loop import Phase
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.invocation import Backoff
from tercet.contracts.runs.run import Outcome, ToolResult
from tercet.contracts.shape import as_object
from tercet.contracts.values.plain import storable
from tercet.core import budget
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import (
    CallEnded,
    Done,
    Draw,
    Drawn,
    Made,
    ModelReply,
    NotHappened,
    Now,
    Ready,
    RepeatsFound,
    Unknown,
    delay_ms,
    made,
)
from tercet.core.approval import find_expired_evidence
from tercet.core.config import RunConfig
from tercet.core.decide import Acting, can_retry, has_retries, is_looping
from tercet.core.fold.base import CUT_OFF, LANE_WAITING, MODIFIED, ROLE_LOST, copy_fields
from tercet.core.lanes import envelope_fields
from tercet.core.resolve.gates import open_gate
from tercet.core.resolve.planning import frame_of
from tercet.core.run import Run
from tercet.core.state import State, StepState
from tercet.critic.checks.feasibility import find_decision, missing_evidence
from tercet.critic.judge import judge_step

_FOR_PEOPLE = ("budget_exceeded", ROLE_LOST)
"""The codes of failures that another plan would not solve: a person must extend the budget or approve again."""


# --- before a call ---


def check_repeats(run: Run, command: c.CheckRepeats, answer: RepeatsFound) -> Made:
    """Return the earlier calls that count against one which may be made once in a period."""
    del run
    return made(e.RepeatsChecked(at=answer.at, step=command.step, key=command.key, found=answer.found))


def dispatch(run: Run, command: c.Dispatch, answer: Ready) -> Made:
    """Return the INTENT of a call, or the event that withholds it."""
    if (withheld := withhold(run, command, answer)) is not None:
        return made(withheld)
    if answer.repeats:
        return made(e.RepeatsChecked(at=answer.at, step=command.step, key=command.key, found=answer.repeats))
    return Made((_intent(run, command, answer),))


def withhold(run: Run, command: c.Dispatch, answer: Ready) -> e.StepRefused | e.GateOpened | None:
    """Return why a call that was due is not made: its evidence has expired, an approver has lost their role, or the
    circuit of its tool is open. One that may have happened cannot be refused; with an open circuit a person is asked. A
    compensation is tried whatever the circuit says."""
    state, name = run.state, command.step
    call, step = command.call.call, state.steps[name]
    if not step.is_unsettled:
        expired = find_expired_evidence(state, run.config, call, answer.at)
        if expired is not None:
            return _refused(command, answer, "evidence_expired", f"the evidence {expired} has expired")
        if answer.role_lost:
            return _refused(command, answer, ROLE_LOST, answer.role_lost)
    if answer.circuit != "OPEN" or (
        step.compensates and run.config.ctx.goes_by(Behaviour.COMPENSATIONS_PASS_CIRCUITS)
    ):
        return None
    if step.is_unsettled:
        return open_gate(state, Acting(run).ask_whether(name, step), answer.at)
    return _refused(command, answer, "circuit_open", f"the circuit of {call.tool.name} is open")


def _refused(command: c.Dispatch, answer: Ready, code: str, reason: str) -> e.StepRefused:
    return e.StepRefused(at=answer.at, step=command.step, code=code, reason=reason)


def _intent(run: Run, command: c.Dispatch, answer: Ready) -> e.Intent:
    """Return the INTENT of a call, with its reservation, the amounts held back for its compensation, and its
    deadline."""
    state, config, plan = run.state, run.config, run.followed
    call, is_undo = command.call.call, bool(state.steps[command.step].compensates)
    tool = call.tool
    wall_clock, left = config.limits.get("wall_clock_ms"), tool.timeout_ms
    if (most := run.limit_for("executor").timeout_ms) and most < left:
        left = most
    if wall_clock is not None and not is_undo:
        left = min(left, max(0, wall_clock - state.used.wall_clock))
    intent = e.Intent(
        at=answer.at,
        step=command.step,
        tool=tool.name,
        params=command.params,
        key=command.key,
        attempt=command.attempt,
        occurrence=command.occurrence,
        deadline=answer.at + left,
        epoch=answer.epoch,
        breaker=answer.circuit,
        call=command.call.hash,
        compensation=command.compensation,
        marks=command.call.marks,
    )
    # Nothing is held back for a compensation.
    reserved = (
        budget.reservation_of(call, budget.NOTHING) if is_undo else plan.reservation_of(call, command.step)
    )
    return msgspec.structs.replace(intent, **reserved) if reserved else intent


def take_note(run: Run, command: c.Note, answer: Now) -> Made:
    """Return a note: its resolved parameters are its result."""
    name, at = command.step, answer.at
    attempt = run.state.steps[name].attempt + 1
    key = f"note:{name}:{attempt}"
    return made(
        e.Intent(at=at, step=name, tool="", params={}, key=key, attempt=attempt),
        e.Complete(at=at, step=name, attempt=attempt, value=command.params),
    )


def skip(run: Run, command: c.Skip, answer: Now) -> Made:
    """Return the event of a step that is skipped."""
    del run
    return made(e.StepSkipped(at=answer.at, step=command.step, reason=command.reason))


def refuse(run: Run, command: c.Fault, answer: Now) -> Made:
    """Return the event of a step that must not be called."""
    del run
    return made(e.StepRefused(at=answer.at, step=command.step, code=command.code, reason=command.reason))


# --- after a call ---


def end_call(run: Run, command: c.Await, answer: CallEnded) -> Made:
    """Return how a call ended."""
    ended = answer.ended
    if ended is None:
        return made()
    if isinstance(ended, Done):
        return _complete(run, command.step, ended, answer)
    aborted = partial(
        e.Abort,
        at=answer.at,
        step=command.step,
        attempt=command.attempt,
        error=ended.error,
        code=ended.code,
        latency=ended.latency_ms,
    )
    if isinstance(ended, Unknown):
        return made(aborted(outcome="unknown", lane=ended.lane))
    return made(
        aborted(
            outcome="not_done",
            retriable=ended.is_retriable,
            retry_after=ended.retry_after_ms,
            attempt_only=ended.is_attempt_only,
        )
    )


def _complete(run: Run, name: str, ended: Done, answer: CallEnded, *, is_reconciled: bool = False) -> Made:
    """Return the event of a call that happened; its reservation is spent. A large result is stored beside the event."""
    state = run.state
    step = state.steps[name]
    declared: list[str] = state.plan.get("declared_outputs", []) if answer.blob else []
    members = as_object(ended.value) or () if declared else ()
    complete = e.Complete(
        at=answer.at,
        step=name,
        attempt=step.attempt,
        value=None if answer.blob else ended.value,
        blob=answer.blob,
        carries=tuple(output for output in declared if output in members) if declared else (),
        error=ended.error,
        latency=ended.latency_ms,
        reconciled=is_reconciled,
    )
    if taken := envelope_fields(ended.value) if step.is_lane else budget.amounts_of(step):
        complete = msgspec.structs.replace(complete, **taken)
    return Made((complete,), (answer.data,) if answer.blob else ())


def settle(run: Run, command: c.Settle, answer: CallEnded) -> Made:
    """Return how a call of unknown outcome is settled: by its tool's declaration, or by the result of its look-up."""
    state, name, at = run.state, command.step, answer.at
    call, step = run.followed.calls[name], state.steps[name]
    settled = partial(e.Settled, at=at, step=name, attempt=step.attempt)
    wait = partial(_not_before, state, at, answer.draw)
    # In a run that is ending nothing is called again, and what leaves no effect need not be known.
    is_over = state.phase is Phase.FAIL and not step.compensates
    if step.code == LANE_WAITING and isinstance(answer.ended, Done):
        return _complete(run, name, answer.ended, answer, is_reconciled=True)
    if not call.tool.reconciles:
        return made(
            settled(
                how="absent" if is_over else "run_again",
                by="idempotent" if call.tool.idempotent else "pure",
                not_before=wait(step.attempt - 1) if step.attempt > 1 else wait(None),
            )
        )
    due = step.since + call.tool.settle_after_ms
    settled = partial(settled, by="reconcile")
    match answer.ended:
        case Done() as found:
            return _complete(run, name, found, answer, is_reconciled=True)
        case NotHappened() if at >= due:
            # A stopped process is not the tool's fault: repeating the interrupted call does not count as a retry.
            is_cut_off = step.code in CUT_OFF
            absent = settled(how="absent", not_before=wait(step.retries))
            if is_cut_off or has_retries(state, run.config, step) or is_over:
                return made(absent)
            reason = f"{call.tool.name} did not happen, and has no retries left"
            return made(absent, e.StepRefused(at=at, step=name, code="retries_exhausted", reason=reason))
        case NotHappened():
            return made(settled(how="ask_again", not_before=due))
        case Unknown() as found:
            return made(settled(how="ask_again", not_before=wait(step.asked), reason=found.error))
        case None:
            return made()


def draws_delay(run: Run, command: c.Judge | c.Settle, answer: CallEnded | None = None) -> bool:
    """Return whether resolving a command takes a random draw: for a retry, or for looking a call up again."""
    step = run.state.steps[command.step]
    if isinstance(command, c.Judge):
        return step.status != "done" and can_retry(run.state, run.config, step)
    call = run.followed.calls[command.step]
    if answer is None:
        return not call.tool.reconciles and step.attempt > 1
    is_absent = isinstance(answer.ended, NotHappened) and answer.at >= step.since + call.tool.settle_after_ms
    return is_absent or isinstance(answer.ended, Unknown)


_LEAST, _MOST = (lambda: 0.0), (lambda: 1.0)


def _not_before(
    state: State, at: int, draw: Draw, retry: int | None, *, at_least: int = 0, earliest: int | None = None
) -> int:
    """Return when a call may be tried again: after a jittered delay, or at once where `retry` is None.

    A recorded time counts if it lies within what could have been drawn.
    """
    bounds = [0 if retry is None else delay_ms(Backoff(), retry, bound) for bound in (_LEAST, _MOST)]
    low, high = (max(bound, at_least) for bound in bounds)
    if draw.not_before is not None:
        first = (state.at if earliest is None else earliest) + low
        return draw.not_before if first <= draw.not_before <= at + high else at + low
    if retry is None:
        return at
    return at + max(delay_ms(Backoff(), retry, lambda: draw.fraction), at_least)


# --- the critic ---


def judge(run: Run, command: c.Judge, answer: Drawn) -> Made:
    """Return the critic's verdict on a step, and the events that follow immediately."""
    state, config, name, at = run.state, run.config, command.step, answer.at
    step = state.steps[name]
    is_undo = bool(step.compensates)
    is_stuck = is_looping(run, name)
    if step.status == "done" and not is_stuck:
        is_deciding = bool(run.followed.plan.decision_checkpoints)
        taken = take_decisions(run, name, at, replan_or_escalate(state, config)) if is_deciding else ()
        lacking = next((each for each in taken if each.outcome != "accept"), None)
        if lacking is None:
            return Made((*taken, e.StepJudged(at=at, step=name, attempt=step.attempt, outcome="accept")))
        reason = f"decision {lacking.decision} cannot be taken after step {name}: {lacking.reason}"
        judgement = e.StepJudged(
            at=at, step=name, attempt=step.attempt, outcome=lacking.outcome, reason=reason
        )
        return Made((*taken, judgement))
    judged = partial(e.StepJudged, at=at, step=name, attempt=step.attempt)
    if is_stuck:
        reason = f"the same call brought the same result {step.repeated} times, the last time at step {name}"
        tripped = e.LoopGuardTripped(at=at, step=name, reason=reason, count=step.repeated)
        return made(tripped, judged(outcome=replan_or_escalate(state, config), reason=reason))
    skipped = e.StepSkipped(at=at, step=name, reason="optional_failed")
    is_retriable = can_retry(state, config, step)
    if state.is_stepwise and step.code not in _FOR_PEOPLE and not is_retriable:
        reason = f"it failed, and the agent is told: {step.error}"
        return made(judged(outcome="accept", reason=reason), skipped)
    if is_retriable:
        later = _not_before(state, at, answer.draw, step.retries, at_least=step.retry_after, earliest=at)
        retry = e.RetryScheduled(at=at, step=name, attempt=step.attempt, not_before=later)
        return made(judged(outcome="retry", reason=step.error), retry)
    # What a person wants changed is planned again, however little the plan needs it.
    is_optional = run.plan is not None and run.plan.steps[name].optional and step.code != MODIFIED
    if is_optional and (step.outcome != "done" or is_undo):
        return made(judged(outcome="accept", reason=f"optional, and failed: {step.error}"), skipped)
    outcome, reason = _failure(state, config, name, step)
    return made(judged(outcome=outcome, reason=reason))


def _failure(state: State, config: RunConfig, name: str, step: StepState) -> tuple[str, str]:
    """Return the critic's verdict on a step that failed permanently, and the reason."""
    if state.change is not None and state.change.step == name:
        places = ", ".join(each.place.removeprefix("/") for each in state.change.values)
        return "replan", f"{state.change.by} sets {places} ({step.error})"
    result = ToolResult(
        step_id=name,
        outcome=Outcome.DONE if step.outcome == "done" else Outcome.NOT_DONE,
        error=step.error or "it failed",
        error_code=step.code or None,
    )
    verdict = judge_step(frame_of(state, config), result, retries_left=0)
    # Accepted outputs belong to the plan that brought them: no other plan delivers them.
    is_final = state.accepted is not None and verdict.outcome == "replan"
    outcome = "escalate" if step.code in _FOR_PEOPLE or is_final else verdict.outcome
    is_asked_for = step.code == MODIFIED
    return outcome, f"a person asks for a change: {step.error}" if is_asked_for else verdict.reasons[0]


def replan_or_escalate(state: State, config: RunConfig) -> str:
    """Return `replan` for a planner's plan while re-plans last, else `escalate`."""
    is_ours = state.plan_origin == "planner" and state.accepted is None
    return "replan" if is_ours and state.used.replans < config.ctx.run_budget.max_replans else "escalate"


def ask_model(run: Run, command: c.AskModel, answer: Now) -> Made:
    """Return the event before a model call, with its reservation and its deadline."""
    return made(
        copy_fields(
            e.ModelAsked,
            command,
            at=answer.at,
            call=run.state.asked + 1,
            purpose=storable(command.purpose),
            model=storable(command.model),
            deadline=answer.at + command.timeout_ms,
        ),
        blobs=(command.question,) if command.question else (),
    )


def end_model_call(run: Run, command: c.AwaitModel, answer: ModelReply) -> Made:
    """Return the event after a model call, which settles its reservation."""
    del run  # negative numbers would add to the budget, so they count as zero
    return made(
        e.ModelAnswered(
            at=answer.at,
            call=command.call,
            answer="" if answer.blob else storable(answer.text),
            blob=answer.blob,
            model=storable(answer.model),
            tokens_in=max(0, answer.tokens_in),
            tokens_out=max(0, answer.tokens_out),
            cost=max(0, answer.cost),
            cut=answer.cut,
            logprob=answer.logprob if answer.logprob is not None and isfinite(answer.logprob) else None,
            latency=max(0, answer.at - command.began),
            error=storable(answer.error),
            code=answer.code,
        ),
        blobs=(answer.data,) if answer.blob else (),
    )


def take_decisions(run: Run, name: str, at: int, otherwise: str) -> tuple[e.DecisionTaken, ...]:
    """Return the decisions that the plan takes after a completed step.

    A decision rests on the evidence that the step and those before it pinned, as far as they ran and it has not
    expired. Where a class that the decision requires is missing, its outcome is `otherwise`.
    """
    return tuple(_taken(run, name, at, otherwise)) if _is_due(run.state, run.config) else ()


def _is_due(state: State, config: RunConfig) -> bool:
    return state.phase is Phase.ACT and config.ctx.goes_by(Behaviour.DECISIONS_TAKEN)


def _taken(run: Run, name: str, at: int, otherwise: str) -> Iterator[e.DecisionTaken]:
    plan, config = run.followed.plan, run.config
    points = [point for point in plan.decision_checkpoints if point.after_step == name]
    if not points:
        return
    review = config.review(plan)
    step = review.position[name]
    ran = [
        index
        for index in (*sorted(review.graph.ancestors(step)), step)
        if run.state.steps[plan.steps[index].id].status == "done"
    ]
    pinned = dict.fromkeys(ref for index in ran for ref in review.pinned[index])
    refs = tuple(ref for ref in pinned if config.expiry.get(ref, at + 1) > at)
    for point in points:
        decision = find_decision(review, point)
        missing = () if decision is None else missing_evidence(review, decision, refs)
        yield e.DecisionTaken(
            at=at,
            decision=point.decision_id,
            step=name,
            outcome=otherwise if missing else "accept",
            evidence=refs,
            reason=f"evidence is missing or has expired: {', '.join(missing)}" if missing else "",
        )

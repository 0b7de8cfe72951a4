"""What each command comes to: the pure part of carrying it out, and the planner's turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from tercet.contracts.canonical import hash_bytes
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.invocation import Backoff
from tercet.contracts.plan import Plan
from tercet.contracts.run import Outcome, Run, ToolResult
from tercet.contracts.verdict import CriticReport, RefusalKind, RunOutcome, Verdict
from tercet.critic.consolidate import consolidate
from tercet.critic.finalize import finalize
from tercet.critic.judge import judge, judge_step
from tercet.critic.reading import Reading
from tercet.critic.score import measure, print_envelope, score
from tercet.critic.verify import verify
from tercet.executor.backoff import delay_ms
from tercet.executor.identity import call_hash
from tercet.journal import events as e
from tercet.policy.resolution import ResolutionError, resolve
from tercet.runtime import commands as c
from tercet.runtime import transcript
from tercet.runtime.deciding import can_retry, is_looping
from tercet.runtime.plans import read_plan
from tercet.runtime.records import take_apart
from tercet.runtime.results import Results
from tercet.runtime.setting import Course, Setting
from tercet.runtime.state import State


class Planner(Protocol):
    """Proposes plans; touches nothing. May raise `PlanningError` if it has none to propose."""

    name: str

    async def propose(self, setting: Setting, feedback: tuple[str, ...]) -> Plan:
        """A plan for the request of this setting, knowing why the ones before were refused."""
        ...


class Work:
    """How commands are carried out; `planner` is absent where the caller brought the plan."""

    def __init__(self, planner: Planner | None, plan: Plan | None) -> None:
        self._planner = planner
        self._plan = plan
        self._scored: tuple[int, Run | None] = (0, None)
        """The run that was scored, and where."""
        self._reading: Reading | None = None
        """What the last review read out of its plan; the score of that plan reads it again."""

    moment = staticmethod(transcript.moment)

    async def propose(self, state: State, setting: Setting, now: int) -> e.PlanProposed:
        """The caller's plan, or the planner's next one."""
        if self._plan is not None:
            plan, origin, name = self._plan, "caller", ""
        elif self._planner is not None:
            plan, origin, name = (
                await self._planner.propose(setting, state.feedback),
                "planner",
                self._planner.name,
            )
        else:
            plan, origin, name = read_plan(state.plan), state.plan_origin, ""
        dumped = plan.model_dump(mode="json", exclude_defaults=True)
        return e.PlanProposed(at=now, plan=dumped, hash=plan.hash, origin=origin, planner=name)

    def retrieve(self, plan: Plan, setting: Setting, now: int) -> e.EvidenceRetrieved:
        """The evidence that the plan pins, each with the hash of its content."""
        known = setting.compiled.evidence
        pinned = {ref: known[ref].hash for step in plan.steps for ref in step.evidence_refs if ref in known}
        return e.EvidenceRetrieved(at=now, evidence=pinned)

    def review(self, state: State, plan: Plan, setting: Setting, now: int) -> e.PlanReviewed:
        """The critic's review; a plan that was refused before is rejected unread."""
        ctx = setting.ctx.model_copy(
            update={"plan_origin": state.plan_origin, "used": transcript.budget_use(state)}
        )
        if state.plan_hash in state.refused:
            verdict = Verdict(
                stage="review",
                outcome="reject",
                kind=RefusalKind.LOOP_GUARD,
                reasons=("this plan was refused before",),
                remedy="propose another plan",
            )
        else:
            self._reading = Reading(setting.compiled, plan)
            verdict = verify(ctx, setting.compiled, setting.spec, plan, reading=self._reading)
        return e.PlanReviewed(
            at=now,
            hash=state.plan_hash,
            verdict=verdict.model_dump(mode="json", exclude_defaults=True) | {"outcome": verdict.outcome},
        )

    def intent(
        self,
        state: State,
        setting: Setting,
        call: EffectiveStep,
        command: c.Dispatch,
        now: int,
        epoch: int,
        circuit: str,
    ) -> e.Intent:
        """The INTENT of a call, with what is reserved for it and when it must have ended."""
        budget = setting.ctx.run_budget.wall_clock_ms
        left = (
            call.tool.timeout_ms
            if budget is None
            else min(call.tool.timeout_ms, max(0, budget - state.used.wall_clock))
        )
        return e.Intent(
            at=now,
            step=command.step,
            tool=call.tool.name,
            params=command.params,
            key=command.key,
            attempt=command.attempt,
            occurrence=command.occurrence,
            deadline=now + left,
            epoch=epoch,
            tokens=call.step.estimated_tokens,
            cost=call.tool.cost_microcents,
            breaker=circuit,
            call=call_hash(call.tool.name, command.params),
        )

    def judge(
        self,
        state: State,
        setting: Setting,
        course: Course | None,
        name: str,
        now: int,
        draw: Callable[[], float],
    ) -> Iterator[e.Event]:
        """What the critic says of a step, and what follows at once."""
        step = state.steps[name]
        if is_looping(step):
            repeats = step.repeated
            reason = f"the same call brought the same result {repeats} times, the last time at step {name}"
            yield e.LoopGuardTripped(at=now, step=name, reason=reason, count=repeats)
            yield e.StepJudged(
                at=now, step=name, attempt=step.attempt, outcome=_again(state, setting), reason=reason
            )
            return
        if step.status == "done":
            yield e.StepJudged(at=now, step=name, attempt=step.attempt, outcome="accept")
            return
        is_optional = course is not None and course.steps[name].optional
        if can_retry(state, setting, step):
            yield e.StepJudged(at=now, step=name, attempt=step.attempt, outcome="retry", reason=step.error)
            yield e.RetryScheduled(
                at=now,
                step=name,
                attempt=step.attempt,
                not_before=now + delay_ms(Backoff(), step.retries, draw),
            )
        elif is_optional and step.outcome != "done":
            yield e.StepJudged(
                at=now,
                step=name,
                attempt=step.attempt,
                outcome="accept",
                reason=f"optional, and failed: {step.error}",
            )
            yield e.StepSkipped(at=now, step=name, reason="optional_failed")
        else:
            outcome = Outcome.DONE if step.outcome == "done" else Outcome.NOT_DONE
            result = ToolResult(
                step_id=name, outcome=outcome, error=step.error or "it failed", error_code=step.code or None
            )
            ctx = setting.ctx.model_copy(
                update={"plan_origin": state.plan_origin, "used": transcript.budget_use(state)}
            )
            verdict = judge_step(ctx, result, retries_left=0)
            is_short = step.code == "budget_exceeded"
            yield e.StepJudged(
                at=now,
                step=name,
                attempt=step.attempt,
                outcome="escalate" if is_short else verdict.outcome,
                reason=verdict.reasons[0],
            )

    def ask(self, state: State, command: c.Ask, now: int) -> e.GateOpened:
        """The gate that a command opens."""
        gate = f"{state.start['session']}.g{state.opened + 1}"
        return e.GateOpened(
            at=now,
            gate=gate,
            kind=command.kind,
            step=command.step,
            names=command.names,
            digest=command.digest,
            shown=command.shown,
        )

    def finish(
        self, state: State, setting: Setting, course: Course | None, blobs: Mapping[str, Any], now: int
    ) -> e.OutputsProduced:
        """The outputs of a plan whose steps have all ended."""
        results = Results(state, setting.compiled.input(), blobs)
        bound = course.plan.outputs if course is not None else {}
        outputs: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for name, value in bound.items():
            try:
                outputs[name] = resolve(value, results, setting.evidence)
            except ResolutionError as error:
                missing[name] = error.message
        for name in course.plan.declared_outputs if course is not None else ():
            if name in outputs:
                continue
            if name in state.named:
                outputs[name] = state.named[name]
            elif name in state.named_in:
                outputs[name] = blobs[state.named_in[name]][name]
            else:
                missing[name] = "no result carried it"
        return e.OutputsProduced(at=now, outputs=outputs, missing=missing)

    def score(
        self,
        state: State,
        setting: Setting,
        course: Course | None,
        events: Sequence[e.Event],
        blobs: Mapping[str, Any],
        now: int,
    ) -> e.RunReported:
        """The critic's scorecard, report and verdict on the whole run."""
        if course is None:
            raise ValueError("a run without a plan cannot be scored")
        run = transcript.run_of(setting, course, state, events, blobs)
        self._scored = (state.position, run)
        scored = score(run, reading=self._reading)
        report = consolidate(
            trace_id=state.start["trace"],
            decision_key=setting.spec.id,
            verify=Verdict.model_validate(state.verdict),
            score=scored,
            decided_at=transcript.timestamp(now),
        )
        ctx = setting.ctx.model_copy(update={"plan_origin": state.plan_origin, "used": run.used})
        verdict = judge(ctx, setting.spec, report, measure(run))
        return e.RunReported(
            at=now,
            report=report.model_dump(mode="json"),
            outcome=verdict.outcome,
            reasons=verdict.reasons,
            envelope=print_envelope(run, scored, cast("RunOutcome", verdict.outcome), state.trips),
        )

    def end(
        self,
        state: State,
        setting: Setting,
        course: Course | None,
        events: Sequence[e.Event],
        blobs: Mapping[str, Any],
        status: str,
        now: int,
    ) -> tuple[e.SessionEnded, bytes]:
        """The end of a session, and the bytes that are kept of its record."""
        plan = course.plan if course is not None else Plan(steps=())
        verdict = Verdict.model_validate(state.verdict) if state.verdict else None
        report = (
            CriticReport.model_validate(state.report)
            if state.report
            else _refusal(state, setting, verdict, now)
        )
        run = (
            self._whole(state, setting, course, events, has_blobs=bool(blobs)) if course is not None else None
        )
        record = finalize(
            setting.ctx,
            setting.compiled,
            setting.spec,
            plan,
            report,
            verdicts=(verdict,) if verdict else (),
            run=run,
        )
        whole, kept = take_apart(record)
        ended = e.SessionEnded(
            at=now,
            status=status,
            reason=state.reason or report.rationale,
            record=whole,
            kept=hash_bytes(kept),
            outputs=state.outputs,
        )
        return ended, kept

    def _whole(
        self,
        state: State,
        setting: Setting,
        course: Course,
        events: Sequence[e.Event],
        *,
        has_blobs: bool,
    ) -> Run:
        """The run with all that was done in it, and large values by their digest: a record shall not depend on which
        of them a process has at hand. What was scored is the same if nothing but the score came after it."""
        position, scored = self._scored
        is_same = position == state.position - 1 and state.revision == 1 and not has_blobs
        if scored is not None and is_same:
            return scored
        return transcript.run_of(setting, course, state, events, {}, is_whole=True)


def _refusal(state: State, setting: Setting, verdict: Verdict | None, now: int) -> CriticReport:
    reviewed = verdict or Verdict(
        stage="review",
        outcome="reject",
        kind=RefusalKind.VIOLATES_DECISION_SPEC,
        reasons=(state.reason or "there was no plan",),
    )
    return consolidate(
        trace_id=state.start["trace"],
        decision_key=setting.spec.id,
        verify=reviewed,
        decided_at=transcript.timestamp(now),
    )


def _again(state: State, setting: Setting) -> str:
    is_ours = state.plan_origin == "planner"
    return "replan" if is_ours and state.used.replans < setting.ctx.run_budget.max_replans else "escalate"

"""What each command comes to: the pure part of carrying it out, and the planner's turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from tercet.contracts.behaviour import Behaviour
from tercet.contracts.budget import BudgetUse
from tercet.contracts.canonical import canonical, digest, hash_bytes
from tercet.contracts.context import RunContext
from tercet.contracts.errors import UsageError
from tercet.contracts.exit import ExitDecision
from tercet.contracts.gate import HandOff
from tercet.contracts.invocation import Backoff
from tercet.contracts.plain import storable
from tercet.contracts.plan import Plan
from tercet.contracts.question import ModelFault
from tercet.contracts.record import MemoryProposal
from tercet.contracts.repair import Escalation
from tercet.contracts.run import Outcome, Run, ToolResult
from tercet.contracts.session import PLANNER_TIMEOUT_MS, RoleLimit, RoleName
from tercet.contracts.shape import JsonObject
from tercet.contracts.verdict import KIND_OF, Code, CriticReport, Refusal, RefusalKind, RunOutcome, Verdict
from tercet.core import attempts as story
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core import memories, transcript
from tercet.core.approval import accepting, budget_left, diagnosis_of, people_of
from tercet.core.backoff import delay_ms
from tercet.core.config import ExecutionPlan, RunConfig
from tercet.core.decide import can_retry, is_looping
from tercet.core.exposure import untrusted_data_read
from tercet.core.fold.base import ANSWERS, MODIFIED, ROLE_LOST
from tercet.core.fold.session import ESCALATED
from tercet.core.identity import call_hash
from tercet.core.messages import TEMPLATE
from tercet.core.modifications import changed_plan
from tercet.core.outputs.judging import OutputReview, final_exit
from tercet.core.outputs.rounds import better_round, restored, told_round
from tercet.core.plans import read_plan
from tercet.core.results import Results
from tercet.core.same_calls import marks_of
from tercet.core.state import UNDO, Change, State
from tercet.critic.consolidate import consolidate
from tercet.critic.finalize import finalize
from tercet.critic.flow import trusted_results
from tercet.critic.judge import judge, judge_step, review_outcome
from tercet.critic.pluggable.outcome import StepOutcome, step_outcome
from tercet.critic.reading import Reading
from tercet.critic.review import Review
from tercet.critic.score import measure, print_envelope, score
from tercet.critic.verify import verify
from tercet.engine.evidence.retrieval import carried_over
from tercet.engine.interruption import Interrupted, Interruptible, unless_interrupted
from tercet.engine.models.planner import NO_STEPS_LEFT, NO_TOOLS
from tercet.engine.models.planners import TaskPlanner
from tercet.engine.models.session import OVERDRAWN, Bench, Inquirer, ModelSession
from tercet.engine.models.templates import TemplatePlanner
from tercet.engine.records import take_apart
from tercet.engine.turns import Reflection, Sofar, Stepper, last_turn, turns_of
from tercet.journal.errors import JournalError
from tercet.models.model import Model
from tercet.planner.prompt import PROMPT_TOO_LONG
from tercet.planner.template import PlanningError
from tercet.policy.call_params import canonical_params
from tercet.policy.resolution import ResolutionError, Resolver

_TOO_LATE = "planner_timeout"
PLANNER_MISSING = "planner_missing"
"""The code of a run that must be planned anew, by a planner that is not there."""


class Planner(Protocol):
    """Proposes plans; touches nothing. May raise `PlanningError` if it has none to propose."""

    name: str

    async def propose(self, setting: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """A plan for the request of this setting, knowing why the ones before were refused."""
        ...


@runtime_checkable
class Replanner(Protocol):
    """A planner that wants to know which steps plans were given up for, one entry for each plan of this run."""

    async def replan(
        self, setting: RunConfig, feedback: tuple[str, ...], setbacks: tuple[tuple[str, ...], ...]
    ) -> Plan:
        """Another plan, in which what the setbacks do not concern stays in the same words."""
        ...


async def ask_planner(planner: Planner, setting: RunConfig, state: State) -> Plan:
    """The next plan of a planner that asks nobody; raises `PlanningError`."""
    if state.setbacks and isinstance(planner, Replanner):
        return await planner.replan(setting, state.feedback, state.setbacks)
    return await planner.propose(setting, state.feedback)


AnyPlanner: TypeAlias = Planner | Inquirer
"""Who proposes plans: at once, or by asking language models."""


class _Scored(NamedTuple):
    """What a score was made of and came to, and where: the record reads it again if nothing came after it."""

    position: int
    run: Run
    verdict: Verdict
    report: CriticReport
    recorded: JsonObject
    """The report in the words of its event. Where a state holds others, what it holds counts."""


class Work:
    """How commands are carried out; `planner` is absent where the caller brought the plan."""

    def __init__(
        self,
        planner: AnyPlanner | None,
        plan: Plan | None,
        *,
        limit_for: Callable[[RoleName], RoleLimit],
    ) -> None:
        self._planner = planner
        self._plan = plan
        self.limit_for = limit_for
        self.has_begun = False
        """Whether an agent was brought to where its run stands."""
        self._scored: _Scored | None = None
        """What was made of the run when it was last scored."""
        self._reading: Reading | None = None
        """What the last review read out of its plan; the score of that plan reads it again."""

    # Nobody is asked for a protocol where nobody is there: that is slow, and a caller's plan comes without a planner.

    @property
    def is_fallible(self) -> bool:
        """Whether the planner may fail where another try succeeds, as models and agents do."""
        return self._planner is not None and isinstance(self._planner, Inquirer | Stepper)

    @property
    def is_stepwise(self) -> bool:
        """Whether an agent decides one turn at a time."""
        return self._planner is not None and isinstance(self._planner, Stepper)

    async def propose(
        self, bench: Bench, now: int, interview: Callable[[Sequence[Model]], ModelSession]
    ) -> e.PlanProposed:
        """The caller's plan, or the planner's next one."""
        state = bench.state
        if state.change is not None:
            return self.changed(state, state.change, bench.setting, now)
        if self._plan is not None:
            return self.given(self._plan, now)
        if self._planner is not None:
            proposed = await self._proposed(self._planner, bench, interview)
            return self.planned(proposed, state, bench.setting, now)
        plan = read_plan(state.plan)
        return e.PlanProposed(at=now, plan=_dumped(plan), hash=plan.hash, origin=state.plan_origin)

    @staticmethod
    def changed(state: State, change: Change, setting: RunConfig, now: int) -> e.PlanProposed:
        """The plan with the values that an approver has set; or the one before, if the critic refused them."""
        if change.refusal:
            before = read_plan(change.plan)
            return e.PlanProposed(at=now, plan=_dumped(before), hash=before.hash, origin=state.plan_origin)
        tool = setting.surface.get(change.values[0].tool)
        plan = changed_plan(read_plan(state.plan), change, tool)
        return e.PlanProposed(
            at=now, plan=_dumped(plan), hash=plan.hash, origin=state.plan_origin, changed_by=change.by
        )

    def planned(self, proposed: Plan, state: State, setting: RunConfig, now: int) -> e.PlanProposed:
        """The plan that the planner came to."""
        plan, planner = carried_over(proposed, state.plan), self._planner
        is_packs_own = self._is_packs_own(state)
        return e.PlanProposed(
            at=now,
            plan=_dumped(plan),
            hash=plan.hash,
            origin="planner",
            planner="" if planner is None else planner.name or type(planner).__name__,
            decision=planner.decision if isinstance(planner, Stepper) else {},
            by_pack=is_packs_own,
            exposure="" if is_packs_own else untrusted_data_read(state, setting),
        )

    def _is_packs_own(self, state: State) -> bool:
        """Whether the session's own pack plans, by its templates or its methods: whoever has that pack can plan the same."""
        planner = self._planner
        # Exactly these: a subclass, or a planner with the same name, may propose anything.
        is_pure = type(planner) in (TemplatePlanner, TaskPlanner)
        return is_pure and getattr(planner, "pack_hash", "") == state.start.pack_hash

    @staticmethod
    def given(plan: Plan, now: int) -> e.PlanProposed:
        """The plan that a caller brought."""
        return e.PlanProposed(at=now, plan=_dumped(plan), hash=plan.hash, origin="caller")

    async def _proposed(
        self, planner: AnyPlanner, bench: Bench, interview: Callable[[Sequence[Model]], ModelSession]
    ) -> Plan:
        setting, state = bench.setting, bench.state
        if isinstance(planner, Inquirer):
            return await interview(planner.models).conduct(planner.inquire(setting, state))
        limit = self.limit_for("planner").timeout_ms or PLANNER_TIMEOUT_MS
        try:
            async with asyncio.timeout(limit / 1000):
                return await unless_interrupted(bench, ask_planner(planner, setting, state))
        except TimeoutError as error:
            raise PlanningError(
                f"the planner {planner.name} took longer than {limit:,} ms",
                code=_TOO_LATE,
                remedy="raise limits.planner.timeout_ms in the pack, or take another planner",
            ) from error

    def failed(self, state: State, setting: RunConfig, error: Exception, now: int) -> e.PlanningFailed:
        """What follows where the planner has no plan: one that may fail tries again while re-plans last, and then, or where
        trying again would not help, a person takes over."""
        if isinstance(error, PlanningError | ModelFault):
            reason, code = str(error), error.code
        else:
            reason, code = f"the planner raised {type(error).__name__}: {error}", "planner_raised"
        outcome: Literal["fail", "replan", "escalate"] = "fail"
        if self.is_fallible:
            has_tries = state.used.replans < setting.ctx.run_budget.max_replans
            outcome = "replan" if has_tries and code not in _HOPELESS else "escalate"
        follows = isinstance(error, PlanningError) and code != _TOO_LATE and self._is_packs_own(state)
        return e.PlanningFailed(at=now, reason=storable(reason), code=code, outcome=outcome, by_pack=follows)

    # --- turns of an agent ---

    async def begin(self, setting: RunConfig, events: Sequence[e.Event], blobs: Mapping[str, Any]) -> None:
        """Bring the agent to where its turns lead, once in this process."""
        if isinstance(self._planner, Stepper) and not self.has_begun:
            self.has_begun = True
            await self._planner.begin(setting, turns_of(events, blobs))

    async def reflect(
        self,
        state: State,
        setting: RunConfig,
        course: ExecutionPlan,
        events: Sequence[e.Event],
        blobs: Mapping[str, Any],
        now: int,
        *,
        session: Interruptible | None = None,
    ) -> e.TurnJudged:
        """What the agent and its critics make of the turn that has ended; raises `UsageError` if nobody has brought it, and
        `Interrupted`. Without a session nobody interrupts them, and they have all the time they want."""
        if not isinstance(self._planner, Stepper):
            raise UsageError(
                f"session {state.start.session} was started with {state.start.planner}, which is not here",
                code=PLANNER_MISSING,
                remedy="resume it with the Engine of that agent",
            )
        is_strict = setting.ctx.goes_by(Behaviour.STRICT_CALLS)
        turn = last_turn(events, blobs, state.turns + 1, is_strict=is_strict)
        sofar = Sofar(
            steps=turn.number,
            elapsed_ms=state.used.wall_clock,
            tokens=state.used.tokens,
            on_retry=_on_retry(state, setting, course),
        )
        said = await self._reflected(session, self._planner.reflect(turn, sofar))
        done = {name for name, step in state.steps.items() if step.status == "done"}
        reviewed = Review(setting.ctx, setting.compiled, setting.spec, turn.plan)
        return e.TurnJudged(
            at=now,
            turn=turn.number,
            action=said.action,
            reason=storable(said.reason),
            critic=storable(said.critic),
            score=said.score,
            trace=said.trace,
            stop=said.stop,
            prompt=None if said.prompt is None else storable(said.prompt),
            patch=said.patch,
            metadata=said.metadata,
            left_out=said.left_out,
            trusted=tuple(name for name in trusted_results(reviewed) if name in done),
        )

    async def _reflected(
        self, session: Interruptible | None, reflecting: Awaitable[Reflection]
    ) -> Reflection:
        """What an agent says: it is somebody else's code, and its failure a person's matter."""
        try:
            return await (reflecting if session is None else self._in_time(session, reflecting))
        except (Interrupted, JournalError):
            raise
        except Exception as error:  # noqa: BLE001 - see above
            return _broken(f"the agent raised {type(error).__name__}: {error}")

    async def _in_time(self, session: Interruptible, reflecting: Awaitable[Reflection]) -> Reflection:
        limit = self.limit_for("critic").timeout_ms
        patience = asyncio.timeout(None if limit is None else limit / 1000)
        try:
            async with patience:
                return await unless_interrupted(session, reflecting)
        except TimeoutError:
            if not patience.expired():
                raise
            return _broken(f"the agent and its critics took longer than {limit:,} ms")

    def review(
        self, state: State, plan: Plan, setting: RunConfig, now: int, changes: tuple[str, ...] = ()
    ) -> e.PlanReviewed:
        """The critic's review; a plan that was refused before is rejected unread.

        `changes` are what the plan's tools reach outside and nobody has accepted: no plan can mend that.
        """
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
            verdict = verify(
                _review_frame(state, setting), setting.compiled, setting.spec, plan, reading=self._reading
            )
            if _may_decide_again(state, setting, verdict):
                verdict = verdict.model_copy(update={"outcome": "replan"})
            verdict = _changed(changes) if changes and verdict.ok else verdict
        return e.PlanReviewed(
            at=now,
            hash=state.plan_hash,
            verdict=verdict.model_dump(mode="json", exclude_defaults=True) | {"outcome": verdict.outcome},
            escalates=self._escalates(state, setting, verdict),
        )

    def _escalates(self, state: State, setting: RunConfig, verdict: Verdict) -> bool:
        """Whether a plan is rejected only because its planner has no try left: then a person decides."""
        if verdict.outcome != "reject" or not state.start.fallible or verdict.kind is None:
            return False
        if _answers_refusals(state, setting) and verdict.code is not Code.TOOL_DEFINITION_CHANGED:
            return True
        fresh = _frame(state, setting).model_copy(update={"used": BudgetUse()})
        has_tries = setting.ctx.run_budget.max_replans > 0
        code = verdict.code or Code.DUPLICATE_ACTION
        return not has_tries or review_outcome(fresh, verdict.kind, code) == "replan"

    def intent(
        self,
        state: State,
        setting: RunConfig,
        course: ExecutionPlan,
        command: c.Dispatch,
        now: int,
        epoch: int,
        circuit: str,
    ) -> e.Intent:
        """The INTENT of a call, with what is reserved for it and kept back for the way back, and its deadline."""
        call = course.calls[command.step]
        back_calls, back_cost = (0, 0) if command.step.startswith(UNDO) else course.way_back(call)
        budget = setting.ctx.run_budget.wall_clock_ms
        longest = self.limit_for("executor").timeout_ms or call.tool.timeout_ms
        left = min(longest, call.tool.timeout_ms)
        if budget is not None and not command.step.startswith(UNDO):
            left = min(left, max(0, budget - state.used.wall_clock))
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
            call=call_hash(
                call.tool.name,
                canonical_params(call.tool, command.params)
                if setting.ctx.goes_by(Behaviour.STRICT_CALLS)
                else command.params,
            ),
            hold_calls=back_calls,
            hold_cost=back_cost,
            compensation=command.compensation,
            marks=marks_of(setting, call, command.params),
        )

    def judge(
        self,
        state: State,
        setting: RunConfig,
        course: ExecutionPlan | None,
        name: str,
        now: int,
        draw: Callable[[], float],
    ) -> Iterator[e.Event]:
        """What the critic says of a step, and what follows at once."""
        step = state.steps[name]
        is_undo = name.startswith(UNDO)
        # What a person wants changed is planned anew, however little the plan needs it.
        is_optional = course is not None and course.steps[name].optional and step.code != MODIFIED
        judged = partial(e.StepJudged, at=now, step=name, attempt=step.attempt)
        if is_looping(step) and not is_undo:
            told = (
                f"the same call brought the same result {step.repeated} times, the last time at step {name}"
            )
            yield e.LoopGuardTripped(at=now, step=name, reason=told, count=step.repeated)
            yield judged(outcome=_again(state, setting), reason=told)
        elif step.status == "done":
            yield judged(outcome="accept")
        elif state.is_stepwise and step.code not in _FOR_PEOPLE and not can_retry(state, setting, step):
            yield judged(outcome="accept", reason=f"it failed, and the agent is told: {step.error}")
            yield e.StepSkipped(at=now, step=name, reason="optional_failed")
        elif can_retry(state, setting, step):
            wait = max(delay_ms(Backoff(), step.retries, draw), step.retry_after)
            yield judged(outcome="retry", reason=step.error)
            yield e.RetryScheduled(at=now, step=name, attempt=step.attempt, not_before=now + wait)
        elif is_optional and (step.outcome != "done" or is_undo):
            yield judged(outcome="accept", reason=f"optional, and failed: {step.error}")
            yield e.StepSkipped(at=now, step=name, reason="optional_failed")
        else:
            outcome, reason = _failure(state, setting, name)
            yield judged(outcome=outcome, reason=reason)

    def ask(self, state: State, command: c.Ask, now: int) -> e.GateOpened:
        """The gate that a command opens."""
        return e.GateOpened(
            at=now,
            gate=_gate_id(state),
            kind=command.kind,
            step=command.step,
            names=command.names,
            needs=command.needs,
            digest=command.digest,
            covers=command.covers,
            shown=command.shown,
            expires=_end_of(state, now, command.ttl_ms),
            stale=command.stale,
        )

    def hand_over(
        self, state: State, setting: RunConfig, events: Sequence[e.Event], now: int
    ) -> tuple[e.GateOpened, bytes]:
        """The gate at which a person takes over, and the bytes of the packet that they are handed."""
        can_replan = state.plan_origin == "planner" and state.start.planner != TEMPLATE
        options = ANSWERS["escalation"] if can_replan else _WITHOUT_PLANNER
        reason = state.reason.removeprefix(ESCALATED)
        entries = transcript.transcript(events, {})
        packet = HandOff(
            plan=state.plan,
            transcript=tuple(entry.model_dump(mode="json", exclude_none=True) for entry in entries),
            verdicts=tuple(story.verdicts(state)),
            attempts=tuple(story.attempts(events)),
            reason=reason,
            budget_remaining=dict(budget_left(state, setting)),
            options=options,
        )
        data = canonical(packet)
        shown = {"reason": reason, "options": list(options), "packet": hash_bytes(data)}
        gate = accepting(setting)
        opened = e.GateOpened(
            at=now,
            gate=_gate_id(state),
            kind="escalation",
            step=next((name for name in state.frontier if state.steps[name].status == "failed"), ""),
            names=(gate.name,) if gate else (),
            needs={gate.name: e.Need(roles=gate.roles)} if gate else {},
            digest=hash_bytes(data),
            shown=shown,
        )
        return opened, data

    def ask_back(self, state: State, setting: RunConfig, ways: tuple[e.Undo, ...], now: int) -> e.GateOpened:
        """The gate that asks whether the effects of a run that did not succeed are to be taken back."""
        shown = [msgspec.to_builtins(way) for way in ways]
        return e.GateOpened(
            at=now,
            gate=_gate_id(state),
            kind="compensation",
            step="",
            needs=people_of(state, setting, (way.step.partition("#")[0] for way in ways)),
            digest=digest(shown),
            shown={"reason": state.reason, "undo": shown},
        )

    def finish(
        self,
        state: State,
        setting: RunConfig,
        course: ExecutionPlan | None,
        blobs: Mapping[str, Any],
        now: int,
    ) -> e.OutputsProduced:
        """The outputs of a plan whose steps have all ended."""
        results = Results(state, setting.compiled.input(), blobs)
        bound = course.plan.outputs if course is not None else {}
        outputs: dict[str, Any] = {}
        missing: dict[str, str] = {}
        is_strict = setting.ctx.goes_by(Behaviour.STRICT_CALLS)
        resolver = Resolver(results, setting.evidence, is_bounded=is_strict)
        for name, value in bound.items():
            try:
                outputs[name] = resolver.resolve(value)
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
        return e.OutputsProduced(
            at=now,
            outputs=outputs,
            missing=missing,
            memory=tuple(memories.proposed(setting, course.plan, results)) if course is not None else (),
        )

    def score(
        self,
        state: State,
        setting: RunConfig,
        course: ExecutionPlan | None,
        events: Sequence[e.Event],
        blobs: Mapping[str, Any],
        now: int,
    ) -> e.RunReported:
        """The critic's scorecard, report and verdict on the whole run."""
        if course is None:
            raise ValueError("a run without a plan cannot be scored")
        better = better_round(state, setting)
        state = restored(state, better)
        run = transcript.run_of(setting, course, state, events, blobs)
        reviewed = Verdict.model_validate(state.verdict)
        scored = score(run, reading=self._reading)
        report = consolidate(
            trace_id=state.start.trace,
            decision_key=setting.spec.id,
            verify=reviewed,
            score=scored,
            decided_at=transcript.timestamp(now),
        )
        ctx = setting.ctx.model_copy(update={"plan_origin": state.plan_origin, "used": run.used})
        is_judged = setting.spec.quality is not None
        spec = setting.spec.model_copy(update={"thresholds": ()}) if is_judged else setting.spec
        verdict = judge(ctx, spec, report, measure(run))
        outcome, reasons, ending = verdict.outcome, verdict.reasons, None
        if verdict.ok and (is_judged or spec.requires_human_approval):
            ending = final_exit(OutputReview(state=state, setting=setting, run=run, scored=scored))
            outcome, reasons = _led_to(state, setting, ending)
        if better:
            reasons = (*reasons[:1], told_round(better), *reasons[1:])
        if outcome in ("escalate", "replan", "fail") and verdict.ok:
            report = report.model_copy(update={"status": "refused_by_critic", "rationale": reasons[0]})
        recorded = report.model_dump(mode="json")
        self._scored = _Scored(state.position, run, reviewed, report, recorded)
        published = "escalate" if outcome in ("ask", "fail") else outcome
        return e.RunReported(
            at=now,
            report=recorded,
            outcome=outcome,
            reasons=reasons,
            envelope=print_envelope(run, scored, cast("RunOutcome", published), state.trips),
            exit=ending.model_dump(mode="json") if ending else {},
            restored=better,
        )

    def give_up(self, state: State, setting: RunConfig, command: c.StopExhausted, now: int) -> e.GivenUp:
        """The end of a run that has gone through as many phases as it may; the best of its outputs are left."""
        return e.GivenUp(
            at=now,
            reason=command.reason,
            iterations=state.iterations,
            restored=better_round(state, setting),
        )

    def end(
        self,
        state: State,
        setting: RunConfig,
        course: ExecutionPlan | None,
        events: Sequence[e.Event],
        blobs: Mapping[str, Any],
        status: str,
        now: int,
    ) -> tuple[e.SessionEnded, bytes]:
        """The end of a session, and the bytes that are kept of its record."""
        plan = course.plan if course is not None else Plan(steps=())
        scored = self._last_score(state)
        if scored is not None and state.report is scored.recorded:
            verdict, report = scored.verdict, scored.report
        else:
            verdict = Verdict.model_validate(state.verdict) if state.verdict else None
            report = (
                CriticReport.model_validate(state.report)
                if state.report
                else _refusal(state, setting, verdict, now)
            )
        if state.partial and report.status != "completed":
            report = report.model_copy(update={"status": "partial", "rationale": state.reason})
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
        accepted = tuple(proposal for proposal, _ in memories.remembered(state, report))
        if accepted:
            record = record.model_copy(update={"memory_proposals": accepted})
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

    def _last_score(self, state: State) -> _Scored | None:
        """The score of a run to which nothing has happened since."""
        scored = self._scored
        return scored if scored is not None and scored.position == state.position - 1 else None

    def memories(self, state: State) -> list[tuple[MemoryProposal, bool]]:
        """What a run that is being committed may remember; a result that was accepted as partial teaches nothing."""
        if not state.report or state.partial:
            return []
        return list(memories.remembered(state, CriticReport.model_validate(state.report)))

    def _whole(
        self,
        state: State,
        setting: RunConfig,
        course: ExecutionPlan,
        events: Sequence[e.Event],
        *,
        has_blobs: bool,
    ) -> Run:
        """The run with all that was done in it, and large values by their digest: a record shall not depend on which
        of them a process has at hand. What was scored is the same if nothing but the score came after it."""
        scored = self._last_score(state)
        if scored is not None and state.revision == 1 and not has_blobs:
            return scored.run
        return transcript.run_of(setting, course, state, events, {}, is_whole=True)


def _led_to(state: State, setting: RunConfig, ending: ExitDecision) -> tuple[str, tuple[str, ...]]:
    """What follows from an exit: commit, ask a person, plan anew, hand over, or fail; with the reasons."""
    reasons = (ending.reason, *diagnosis_of(state))
    match ending.outcome:
        case "COMMIT":
            return "accept", reasons
        case "FAIL":
            return "fail", reasons
        case _ if ending.needs_approval:
            return "ask", reasons
        case _:
            quality = state.quality
            is_too_much = (
                quality.escalation.get("kind") == Escalation.TASK_REDECOMPOSE
                or quality.control.get("helper") == "decompose"
            )
            return (_again(state, setting) if is_too_much else "escalate"), reasons


def _dumped(plan: Plan) -> JsonObject:
    return plan.model_dump(mode="json", exclude_defaults=True)


_WITHOUT_PLANNER = ("extend", "accept_partial", "abandon")


def _end_of(state: State, now: int, ttl_ms: int) -> int:
    """When a gate can no longer be answered: its own time is over, or that of its session."""
    ends = [end for end in (now + ttl_ms if ttl_ms else 0, state.start.expires) if end]
    return min(ends) if ttl_ms else 0


def _gate_id(state: State) -> str:
    return f"{state.start.session}.g{state.opened + 1}"


def _on_retry(state: State, setting: RunConfig, course: ExecutionPlan) -> StepOutcome:
    """What a critic's wish to try a turn again amounts to."""
    budget = setting.ctx.run_budget
    happened = [name for name, step in state.steps.items() if step.key and step.key in state.keys]
    stands = any(name in course.calls and not course.calls[name].leaves_nothing for name in happened)
    wanted = step_outcome("retry", pure=not stands, attempt="done" if stands else "not_done")
    if wanted == "retry":
        return "retry" if state.used.retries < budget.max_retries else "escalate"
    return "replan" if state.used.replans < budget.max_replans else "escalate"


def _refusal(state: State, setting: RunConfig, verdict: Verdict | None, now: int) -> CriticReport:
    reviewed = verdict or Verdict(
        stage="review",
        outcome="reject",
        kind=RefusalKind.VIOLATES_DECISION_SPEC,
        reasons=(state.reason or "there was no plan",),
    )
    return consolidate(
        trace_id=state.start.trace,
        decision_key=setting.spec.id,
        verify=reviewed,
        decided_at=transcript.timestamp(now),
    )


def _changed(changes: tuple[str, ...]) -> Verdict:
    """The refusal of a plan whose tools are no longer those that a person has accepted.

    It is the one review that states a fact about the world outside, so nobody can derive it from the plan again.
    """
    code, remedy = Code.TOOL_DEFINITION_CHANGED, "read the changes, then accept them: tercet tools pin PACK"
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


_HOPELESS = (OVERDRAWN, "model_refused", PROMPT_TOO_LONG, NO_TOOLS, NO_STEPS_LEFT)
"""The codes of planning that would fail again: there is nothing left to pay with, or nobody who would answer."""

_FOR_PEOPLE = ("budget_exceeded", ROLE_LOST)
"""The codes of steps that no other plan would help: a person must give more, or approve again."""


def _failure(state: State, setting: RunConfig, name: str) -> tuple[str, str]:
    """What the critic makes of a step that failed for good, and why."""
    step = state.steps[name]
    if state.change is not None and state.change.step == name:
        places = ", ".join(each.place.removeprefix("/") for each in state.change.values)
        return "replan", f"{state.change.by} sets {places} ({step.error})"
    result = ToolResult(
        step_id=name,
        outcome=Outcome.DONE if step.outcome == "done" else Outcome.NOT_DONE,
        error=step.error or "it failed",
        error_code=step.code or None,
    )
    verdict = judge_step(_frame(state, setting), result, retries_left=0)
    outcome = "escalate" if step.code in _FOR_PEOPLE else verdict.outcome
    is_asked_for = step.code == MODIFIED
    return outcome, f"a person asks for a change: {step.error}" if is_asked_for else verdict.reasons[0]


def _broken(told: str) -> Reflection:
    return Reflection(action="escalate", reason=told, stop="agent_raised")


def _answers_refusals(state: State, setting: RunConfig) -> bool:
    """Return whether an agent decides step by step: it sees each refusal as a result and may decide differently."""
    return state.is_stepwise and setting.ctx.goes_by(Behaviour.STRICT_CALLS)


def _may_decide_again(state: State, setting: RunConfig, verdict: Verdict) -> bool:
    """Whether a rejected decision goes back to its agent, which has a re-plan left for it."""
    has_tries = state.used.replans < setting.ctx.run_budget.max_replans
    return verdict.outcome == "reject" and has_tries and _answers_refusals(state, setting)


def _frame(state: State, setting: RunConfig) -> RunContext:
    """The frame that the critic judges in: whose plan it is, and what has been used up."""
    update = {
        "plan_origin": state.plan_origin,
        "answers_feedback": bool(state.start.fallible) and not state.is_stepwise,
        "used": transcript.budget_use(state),
    }
    return setting.ctx.model_copy(update=update)


def _review_frame(state: State, setting: RunConfig) -> RunContext:
    """The frame that a plan is reviewed in. A plan that an approver changed contains what it has done already: its review
    counts that once, as a part of the plan."""
    frame = _frame(state, setting)
    if state.change is None:
        return frame
    done = [step for step in state.steps.values() if step.status == "done"]
    used = frame.used.model_copy(
        update={
            "steps": frame.used.steps - len(done),
            "tool_calls": frame.used.tool_calls - sum(step.calls for step in done),
            "tokens": frame.used.tokens - sum(step.tokens for step in done),
            "cost_microcents": frame.used.cost_microcents - sum(step.cost for step in done),
            "wall_clock_ms": 0,  # the time of the plan was reviewed before, and each call is held to what is left of it
        }
    )
    return frame.model_copy(update={"used": used})


def _again(state: State, setting: RunConfig) -> str:
    is_ours = state.plan_origin == "planner"
    return "replan" if is_ours and state.used.replans < setting.ctx.run_budget.max_replans else "escalate"

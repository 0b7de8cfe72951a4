"""Execution of a plan's steps: ready steps are called, and ended ones are judged.

Ready steps are dispatched by priority, number of dependents and position, while there are slots. A step whose verdict may
end the plan (it failed for good, or the loop guard trips) stops the dispatch of others: calls in progress are awaited,
unknown outcomes are settled, and then the critic judges. So no plan ends with a call of unknown outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tercet.contracts.loop import Phase
from tercet.contracts.plan import Step
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.verdict import Code
from tercet.core import budget, lanes
from tercet.core import commands as c
from tercet.core.approval import Resolved, ask_for, call_digest
from tercet.core.compensation import bind_compensation, is_complete
from tercet.core.decide.compensations import Compensations, fault_duplicate, needs_approval
from tercet.core.decide.outcomes import can_retry, is_looping
from tercet.core.decide.progress import is_true
from tercet.core.events import BoundCompensation
from tercet.core.fold.base import MODIFIED
from tercet.core.prepared_call import PreparedCall
from tercet.core.required_gates import gates_of
from tercet.core.run import WaitingCalls
from tercet.core.state import StepState
from tercet.critic.approvals import granted_by
from tercet.critic.checks.rules import find_undecided
from tercet.critic.dispatch import recheck, recheck_results, recheck_sources
from tercet.policy.resolution import VALUE_TOO_LARGE, ResolutionError, evaluate, measure, resolve

SLOTS = 8
"""The default limit of concurrent calls of one run."""
MAX_NOTED_BYTES = 8 * 2**20
"""The largest total size of a plan's notes."""
SMALL_NOTE_BYTES = 16 * 2**10
"""A note of at most this size is always accepted."""


class Acting(Compensations):
    """Decides which commands are due while steps are executed."""

    def commands(self) -> Iterator[c.Command]:
        return self._judge_ended() if self.state.unjudged else self._dispatch_ready()

    def _judge_ended(self) -> Iterator[c.Command]:
        """Steps that have ended are judged; one whose judgement may end the plan only once nothing else is in progress."""
        last = ""
        for name in self.state.unjudged:
            if not self._may_end_plan(name, self.state.steps[name]):
                yield c.Judge(step=name)
            elif not last:
                last = name
        if last:
            yield from self._drain(last)

    def _may_end_plan(self, name: str, step: StepState) -> bool:
        if step.status == "done":
            return is_looping(self.run, name)
        is_harmless = step.outcome != "done" or bool(step.compensates)
        is_excused = self.plan.steps[name].optional and is_harmless and step.code != MODIFIED
        return not is_excused and not can_retry(self.state, self.config, step)

    def _drain(self, last: str) -> Iterator[c.Command]:
        """Start nothing new: await the calls in progress, and then judge the step."""
        begun = [name for name in self.state.frontier if self.state.steps[name].is_reserving]
        for name in begun:
            command = self._next_command(name, self.state.steps[name])
            if command is not None:
                yield command
        if not begun:
            yield c.Judge(step=last)

    def _dispatch_ready(self) -> Iterator[c.Command]:
        state = self.state
        if state.lane_proposals and state.phase is Phase.ACT:
            yield c.ReviewProposals(step=next(iter(state.lane_proposals)))
            return
        if not state.frontier:
            yield self._finish_plan()
            return
        names: Sequence[str] = state.frontier
        running, limit, waiting = 0, 1, None
        if len(names) > 1:
            running = len(state.in_flight)
            limit = self.config.ctx.run_budget.max_parallel or SLOTS
            waiting = self._waiting_calls()
            if running >= limit and waiting is not None:
                names = [name for name in names if waiting.steps.get(name) is not state.steps[name]]
            names = sorted(names, key=self.plan.order.__getitem__)
        for name in names:
            step = state.steps[name]
            command = self._next_command(name, step)
            if type(command) is c.Dispatch:
                if running >= limit:
                    if waiting is not None and not self._needs(name):
                        waiting.add(name, step, command.key)
                    continue
                running += 1
            if command is not None:
                yield command

    def _waiting_calls(self) -> WaitingCalls | None:
        """Return the calls that only wait for a free slot; None if calls depend on the outcome of other steps."""
        waiting = self.run.waiting
        if waiting is None or self.state.entered or self.config.judges_other_steps:
            return None
        waiting.keep_for(self.config, self.plan)
        return waiting

    def _finish_plan(self) -> c.Command:
        """Return the next command when every step has ended."""
        if self.state.phase is not Phase.ACT:
            return c.End(status=self.state.ending or "failed")
        if self.state.accepted is not None:
            return c.Score()
        return c.Reflect() if self.state.is_turn_open else c.Finish()

    def _next_command(self, name: str, step: StepState) -> c.Command | None:
        if step.gate or step.status in ("in_flight", "failed"):
            return None
        if step.status == "unknown":
            return self._settle_unknown(name, step)
        return self._compensate_step(name, step) if step.compensates else self._start_step(name, step)

    # --- ready steps ---

    def _start_step(self, name: str, step: StepState) -> c.Command | None:
        planned = self.plan.steps[name]
        if self.config.is_lane and lanes.is_withheld(self.state, self.plan, name):
            return self._propose(name, planned)
        evidence = self.config.evidence
        if self.state.entered and step.attempt == 0 and name in self.plan.calls:
            refusal = recheck_sources(self.config.review(self.plan.plan), name)
            if refusal is not None:
                return c.Fault(step=name, code=str(refusal.code), reason=refusal.reason)
        try:
            if planned.when is not None and step.attempt == 0:
                value = evaluate(planned.when, self.results, evidence, is_bounded=self._is_strict)
                if not is_true(value, self.config.ctx):
                    return c.Skip(step=name, reason="condition_false")
            call = self.plan.calls.get(name)
            if call is None:
                params = resolve(planned.params, self.results, evidence, is_bounded=self._is_strict)
                if self._is_strict:
                    self._demand_room(params)
            else:
                params = self._resolve_params(call)
            compensation = self._compensation(call, params)
        except ResolutionError as error:
            return _fail_step(planned, error.code, error.message)
        if (condition := self._unmet_precondition(name, step)) is not None:
            reason = f"step {name} needs {condition}, which no completed step has established"
            return _fail_step(planned, str(Code.UNMET_PRECONDITION), reason)
        if call is None:
            return c.Note(step=name, params=params)
        return self._call(name, step, call, params, compensation)

    def _propose(self, name: str, planned: Step) -> c.Command:
        """Return the proposal of a step that a lane does not carry out, or why there is none."""
        results, evidence = self.results, self.config.evidence
        try:
            if planned.when is not None and not is_true(
                evaluate(planned.when, results, evidence), self.config.ctx
            ):
                return c.Skip(step=name, reason="condition_false")
            proposal = lanes.propose_step(self.state, self.config, self.plan, name, results)
        except ResolutionError as error:
            return _fail_step(planned, error.code, error.message)
        return c.ProposeStep(step=name, proposal=proposal.model_dump(mode="json", exclude_defaults=True))

    def _compensation(self, call: EffectiveStep | None, params: dict[str, Any]) -> BoundCompensation | None:
        if call is None or call.compensate is None:
            return None
        return bind_compensation(self.config, self.plan, call, params, self.results)

    def _demand_room(self, params: dict[str, Any]) -> None:
        """Raise `ResolutionError` for a note with which the notes of this run would be too large together."""
        size = measure(params, MAX_NOTED_BYTES)
        if size <= SMALL_NOTE_BYTES:  # a plan has at most as many of them as it has steps
            return
        for name, planned in self.plan.steps.items():
            if planned.tool is None and name in self.results:
                size += measure(self.results[name], MAX_NOTED_BYTES)
        if size > MAX_NOTED_BYTES:
            raise ResolutionError(
                f"the notes of this run come to more than {MAX_NOTED_BYTES:,} bytes",
                code=VALUE_TOO_LARGE,
                remedy="note only what later steps need",
            )

    def _call(
        self,
        name: str,
        step: StepState,
        call: EffectiveStep,
        params: dict[str, Any],
        compensation: BoundCompensation | None,
    ) -> c.Command | None:
        prepared = self.plan.prepare(call, params, is_strict=self._is_strict, reads_all=self.config.reads_all)
        action = (step.occurrence, step.key) if step.key else self._new_action(prepared)
        if action is None:
            return fault_duplicate(name, call.tool.name)
        if self._is_rechecked(step, call, params):
            is_waiting = not self._only_reads(name) and self._is_learning(name)
            if is_waiting and find_undecided(self._called_review(name, params)):
                return None  # steps in progress may bring what the policies depend on
            refusal = recheck(self._called_review(name, params), name)
            if refusal is None and self._is_strict:
                refusal = recheck_results(self.config.review(self.plan.plan), name, self.results)
            if refusal is not None:
                return c.Fault(step=name, code=str(refusal.code), reason=refusal.reason)
        if (unchecked := self._repeated(name, step, call, params, action[1])) is not None:
            return unchecked
        if (shortage := self._shortage(step, call)) is not None:
            # A call in flight may give back some of what is reserved for it: only what is spent for good refuses.
            if self.state.in_flight:
                return None
            if step.is_unsettled:
                return self._ask_or_stop(name, step)
            return c.Fault(step=name, code="budget_exceeded", reason=shortage.reason(self.config.ctx))
        return self._dispatch(step, prepared, action, compensation)

    def _dispatch(
        self,
        step: StepState,
        prepared: PreparedCall,
        action: tuple[int, str],
        compensation: BoundCompensation | None,
    ) -> c.Command:
        """Return the call, or the question whether it may be made."""
        call, params, (occurrence, key) = prepared.call, prepared.params, action
        name, once = call.step.id, call.tool.once_per
        repeats = () if once is None else step.earlier_calls
        gates = gates_of(self.config, self.plan, name, params, self.progress)
        if repeats and once is not None and once.gate is not None:
            gates = tuple(dict.fromkeys((*gates, once.gate)))
        if gates and self.config.is_lane and not self.config.ctx.goes_by(Behaviour.LANE_GATES):
            reason = f"step {name} waits for {', '.join(gates)}, and a lane asks no person"
            return c.Fault(step=name, code=lanes.NEEDS_PERSON, reason=reason)
        if repeats or needs_approval(call, gates):
            asked = Resolved(
                name=name, call=call, params=params, key=key, compensation=compensation, repeats=repeats
            )
            if (unapproved := self._unapproved(step, asked, gates)) is not None:
                return unapproved
        return c.Dispatch(
            step=name,
            call=prepared,
            key=key,
            occurrence=occurrence,
            attempt=step.attempt + 1,
            not_before=step.not_before,
            compensation=self._approved_with(step, compensation, gates),
        )

    def _approved_with(
        self, step: StepState, compensation: BoundCompensation | None, gates: tuple[str, ...]
    ) -> BoundCompensation | None:
        """Return a compensation with the gates at which people approved it with its step, if all its values were shown."""
        if compensation is None or not compensation.proposed or not is_complete(compensation):
            return compensation
        by_people = any(a.answer == "approve" and a.digest == step.approved for a in self.state.answers)
        return msgspec.structs.replace(compensation, approved=gates) if by_people else compensation

    def _new_action(self, call: PreparedCall) -> tuple[int, str] | None:
        """Return the occurrence and the key of this action; None if it may not happen again."""
        state, start = self.state, self.state.start
        taken = {state.steps[name].key for name in state.frontier}
        occurrence, keys = 0, call.keys(start.tenant, start.session, 0)
        while not (taken.isdisjoint(keys) and state.keys.keys().isdisjoint(keys)):
            if not call.only_reads and call.call.tool.name not in self.config.spec.repeatable:
                return None
            occurrence += 1
            keys = call.keys(start.tenant, start.session, occurrence)
        return occurrence, keys[0]

    def _shortage(self, step: StepState, call: EffectiveStep) -> budget.Shortage | None:
        """Return the first shortage for this call and its compensation; None if the budget suffices."""
        limits = self.config.limits
        if not limits:
            return None
        needs = budget.needs_of_call(call, budget.hold_of(call, self.plan.tools))
        waits = {"wall_clock_ms": max(0, step.not_before - self.state.at)}
        return budget.find_shortage(self.state.used, limits, needs, own=step, also=waits)

    # --- approvals ---

    def _unapproved(self, step: StepState, asked: Resolved, gates: tuple[str, ...]) -> c.Ask | c.Grant | None:
        """Return the request for an approval that a call needs, or the grant of a policy; None if the call is
        approved."""
        name, params = asked.name, asked.params
        bound = call_digest(self.state, self.config, asked, gates)
        if step.approved == bound:
            return None
        config, plan = self.config, self.plan.plan
        if not gates and not step.is_added and not step.approved and not asked.repeats:
            policy = granted_by(config.ctx, config.compiled, config.spec, plan, name, params)
            if policy is not None:
                return c.Grant(step=name, policy=policy, digest=bound)
        return ask_for(self.state, config, asked, gates, tuple(self._sequence(asked, gates)))

    def _sequence(self, asked: Resolved, gates: tuple[str, ...]) -> Iterator[Resolved]:
        """Yield the other calls that the same gate covers, where it covers a sequence. Only calls with known
        parameters: approvers can only approve what they see.

        Only calls whose parameters are known by now: what an approver cannot see, they cannot approve.
        """
        known = self.config.compiled.gates_by_name
        if not gates or any(known[gate].covers != "sequence" for gate in gates if gate in known):
            return
        keys = {asked.key}  # a repetition has another key when its turn comes: it is asked about by itself
        for other, call in self.plan.calls.items():
            step = self.state.steps[other]
            if other == asked.name or step.status != "pending" or step.attempt or step.gate:
                continue
            if self.plan.steps[other].when is not None:
                continue
            try:
                params = self._resolve_params(call)
                compensation = self._compensation(call, params)
            except ResolutionError:
                continue
            action = self._new_action(
                self.plan.prepare(call, params, is_strict=self._is_strict, reads_all=self.config.reads_all)
            )
            if action is None or action[1] in keys:
                continue
            if gates_of(self.config, self.plan, other, params, self.progress) == gates:
                keys.add(action[1])
                yield Resolved(name=other, call=call, params=params, key=action[1], compensation=compensation)


def _fail_step(step: Step, code: str, reason: str) -> c.Skip | c.Fault:
    """Return the command for a step that cannot be called."""
    if step.optional:
        return c.Skip(step=step.id, reason="optional_failed")
    return c.Fault(step=step.id, code=code, reason=reason)

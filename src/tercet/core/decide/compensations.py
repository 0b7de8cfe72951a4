"""Compensating calls: the checks that they have to pass, and what prevents them."""

from __future__ import annotations

from typing import Any

from tercet.contracts.errors import PlanError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import MAX_STEPS, Plan, Step
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.verdict import Code
from tercet.core import budget
from tercet.core import commands as c
from tercet.core.approval import Resolved, ask_for_compensation, call_digest
from tercet.core.decide.outcomes import CallOutcomes
from tercet.core.events import BoundCompensation, Undo
from tercet.core.prepared_call import PreparedCall
from tercet.core.required_gates import compensation_gates
from tercet.core.same_calls import REPEATED, describe_repeat
from tercet.core.state import StepState
from tercet.critic.checks.compensation import with_steps
from tercet.critic.dispatch import recheck, resolved_review
from tercet.critic.order import keep_order
from tercet.critic.reading import with_params
from tercet.policy.resolution import ResolutionError, resolve


class Compensations(CallOutcomes):
    """Decides which commands are due for compensating calls."""

    def _compensate_step(self, name: str, step: StepState) -> c.Command:
        """Return the call that compensates a step, or the command that replaces it.

        Its first attempt is paid from the budget reserved for it, later ones from the rest. One that the plan proposed
        has to pass the checks of any call; one that reads a result which a person entered has to be approved.
        """
        if (shortage := self._compensation_shortage(name, step)) is not None:
            return (
                self.ask_whether(name, step)
                if step.is_unsettled
                else c.Fault(step=name, code="budget_exceeded", reason=shortage.reason(self.config.ctx))
            )
        undo = next(undo for undo in self.state.undo if name == undo.name)
        call = self.plan.calls[name]
        if (unchecked := self._repeated(name, step, call, undo.params, undo.key)) is not None:
            return unchecked
        if undo.bound is not None and not step.is_unsettled:
            withheld = self._withheld_compensation(name, step, undo, undo.bound)
            if withheld is not None:
                return withheld
        return c.Dispatch(
            step=name,
            call=PreparedCall(call, undo.params, is_strict=self._is_strict, reads_all=self.config.reads_all),
            key=undo.key,
            occurrence=0,
            attempt=step.attempt + 1,
            not_before=step.not_before,
        )

    def _withheld_compensation(
        self, name: str, step: StepState, undo: Undo, bound: BoundCompensation
    ) -> c.Fault | c.Ask | None:
        """Return why a compensation is not made, or the gate that it waits at; None if it may be made.

        One that the plan proposed passes the checks of any call. An approval of its step counts if it covered exactly this
        call and was given at every gate that the call needs. No policy grants it. One that the tool declares waits only at
        the gates that were bound with it.
        """
        config, call = self.config, self.plan.calls[name]
        gates = bound.gates
        if bound.proposed:
            plan = self._plan_with_compensations()
            if (fault := self._refused_compensation(name, step, undo, plan)) is not None:
                return fault
            gates = compensation_gates(config, self.plan, plan, name, undo)
        is_covered = bound.approved is not None and set(gates) <= set(bound.approved)
        if not needs_approval(call, gates) or is_covered:
            return None
        asked = Resolved(name=name, call=call, params=undo.params, key=undo.key, sources=bound.sources)
        if step.approved == call_digest(self.state, config, asked, gates):
            return None
        return ask_for_compensation(self.state, config, asked, gates)

    def _refused_compensation(self, name: str, step: StepState, undo: Undo, plan: Plan) -> c.Fault | None:
        """Return why a proposed compensation must not be made; None if it may be, or was tried before."""
        config = self.config
        if step.attempt == 0:
            try:
                called = resolved_review(
                    config.ctx,
                    config.compiled,
                    config.spec,
                    plan,
                    name,
                    undo.params,
                    planned=self.plan.plan,
                )
                refusal = recheck(called, name)
            except PlanError as error:  # values that no plan could hold, such as ones that nest too deeply
                return c.Fault(step=name, code=str(Code.ARGUMENT_INVALID), reason=error.message)
            if refusal is not None:
                return c.Fault(step=name, code=str(refusal.code), reason=refusal.reason)
            if self._is_repeated(name, undo):
                return fault_duplicate(name, undo.tool)
        return None

    def _plan_with_compensations(self) -> Plan:
        """Return the plan with one more step at its end for each proposed compensation. Steps with unknown values are
        left out, and so are optional and conditional ones that did not run."""
        missing = self.progress.left_out | self.progress.uncertain
        steps = (
            self._as_called(step)
            for step in self.plan.plan.steps
            if step.id not in missing or self.state.steps[step.id].may_have_happened
        )
        proposed = (
            self.plan.steps[undo.name]
            for undo in self.state.undo
            if undo.bound is not None and undo.bound.proposed
        )
        known = keep_order(self.plan.plan, [step for step in steps if step is not None])
        return with_steps(self.plan.plan, (*known, *proposed)[-MAX_STEPS:])

    def _as_called(self, step: Step) -> Step | None:
        """Return a step with its references resolved; None if their values are not there."""
        call = self.plan.calls.get(step.id)
        if call is None:
            return step
        try:
            return with_params(step, resolve(call.params, self.results, self.config.evidence))
        except ResolutionError:
            return None

    def _is_repeated(self, name: str, undo: Undo) -> bool:
        """Return whether the run has done what a compensation would do, by a step or by another compensation."""
        call = self.plan.calls[name]
        if call.mode is ApprovalMode.READ_ONLY or call.tool.name in self.config.spec.repeatable:
            return False
        keys = self._compensation_keys(call, undo)
        others = (
            other
            for other in self.state.undo
            if other.tool == undo.tool and self.state.steps[other.name].status == "done"
        )
        has_run = any(key in self.state.keys for key in keys)
        return has_run or any(self._compensation_keys(call, other)[0] == keys[0] for other in others)

    def _compensation_keys(self, call: EffectiveStep, undo: Undo) -> tuple[str, ...]:
        """Return the keys that a compensation would have as a step of the plan."""
        start = self.state.start
        return PreparedCall(
            call, undo.params, is_strict=self._is_strict, reads_all=self.config.reads_all
        ).keys(start.tenant, start.session, 0)

    def _compensation_shortage(self, name: str, step: StepState) -> budget.Shortage | None:
        """Return the first shortage for this compensation and those that are still to be made; None if the budget
        suffices."""
        later = [undo.name for undo in self.state.undo if undo.tool and undo.name != name]
        due = [other for other in later if not self.state.steps[other].attempt]
        needs = budget.needs_of_tools(self.plan.calls[other].tool for other in (name, *due))
        return budget.find_shortage(self.state.used, self.config.limits, needs, own=step)

    def _repeated(
        self, name: str, step: StepState, call: EffectiveStep, params: dict[str, Any], key: str
    ) -> c.CheckRepeats | c.Fault | None:
        """Return the search for earlier calls, where the tool allows one in a period and it was not made for this call; or
        the refusal if it found some. A compensation that is a repetition is refused also where others are asked about."""
        once = call.tool.once_per
        if once is None or step.is_unsettled:  # it may have happened already, and is then the same call
            return None
        if step.checked != key:
            return c.CheckRepeats(step=name, params=params, key=key)
        if step.earlier_calls and (once.then == "refuse" or step.compensates):
            reason = describe_repeat(call.tool, once, step.earlier_calls)
            return c.Fault(step=name, code=REPEATED, reason=reason)
        return None


def fault_duplicate(step: str, tool: str) -> c.Fault:
    reason = f"{tool} with this identity was done before in this session"
    return c.Fault(step=step, code="duplicate_action", reason=reason)


def needs_approval(call: EffectiveStep, gates: tuple[str, ...]) -> bool:
    """Return whether a person is asked before this call: anything above local_write, irreversible, or gated."""
    return call.needs_person or bool(gates)

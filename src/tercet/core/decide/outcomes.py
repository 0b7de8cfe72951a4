"""Unknown outcomes and failed calls: whether to retry, reconcile, or ask a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.values.canonical import digest
from tercet.core import commands as c
from tercet.core import lanes
from tercet.core.approval import settlers_of
from tercet.core.config import RunConfig
from tercet.core.decide.progress import StepProgress
from tercet.core.events.gate import Need
from tercet.core.fold.base import CUT_OFF, LANE_WAITING, WITHHELD
from tercet.core.run import Run
from tercet.core.same_calls import shown_marks
from tercet.core.state import State, StepState

MAX_ASKED = 3
"""The number of times that an unknown outcome is reconciled before a person is asked."""
LOOP_LIMIT = 3
"""The same call with the same result this many times trips the loop guard."""


class CallOutcomes(StepProgress):
    """Decides which commands are due for calls of unknown outcome."""

    def find_out(self, name: str, step: StepState) -> c.Command:
        """Return what became of a call of a run that is ending: nothing is called for it any more, but a tool may look it up.
        What leaves no effect need not be known."""
        call = self.plan.calls.get(name)
        if call is None:  # the session was moved to a pack without its tool
            return self.ask_whether(name, step)
        can_tell = call.tool.reconciles and step.asked < MAX_ASKED
        if call.leaves_nothing or can_tell:
            return c.Settle(step=name, not_before=step.not_before if can_tell else 0)
        return self.ask_whether(name, step)

    def _settle_unknown(self, name: str, step: StepState) -> c.Command:
        call = self.plan.calls[name]
        if step.code == LANE_WAITING:
            return c.AskForLane(step=name, lane=step.lane)
        is_cut_off = step.code in CUT_OFF
        if (call.leaves_nothing or call.tool.idempotent) and (
            is_cut_off or has_retries(self.state, self.config, step)
        ):
            return c.Settle(step=name)
        if call.tool.reconciles and step.asked < MAX_ASKED:
            return c.Settle(step=name, not_before=step.not_before)
        return self._ask_or_stop(name, step)

    def _ask_or_stop(self, name: str, step: StepState) -> c.Command:
        """Ask a person for the outcome of a call; a lane's call has no effect, so the lane ends instead."""
        is_lane = self.config.ctx.lane is not None
        return c.StopExhausted(reason=lanes.NEEDS_PERSON) if is_lane else self.ask_whether(name, step)

    def ask_whether(self, name: str, step: StepState) -> c.Ask:
        """Ask a person whether a call of unknown outcome happened."""
        call, planned = self.plan.calls.get(name), self.plan.steps[name]
        shown: dict[str, Any] = {
            "tool": planned.tool,
            "params": self.called_with(planned.params if call is None else call.params),
            "key": step.key,
            "attempt": step.attempt,
            "why": "; ".join(filter(None, (step.error, step.look_up_error))),
            "result_schema": None if call is None else call.tool.result,
        }
        if call is not None:
            shown |= shown_marks(self.config, call, shown["params"])
        needs = settlers_of(self.state, self.config, name, call)
        if self._is_strict:
            shown["trusted_roles"] = self._trusted_roles(needs)
        return c.Ask(
            step=name,
            kind="reconcile",
            needs=needs,
            digest=digest([name, step.key, step.attempt]),
            shown=shown,
            not_before=step.not_before,
        )

    def _trusted_roles(self, needs: Mapping[str, Need]) -> list[str]:
        """Return the roles whose holders enter trusted results: those of the call's gates, or else of the pack's."""
        own = {role for need in needs.values() for role in need.roles}
        return sorted(own or {role for gate in self.config.compiled.gates for role in gate.roles})


def can_retry(state: State, config: RunConfig, step: StepState) -> bool:
    """Return whether a failed step may be tried again by itself."""
    if step.outcome != "not_done" or not step.is_retriable:
        return False
    return step.code in WITHHELD or has_retries(state, config, step)


def has_retries(state: State, config: RunConfig, step: StepState) -> bool:
    """Return whether the budgets of the step and of the run have a retry left."""
    limits = config.ctx.run_budget
    return step.retries < limits.max_step_retries and state.used.retries < limits.max_retries


def is_looping(run: Run, name: str) -> bool:
    """Return whether a step was the same call with the same result once too often. A read that its decision lists as repeatable
    may wait for another result as long as the budget lasts."""
    step = run.state.steps[name]
    if step.status != "done" or step.repeated < LOOP_LIMIT or step.compensates:
        return False
    call = None if run.plan is None else run.plan.calls.get(name)
    is_poll = call is not None and call.leaves_nothing and call.tool.name in run.config.spec.repeatable
    return not (is_poll and run.config.ctx.goes_by(Behaviour.LONGER_RUNS))

"""`decide`: the commands that are due now. Pure: it reads the run and no clock.

Steps that have ended are judged first. Then unknown outcomes are settled, by what the tool declares:

| the tool says           | an unknown outcome                                                        |
|-------------------------|---------------------------------------------------------------------------|
| pure or read_only       | is run again                                                              |
| idempotent              | is run again under the same key                                           |
| reconcile=              | is looked up: found is taken, absent is run again, unknown is asked again |
| nothing                 | opens a gate: only a person may say whether it happened                   |

Then ready steps go out by priority, by how much waits on them, and by position, while there are slots. A step whose
judgement may end the plan (it failed for good, or the loop guard trips) stops the dispatch of others: what is in flight
is waited for, what is unknown is settled, and then the critic judges. So no plan is left with a call of unknown outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec

from tercet.contracts.errors import PlanError
from tercet.contracts.loop import Phase
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.outputs.quality_rules import QualityRules, TestCommand
from tercet.contracts.plan import MAX_STEPS, Plan, Step
from tercet.contracts.steps.conditions import conditions_after, needs_of
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.values import references
from tercet.contracts.values.canonical import digest
from tercet.contracts.verdict import Code
from tercet.core import budget
from tercet.core import commands as c
from tercet.core.approval import (
    Resolved,
    ask_for,
    ask_for_compensation,
    ask_for_outputs,
    call_digest,
    settlers_of,
)
from tercet.core.compensation import bind_compensation, is_complete
from tercet.core.config import RunConfig
from tercet.core.dependencies import Results
from tercet.core.events import BoundCompensation, Undo
from tercet.core.events.gate import Need
from tercet.core.fold.base import INTERRUPTED, MODIFIED, STOPPED, WITHHELD
from tercet.core.fold.quality import awaits_delivery
from tercet.core.prepared_call import PreparedCall
from tercet.core.required_gates import compensation_gates, gates_of
from tercet.core.retrieval import failed_look_ups, missing_evidence
from tercet.core.run import Run, WaitingCalls
from tercet.core.same_calls import REPEATED, describe_repeat, shown_marks
from tercet.core.state import Quality, State, StepState
from tercet.critic.approvals import granted_by
from tercet.critic.checks.compensation import with_steps
from tercet.critic.checks.rules import find_undecided
from tercet.critic.dispatch import (
    NO_PROGRESS,
    Progress,
    recheck,
    recheck_results,
    recheck_sources,
    resolved_review,
)
from tercet.critic.order import find_uncertain, keep_order
from tercet.critic.reading import with_params
from tercet.critic.review import Review
from tercet.policy.resolution import VALUE_TOO_LARGE, ResolutionError, evaluate, measure, resolve
from tercet.quality.verification.harness import TRIGGERS

SLOTS = 8
"""How many calls of one run may be in flight at once, where its budget does not say."""
MAX_ASKED = 3
"""How often an unknown outcome is looked up before a person is asked."""
LOOP_LIMIT = 3
"""The same call that brings the same result this often trips the loop guard."""
MAX_NOTED_BYTES = 8 * 2**20
"""How large the notes of a plan may be together."""
SMALL_NOTE_BYTES = 16 * 2**10
"""A note of at most this size is always accepted."""


def decide(run: Run) -> Iterator[c.Command]:
    """Yield the commands that are due; none means that the run waits, or is over. What is due after the first command may
    depend on what becomes of it."""
    state = run.state
    if is_worn_out(state, run.config):
        return iter(() if state.in_flight else (c.StopExhausted(reason="iteration_budget_exceeded"),))
    return _DUE_IN[state.phase](run)


def _verifying(run: Run) -> Iterator[c.Command]:
    """Outputs that a rubric judges are rendered, tested and verified, and scored when nothing is left to repair."""
    state, setting = run.state, run.config
    rules, quality = setting.spec.quality, state.quality
    if state.gates:
        return
    if quality.stage == "asking":
        yield ask_for_outputs(state, setting)
    elif rules is None or quality.stage == "judged":
        yield c.Score()
    elif not quality.drawn:
        yield c.DrawExperience()
    elif rules.consistency is not None and rules.consistency.draws and not quality.vote:
        yield c.DrawSamples()
    elif quality.read is None:
        yield c.ReadOutputs()
    elif len(quality.tests) < len(due_tests(rules, quality)):
        yield c.RunTests(number=len(quality.tests))
    else:
        yield c.VerifyOutputs()


def due_tests(rules: QualityRules, quality: Quality) -> tuple[TestCommand, ...]:
    """The test commands that outputs are held to now: those that run before a commit only if all before them passed."""
    early = [each for each in rules.tests if TRIGGERS[each.level] != "before_commit"]
    if any(said["error"] or said["result"]["failed"] for said in quality.tests[: len(early)]):
        return tuple(early)
    return rules.tests


def _criticising(run: Run) -> Iterator[c.Command]:
    """Whoever criticises outputs tries to break them first: those that passed their tests, since others are broken."""
    state, rules = run.state, run.config.spec.quality
    made = len(state.quality.attacks)
    has_failed = any(said["error"] or said["result"]["failed"] for said in state.quality.tests)
    is_broken = rules is None or has_failed or made >= len(rules.attacks)
    yield c.Critique() if is_broken else c.Attack(number=made)


def _repairing(run: Run) -> Iterator[c.Command]:
    if run.state.quality.has_fetched:
        yield c.Repair()
        return
    queries, retries = missing_evidence(run.state, run.config), failed_look_ups(run)
    yield c.FetchEvidence(queries=queries, retries=retries) if queries or retries else c.Repair()


def is_worn_out(state: State, setting: RunConfig) -> bool:
    """Whether a run has gone through as many phases as it may."""
    return state.iterations >= setting.max_iterations and state.phase in _COUNTED


def is_escalated(state: State) -> bool:
    """Whether a run was handed to a person."""
    return state.phase is Phase.HALT and state.escalation is not None


def _is_handed_over(state: State) -> bool:
    return any(gate.kind == "escalation" for gate in state.gates.values())


def _ending(run: Run) -> Iterator[c.Command]:
    """A run ends when it is known of every call whether it happened, and what it did has been taken back or kept.

    Nothing of its plan is called any more to find out.
    """
    state = run.state
    if state.is_over:
        return
    if awaits_delivery(state):
        yield c.AcceptOutputs()
        return
    acting = Acting(run) if run.plan is not None else None
    is_undoing = state.saga == "undoing"
    is_open = [name for name in state.frontier if state.steps[name].status in ("in_flight", "unknown")]
    if acting is not None and is_undoing:
        yield from acting.commands()
    elif acting is not None and is_open:
        asked = (name for name in is_open if state.steps[name].status == "unknown")
        yield from (acting.find_out(n, state.steps[n]) for n in asked if not state.steps[n].gate)
    elif _has_effects(state) and not state.gates and state.saga in ("", "agreed"):
        yield c.Compensate(how="compensate" if state.saga else state.start.on_failure)
    elif not state.gates:
        yield c.End(status="completed" if state.phase is Phase.COMMIT else state.ending or "failed")


def _has_effects(state: State) -> bool:
    """Whether there may be something to take back. A denial of a paused run is carried out first, like any other."""
    is_denied = state.ending == "rejected" and state.status == "in_progress"
    # By their keys and not by the steps that are done: a call whose result was unusable happened all the same.
    return state.phase is Phase.FAIL and (bool(state.keys) or is_denied)


_COUNTED = frozenset(Phase) - {Phase.COMMIT, Phase.FAIL, Phase.HALT}


class Acting:
    """What is due while steps are carried out."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state = run.state
        self.setting = run.config
        self.course = run.followed
        self._is_strict = self.setting.is_strict
        self._progress: Progress | None = None

    @property
    def results(self) -> Results:
        """What the steps before have brought."""
        return Results(self.state, self.setting.compiled.input(), self.run.blobs)

    def commands(self) -> Iterator[c.Command]:
        return self._judged() if self.state.unjudged else self._dispatched()

    def _judged(self) -> Iterator[c.Command]:
        """Steps that have ended are judged; one whose judgement may end the plan only once nothing else is under way."""
        last = ""
        for name in self.state.unjudged:
            if not self._may_end_plan(name, self.state.steps[name]):
                yield c.Judge(step=name)
            elif not last:
                last = name
        if last:
            yield from self._drained(last)

    def _may_end_plan(self, name: str, step: StepState) -> bool:
        if step.status == "done":
            return is_looping(step) and not step.compensates
        is_harmless = step.outcome != "done" or bool(step.compensates)
        is_excused = self.course.steps[name].optional and is_harmless and step.code != MODIFIED
        return not is_excused and not can_retry(self.state, self.setting, step)

    def _drained(self, last: str) -> Iterator[c.Command]:
        """Nothing new begins; what has begun is seen through, and then the step is judged."""
        begun = [name for name in self.state.frontier if self.state.steps[name].is_reserving]
        for name in begun:
            command = self._due(name, self.state.steps[name])
            if command is not None:
                yield command
        if not begun:
            yield c.Judge(step=last)

    def _dispatched(self) -> Iterator[c.Command]:
        state = self.state
        if not state.frontier:
            yield self._ended()
            return
        names: Sequence[str] = state.frontier
        running, limit, waiting = 0, 1, None
        if len(names) > 1:
            running = len(state.in_flight)
            limit = self.setting.ctx.run_budget.max_parallel or SLOTS
            waiting = self._waiting_calls()
            if running >= limit and waiting is not None:
                names = [name for name in names if waiting.steps.get(name) is not state.steps[name]]
            names = sorted(names, key=self.course.order.__getitem__)
        for name in names:
            step = state.steps[name]
            command = self._due(name, step)
            if type(command) is c.Dispatch:
                if running >= limit:
                    if waiting is not None and not self._needs(name):
                        waiting.add(name, step, command.key)
                    continue
                running += 1
            if command is not None:
                yield command

    def _waiting_calls(self) -> WaitingCalls | None:
        """Return the calls that are known to wait for a slot alone; None where calls depend on what other steps bring."""
        waiting = self.run.waiting
        if waiting is None or self.state.entered or self.setting.judges_other_steps:
            return None
        waiting.keep_for(self.setting, self.course)
        return waiting

    def _ended(self) -> c.Command:
        """What is due when every step has ended."""
        if self.state.phase is not Phase.ACT:
            return c.End(status=self.state.ending or "failed")
        if self.state.accepted is not None:
            return c.Score()
        return c.Reflect() if self.state.is_turn_open else c.Finish()

    def _due(self, name: str, step: StepState) -> c.Command | None:
        if step.gate or step.status in ("in_flight", "failed"):
            return None
        if step.status == "unknown":
            return self._unknown(name, step)
        return self._back(name, step) if step.compensates else self._ready(name, step)

    def _back(self, name: str, step: StepState) -> c.Command:
        """Return the call that compensates a step, or what keeps it from being made.

        Its first attempt is paid from the budget reserved for it, later ones from the rest. One that the plan proposed
        has to pass the checks of any call; one that reads a result which a person entered has to be approved.
        """
        if (shortage := self._shortage_back(name, step)) is not None:
            return (
                self.ask_whether(name, step)
                if step.is_unsettled
                else c.Fault(step=name, code="budget_exceeded", reason=str(shortage))
            )
        undo = next(undo for undo in self.state.undo if name == undo.name)
        call = self.course.calls[name]
        if (unchecked := self._repeated(name, step, call, undo.params, undo.key)) is not None:
            return unchecked
        if undo.bound is not None and not step.is_unsettled:
            withheld = self._withheld_compensation(name, step, undo, undo.bound)
            if withheld is not None:
                return withheld
        return c.Dispatch(
            step=name,
            call=PreparedCall(call, undo.params, is_strict=self._is_strict),
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
        setting, call = self.setting, self.course.calls[name]
        gates = bound.gates
        if bound.proposed:
            plan = self._plan_with_compensations()
            if (fault := self._refused_compensation(name, step, undo, plan)) is not None:
                return fault
            gates = compensation_gates(setting, self.course, plan, name, undo)
        is_covered = bound.approved is not None and set(gates) <= set(bound.approved)
        if not needs_approval(call, gates) or is_covered:
            return None
        asked = Resolved(name=name, call=call, params=undo.params, key=undo.key, sources=bound.sources)
        if step.approved == call_digest(self.state, setting, asked, gates):
            return None
        return ask_for_compensation(self.state, setting, asked, gates)

    def _refused_compensation(self, name: str, step: StepState, undo: Undo, plan: Plan) -> c.Fault | None:
        """Return why a proposed compensation must not be made; None if it may be, or was tried before."""
        setting = self.setting
        if step.attempt == 0:
            try:
                called = resolved_review(
                    setting.ctx,
                    setting.compiled,
                    setting.spec,
                    plan,
                    name,
                    undo.params,
                    planned=self.course.plan,
                )
                refusal = recheck(called, name)
            except PlanError as error:  # values that no plan could hold, such as ones that nest too deeply
                return c.Fault(step=name, code=str(Code.ARGUMENT_INVALID), reason=error.message)
            if refusal is not None:
                return c.Fault(step=name, code=str(refusal.code), reason=refusal.reason)
            if self._is_repeated(name, undo):
                return _fault_duplicate(name, undo.tool)
        return None

    def _plan_with_compensations(self) -> Plan:
        """Return the plan with one more step at its end for each proposed compensation. Steps whose values are not known
        are left out, and so are optional and conditional ones that did not run."""
        missing = self.progress.left_out | self.progress.uncertain
        steps = (
            self._as_called(step)
            for step in self.course.plan.steps
            if step.id not in missing or self.state.steps[step.id].may_have_happened
        )
        proposed = (
            self.course.steps[undo.name]
            for undo in self.state.undo
            if undo.bound is not None and undo.bound.proposed
        )
        known = keep_order(self.course.plan, [step for step in steps if step is not None])
        return with_steps(self.course.plan, (*known, *proposed)[-MAX_STEPS:])

    def _as_called(self, step: Step) -> Step | None:
        """Return a step with its references resolved; None if their values are not there."""
        call = self.course.calls.get(step.id)
        if call is None:
            return step
        try:
            return with_params(step, resolve(call.params, self.results, self.setting.evidence))
        except ResolutionError:
            return None

    def _is_repeated(self, name: str, undo: Undo) -> bool:
        """Whether the run has done what a compensation would do, by a step or by another compensation."""
        call = self.course.calls[name]
        if call.mode is ApprovalMode.READ_ONLY or call.tool.name in self.setting.spec.repeatable:
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
        return PreparedCall(call, undo.params, is_strict=self._is_strict).keys(start.tenant, start.session, 0)

    def _shortage_back(self, name: str, step: StepState) -> budget.Shortage | None:
        """Return what the budget has too little of for this compensation and those that are still to be made."""
        later = [undo.name for undo in self.state.undo if undo.tool and undo.name != name]
        due = [other for other in later if not self.state.steps[other].attempt]
        needs = budget.needs_of_tools(self.course.calls[other].tool for other in (name, *due))
        return budget.find_shortage(self.state.used, self.setting.limits, needs, own=step)

    # --- unknown outcomes ---

    def find_out(self, name: str, step: StepState) -> c.Command:
        """What became of a call of a run that is ending: nothing is called for it any more, but a tool may look it up.
        What leaves no effect need not be known."""
        call = self.course.calls.get(name)
        if call is None:  # the session was moved to a pack without its tool
            return self.ask_whether(name, step)
        can_tell = call.tool.reconciles and step.asked < MAX_ASKED
        if call.leaves_nothing or can_tell:
            return c.Settle(step=name, not_before=step.not_before if can_tell else 0)
        return self.ask_whether(name, step)

    def _unknown(self, name: str, step: StepState) -> c.Command:
        call = self.course.calls[name]
        is_cut_off = step.code in (INTERRUPTED, STOPPED)
        if (call.leaves_nothing or call.tool.idempotent) and (
            is_cut_off or has_retries(self.state, self.setting, step)
        ):
            return c.Settle(step=name)
        if call.tool.reconciles and step.asked < MAX_ASKED:
            return c.Settle(step=name, not_before=step.not_before)
        return self.ask_whether(name, step)

    def ask_whether(self, name: str, step: StepState) -> c.Ask:
        """Ask a person whether a call of unknown outcome happened."""
        call, planned = self.course.calls.get(name), self.course.steps[name]
        shown: dict[str, Any] = {
            "tool": planned.tool,
            "params": self.called_with(planned.params if call is None else call.params),
            "key": step.key,
            "attempt": step.attempt,
            "why": "; ".join(filter(None, (step.error, step.look_up_error))),
            "result_schema": None if call is None else call.tool.result,
        }
        if call is not None:
            shown |= shown_marks(self.setting, call, shown["params"])
        needs = settlers_of(self.state, self.setting, name, call)
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
        """Return the roles whose holders' word counts as a trusted result: those of the call's gates, or else of the
        pack's."""
        own = {role for need in needs.values() for role in need.roles}
        return sorted(own or {role for gate in self.setting.compiled.gates for role in gate.roles})

    def called_with(self, said: dict[str, Any]) -> dict[str, Any]:
        """Return the resolved parameters of a call; empty where they cannot be resolved any more."""
        try:
            return resolve(said, self.results, self.setting.evidence)
        except ResolutionError:
            return {}

    # --- ready steps ---

    def _ready(self, name: str, step: StepState) -> c.Command | None:
        planned = self.course.steps[name]
        evidence = self.setting.evidence
        if self.state.entered and step.attempt == 0 and name in self.course.calls:
            refusal = recheck_sources(self.setting.review(self.course.plan), name)
            if refusal is not None:
                return c.Fault(step=name, code=str(refusal.code), reason=refusal.reason)
        try:
            if (
                planned.when is not None
                and step.attempt == 0
                and not _is_true(evaluate(planned.when, self.results, evidence, is_bounded=self._is_strict))
            ):
                return c.Skip(step=name, reason="condition_false")
            call = self.course.calls.get(name)
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

    def _resolve_params(self, call: EffectiveStep) -> dict[str, Any]:
        """Return the parameters of a call with their references resolved: those of the plan where it has written them out.

        Raises `ResolutionError`.
        """
        if call.step.is_written_out:
            return call.params
        return resolve(call.params, self.results, self.setting.evidence, is_bounded=self._is_strict)

    def _compensation(self, call: EffectiveStep | None, params: dict[str, Any]) -> BoundCompensation | None:
        if call is None or call.compensate is None:
            return None
        return bind_compensation(self.setting, self.course, call, params, self.results)

    def _demand_room(self, params: dict[str, Any]) -> None:
        """Raise `ResolutionError` for a note with which the notes of this run would be too large together."""
        size = measure(params, MAX_NOTED_BYTES)
        if size <= SMALL_NOTE_BYTES:  # a plan has at most as many of them as it has steps
            return
        for name, planned in self.course.steps.items():
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
        prepared = self.course.prepare(call, params, is_strict=self._is_strict)
        action = (step.occurrence, step.key) if step.key else self._new_action(prepared)
        if action is None:
            return _fault_duplicate(name, call.tool.name)
        if self._is_rechecked(step, call, params):
            is_waiting = not self._only_reads(name) and self._is_learning(name)
            if is_waiting and find_undecided(self._called_review(name, params)):
                return None  # steps in progress may bring what the policies depend on
            refusal = recheck(self._called_review(name, params), name)
            if refusal is None and self._is_strict:
                refusal = recheck_results(self.setting.review(self.course.plan), name, self.results)
            if refusal is not None:
                return c.Fault(step=name, code=str(refusal.code), reason=refusal.reason)
        if (unchecked := self._repeated(name, step, call, params, action[1])) is not None:
            return unchecked
        if (shortage := self._shortage(step, call)) is not None:
            # A call in flight may give back some of what is reserved for it: only what is spent for good refuses.
            if self.state.in_flight:
                return None
            if step.is_unsettled:
                return self.ask_whether(name, step)
            return c.Fault(step=name, code="budget_exceeded", reason=str(shortage))
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
        gates = gates_of(self.setting, self.course, name, params, self.progress)
        if repeats and once is not None and once.gate is not None:
            gates = tuple(dict.fromkeys((*gates, once.gate)))
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

    def _approved_with(
        self, step: StepState, compensation: BoundCompensation | None, gates: tuple[str, ...]
    ) -> BoundCompensation | None:
        """Return a compensation with the gates at which people approved it with its step, if all its values were shown."""
        if compensation is None or not compensation.proposed or not is_complete(compensation):
            return compensation
        by_people = any(a.answer == "approve" and a.digest == step.approved for a in self.state.answers)
        return msgspec.structs.replace(compensation, approved=gates) if by_people else compensation

    # --- what other steps mean for a call ---

    @property
    def progress(self) -> Progress:
        """What is known by now of the plan's steps; nothing where no policy looks at more than one step."""
        if not self.setting.judges_other_steps:
            return NO_PROGRESS
        if self._progress is None:
            self._progress = self._find_progress()
        return self._progress

    def _find_progress(self) -> Progress:
        params: dict[str, dict[str, Any]] = {}
        for name, call in self.course.calls.items():
            step = self.state.steps[name]
            if call.step.is_written_out:
                continue  # what it runs with is in the plan
            if step.may_have_happened:
                params[name] = step.params
            else:
                with suppress(ResolutionError):
                    params[name] = resolve(call.params, self.results, self.setting.evidence)
        planned = [(step, self.state.steps[step.id]) for step in self.course.plan.steps]
        left_out = {step.id for step, at in planned if at.status == "skipped" and not at.may_have_happened}
        completed = frozenset(step.id for step, at in planned if _has_completed(at))
        chosen: set[str] = set()
        for step, at in planned:
            if step.id in completed or step.id in left_out:
                continue
            is_chosen = True if at.attempt else self._evaluate_early(step)
            if is_chosen is not None:
                (chosen if is_chosen else left_out).add(step.id)
        uncertain = find_uncertain(
            self.course.plan,
            self.setting.surface,
            completed=completed,
            chosen=frozenset(chosen),
            left_out=frozenset(left_out),
        )
        return Progress(params=params, left_out=frozenset(left_out), uncertain=uncertain)

    def _evaluate_early(self, step: Step) -> bool | None:
        """Return whether a step's `when` holds or it has none; None if it fails, or refers to a step that has not ended."""
        if step.when is None:
            return True
        before = (self.state.steps[name] for name in references.names(step.when) if name in self.state.steps)
        if any(at.status not in ("done", "skipped") for at in before):
            return None
        try:
            return _is_true(
                evaluate(step.when, self.results, self.setting.evidence, is_bounded=self._is_strict)
            )
        except ResolutionError:
            return None

    def _is_rechecked(self, step: StepState, call: EffectiveStep, params: dict[str, Any]) -> bool:
        """Whether there is something about a call that its review could not decide, or decided on other steps."""
        if not self._is_strict:
            return step.attempt == 0 and params != call.params
        if step.is_unsettled:  # it may have happened already, as it was decided then
            return False
        is_new = params != call.params or bool(self.state.verdict.get("deferred") or self.setting.spec.bind)
        return is_new or bool(self.progress.left_out or self.progress.uncertain)

    def _is_learning(self, name: str) -> bool:
        """Whether another step that is under way, or that may begin at once, can bring what is not known yet: values, or
        whether it runs."""
        others = [(other, self.state.steps[other]) for other in self.state.frontier if other != name]
        open_ones = [(other, step) for other, step in others if not step.gate]
        return any(
            step.status in ("in_flight", "unknown") or (step.status == "pending" and self._only_reads(other))
            for other, step in open_ones
        ) or any(other in self.progress.uncertain and self._is_permitted(other) for other, _ in open_ones)

    def _is_permitted(self, name: str) -> bool:
        """Whether the policies over the plan can be decided for a call: then it waits for no other step itself."""
        call = self.course.calls.get(name)
        if call is None:
            return True
        try:
            params = self._resolve_params(call)
        except ResolutionError:
            return True  # it ends at once
        return not find_undecided(self._called_review(name, params))

    def _called_review(self, name: str, params: dict[str, Any]) -> Review:
        """Return the review of the plan with the parameters that are known by now."""
        config, plan = self.setting, self.course.plan
        return resolved_review(config.ctx, config.compiled, config.spec, plan, name, params, self.progress)

    def _only_reads(self, name: str) -> bool:
        call = self.course.calls.get(name)
        return call is None or call.mode is ApprovalMode.READ_ONLY

    def _unmet_precondition(self, name: str, step: StepState) -> str | None:
        """Return a condition that a step needs and that does not hold now; None if all of them do."""
        needs = self._needs(name)
        if not needs or not self.setting.checks_conditions or step.is_unsettled:
            return None
        return next((each for each in needs if each not in self._held_conditions), None)

    def _needs(self, name: str) -> tuple[str, ...]:
        """Return the conditions that a step needs."""
        call = self.course.calls.get(name)
        return needs_of(self.course.steps[name], None if call is None else call.tool)

    @cached_property
    def _held_conditions(self) -> frozenset[str]:
        """The conditions that hold after everything that the run has done, or may have done."""
        places = {name: place for place, name in enumerate(self.state.done)}
        surface, calls = self.setting.surface, self.course.calls
        made = [(each.place, surface.get(each.step.tool or "")) for each in self.setting.ctx.earlier]
        made += [
            (places.get(name) if step.status == "done" else None, calls[name].tool)
            for name, step in self.state.steps.items()
            if step.may_have_happened and name in calls
        ]
        ordered = sorted(made, key=lambda each: (each[0] is None, each[0] or 0))
        return conditions_after(
            self.setting.spec.conditions, ((tool, place is not None) for place, tool in ordered)
        )

    def _new_action(self, call: PreparedCall) -> tuple[int, str] | None:
        """The how-manieth time this action happens, and its key; None if it may not happen again."""
        state, start = self.state, self.state.start
        taken = {state.steps[name].key for name in state.frontier}
        occurrence, keys = 0, call.keys(start.tenant, start.session, 0)
        while any(key in state.keys or key in taken for key in keys):
            if not call.only_reads and call.call.tool.name not in self.setting.spec.repeatable:
                return None
            occurrence += 1
            keys = call.keys(start.tenant, start.session, occurrence)
        return occurrence, keys[0]

    def _shortage(self, step: StepState, call: EffectiveStep) -> budget.Shortage | None:
        """Return what the budget has too little of for this call and its compensation."""
        limits = self.setting.limits
        if not limits:
            return None
        needs = budget.needs_of_call(call, budget.hold_of(call, self.course.tools))
        waits = {"wall_clock_ms": max(0, step.not_before - self.state.at)}
        return budget.find_shortage(self.state.used, limits, needs, own=step, also=waits)

    # --- approvals ---

    def _unapproved(self, step: StepState, asked: Resolved, gates: tuple[str, ...]) -> c.Ask | c.Grant | None:
        """The question whether a call may be made that needs an approval, or the policy that answers it; None if it has been
        answered."""
        name, params = asked.name, asked.params
        bound = call_digest(self.state, self.setting, asked, gates)
        if step.approved == bound:
            return None
        setting, plan = self.setting, self.course.plan
        if not gates and not step.is_added and not step.approved and not asked.repeats:
            policy = granted_by(setting.ctx, setting.compiled, setting.spec, plan, name, params)
            if policy is not None:
                return c.Grant(step=name, policy=policy, digest=bound)
        return ask_for(self.state, setting, asked, gates, tuple(self._sequence(asked, gates)))

    def _sequence(self, asked: Resolved, gates: tuple[str, ...]) -> Iterator[Resolved]:
        """The other calls that the same people would be asked about, where a gate covers a sequence of them.

        Only calls whose parameters are known by now: what an approver cannot see, they cannot approve.
        """
        known = self.setting.compiled.gates_by_name
        if not gates or any(known[gate].covers != "sequence" for gate in gates if gate in known):
            return
        keys = {asked.key}  # a repetition has another key when its turn comes: it is asked about by itself
        for other, call in self.course.calls.items():
            step = self.state.steps[other]
            if other == asked.name or step.status != "pending" or step.attempt or step.gate:
                continue
            if self.course.steps[other].when is not None:
                continue
            try:
                params = self._resolve_params(call)
                compensation = self._compensation(call, params)
            except ResolutionError:
                continue
            action = self._new_action(self.course.prepare(call, params, is_strict=self._is_strict))
            if action is None or action[1] in keys:
                continue
            if gates_of(self.setting, self.course, other, params, self.progress) == gates:
                keys.add(action[1])
                yield Resolved(name=other, call=call, params=params, key=action[1], compensation=compensation)


def _has_completed(step: StepState) -> bool:
    """Whether a step has ended and its call took effect, or it called nothing."""
    return step.status == "done" or (step.status in ("failed", "skipped") and step.may_have_happened)


def _fail_step(step: Step, code: str, reason: str) -> c.Skip | c.Fault:
    """What becomes of a step that cannot be called."""
    if step.optional:
        return c.Skip(step=step.id, reason="optional_failed")
    return c.Fault(step=step.id, code=code, reason=reason)


def _fault_duplicate(step: str, tool: str) -> c.Fault:
    reason = f"{tool} with this identity was done before in this session"
    return c.Fault(step=step, code="duplicate_action", reason=reason)


def needs_approval(call: EffectiveStep, gates: tuple[str, ...]) -> bool:
    """Whether a person is asked before this call: anything above local_write, irreversible, or gated."""
    return call.needs_person or bool(gates)


def can_retry(state: State, setting: RunConfig, step: StepState) -> bool:
    """Whether a failed step may be tried again by itself."""
    if step.outcome != "not_done" or not step.is_retriable:
        return False
    return step.code in WITHHELD or has_retries(state, setting, step)


def has_retries(state: State, setting: RunConfig, step: StepState) -> bool:
    """Whether the budgets of the step and of the run have a retry left."""
    limits = setting.ctx.run_budget
    return step.retries < limits.max_step_retries and state.used.retries < limits.max_retries


def is_looping(step: StepState) -> bool:
    """Whether a step was the same call with the same result once too often."""
    return step.status == "done" and step.repeated >= LOOP_LIMIT


def _is_true(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ResolutionError(f"the condition yields {value!r}, not a boolean")
    return value


def _planning(run: Run) -> Iterator[c.Command]:
    yield c.Reflect() if run.state.is_turn_open else c.Propose()


def _decomposing(_: Run) -> Iterator[c.Command]:
    yield c.Decompose()


def _retrieving(_: Run) -> Iterator[c.Command]:
    yield c.Retrieve()


def _reviewing(_: Run) -> Iterator[c.Command]:
    yield c.Review()


def _acting(run: Run) -> Iterator[c.Command]:
    return iter(()) if run.plan is None else Acting(run).commands()


def _escalating(run: Run) -> Iterator[c.Command]:
    if is_escalated(run.state) and not _is_handed_over(run.state):
        yield c.Escalate()


_DUE_IN: dict[Phase, Callable[[Run], Iterator[c.Command]]] = {
    Phase.PLAN: _planning,
    Phase.DECOMPOSE: _decomposing,
    Phase.RETRIEVE: _retrieving,
    Phase.REVIEW: _reviewing,
    Phase.ACT: _acting,
    Phase.VERIFY: _verifying,
    Phase.CRITIQUE: _criticising,
    Phase.REPAIR: _repairing,
    Phase.COMMIT: _ending,
    Phase.FAIL: _ending,
    Phase.HALT: _escalating,
}
"""What is due in each phase."""

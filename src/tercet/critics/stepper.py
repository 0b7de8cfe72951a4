"""Runs an agent and its critics in place of a planner: decide → act → reduce → critic → check_stop.

The runtime asks for a plan, carries it out and returns the results. In between, this module keeps the state of the
agent, the prompt that its critics patched, and the outcome of a turn. Every change of a turn is in its event, as far as
it is JSON, so the state can be rebuilt by applying the recorded turns again.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import Plan
from tercet.contracts.question import Inquiry, ModelFault, Question, Reply
from tercet.contracts.shape import JsonObject, as_object
from tercet.contracts.values.plain import not_plain, storable
from tercet.core.config import RunConfig
from tercet.core.state import State
from tercet.core.turns import Reflection, Sofar, Turn
from tercet.critic.pluggable.patches import copy_state
from tercet.critic.pluggable.stop import StopReason, looks_back, step_signature
from tercet.critics.agent import Agent, Observation, ask_decide, ask_reduce, prompted, settled
from tercet.critics.decision import Decision, DecisionError, decision_of, is_readable, plan_of, read_decision
from tercet.critics.hooks import Hooks, Moment
from tercet.critics.judging import Judges, Judging, Turned, changed_fields, mark_stopped, recall_metadata
from tercet.models.model import Model
from tercet.planner.sources import PlanningError

TASK = "task"
"""The field of a request for a task that is a text."""


def task_of(request_input: JsonObject) -> Any:
    """Return the task as the agent receives it: a text, or the object that was given."""
    task = request_input.get(TASK)
    return task if isinstance(task, str) and len(request_input) == 1 else request_input


@dataclass(frozen=True, kw_only=True)
class Open:
    """A proposed decision whose outcome is not known yet."""

    number: int
    returned: Any
    """The agent's own object, which is passed to its reducer."""
    decision: Decision
    before: Any
    """The state before the decision, to restore on a retry."""

    @property
    def judged(self) -> Any:
        """The decision that critics see: the agent's own object if they can read it."""
        return self.returned if is_readable(self.returned, self.decision) else self.decision


@dataclass
class Steps:
    """One run of an agent, as the runtime drives it."""

    agent: Agent
    judges: Judges
    hooks: Hooks
    name: str = ""
    state: Any = None
    decision: JsonObject = field(default_factory=dict[str, Any])
    """The last decision, as it is recorded."""
    prompt: str | None = None
    """The patched system prompt, until a step is accepted."""
    run_id: str = ""
    judged: int = 0
    """The number of turns applied to the state."""
    _is_ready: bool = False
    _open: Open | None = None
    _reason: str = ""
    """Why the last turn was refused; the agent learns it from its critics."""
    _signatures: list[str] = field(default_factory=list[str])
    _states: list[Any] = field(default_factory=list[Any])
    """Copies of the states after the latest turns, as many as the criteria look back on."""
    _results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The results of the last turn."""

    # --- rebuilding the state ---

    async def prepare(self, task: Any) -> None:
        """Create the initial state of a run; raise `UsageError` if the agent fails."""
        try:
            self.state = await settled(self.agent.init_state(task))
        except Exception as error:
            raise UsageError(
                f"init_state raised {type(error).__name__}: {error}",
                code="agent_raised",
                remedy="nothing was started: fix the agent, or give it another task",
            ) from error
        copy_state(self.state)  # fail now rather than after a step if the state cannot be copied
        self.prompt, self.judged, self._open, self._is_ready = None, 0, None, True
        self._signatures.clear()
        self._states.clear()
        self._results = []

    async def rebuild(self, task: Any, turns: Sequence[Turn]) -> None:
        """Apply these turns, unless the state already includes them. Raises `UsageError` if that is impossible."""
        done = [turn for turn in turns if turn.judged is not None]
        is_open = len(turns) > len(done)
        if self._is_ready and self.judged == len(done):
            if self._open is not None and not is_open:
                self.state, self._open = self._open.before, None
            return
        self._is_ready = False
        await self.prepare(task)
        for turn in turns:
            _demand_whole(turn)
            if turn.judged is not None:
                await self._take_in(turn)

    async def begin(self, config: RunConfig, turns: Sequence[Turn]) -> None:
        """Apply these turns, once in each process."""
        self.run_id = config.ctx.run_id
        request = config.compiled.request
        await self.rebuild(task_of({} if request is None else request.input), turns)
        await self.hooks.tell("before", "start", self._moment(len(turns)))
        await self.hooks.tell("after", "start", self._moment(len(turns)))

    async def _take_in(self, turn: Turn) -> None:
        said = turn.judged
        assert said is not None  # noqa: S101 - only judged turns are taken in
        before = copy_state(self.state)
        if said.stop != StopReason.AGENT_RAISED:
            try:
                await self._reduce(self._recalled(turn), turn.results)
            except Exception as error:
                raise _lost(turn.number, f"reduce raised {type(error).__name__}: {error}") from error
        if said.action == "retry":
            self.state = before
        for key, value in said.patch.items():
            setattr(self.state, key, copy.deepcopy(value))
        recall_metadata(self.state, said.metadata)
        if said.stop:
            mark_stopped(self.state, StopReason(said.stop))
        self._note(turn, said.prompt, said.reason)

    def _recalled(self, turn: Turn) -> Open:
        """Return an open turn that another process began."""
        decision = decision_of(turn.plan, turn.decision)
        returned = turn.decision.get("said", decision)
        return Open(number=turn.number, returned=returned, decision=decision, before=copy_state(self.state))

    def _note(self, turn: Turn, prompt: str | None, reason: str) -> None:
        self.prompt, self.judged, self._reason, self._open = prompt, turn.number, reason, None
        self._signatures.append(step_signature(decision_of(turn.plan, turn.decision), turn.results))
        self._results = turn.results
        if (kept := looks_back(self.judges.criteria) - 1) > 0:
            self._states = [*self._states, copy_state(self.state)][-kept:]

    # --- decide ---

    def _before_deciding(self, feedback: tuple[str, ...]) -> tuple[Any, str | None]:
        """Return the state to restore, and the prompt to decide with: pending guidance is appended."""
        if getattr(self.state, "stop_reason", None) is not None:
            mark_stopped(self.state, None)
        unheard = [each for each in feedback if each != self._reason]
        own = self.agent.system_prompt if self.prompt is None else self.prompt
        prompt = "\n\n".join(part for part in (own, *unheard) if part) if unheard else self.prompt
        return copy_state(self.state), prompt

    def _decided(self, returned: Any, before: Any, config: RunConfig) -> Plan:
        """Return the plan of the agent's decision, which is now open."""
        number = self.judged + 1
        decision = read_decision(returned)
        plan = plan_of(decision, number, config)
        self._open = Open(number=number, returned=returned, decision=decision, before=before)
        self.decision = _recorded(returned, decision, changed_fields(before, self.state))
        return plan

    @contextmanager
    def _deciding(self, before: Any, prompt: str | None) -> Generator[None, None, None]:
        """Set the agent's prompt while it decides, and undo its changes if it fails."""
        try:
            with prompted(self.agent, prompt):
                yield
        except BaseException as error:
            self.state = before
            if isinstance(error, PlanningError | ModelFault) or not isinstance(error, Exception):
                raise
            raise _undecided(error) from error

    # --- reduce, critic, check_stop ---

    async def reflect(self, turn: Turn, sofar: Sofar) -> Reflection:
        """Apply the results of a turn, have it judged, and return what follows."""
        # If this is interrupted, the state has half a turn applied and is rebuilt first.
        self._is_ready = False
        reflection = await self._reflected(turn, sofar)
        self._is_ready = True
        return reflection

    async def _reflected(self, turn: Turn, sofar: Sofar) -> Reflection:
        await self.hooks.settle()
        opened = self._open if self._open and self._open.number == turn.number else self._recalled(turn)
        seen = self._seen(opened, turn)
        await self.hooks.tell("after", "act", seen)
        judging = Judging(self.agent, self.judges, self.hooks)
        try:
            await self.hooks.tell("before", "reduce", seen)
            await self._reduce(opened, turn.results)
        except Exception as error:  # noqa: BLE001 - the agent is user code
            self.state = copy_state(opened.before)
            taken = judging.unreduced(self.state, error)
        else:
            seen = self._seen(opened, turn)
            await self.hooks.tell("after", "reduce", seen)
            taken = await judging.judge(self._turned(opened, turn), sofar, seen, self.prompt)
        self.state = taken.state
        self._note(turn, taken.reflection.prompt, taken.reflection.reason)
        return taken.reflection

    def _turned(self, opened: Open, turn: Turn) -> Turned:
        """Return what the critics are asked about. An answer makes no calls, so a result of one is its refusal."""
        signature = step_signature(decision_of(turn.plan, turn.decision), turn.results)
        return Turned(
            state=self.state,
            before=opened.before,
            shown=opened.judged,
            results=copy.deepcopy(turn.results),
            is_final=opened.decision.mode == "final" and not turn.results,
            states=tuple(self._states),
            signatures=(*self._signatures, signature),
        )

    async def _reduce(self, opened: Open, results: list[dict[str, Any]]) -> None:
        # Copies, so that a reducer or a critic cannot change the recorded results.
        observed = Observation(copy.deepcopy(results))
        reduced = await settled(ask_reduce(self.agent, self.state, opened.returned, observed))
        if reduced is not None:
            self.state = reduced

    def _decide(self) -> Any:
        return ask_decide(self.agent, self.state, Observation(copy.deepcopy(self._results)))

    def _moment(self, step: int) -> Moment:
        prompt = self.agent.system_prompt if self.prompt is None else self.prompt
        return Moment(run_id=self.run_id, step=step, state=self.state, prompt=prompt)

    def _seen(self, opened: Open, turn: Turn) -> Moment:
        """Return the moment after the results of a turn have arrived."""
        return replace(self._moment(turn.number), decision=opened.decision, results=tuple(turn.results))

    def next_moment(self, prompt: str | None = None) -> Moment:
        """Return the moment of the step that the agent decides on or that is carried out."""
        moment = self._moment(self.judged + 1)
        return moment if prompt is None else replace(moment, prompt=prompt)


class PlainSteps(Steps):
    """The run of an agent whose `decide` is a plain or async function."""

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """Return the plan of the next decision; raise `PlanningError`."""
        before, prompt = self._before_deciding(feedback)
        await self.hooks.tell("before", "decide", self.next_moment(prompt))
        with self._deciding(before, prompt):
            plan = self._decided(await settled(self._decide()), before, config)
        seen = replace(self.next_moment(prompt), decision=self._open.decision if self._open else None)
        await self.hooks.tell("after", "decide", seen)
        await self.hooks.tell("before", "act", seen)
        return plan


class RecalledSteps(Steps):
    """A run of an agent that is judged again, with its recorded decisions and results."""

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:  # noqa: ARG002 - a planner's signature
        """Raise: nothing is decided in a replay."""
        raise PlanningError(f"{self.name} is only judged again", code="nothing_decided")

    async def reflect(self, turn: Turn, sofar: Sofar) -> Reflection:
        """Apply a turn and have it judged."""
        self._before_deciding(())  # critics may read what it leaves in the state
        return await super().reflect(turn, sofar)


class AskingSteps(Steps):
    """The run of an agent whose `decide` yields questions to language models."""

    models: tuple[Model, ...] = ()

    def inquire(self, config: RunConfig, state: State) -> Inquiry[Plan]:
        """Return the generator of questions to the plan of the next decision; raises `PlanningError`."""
        before, prompt = self._before_deciding(state.feedback)
        self.hooks.mention("before", "decide", self.next_moment(prompt))
        with self._deciding(before, prompt):
            plan = self._decided((yield from _questions(self._decide())), before, config)
        seen = replace(self.next_moment(prompt), decision=self._open.decision if self._open else None)
        self.hooks.mention("after", "decide", seen)
        self.hooks.mention("before", "act", seen)
        return plan


AnySteps: TypeAlias = PlainSteps | AskingSteps


def _undecided(error: Exception) -> PlanningError:
    """Return the error for a missing decision, with its own code if the cause is known."""
    if isinstance(error, UsageError):
        return PlanningError(error.message, code=error.code, remedy=error.remedy)
    return PlanningError(f"decide raised {type(error).__name__}: {error}", code="decide_raised")


def _questions(deciding: Generator[Any, Reply, Any]) -> Inquiry[Any]:
    """Yield the agent's questions; raise if it yields anything else."""
    try:
        asked = next(deciding)
        while True:
            if not isinstance(asked, Question):
                raise DecisionError(
                    f"decide yielded a {type(asked).__name__}, which is not a Question",
                    remedy="yield tercet.contracts.question.Question, and return the decision",
                )
            try:
                reply = yield asked
            except ModelFault as fault:
                asked = deciding.throw(fault)
            else:
                asked = deciding.send(reply)
    except StopIteration as ended:
        return ended.value
    finally:
        deciding.close()


def _recorded(returned: Any, decision: Decision, changed: tuple[str, ...]) -> JsonObject:
    """Return a decision as its event records it, besides the plan with its calls and its answer."""
    recorded: JsonObject = {"mode": decision.mode}
    if decision.rationale:
        recorded["rationale"] = storable(decision.rationale)
    if (members := as_object(returned)) is not None and not_plain(members) is None:
        recorded["said"] = copy.deepcopy(members)
    elif not isinstance(returned, Decision):
        recorded["own"] = type(returned).__name__
    if changed:
        recorded["left_out"] = list(changed)
    return recorded


def _demand_whole(turn: Turn) -> None:
    left_out = (*turn.decision.get("left_out", ()), *(turn.judged.left_out if turn.judged else ()))
    if left_out:
        raise _lost(turn.number, f"the journal does not hold {', '.join(map(str, left_out))}")


def _lost(number: int, why: str) -> UsageError:
    return UsageError(
        f"the state of the agent cannot be rebuilt at step {number}: {why}",
        code="state_lost",
        remedy="resume in the process that started it; let decide change nothing, and keep metadata and patches JSON",
    )

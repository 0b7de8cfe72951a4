"""An agent and its critics in the place of a planner: decide → act → reduce → critic → check_stop.

The runtime asks for a plan, carries it out and hands back the results. What happens in between is here: the state of
the agent, the prompt that its critics patched, and what a turn comes to. All that a turn changes is in its event, as
far as it is JSON, so the state can be rebuilt by taking the recorded turns in again.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tercet.contracts.errors import UsageError
from tercet.contracts.plain import not_plain, storable
from tercet.contracts.plan import Plan
from tercet.contracts.question import Inquiry, ModelFault, Question, Reply
from tercet.contracts.shape import JsonObject, as_object
from tercet.core.config import RunConfig
from tercet.core.state import State
from tercet.core.turns import Reflection, Sofar, Turn
from tercet.critic.pluggable.chain import CriticChain
from tercet.critic.pluggable.patches import copy_state
from tercet.critic.pluggable.stop import StopCriterion, StopReason, step_signature
from tercet.critics.decision import Decision, DecisionError, decision_of, is_readable, plan_of, read_decision
from tercet.critics.hooks import Agent, Hooks, Moment, prompted, settled
from tercet.critics.judging import Judging, Turned, changed_fields, mark_stopped, recall_metadata
from tercet.models.model import Model
from tercet.planner.sources import PlanningError

TASK = "task"
"""The field of a request that holds a task that is a text."""


def task_of(request_input: JsonObject) -> Any:
    """The task as the agent is told it: a text, or the object that was given."""
    task = request_input.get(TASK)
    return task if isinstance(task, str) and len(request_input) == 1 else request_input


@dataclass(frozen=True, kw_only=True)
class Open:
    """A decision that was proposed, and what became of it is not known yet."""

    number: int
    returned: Any
    """What the agent returned: its reducer gets it back."""
    decision: Decision
    before: Any
    """The state before the decision, to go back to."""

    @property
    def judged(self) -> Any:
        """What critics are shown: the agent's own object where they can read it."""
        return self.returned if is_readable(self.returned, self.decision) else self.decision


@dataclass
class Steps:
    """One run of an agent, as the runtime drives it."""

    agent: Agent
    chain: CriticChain
    criteria: tuple[StopCriterion, ...]
    hooks: Hooks
    name: str = ""
    state: Any = None
    decision: JsonObject = field(default_factory=dict[str, Any])
    """The last decision, as it is recorded."""
    prompt: str | None = None
    """The system prompt that critics want, until a step is accepted."""
    run_id: str = ""
    judged: int = 0
    """How many turns the state has taken in."""
    _is_ready: bool = False
    _open: Open | None = None
    _reason: str = ""
    """Why the last turn was objected to: the agent knows that from its critics."""
    _signatures: list[str] = field(default_factory=list[str])

    # --- coming to where a run stands ---

    async def prepare(self, task: Any) -> None:
        """The state of a run that begins; raises `UsageError` where the agent cannot say."""
        try:
            self.state = await settled(self.agent.init_state(task))
        except Exception as error:
            raise UsageError(
                f"init_state raised {type(error).__name__}: {error}",
                code="agent_raised",
                remedy="nothing was started: mend the agent, or give it another task",
            ) from error
        copy_state(self.state)  # what cannot be copied cannot be gone back to: better now than after a step
        self.prompt, self.judged, self._open, self._is_ready = None, 0, None, True
        self._signatures.clear()

    async def rebuild(self, task: Any, turns: Sequence[Turn]) -> None:
        """Come to where these turns lead, unless the state is there already. Raises `UsageError` if it cannot be."""
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

    async def begin(self, setting: RunConfig, turns: Sequence[Turn]) -> None:
        """Come to where these turns lead, once in each process."""
        self.run_id = setting.ctx.run_id
        request = setting.compiled.request
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
        """A turn that another process began."""
        decision = decision_of(turn.plan, turn.decision)
        returned = turn.decision.get("said", decision)
        return Open(number=turn.number, returned=returned, decision=decision, before=copy_state(self.state))

    def _note(self, turn: Turn, prompt: str | None, reason: str) -> None:
        self.prompt, self.judged, self._reason, self._open = prompt, turn.number, reason, None
        self._signatures.append(step_signature(decision_of(turn.plan, turn.decision), turn.results))

    # --- decide ---

    def _before_deciding(self, feedback: tuple[str, ...]) -> tuple[Any, str | None]:
        """The state to go back to, and the prompt to decide with: what the agent has not heard yet is appended."""
        if getattr(self.state, "stop_reason", None) is not None:
            mark_stopped(self.state, None)
        unheard = [each for each in feedback if each != self._reason]
        own = self.agent.system_prompt if self.prompt is None else self.prompt
        prompt = "\n\n".join(part for part in (own, *unheard) if part) if unheard else self.prompt
        return copy_state(self.state), prompt

    def _decided(self, returned: Any, before: Any, setting: RunConfig) -> Plan:
        """The plan of what the agent returned, which is now open."""
        number = self.judged + 1
        decision = read_decision(returned)
        plan = plan_of(decision, number, setting)
        self._open = Open(number=number, returned=returned, decision=decision, before=before)
        self.decision = _recorded(returned, decision, changed_fields(before, self.state))
        return plan

    @contextmanager
    def _deciding(self, before: Any, prompt: str | None) -> Generator[None, None, None]:
        """While the agent decides: under its prompt, and if it fails, what it changed is undone."""
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
        """Take in what a turn brought, let it be judged, and say what follows."""
        # Cut off in the middle, the state holds half a turn: then it is rebuilt before anything else.
        self._is_ready = False
        reflection = await self._reflected(turn, sofar)
        self._is_ready = True
        return reflection

    async def _reflected(self, turn: Turn, sofar: Sofar) -> Reflection:
        await self.hooks.settle()
        opened = self._open if self._open and self._open.number == turn.number else self._recalled(turn)
        seen = self._seen(opened, turn)
        await self.hooks.tell("after", "act", seen)
        judging = Judging(self.agent, self.chain, self.criteria, self.hooks)
        try:
            await self.hooks.tell("before", "reduce", seen)
            await self._reduce(opened, turn.results)
        except Exception as error:  # noqa: BLE001 - the agent is anybody's code
            self.state = copy_state(opened.before)
            taken = judging.unreduced(self.state, error)
        else:
            seen = self._seen(opened, turn)
            await self.hooks.tell("after", "reduce", seen)
            signature = step_signature(decision_of(turn.plan, turn.decision), turn.results)
            turned = self._turned(opened, turn)
            taken = await judging.judge(turned, sofar, (*self._signatures, signature), seen, self.prompt)
        self.state = taken.state
        self._note(turn, taken.reflection.prompt, taken.reflection.reason)
        return taken.reflection

    def _turned(self, opened: Open, turn: Turn) -> Turned:
        """What the critics are asked about. An answer calls nothing, so a result of one is its refusal."""
        return Turned(
            state=self.state,
            before=opened.before,
            shown=opened.judged,
            results=copy.deepcopy(turn.results),
            is_final=opened.decision.mode == "final" and not turn.results,
        )

    async def _reduce(self, opened: Open, results: list[dict[str, Any]]) -> None:
        # Copies: what a reducer or a critic does to the results must not change what the run has recorded.
        reduced = await settled(self.agent.reduce(self.state, opened.returned, copy.deepcopy(results)))
        if reduced is not None:
            self.state = reduced

    def _moment(self, step: int) -> Moment:
        prompt = self.agent.system_prompt if self.prompt is None else self.prompt
        return Moment(run_id=self.run_id, step=step, state=self.state, prompt=prompt)

    def _seen(self, opened: Open, turn: Turn) -> Moment:
        """Where the run is once the results of a turn are in."""
        return replace(self._moment(turn.number), decision=opened.decision, results=tuple(turn.results))

    def _next(self, prompt: str | None) -> Moment:
        """Where the run is when the agent is about to decide."""
        moment = self._moment(self.judged + 1)
        return moment if prompt is None else replace(moment, prompt=prompt)


class PlainSteps(Steps):
    """The run of an agent whose `decide` answers at once, or is awaited."""

    async def propose(self, setting: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """The plan of the next decision; raises `PlanningError`."""
        before, prompt = self._before_deciding(feedback)
        await self.hooks.tell("before", "decide", self._next(prompt))
        with self._deciding(before, prompt):
            plan = self._decided(await settled(self.agent.decide(self.state)), before, setting)
        seen = replace(self._next(prompt), decision=self._open.decision if self._open else None)
        await self.hooks.tell("after", "decide", seen)
        await self.hooks.tell("before", "act", seen)
        return plan


class RecalledSteps(Steps):
    """A run of an agent that is judged again: its decisions and results are those that were recorded."""

    async def propose(self, setting: RunConfig, feedback: tuple[str, ...]) -> Plan:  # noqa: ARG002 - a planner's signature
        """Nothing is decided anew."""
        raise PlanningError(f"{self.name} is only judged again", code="nothing_decided")

    async def reflect(self, turn: Turn, sofar: Sofar) -> Reflection:
        """Take in a turn and let it be judged."""
        self._before_deciding(())  # what it leaves in the state, critics may see
        return await super().reflect(turn, sofar)


class AskingSteps(Steps):
    """The run of an agent whose `decide` yields questions to language models."""

    models: tuple[Model, ...] = ()

    def inquire(self, setting: RunConfig, state: State) -> Inquiry[Plan]:
        """The way to the plan of the next decision; raises `PlanningError`."""
        before, prompt = self._before_deciding(state.feedback)
        self.hooks.mention("before", "decide", self._next(prompt))
        with self._deciding(before, prompt):
            plan = self._decided((yield from _questions(self.agent.decide(self.state))), before, setting)
        seen = replace(self._next(prompt), decision=self._open.decision if self._open else None)
        self.hooks.mention("after", "decide", seen)
        self.hooks.mention("before", "act", seen)
        return plan


AnySteps: TypeAlias = PlainSteps | AskingSteps


def _undecided(error: Exception) -> PlanningError:
    """Why there is no decision, with a code of its own where it is known what is wrong."""
    if isinstance(error, UsageError):
        return PlanningError(error.message, code=error.code, remedy=error.remedy)
    return PlanningError(f"decide raised {type(error).__name__}: {error}", code="decide_raised")


def _questions(deciding: Generator[Any, Reply, Any]) -> Inquiry[Any]:
    """What a deciding agent asks, and nothing but questions."""
    try:
        asked = next(deciding)
        while True:
            if not isinstance(asked, Question):
                raise DecisionError(
                    f"decide yielded a {type(asked).__name__}, which is no Question",
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
    """A decision as its event keeps it, beside the plan that holds its calls and its answer."""
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
        remedy="go on in the process that began it; let decide change nothing, and keep metadata and patches JSON",
    )

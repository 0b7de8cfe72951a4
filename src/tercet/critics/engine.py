"""The Engine: runs an agent that decides one step at a time, on the journalled driver.

Each decision becomes its own plan, which is reviewed and runs through the gateway. So a reactive agent gets what a
planned one has: verification before anything happens, approval, exactly-once, budgets, and a journal to resume from.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
from pydantic import ValidationError

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import compensated_step
from tercet.contracts.request import Actor, Request, anonymous
from tercet.contracts.shape import as_object
from tercet.core import events as e
from tercet.core.state import State
from tercet.core.turns import Turn, turns_of
from tercet.critic.pluggable.chain import CriticChain
from tercet.critic.pluggable.critic import Evaluates
from tercet.critic.pluggable.stop import FinalResult, MaxSteps, StopCriterion
from tercet.critics.agent import (
    Agent,
    asks_models,
    demand_agent,
    demand_polls,
    demand_tools,
    pack_of,
    polls_of,
)
from tercet.critics.hooks import AnyHook, Hooks, Moment, Recovery, ToolCall
from tercet.critics.judging import Judges, OnCriticStop
from tercet.critics.result import EngineResult, tell
from tercet.critics.stepper import TASK, AnySteps, AskingSteps, PlainSteps, RecalledSteps, task_of
from tercet.engine.leases import LEASE_MS
from tercet.engine.result import RunResult
from tercet.engine.session_reader import load_history
from tercet.engine.subscription import Observer
from tercet.executor.breaker import CircuitBreaker
from tercet.executor.clock import Clock
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Journal
from tercet.models.model import Model
from tercet.packs.pack import Pack
from tercet.runtime import Runtime, RuntimeOptions


class CallHooks:
    """Calls the hooks of one run before and after each tool call, and when the run recovers from a failure."""

    def __init__(self, steps: AnySteps) -> None:
        self._steps = steps
        self._calls: dict[str, ToolCall] = {}
        """The calls in progress, by their steps."""

    def __call__(self, state: State, event: e.Event) -> None:
        """Receive an event of any run of the runtime."""
        if state.start.run != self._steps.run_id:
            return
        match event:
            case e.Intent() if event.tool:
                call = ToolCall(step=event.step, tool=event.tool, args=event.params, attempt=event.attempt)
                if (of := compensated_step(event.step)) and event.attempt == 1:
                    self._recover("compensate", f"{event.tool} compensates step {of}")
                self._calls[event.step] = call
                self._mention("before", call)
            case e.Complete():
                self._end(event.step, _failed(event.error) if event.error else _result(event))
            case e.Abort():
                self._end(event.step, _failed(event.error))
            case e.RetryScheduled():
                self._recover("retry", f"step {event.step} is called again after attempt {event.attempt}")
            case e.PlanningFailed() if event.outcome == "replan":
                self._recover("decide", event.reason)
            case e.SessionResumed() if event.in_flight:
                self._recover("resume", f"step {', '.join(event.in_flight)} was interrupted")
            case _:
                pass

    def _end(self, step: str, result: dict[str, Any]) -> None:
        if (call := self._calls.pop(step, None)) is not None:
            self._mention("after", replace(call, result=result))

    def _mention(self, when: Any, call: ToolCall) -> None:
        self._steps.hooks.mention(when, "tool", replace(self._steps.next_moment(), call=call))

    def _recover(self, kind: Any, reason: str) -> None:
        moment = replace(self._steps.next_moment(), recovery=Recovery(kind=kind, reason=reason))
        for when in ("before", "after"):
            self._steps.hooks.mention(when, "recovery", moment)


def _failed(error: str) -> dict[str, Any]:
    return {"error": error}


def _result(event: e.Complete) -> dict[str, Any]:
    """Return the result of a call; a large one is stored apart, and is in the results of its step."""
    if event.blob:
        return {"blob": event.blob}
    members = as_object(event.value)
    return {"result": event.value} if members is None else members


# --- engine ---


MAX_STEPS = 50
"""The default maximum of steps, without stop criteria."""

_AT_WORK: set[int] = set()
# The agents that are running in this process, by identity: two engines may hold the same object, whose prompt is set
# while it decides.


class Engine:
    """Runs an agent: decide → act → reduce → critic → check_stop, one task at a time."""

    def __init__(
        self,
        agent: Agent,
        critics: Sequence[Evaluates] = (),
        stop: Sequence[StopCriterion] = (),
        hooks: Sequence[AnyHook] = (),
        *,
        pack: Pack | None = None,
        intent: str | None = None,
        journal: str | Journal = "memory:",
        models: Sequence[Model] = (),
        on_critic_stop: OnCriticStop = "pause",
        breaker: CircuitBreaker | None = None,
        actor: Actor | None = None,
        tenant: str = "default",
        clock: Clock | None = None,
        ids: Callable[[], str] | None = None,
        lease_ms: int = LEASE_MS,
        crash: Callable[[str], Awaitable[None] | None] = lambda _: None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """Create an engine. Without a `pack`, one is made of the agent's tools. `models` are those that a `decide` with
        questions asks: the first one, and the others as fallbacks. `on_critic_stop` says whether a critic's stop pauses the
        run for a person or ends it, and `breaker` when a failing tool is no longer called. `actor` owns the runs, and
        cannot approve them, and `observers` are notified of every run. Raises `UsageError` for an invalid agent, critic,
        criterion, hook, tool or setting.
        """
        demand_agent(agent)
        self.agent = agent
        self.pack = pack_of(agent) if pack is None else pack
        demand_tools(agent.tools, self.pack)
        decision = self.pack.decision_for(intent)
        demand_polls(polls_of(agent), self.pack, decision)
        self._intent = decision.id
        self._judges = Judges(
            chain=CriticChain(critics), criteria=_criteria(stop), on_stop=_demand_on_stop(on_critic_stop)
        )
        self._breaker = breaker or CircuitBreaker()
        self._hooks = Hooks.of(hooks)
        self._models = _demand_models(agent, models)
        self._actor = actor
        self._tenant = tenant
        # A journal in memory lives as long as the Engine, so that a waiting run can be resumed.
        self.journal = MemoryJournal() if journal == "memory:" else journal
        self._clock = clock
        self._ids = ids or (lambda: os.urandom(8).hex())
        self._lease_ms = lease_ms
        self._crash = crash
        self._observers = observers
        self._live: dict[str, AnySteps] = {}
        """The agent states of this Engine's open sessions."""

    def runtime(self) -> Runtime:
        """Return a runtime on the same journal, to answer gates and to inspect: `async with engine.runtime() as
        runtime`.
        """
        return self._runtime(None)

    def _runtime(self, tell: CallHooks | None) -> Runtime:
        return Runtime(
            self.pack,
            self.journal,
            tenant=self._tenant,
            observers=self._observers,
            tell=tell,
            options=RuntimeOptions(
                clock=self._clock,
                ids=self._ids,
                lease_ms=self._lease_ms,
                crash=self._crash,
                breaker=self._breaker,
            ),
            watchdog_ms=None,  # a watchdog could not resume sessions without their agent
        )

    async def run(self, task: str | dict[str, Any]) -> EngineResult:
        """Start a run for a task, a text or a JSON object, and drive it as far as possible."""
        request = self._request(task)
        steps = self._steps()
        async with self._at_work(), self._runtime(CallHooks(steps)) as runtime:
            await steps.prepare(task_of(request.input))
            result = await runtime.run(request, planner=steps, actor=self._actor)
            return await self._result_of(runtime, result, steps)

    async def resume(self, session_id: str) -> EngineResult:
        """Resume a run that waited for an answer, was paused, or whose process has died.

        The state is rebuilt from the recorded steps: nothing is decided or called again. Raises `UsageError`, before
        anything is recorded, if something of it is not in the journal.
        """
        return await self._go_on(session_id, lambda runtime, steps: runtime.resume(session_id, planner=steps))

    async def migrate(self, session_id: str) -> EngineResult:
        """Move a run to the current tools of this agent, and resume it.

        Its open turn is reviewed again, and earlier approvals do not count.
        """
        actor = self._actor or anonymous()
        return await self._go_on(
            session_id, lambda runtime, steps: runtime.migrate(session_id, actor=actor, planner=steps)
        )

    async def _go_on(
        self, session_id: str, carry: Callable[[Runtime, AnySteps], Awaitable[RunResult]]
    ) -> EngineResult:
        steps = self._live.get(session_id) or self._steps()
        async with self._at_work(), self._runtime(CallHooks(steps)) as runtime:
            events = (await load_history(runtime.journal, self._tenant, session_id)).events
            steps.hooks = self._hooks.again()
            await steps.rebuild(self._task(events, session_id), await self._turns(runtime, events))
            return await self._result_of(runtime, await carry(runtime, steps), steps)

    # --- replay ---

    @property
    def name(self) -> str:
        """The name of the planner in sessions of this agent."""
        return f"agent:{type(self.agent).__name__}"

    @property
    def pack_hash(self) -> str:
        """The hash of the pack in sessions of this agent."""
        return self.pack.hash

    def recall(self) -> RecalledSteps | None:
        """Return the agent at the start of a run that is judged again; None unless every critic is pure. Hooks are not
        called.
        """
        if not self._judges.chain.is_pure:
            return None
        return RecalledSteps(self.agent, self._judges, Hooks.of(()), name=self.name)

    # --- parts ---

    def _request(self, task: object) -> Request:
        members = {TASK: task} if isinstance(task, str) else as_object(task)
        if members is None:
            raise _wrong_task(f"a {type(task).__name__}")
        try:
            return Request(intent=self._intent, input=members)
        except ValidationError as error:
            raise _wrong_task(str(error.errors(include_url=False)[0]["msg"])) from error

    def _steps(self) -> AnySteps:
        kind = AskingSteps if asks_models(self.agent) else PlainSteps
        steps = kind(self.agent, self._judges, self._hooks.again(), name=self.name)
        if isinstance(steps, AskingSteps):
            steps.models = self._models
        return steps

    def _task(self, events: Sequence[e.Event], session_id: str) -> Any:
        started = events[0]
        if not isinstance(started, e.SessionStarted) or started.planner != self.name:
            raise UsageError(
                f"session {session_id} was not started by {self.name}",
                code="wrong_agent",
                remedy="resume it with what it was started with",
            )
        return task_of(started.request.get("input", {}))

    async def _turns(self, runtime: Runtime, events: Sequence[e.Event]) -> list[Turn]:
        digests = {event.blob for event in events if isinstance(event, e.Complete) and event.blob}
        blobs = {
            digest: msgspec.json.decode(await runtime.journal.blob(self._tenant, digest))
            for digest in digests
        }
        return turns_of(events, blobs)

    async def _result_of(self, runtime: Runtime, result: RunResult, steps: AnySteps) -> EngineResult:
        events = (await load_history(runtime.journal, self._tenant, result.session_id)).events
        outcome = tell(result, await self._turns(runtime, events), steps.state)
        ending = Moment(
            run_id=steps.run_id,
            step=len(outcome.steps),
            state=steps.state,
            decision=outcome.steps[-1].decision if outcome.steps else None,
            stop_reason=outcome.stop_reason,
            prompt=self.agent.system_prompt,
        )
        await steps.hooks.tell("before", "end", ending)
        await steps.hooks.tell("after", "end", ending)
        self._live.pop(result.session_id, None)
        if result.status in ("awaiting_gate", "paused", "in_progress"):
            self._live[result.session_id] = steps
        return replace(outcome, hook_errors=tuple(steps.hooks.errors))

    @asynccontextmanager
    async def _at_work(self) -> AsyncGenerator[None, None]:
        """Reserve the agent, which works for one run at a time."""
        if id(self.agent) in _AT_WORK:
            raise UsageError(
                f"the agent {type(self.agent).__name__} is already running",
                code="agent_busy",
                remedy="wait for its run, or give each run an agent of its own",
            )
        _AT_WORK.add(id(self.agent))
        try:
            yield
        finally:
            _AT_WORK.discard(id(self.agent))


def _criteria(stop: Sequence[StopCriterion]) -> tuple[StopCriterion, ...]:
    for criterion in stop:
        if isinstance(criterion, type) or not callable(getattr(criterion, "check", None)):
            raise UsageError(
                f"{criterion!r} is not a stop criterion",
                code="criterion_invalid",
                remedy="give an object with check(progress), for example MaxSteps(20)",
            )
    return tuple(stop) or (FinalResult(), MaxSteps(MAX_STEPS))


def _demand_on_stop(given: OnCriticStop) -> OnCriticStop:
    if given not in ("pause", "end"):
        raise UsageError(
            f"unknown on_critic_stop {given!r} (expected: pause or end)", code="on_critic_stop_invalid"
        )
    return given


def _demand_models(agent: Agent, models: Sequence[Model]) -> tuple[Model, ...]:
    if asks_models(agent) and not models:
        raise UsageError(
            f"{type(agent).__name__}.decide asks language models, and there are none",
            code="model_missing",
            remedy="give the Engine models=[…]",
        )
    return tuple(models)


def _wrong_task(what: str) -> UsageError:
    return UsageError(
        f"invalid task: {what}", code="task_invalid", remedy="give a text or a dict of JSON values"
    )

"""The outside world of a run: answers commands with tool and model calls, plans, evidence, times and random numbers.

It makes no decisions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CoroutineType
from typing import Any, TypeAlias

import msgspec

from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.loop import Phase
from tercet.contracts.plan import EvidenceQuery
from tercet.contracts.question import ModelFault
from tercet.contracts.runs.invocation import CircuitState
from tercet.contracts.values.plain import storable
from tercet.core import commands as c
from tercet.core import effects
from tercet.core.answers import (
    Answer,
    CallEnded,
    Done,
    Draw,
    Drawn,
    History,
    LaneGate,
    NotPlanned,
    Now,
    Observed,
    Planned,
    Ready,
    Reflected,
    RepeatsFound,
    Retrieved,
    ToolChanges,
)
from tercet.core.approval import find_lost_acceptance, find_lost_approval
from tercet.core.decide import Acting
from tercet.core.fold.base import LANE_WAITING, IllegalEvent
from tercet.core.modifications import SETTABLE
from tercet.core.plans import read_plan
from tercet.core.resolve.calls import draws_delay, withhold
from tercet.core.resolve.ending import accepted_memories
from tercet.core.retrieval import asking, unread
from tercet.engine.calls import Calls
from tercet.engine.control import ActiveSession, Interrupted
from tercet.engine.evidence import lookups
from tercet.engine.evidence.retrieval import Spent, retrieve
from tercet.engine.models.session import ModelSession
from tercet.engine.outputs.loop import QualityLoop
from tercet.engine.planning import PLANNER_MISSING, answer_failure
from tercet.engine.services import Services
from tercet.engine.session_reader import load_state
from tercet.engine.streams.recent_calls import Repeats
from tercet.evidence.store import Fact
from tercet.journal.errors import JournalError
from tercet.models.model import Model

MODEL_UNAVAILABLE = "model_unavailable"
"""The code of a session that is paused because no model answers its planner."""

_CLOSED, _CLOSED_WORD = CircuitState.CLOSED, CircuitState.CLOSED.value

Answering: TypeAlias = "Answer | CoroutineType[Any, Any, Answer | None] | None"
"""An answer; None where the session is stopped instead; or a coroutine that returns either."""


class World:
    """Answers the commands of one session."""

    def __init__(self, services: Services, calls: Calls) -> None:
        self._services = services
        self._calls = calls

    def answer(self, session: ActiveSession, command: c.Command) -> Answering:
        """Return the answer to a command, or a coroutine that returns it."""
        how = _ANSWERS.get(type(command))
        return Now(at=session.now()) if how is None else how(self, session, command)

    # --- plans ---

    async def propose(self, session: ActiveSession, command: c.Propose) -> Planned | NotPlanned | Now | None:
        """Return the next plan. Planning may take long, so recorded events are written first."""
        del command
        await session.flush()
        known = self._services.planning.known_plan(session.run.state, session.now())
        return await self._ask_planner(session) if known is None else known

    async def _ask_planner(self, session: ActiveSession) -> Planned | NotPlanned | None:
        planning, run = self._services.planning, session.run
        await self._begin_turns(session)  # an agent must load its turns before it decides
        try:
            return await planning.propose(
                session, session.now(), lambda models: self._models(session, models)
            )
        except Interrupted:
            return None
        except (JournalError, IllegalEvent):
            raise
        except Exception as error:  # noqa: BLE001 - a planner is user code
            if isinstance(error, UsageError) and error.code == PLANNER_MISSING:
                session.control.release(error.message)
                return None
            if isinstance(error, ModelFault) and error.model_code != "model_empty":
                # Replanning would fail too: the session is paused until a model is available.
                session.control.release(
                    storable(_describe_fault(error, run.state.start.models)), MODEL_UNAVAILABLE
                )
                return None
            return answer_failure(planning.planner, error, run, session.now())

    def _models(self, session: ActiveSession, models: Sequence[Model]) -> ModelSession:
        services = self._services
        limit = services.planning.limit_for("planner")
        return ModelSession(session, models, clock=services.clock, draw=services.draw, limit=limit)

    async def _begin_turns(self, session: ActiveSession) -> None:
        planning = self._services.planning
        if planning.is_stepwise and not planning.has_begun:
            await planning.begin(session.run, await session.ledger.events_with_results())

    async def reflect(self, session: ActiveSession, command: c.Reflect) -> Reflected | None:
        """Return how an agent and its critics judge a turn."""
        del command
        planning = self._services.planning
        await session.flush()
        await self._begin_turns(session)
        try:
            return await planning.reflect(
                session.run, await session.ledger.events_with_results(), session.now(), session
            )
        except Interrupted:
            planning.has_begun = False  # it holds half a turn
            return None
        except UsageError as error:
            if error.code != PLANNER_MISSING:
                raise
            session.control.release(error.message)
            return None

    def retrieve(self, session: ActiveSession, command: c.Retrieve) -> Answering:
        """Return the evidence that the plan pins and queries."""
        del command
        run = session.run
        plan = read_plan(run.state.plan)
        if not asking(plan, run.state) and not unread(plan, run.config):
            return Retrieved(at=session.now())
        return self._look_for_evidence(session)

    async def _look_for_evidence(self, session: ActiveSession) -> Retrieved | None:
        await session.flush()
        run = session.run
        plan = read_plan(run.state.plan)

        async def look_up(step: str, query: EvidenceQuery, spent: Spent) -> Fact | None:
            return await self._look_up(session, step, query, spent)

        try:
            found = await retrieve(
                plan, asking(plan, run.state), run.config, self._services.library, look_up, session.now()
            )
        except JournalError:
            raise
        except TercetError as error:
            session.control.release(f"evidence cannot be looked up: {error.message}")
            return None
        if found.digest:
            session.values.learn(found.digest, found.facts)
        return found

    async def _look_up(
        self, session: ActiveSession, step: str, query: EvidenceQuery, spent: Spent
    ) -> Fact | None:
        """Look up evidence with a read_only tool, if that is allowed; a shadow run calls none."""
        services, state, config = self._services, session.run.state, session.run.config
        params = None if state.start.shadow else lookups.resolved(config, query)
        tool = services.tools.get(query.tool or "")
        if params is None or tool is None or services.stops.stopped(tool.name):
            return None
        if lookups.shortage(state.used, config, tool, spent) is not None:
            return None
        spent.calls, spent.cost = spent.calls + 1, spent.cost + tool.cost_microcents
        deadline = session.now() + tool.timeout_ms
        context = self._calls.context(state.start, step, f"look_up:{step}", 1, deadline)
        guard = self._calls.guard(state.start, tool.name)
        ended = await services.gateway.call(tool, params, context, timeout_ms=tool.timeout_ms, guard=guard)
        if not isinstance(ended, Done) or ended.error:
            return None
        return lookups.fact_of(config, query, params, ended.value)

    async def review(self, session: ActiveSession, command: c.Review) -> ToolChanges:
        """Return which of the plan's tools differ from the definitions a person accepted; a shadow run does not check."""
        del command
        services, changes = self._services, ()
        named = {tool for step in session.run.followed.plan.steps if (tool := step.tool)}
        reaching = [tool for name in named if (tool := services.tools.get(name)) and tool.outside]
        if reaching and not session.run.state.start.shadow:
            await session.flush()  # the check may take long, so recorded events are written first
            changes = await services.lines.find_changes(reaching)
        for name in named:
            await services.breakers.refresh(name, session.now())
        return ToolChanges(at=session.now(), changes=changes)

    # --- calls ---

    async def check_repeats(self, session: ActiveSession, command: c.CheckRepeats) -> RepeatsFound:
        """Return earlier calls of other runs that count as the same call."""
        found = await self._repeats(session, command.step).find(command.params, command.key, session.now())
        return RepeatsFound(at=session.now(), found=found)

    def _repeats(self, session: ActiveSession, name: str) -> Repeats:
        run = session.run
        return Repeats(self._services.journal, run.state, run.followed.calls[name].tool, name)

    def dispatch(self, session: ActiveSession, command: c.Dispatch) -> Answering:
        """Check emergency stops, the tool's circuit breaker and the approvers' roles just before a call."""
        services, run, name = self._services, session.run, command.step
        tool = run.followed.calls[name].tool
        tool_name = tool.name
        if (stop := services.stops.stopped(tool_name)) is not None:
            session.control.stop_for(stop)
            return None
        now, state = session.now(), run.state
        has_approval = bool(state.approved or state.undo)
        circuit = services.breakers.state(tool_name, now)
        ready = Ready(
            at=now,
            epoch=session.lease.epoch,
            # `.value` is the very object that is INTENT's default, and a default is not stored.
            circuit=_CLOSED_WORD if circuit is _CLOSED else circuit.value,
            role_lost=find_lost_approval(state, run.config, name, services.objection) if has_approval else "",
        )
        if tool.once_per is None or state.steps[name].is_unsettled:
            return ready
        return self._claim(session, command, ready)

    async def _claim(self, session: ActiveSession, command: c.Dispatch, ready: Ready) -> Ready:
        """Claim a call that may be made once in a period. The claim becomes durable before the INTENT."""
        if withhold(session.run, command, ready) is not None:
            return ready
        await session.flush()  # a run that finds the claim must find the session
        known = session.run.state.steps[command.step].earlier_calls
        found = await self._repeats(session, command.step).claim(command.params, command.key, ready.at, known)
        return msgspec.structs.replace(ready, repeats=found)

    def judge(self, session: ActiveSession, command: c.Judge) -> Drawn:
        """Return a random number for the time of a retry."""
        if not draws_delay(session.run, command):
            return Drawn(at=session.now())
        return Drawn(at=session.now(), draw=self._draw())

    def _draw(self) -> Draw:
        return Draw(fraction=self._services.draw())

    async def ask_for_lane(self, session: ActiveSession, command: c.AskForLane) -> LaneGate:
        """Return the first gate that a lane waits at."""
        lane = await load_state(self._services.journal, session.run.state.start.tenant, command.lane)
        gate = next(iter(lane.gates.values()), None)
        if gate is not None:
            about = {"session": command.lane, "name": lane.start.lane["name"], "step": gate.step}
            shown = {name: value for name, value in gate.shown.items() if name != SETTABLE}
            gate = msgspec.structs.replace(
                gate, shown={**shown, "options": ["approve", "deny"], "lane": about}
            )
        return LaneGate(at=session.now(), gate=gate)

    def settle(self, session: ActiveSession, command: c.Settle) -> Answering:
        """Return the outcome of a call whose outcome is unknown, looked up if its tool can reconcile."""
        if session.run.followed.calls[command.step].tool.reconciles:
            return self._look_call_up(session, command)
        if session.run.state.steps[command.step].code == LANE_WAITING:
            return self._end_lane(session, command.step)
        is_drawn = draws_delay(session.run, command)
        return CallEnded(at=session.now(), draw=self._draw() if is_drawn else Draw())

    async def _end_lane(self, session: ActiveSession, name: str) -> CallEnded:
        """End a lane that waits for a person and whose parent is ending."""
        await session.flush()
        envelope = await self._services.end_lane(session.run.state.steps[name].lane)
        data, blob = await session.values.encode(envelope)
        return CallEnded(at=session.now(), ended=Done(value=envelope), data=data, blob=blob)

    async def _look_call_up(self, session: ActiveSession, command: c.Settle) -> CallEnded:
        await session.flush()
        run, name = session.run, command.step
        call, step = run.followed.calls[name], run.state.steps[name]
        params = Acting(run).called_with(call.params)
        context = self._calls.context(run.state.start, name, step.key, step.attempt)
        tool = self._services.tools[call.tool.name]
        guard = self._calls.guard(run.state.start, tool.name)
        found = await self._services.gateway.look_up(tool, params, context, guard=guard)
        data, blob = b"", ""
        if isinstance(found, Done):
            data, blob = await session.values.encode(found.value)
        answer = CallEnded(at=session.now(), ended=found, data=data, blob=blob)
        is_drawn = draws_delay(run, command, answer)
        return msgspec.structs.replace(answer, draw=self._draw()) if is_drawn else answer

    # --- outputs and the end ---

    async def judge_outputs(self, session: ActiveSession, command: c.OutputCommand) -> Observed | None:
        """Return what tests, models and tools report about the outputs."""
        return await QualityLoop(session, self._services, self._calls).answer(command)

    async def look_back(self, session: ActiveSession, command: c.Score | c.Escalate) -> History:
        """Return every event of the session."""
        del command
        return History(at=session.now(), events=await session.ledger.events())

    async def compensate(self, session: ActiveSession, command: c.Compensate) -> History:
        """Return every event of the session, and load the results of the calls that may be compensated."""
        del command
        events = await session.ledger.events()
        await session.values.load(effect.blob for effect in effects.effects(events))
        return History(at=session.now(), events=events)

    def accept_outputs(self, session: ActiveSession, command: c.AcceptOutputs) -> Ready:
        """Check whether the people who accepted the outputs still hold their roles."""
        del command
        run = session.run
        lost = find_lost_acceptance(run.state, run.config, self._services.objection)
        return Ready(at=session.now(), role_lost=lost)

    async def end(self, session: ActiveSession, command: c.End) -> History:
        """Return every event of the session, after storing its memories if its outputs are still accepted."""
        del command
        events = await session.ledger.events()
        run = session.run
        if lost := find_lost_acceptance(run.state, run.config, self._services.objection):
            return History(at=session.now(), events=events, role_lost=lost)
        await self._remember(session)
        await QualityLoop(session, self._services, self._calls).teach(events)
        return History(at=session.now(), events=events)

    async def _remember(self, session: ActiveSession) -> None:
        """Store the memories of the run in the library; a failure does not keep the run from ending."""
        library, state = self._services.library, session.run.state
        if library is None or not state.memory or state.phase is not Phase.COMMIT:
            return
        start = state.start
        try:
            if accepted := accepted_memories(state):
                await library.remember(start.tenant, start.session, accepted, session.now())
        except TercetError as error:
            self._services.subscription.signal(
                "memory_failed", {"loop_id": start.run, "error": error.message}
            )


_ANSWERS: dict[type[c.Command], Callable[[World, ActiveSession, Any], Answering]] = {
    c.Propose: World.propose,
    c.Reflect: World.reflect,
    c.Retrieve: World.retrieve,
    c.Review: World.review,
    c.CheckRepeats: World.check_repeats,
    c.Dispatch: World.dispatch,
    c.Judge: World.judge,
    c.Settle: World.settle,
    c.AskForLane: World.ask_for_lane,
    c.Score: World.look_back,
    c.Escalate: World.look_back,
    c.Compensate: World.compensate,
    c.AcceptOutputs: World.accept_outputs,
    c.End: World.end,
    **dict.fromkeys(c.OUTPUT_COMMANDS, World.judge_outputs),
}
"""The method that answers each command; unlisted commands need only the time."""


def _describe_fault(fault: ModelFault, models: Sequence[str]) -> str:
    """Return which models did not answer, and why."""
    is_named = any(name in fault.message for name in models)
    cause = str(fault) if is_named else f"{', '.join(models)}: {fault}"
    return f"no model answered: {cause}"

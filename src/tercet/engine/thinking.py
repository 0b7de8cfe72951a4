"""What a run asks on its way to the next step: planners, agents, language models, libraries and read_only tools.

Whatever they do takes its time, may fail, and is somebody else's code. So everything that was recorded is durable before
anybody is asked, and whatever comes of it is one event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.loop import Phase
from tercet.contracts.plain import storable
from tercet.contracts.plan import EvidenceQuery
from tercet.contracts.question import ModelFault
from tercet.core import events as e
from tercet.core.attempt import Done
from tercet.core.config import ExecutionPlan
from tercet.core.fold.base import IllegalEvent
from tercet.core.plans import read_plan
from tercet.engine.calls import Calls
from tercet.engine.evidence import lookups as looking_up
from tercet.engine.evidence.retrieval import Spent, asking, pinned, retrieve, unread
from tercet.engine.interruption import Interrupted
from tercet.engine.models.session import Bench, ModelSession
from tercet.engine.services import Services
from tercet.engine.work import PLANNER_MISSING
from tercet.evidence.store import Fact
from tercet.journal.errors import JournalError
from tercet.models.model import Model

MODEL_UNAVAILABLE = "model_unavailable"
"""The code of a session that is paused because no model answers its planner."""


class Desk(Bench, Protocol):
    """What the driver lends besides what an interview needs."""

    @property
    def course(self) -> ExecutionPlan | None:
        """The plan, ready to be followed."""
        ...

    @property
    def blobs(self) -> Mapping[str, Any]:
        """The large results at hand, by their digest."""
        ...

    def now(self) -> int:
        """The time, which never runs backwards within a session."""
        ...

    async def events(self) -> Sequence[e.Event]:
        """All that has happened, and the large results that belong to it at hand."""
        ...

    def learn(self, digest: str, facts: tuple[Evidence, ...]) -> None:
        """Have facts at hand that the next event is about."""
        ...

    def let_go(self, reason: str, code: str = "") -> None:
        """Come to a halt from which the session can be resumed."""
        ...


class Thinking:
    """Asks for one session."""

    def __init__(self, desk: Desk, around: Services, calls: Calls) -> None:
        self._desk = desk
        self._around = around
        self._calls = calls

    async def propose(self) -> None:
        """Ask for the next plan, or for the next decision of an agent."""
        desk, work = self._desk, self._around.work
        await self._begin_turns()  # an agent that cannot be brought to where its run stands must not decide
        try:
            desk.note(await work.propose(desk, desk.now(), self._interview))
        except Interrupted:
            return
        except Exception as error:
            if isinstance(error, JournalError | IllegalEvent):
                raise
            if isinstance(error, UsageError) and error.code == PLANNER_MISSING:
                desk.let_go(error.message)
                return
            if isinstance(error, ModelFault) and error.model_code != "model_empty":
                # A re-plan would not be answered either: the session waits until a model is back.
                desk.let_go(storable(_describe_fault(error, desk.state.start)), MODEL_UNAVAILABLE)
                return
            desk.note(work.failed(desk.state, desk.setting, error, desk.now()))

    async def reflect(self) -> None:
        """Let an agent take in what its turn brought."""
        await self._begin_turns()
        desk = self._desk
        events = await desk.events()
        course = desk.course or ExecutionPlan.of(read_plan(desk.state.plan), desk.setting.surface)
        work, now = self._around.work, desk.now()
        try:
            judged = await work.reflect(
                desk.state, desk.setting, course, events, desk.blobs, now, session=desk
            )
        except Interrupted:
            work.has_begun = False  # it holds half a turn
            return
        except UsageError as error:
            if error.code != PLANNER_MISSING:
                raise
            desk.let_go(error.message)
            return
        desk.note(judged)

    async def _begin_turns(self) -> None:
        """Bring an agent to where its run stands, once in this process."""
        work = self._around.work
        if work.is_stepwise and not work.has_begun:
            await work.begin(self._desk.setting, await self._desk.events(), self._desk.blobs)

    def _interview(self, models: Sequence[Model]) -> ModelSession:
        around = self._around
        limit = around.work.limit_for("planner")
        return ModelSession(self._desk, models, clock=around.clock, draw=around.draw, limit=limit)

    async def retrieve(self) -> None:
        """Look up what the plan pins and asks for; a library that cannot be reached lets the run come to a halt."""
        desk = self._desk
        plan = read_plan(desk.state.plan)
        steps = asking(plan, desk.state)
        if not steps and not unread(plan, desk.setting):
            desk.note(pinned(plan, desk.setting, desk.now()))
            return
        await desk.flush()
        try:
            found = await retrieve(plan, steps, desk.setting, self._around.library, self._look_up, desk.now())
        except JournalError:
            raise
        except TercetError as error:
            desk.let_go(f"evidence cannot be looked up: {error.message}")
            return
        if found.blob:
            desk.learn(found.event.facts, found.facts)
        desk.note(found.event, *([found.blob] if found.blob else ()))

    async def remember(self) -> None:
        """Let the library keep what the run learned; a library that cannot does not keep the run from its end."""
        library, state = self._around.library, self._desk.state
        if library is None or not state.memory or state.phase is not Phase.COMMIT:
            return
        start = state.start
        try:
            if accepted := self._around.work.memories(state):
                await library.remember(start.tenant, start.session, accepted, self._desk.now())
        except TercetError as error:
            self._around.subscription.signal("memory_failed", {"loop_id": start.run, "error": error.message})

    async def _look_up(self, step: str, query: EvidenceQuery, spent: Spent) -> Fact | None:
        """Ask a read_only tool for evidence, if it may be asked; a rehearsal asks none."""
        desk, around = self._desk, self._around
        params = None if desk.state.start.shadow else looking_up.resolved(desk.setting, query)
        tool = around.tools.get(query.tool or "")
        if params is None or tool is None or around.board.stopped(tool.name):
            return None
        if looking_up.shortage(desk.state.used, desk.setting, tool, spent) is not None:
            return None
        spent.calls, spent.cost = spent.calls + 1, spent.cost + tool.cost_microcents
        deadline = desk.now() + tool.timeout_ms
        context = self._calls.context(desk.state.start, step, f"look_up:{step}", 1, deadline)
        ended = await around.gateway.call(tool, params, context, timeout_ms=tool.timeout_ms)
        if not isinstance(ended, Done) or ended.error:
            return None
        return looking_up.fact_of(desk.setting, query, params, ended.value)


def _describe_fault(fault: ModelFault, start: e.SessionStarted) -> str:
    """Return which models did not answer, and why."""
    models: Sequence[str] = start.models
    is_named = any(name in fault.message for name in models)
    cause = str(fault) if is_named else f"{', '.join(models)}: {fault}"
    return f"no model answered: {cause}"

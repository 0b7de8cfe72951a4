"""Where a run stood before an event, and what was due there: the driver's view, without a world around it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from operator import is_
from typing import Any, TypeVar

import msgspec

from tercet.contracts.context import KnownResult
from tercet.contracts.errors import InternalError
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.config import ExecutionPlan, RunConfig
from tercet.core.decide import decide
from tercet.core.plans import read_plan
from tercet.core.results import entered_results
from tercet.core.state import State
from tercet.core.table import fold_event
from tercet.engine.evidence.retrieval import read_facts
from tercet.engine.turns import is_recorded_whole
from tercet.engine.work import Work
from tercet.packs.pack import Pack
from tercet.replay.driving import drive
from tercet.replay.recording import Recording
from tercet.replay.rulebook import RuleSource
from tercet.tools.tool import Tool

_C = TypeVar("_C", bound=c.Command)


class ReplayState:
    """A run while it is folded again."""

    def __init__(self, recording: Recording, rulebook: RuleSource) -> None:
        self.recording = recording
        self.state = State()
        self.events: list[e.Event] = []
        """Those that have been folded."""
        self.owed: deque[e.Event] = deque()
        """What was derived together with the last event and must come next: it was appended with it."""
        self.blobs = _Blobs(recording.blobs)
        self._rulebook = rulebook
        self._pinned_by: e.Event | None = None
        self._pinned: tuple[Pack, RunConfig, Work] | None = None
        self._tools: dict[str, Tool] = {}
        self._current: RunConfig | None = None
        self._made_of: tuple[object, ...] = (None,) * 6
        self._course: ExecutionPlan | None = None
        self._course_of: tuple[object, object] = (self.state.plan, self.state.undo)
        self._agent: Work | None = None
        """The agent with its critics, where they can be asked again."""
        self._due: tuple[int, tuple[c.Command, ...]] = (-1, ())

    # --- folding ---

    def fold(self, event: e.Event) -> State:
        """Take an event in as it was recorded; raises `IllegalEvent`."""
        self.state = fold_event(self.state, event)
        self.events.append(event)
        if isinstance(event, e.SessionStarted | e.SessionMigrated) and self._pinned_by is not event:
            self.pin(event, self.state)
        return self.state

    def pin(self, event: e.Event, state: State) -> RunConfig:
        """Judge by the pack and the evidence that an event pins a session to from now on."""
        self._pinned_by = event
        pack, setting = self._rulebook.setting_for(self.recording, state)
        work = _Replayed(state, limit_for=partial(pack.limit_for, decision=setting.spec))
        self._pinned = pack, setting, work
        is_new = isinstance(event, e.SessionStarted)  # under another pack its critics are not asked any more
        stepper = self._rulebook.recall(state) if is_new else None
        self._agent = None if stepper is None else Work(stepper, None, limit_for=work.limit_for)
        self._tools = {tool.name: tool for tool in pack.tools}
        self._current = None
        self._course_of = (None, None) if state.plan else (state.plan, state.undo)
        return setting

    # --- what it is judged in ---

    @property
    def pack(self) -> Pack:
        """The pack of the run, as data."""
        return self._pins[0]

    @property
    def work(self) -> Work:
        """The pure part of carrying commands out."""
        return self._pins[2]

    @property
    def _pins(self) -> tuple[Pack, RunConfig, Work]:
        if self._pinned is None:
            raise InternalError("nothing is judged before a session has started")
        return self._pinned

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools of the pack by name: declarations that cannot be called."""
        return self._tools

    @property
    def setting(self) -> RunConfig:
        """What the run is judged in, with the facts and results that it has learned and what its budget was given."""
        state = self.state
        made_of = (state.extended, state.learned, state.facts, state.entered, state.changed, state.earlier)
        if self._current is None or not all(map(is_, made_of, self._made_of)):
            self._made_of = made_of
            self._current = self._made()
        return self._current

    def _made(self) -> RunConfig:
        state, current = self.state, self._pins[1]
        if state.facts:
            found = [read_facts(self.recording.blobs[digest]) for digest in state.facts]
            current = current.with_facts([fact for each in found for fact in each])
        if state.learned:
            current = current.knowing(tuple(map(self._known, state.learned)))
        if state.entered:
            current = current.with_entered(entered_results(state))
        if state.changed:
            current = current.with_changed(state.changed)
        if state.earlier:
            current = current.after(state.earlier)
        return current.extended(state.extended) if state.extended else current

    def _known(self, result: Any) -> KnownResult:
        value = self.blobs[result.blob] if result.blob else result.value
        return KnownResult(step_id=result.step, tool=result.tool, value=value, trust=Trust.TRUSTED)

    @property
    def course(self) -> ExecutionPlan | None:
        """The plan of the state, ready to be followed; None where there is none."""
        state = self.state
        if state.plan is not self._course_of[0] or state.undo is not self._course_of[1]:
            course = ExecutionPlan.of(read_plan(state.plan), self.setting.surface, self.tools)
            self._course = course.with_undo(state.undo, self.tools) if state.undo else course
            self._course_of = (state.plan, state.undo)
        return self._course

    @property
    def followed(self) -> ExecutionPlan:
        """The same, where there must be one."""
        if self.course is None:
            raise InternalError("there is no plan")
        return self.course

    @property
    def plan(self) -> Plan:
        """The plan of the state."""
        return self.followed.plan

    # --- an agent ---

    def reflect(self, at: int) -> e.TurnJudged | None:
        """What the agent's critics say of the last turn; None where they cannot be asked again, from then on."""
        decided = (each for each in reversed(self.events) if isinstance(each, e.PlanProposed))
        if self._agent is not None and not is_recorded_whole(next(decided).decision):
            self._agent = None
        if self._agent is None:
            return None
        drive(self._agent.begin(self.setting, self.events, self.blobs))
        args = self.state, self.setting, self.followed, self.events, self.blobs, at
        return drive(self._agent.reflect(*args))

    # --- what is due ---

    def commands(self) -> tuple[c.Command, ...]:
        """What `decide` says is due."""
        if self._due[0] != self.state.position:
            self._due = (
                self.state.position,
                decide(self.state, self.setting, self.course, self.blobs),
            )
        return self._due[1]

    def due(self, kind: type[_C], *, at: int, step: str | None = None) -> _C | None:
        """The command of a kind, about a step, that is due at a time; None if there is none."""
        for command in self.commands():
            if isinstance(command, kind) and (step is None or getattr(command, "step", None) == step):
                return command if getattr(command, "not_before", 0) <= at else None
        return None


class _Replayed(Work):
    """The work of a run whose planner is not there: whether it may fail is recorded."""

    def __init__(self, state: State, **given: Any) -> None:
        super().__init__(None, None, **given)
        self._may_fail = bool(state.start.fallible)

    @property
    def is_fallible(self) -> bool:
        """Whether the planner of the session may fail where another try succeeds."""
        return self._may_fail


class _Blobs(dict[str, Any]):
    """Large results by their digest, each read when it is asked for."""

    def __init__(self, stored: Mapping[str, bytes]) -> None:
        super().__init__()
        self._stored = stored

    def __missing__(self, digest: str) -> Any:
        value = self[digest] = msgspec.json.decode(self._stored[digest])
        return value

    def get(self, digest: str, default: Any = None) -> Any:
        """The result, or a default where it is not at hand."""
        return self[digest] if digest in self._stored else default

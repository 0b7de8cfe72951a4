"""A recorded run while it is replayed: the interpreter's `Run`, fed from a recording."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from tercet.contracts.errors import InternalError
from tercet.contracts.evidence import Evidence
from tercet.core import codec, transcript
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import Reflected
from tercet.core.codec import CodecError
from tercet.core.decide import decide
from tercet.core.fold.apply import fold_event
from tercet.core.outputs.review import OutputReview
from tercet.core.retrieval import read_facts
from tercet.core.run import Run
from tercet.core.state import State
from tercet.core.turns import is_recorded_whole
from tercet.critic.score import score
from tercet.engine.planning import Planning
from tercet.packs.pack import Pack
from tercet.replay.guard import drive
from tercet.replay.recording import Recording
from tercet.replay.rules import RuleSource

_C = TypeVar("_C", bound=c.Command)


class RecordedRun:
    """A run whose events are folded again, under the pack that it was recorded with or another one."""

    def __init__(self, recording: Recording, rules: RuleSource) -> None:
        self.recording = recording
        self.events: list[e.Event] = []
        """Those that have been folded."""
        self.owed: deque[e.Event] = deque()
        """Events that were resolved together with the last one and must come next."""
        self.blobs = _Blobs(recording.blobs)
        self._rules = rules
        self._run: Run | None = None
        self._pack: Pack | None = None
        self._pinned_by: e.Event | None = None
        self._agent: Planning | None = None
        """The agent with its critics, where they can be asked again."""
        self._due: tuple[int, tuple[c.Command, ...]] = (-1, ())

    @property
    def state(self) -> State:
        """The state after the events folded so far."""
        return State() if self._run is None else self._run.state

    @property
    def run(self) -> Run:
        """The run as the interpreter sees it."""
        if self._run is None:
            raise InternalError("nothing is judged before a session has started")
        return self._run

    @property
    def pack(self) -> Pack:
        """The pack that the run is judged under."""
        if self._pack is None:
            raise InternalError("nothing is judged before a session has started")
        return self._pack

    def fold(self, event: e.Event) -> State:
        """Apply an event as it was recorded; raises `IllegalEvent`."""
        if isinstance(event, e.SessionStarted | e.SessionMigrated) and self._pinned_by is not event:
            self.pin(event)
        self.run.fold(event)
        self.events.append(event)
        return self.state

    def pin(self, event: e.SessionStarted | e.SessionMigrated) -> Run:
        """Judge by the pack and the evidence that an event pins the session to, from now on."""
        before = self.state
        after = fold_event(before, event)
        pack, config = self._rules.setting_for(self.recording, after)
        limit_for = partial(pack.limit_for, decision=config.spec)
        self._run = Run(
            config,
            after,
            tools={tool.name: tool for tool in pack.tools},
            limit_for=limit_for,
            blobs=self.blobs,
            facts=_Facts(self.recording.blobs),
        )
        self._run.state = before
        self._pack, self._pinned_by = pack, event
        is_new = isinstance(event, e.SessionStarted)  # under another pack its critics are not asked any more
        stepper = self._rules.recall(after) if is_new else None
        self._agent = None if stepper is None else Planning(stepper, None, limit_for=limit_for)
        self._due = (-1, ())
        return self._run

    def reflect(self, at: int) -> Reflected | None:
        """Ask the agent's critics about the last turn again; None if they cannot be asked, from then on."""
        decided = (each for each in reversed(self.events) if isinstance(each, e.PlanProposed))
        if self._agent is not None and not is_recorded_whole(next(decided).decision):
            self._agent = None
        if self._agent is None:
            return None
        drive(self._agent.begin(self.run, self.events))
        return drive(self._agent.reflect(self.run, self.events, at))

    def commands(self) -> tuple[c.Command, ...]:
        """Return what `decide` says is due."""
        if self._due[0] != self.state.position:
            self._due = (self.state.position, tuple(decide(self.run)))
        return self._due[1]

    def due(self, kind: type[_C], *, at: int, step: str | None = None) -> _C | None:
        """Return the command of a kind, about a step, that is due at a time; None if there is none."""
        for command in self.commands():
            if isinstance(command, kind) and (step is None or getattr(command, "step", None) == step):
                return command if getattr(command, "not_before", 0) <= at else None
        return None

    def following(self) -> Iterator[e.Event]:
        """Yield the recorded events after the one that is being derived, as far as they can be read."""
        for data in self.recording.events[len(self.events) + 1 :]:
            try:
                yield codec.decode(data)
            except CodecError:
                return

    def output_review(self, repairers: int = 0) -> OutputReview:
        """Return what is judged of the outputs."""
        run = self.run
        found = transcript.run_of(run.config, run.followed, run.state, self.events, run.blobs)
        return OutputReview(
            state=run.state, config=run.config, run=found, scored=score(found), repairers=repairers
        )


class _Blobs(dict[str, Any]):
    """Large results by their digest, each read when it is asked for."""

    def __init__(self, stored: Mapping[str, bytes]) -> None:
        super().__init__()
        self._stored = stored

    def __missing__(self, digest: str) -> Any:
        value = self[digest] = msgspec.json.decode(self._stored[digest])
        return value

    def get(self, digest: str, default: Any = None) -> Any:
        """Return the result, or a default where it is not recorded."""
        return self[digest] if digest in self._stored else default


class _Facts(dict[str, tuple[Evidence, ...]]):
    """The evidence that plans found, by its digest."""

    def __init__(self, stored: Mapping[str, bytes]) -> None:
        super().__init__()
        self._stored = stored

    def __missing__(self, digest: str) -> tuple[Evidence, ...]:
        facts = self[digest] = read_facts(self._stored[digest])
        return facts

"""A recorded run while it is replayed: the interpreter's `Run`, fed from a recording."""

from __future__ import annotations

import _thread
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tercet.contracts.errors import InternalError, TercetError
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
from tercet.replay.recording import Recording
from tercet.replay.rules import RuleSource

_ResultT = TypeVar("_ResultT")

_REFUSED = (
    "open",
    "os.",
    "socket.",
    "subprocess.",
    "shutil.",
    "sqlite3.",
    "ctypes.",
    "mmap.",
    "tempfile.",
    "urllib.",
    "http.",
    "ftplib.",
    "smtplib.",
    "_thread.start",
    "pty.",
    "fcntl.",
    "import",
)
"""The prefixes of refused audit events."""
_ROOTS = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]))
_FOLDERS = tuple(f"{folder}{os.sep}" for root in _ROOTS for folder in {root, os.path.realpath(root)})
"""The folders with the code of the interpreter and of installed packages."""
_CODE = (".py", ".pyc", ".so", ".pyd")


class IoRefused(TercetError):  # noqa: N818 - what happened is named, not that it is an error
    """Something read or wrote while a run was judged again."""

    default_code = "replay_io"


class _Section(threading.local):
    is_guarded = False
    refused: IoRefused | None = None
    """The first attempt of the section, which counts even if its error was caught."""


_section = _Section()
_lock = threading.Lock()
_placed: list[Any] = []


def _is_loading(event: str, args: tuple[Any, ...]) -> bool:
    """Return whether a library that is in use loads another part of itself."""
    if event == "import":
        return str(args[0]).partition(".")[0] in sys.modules
    if event == "open":
        return _is_installed(args[0]) and str(args[0]).endswith(_CODE)
    return event == "os.listdir" and _is_installed(args[0])


def _is_installed(path: object) -> bool:
    return isinstance(path, str) and path.startswith(_FOLDERS)


def _look(event: str, args: tuple[Any, ...]) -> None:
    if _section.is_guarded and event.startswith(_REFUSED) and not _is_loading(event, args):
        # Building the message may import or open something: that is not what is being guarded.
        _section.is_guarded = False
        try:
            refused = IoRefused(
                f"replay must not touch the world, and this is {event} {args[:1]!r:.120}",
                remedy="this is a bug: judging must be pure, and so must a critic that is declared pure",
            )
        finally:
            _section.is_guarded = True
        _section.refused = _section.refused or refused
        raise refused


def _place() -> None:
    with _lock:
        if not _placed:
            sys.addaudithook(_look)
            if sys.version_info < (3, 12):
                _watch_threads()
            _placed.append(_look)


_STARTERS = ((_thread, "start_new_thread"), (_thread, "start_new"), (threading, "_start_new_thread"))
"""Every name by which the standard library starts a thread."""


def _watch_threads() -> None:
    for module, name in _STARTERS:
        setattr(module, name, _watched(getattr(module, name)))


def _watched(start: Callable[..., int]) -> Callable[..., int]:
    """Return the same function, which reports a thread before it starts one, as later versions do."""

    def start_new_thread(function: Callable[..., object], *rest: Any) -> int:
        _look("_thread.start_new_thread", (function, *rest))
        return start(function, *rest)

    return start_new_thread


@contextmanager
def guarded() -> Generator[None]:
    """A section in which this thread can do no I/O: an attempt raises `IoRefused`. Sections may be nested.

    Rules fail closed, so one of them may catch what an attempt raised: then the end of the section raises it.
    """
    _place()
    before, _section.is_guarded = _section.is_guarded, True
    try:
        yield
    finally:
        _section.is_guarded = before
        refused = None if before else _section.refused
        if not before:
            _section.refused = None
    if refused is not None:
        raise refused


def drive(coroutine: Coroutine[Any, Any, _ResultT]) -> _ResultT:
    """Return the result of a coroutine without an event loop; raises `IoRefused` if it waits for something."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    finally:
        coroutine.close()
    raise IoRefused(
        "a critic that is judged again waits for something, so it is not pure",
        remedy="declare a critic pure only if it reads nothing but its arguments",
    )


# --- recorded run ---


_C = TypeVar("_C", bound=c.Command)


class RecordedRun:
    """A run whose events are folded again, under its own pack or another one."""

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
        """Apply a recorded event; raises `IllegalEvent`."""
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
        """Return the commands that `decide` returns."""
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
        """Yield the recorded events after the one that is being derived, up to the first unreadable one."""
        for data in self.recording.events[len(self.events) + 1 :]:
            try:
                yield codec.decode(data)
            except CodecError:
                return

    def output_review(self, repairers: int = 0) -> OutputReview:
        """Return the review of the outputs."""
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

"""Observers: who hears what a run has written, and what it came to when it was let go of.

An observer is a spectator. It is told what is durable already, it can change nothing, it must not wait, and whatever it
raises is told as the signal `observer_failed` and goes no further. What it is told comes at no cost: the events of a unit are
handed over as they are, and the whole story of a session is read only when this process has let go of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tercet.contracts.trace_context import read_traceparent, span_id_of, trace_id_of
from tercet.core import events as e
from tercet.core.state import State
from tercet.engine import sessions as opening
from tercet.journal.protocol import Journal, NewCheckpoint

CALL = "call"
"""The kind of the span that a call of a tool is."""


_MOST_KEPT = 10_000
"""How many traces of runs that are being carried are remembered."""


@dataclass(frozen=True, kw_only=True)
class Tenure:
    """One session while one process carried it: every event up to now, and the position of the first that it wrote."""

    state: State
    events: Sequence[e.Event]
    first: int = 1


@runtime_checkable
class Observer(Protocol):
    """Hears of runs. None of these may wait for anything: they are called between two steps of a run."""

    def samples(self, run: str) -> bool:
        """Whether a run will be traced whatever becomes of it: what tools call is told so."""
        ...

    def wrote(self, state: State, events: Sequence[e.Event], checkpoints: Sequence[NewCheckpoint], /) -> None:
        """These events and checkpoints of a session became durable together, and led to this state."""
        ...

    def rested(self, tenure: Tenure, /) -> None:
        """This process let go of a session: it is over, waits for a person, or was paused."""
        ...


class Observers:
    """All observers of one runtime."""

    def __init__(
        self,
        observers: Sequence[Observer],
        journal: Journal,
        tenant: str,
        signal: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._observers = tuple(observers)
        self._journal = journal
        self._tenant = tenant
        self._signal = signal
        self._reading: set[asyncio.Task[None]] = set()
        self._traces: dict[str, tuple[str, str]] = {}

    def wrote(self, state: State, events: Sequence[e.Event], checkpoints: Sequence[NewCheckpoint]) -> None:
        """Tell everybody what became durable."""
        for observer in self._observers:
            try:
                observer.wrote(state, events, checkpoints)
            except Exception as error:  # noqa: BLE001 - somebody else's code, and only a spectator's
                self._failed(str(state.start.run), error)

    def rested(self, state: State, written: Sequence[e.Event]) -> None:
        """Tell everybody that a session was let go of; what other processes wrote of it is read beside."""
        self._traces.pop(str(state.start.run), None)
        if len(written) == state.position:
            self._tell(Tenure(state=state, events=written))
        elif written:
            reading = asyncio.ensure_future(self._read(state, state.position - len(written) + 1))
            self._reading.add(reading)
            reading.add_done_callback(self._reading.discard)

    async def close(self) -> None:
        """Wait until everybody has been told."""
        await asyncio.gather(*self._reading)

    async def _read(self, state: State, first: int) -> None:
        try:
            events = await opening.events_of(self._journal, self._tenant, str(state.start.session))
        except Exception as error:  # noqa: BLE001 - the run has ended; that nobody can be told of it must not change that
            self._failed(str(state.start.run), error)
        else:
            self._tell(Tenure(state=state, events=events[: state.position], first=first))

    def _tell(self, tenure: Tenure) -> None:
        for observer in self._observers:
            try:
                observer.rested(tenure)
            except Exception as error:  # noqa: BLE001 - somebody else's code, and only a spectator's
                self._failed(str(tenure.state.start.run), error)

    def _failed(self, run: str, error: Exception) -> None:
        self._signal("observer_failed", {"loop_id": run, "error": f"{type(error).__name__}: {error}"})

    def traceparent(self, start: e.SessionStarted, position: int) -> str:
        """The span of a call whose INTENT stands at a position, in the form of W3C."""
        run = str(start.run)
        trace, flags = self._traces.get(run) or self._trace(run, start.traceparent)
        return f"00-{trace}-{span_id_of(run, position, CALL)}-{flags}"

    def _trace(self, run: str, asked: str) -> tuple[str, str]:
        """The trace of a run, and whether somebody records it; kept until the run is let go of."""
        is_sampled = (bool(asked) and read_traceparent(asked).is_sampled) or any(
            self._samples(observer, run) for observer in self._observers
        )
        found = (trace_id_of(run, asked), "01" if is_sampled else "00")
        if len(self._traces) >= _MOST_KEPT:
            self._traces.clear()  # of runs that ended with an error, nobody says that they were let go of
        self._traces[run] = found
        return found

    def _samples(self, observer: Observer, run: str) -> bool:
        try:
            return observer.samples(run)
        except Exception as error:  # noqa: BLE001 - somebody else's code, and only a spectator's
            self._failed(run, error)
            return False


def call_traceparent(start: e.SessionStarted, position: int, observers: Observers | None) -> str:
    """What a tool hands on to whatever it calls: the span of its own call, where somebody makes one.

    Where nobody does, it is the span of whoever asked for the run, unchanged, or nothing.
    """
    if observers is None or not position:
        return start.traceparent
    return observers.traceparent(start, position)

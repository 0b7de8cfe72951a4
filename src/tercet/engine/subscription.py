"""The subscription of a runtime: the one channel that informs callers, telemetry and notifications about its runs.

A driver publishes after every durable append, and a runtime when it releases a session. Subscribers change nothing and
must not block. An exception from one of them is reported as a signal, and the run continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from tercet.contracts.plan import compensated_step
from tercet.contracts.runs.trace_context import read_traceparent, span_id_of, trace_id_of
from tercet.core import events as e
from tercet.core.state import State
from tercet.engine.session_reader import load_history
from tercet.journal.protocol import Journal, NewCheckpoint

_T = TypeVar("_T")

Signal: TypeAlias = Callable[[str, dict[str, Any]], None]
"""Receives named measurements and faults."""
Receive: TypeAlias = Callable[[State, Sequence[e.Event], Sequence[NewCheckpoint]], None]
"""Receives events and checkpoints that became durable together, and the state they led to."""

CALL = "call"
"""The kind of span that a tool call gets."""
_MAX_TRACES = 10_000
"""How many traces of sessions under way are cached."""


@dataclass(frozen=True, kw_only=True)
class ReleasedSession:
    """A session that this process released: every event up to now, and the position of the first that it wrote."""

    state: State
    events: Sequence[e.Event]
    first: int = 1


@runtime_checkable
class Observer(Protocol):
    """Receives the progress of runs. Its methods must not block: they are called between two steps of a run."""

    def samples(self, run: str) -> bool:
        """Return whether a run is traced however it ends; tools pass this on to the services they call."""
        ...

    def wrote(self, state: State, events: Sequence[e.Event], checkpoints: Sequence[NewCheckpoint], /) -> None:
        """Receive events and checkpoints that became durable together, and the state they led to."""
        ...

    def rested(self, session: ReleasedSession, /) -> None:
        """Receive a session that this process released: it is over, waits for a person, or was paused."""
        ...


class Subscription:
    """All subscribers of one runtime."""

    def __init__(
        self,
        journal: Journal,
        tenant: str,
        *,
        observers: Sequence[Observer] = (),
        signal: Signal | None = None,
    ) -> None:
        self._journal = journal
        self._tenant = tenant
        self._observers = tuple(observers)
        self._signal = signal
        self._receivers: list[tuple[str, Receive]] = []
        self._reading: set[asyncio.Task[None]] = set()
        self._traces: dict[str, tuple[str, str]] = {}
        if signal is not None:
            self._receivers.append(("signal_failed", self._measure))
        for observer in self._observers:
            self.add("observer_failed", observer.wrote)

    def add(self, fault: str, receive: Receive) -> None:
        """Subscribe to durable events; `fault` is the signal that reports the errors of the subscriber."""
        self._receivers.append((fault, receive))

    def add_listener(self, fault: str, listen: Callable[[State, e.Event], None]) -> None:
        """Subscribe to single events; an error at one event does not keep the listener from the next."""

        def receive(state: State, events: Sequence[e.Event], _: Sequence[NewCheckpoint]) -> None:
            for event in events:
                self._contain(fault, state.start.run, listen, state, event)

        self.add(fault, receive)

    def publish(
        self, state: State, events: Sequence[e.Event], checkpoints: Sequence[NewCheckpoint] = ()
    ) -> None:
        """Publish events that became durable together."""
        for fault, receive in self._receivers:
            self._contain(fault, state.start.run, receive, state, events, checkpoints)

    def publish_release(self, state: State, written: Sequence[e.Event]) -> None:
        """Publish a session that this process released; events of other processes are read in the background."""
        if not self._observers:
            return
        self._traces.pop(state.start.run, None)
        if len(written) == state.position:
            self._release(ReleasedSession(state=state, events=written))
        elif written:
            reading = asyncio.ensure_future(self._read(state, state.position - len(written) + 1))
            self._reading.add(reading)
            reading.add_done_callback(self._reading.discard)

    def _release(self, session: ReleasedSession) -> None:
        for observer in self._observers:
            self._contain("observer_failed", session.state.start.run, observer.rested, session)

    async def _read(self, state: State, first: int) -> None:
        try:
            history = await load_history(self._journal, self._tenant, state.start.session)
            events = history.events[: state.position]
        except Exception as error:  # noqa: BLE001 - the run has ended, and stays so
            self._report("observer_failed", state.start.run, error)
        else:
            self._release(ReleasedSession(state=state, events=events, first=first))

    async def close(self) -> None:
        """Wait until every released session has been published."""
        await asyncio.gather(*self._reading)

    # --- signals ---

    @property
    def has_signal(self) -> bool:
        """Whether the caller receives signals."""
        return self._signal is not None

    def signal(self, name: str, fields: dict[str, Any]) -> None:
        """Send a named measurement to the caller. Exceptions from its callback are dropped, as there is nowhere to report them."""
        if self._signal is not None:
            with suppress(Exception):
                self._signal(name, fields)

    def _contain(self, fault: str, run: str, call: Callable[..., _T], *args: object) -> _T | None:
        """Call a subscriber, and report its errors."""
        try:
            return call(*args)
        except Exception as error:  # noqa: BLE001 - foreign code
            self._report(fault, run, error)
            return None

    def _report(self, fault: str, run: str, error: Exception) -> None:
        self.signal(fault, {"loop_id": run, "error": f"{type(error).__name__}: {error}"})

    def _measure(self, state: State, events: Sequence[e.Event], checkpoints: Sequence[NewCheckpoint]) -> None:
        """Send the measurements in events and checkpoints to the caller."""
        run = state.start.run
        for written in checkpoints:
            size = len(written.data)
            self.signal("checkpoint_written", {"loop_id": run, "iteration": written.seq, "size_bytes": size})
        first = state.position - len(events)
        for number, event in enumerate(events):
            match event:
                case e.Intent():
                    fields = {"action": event.step, "tool": event.tool}
                    self.signal("action_dispatched", {"loop_id": run, **fields})
                case e.SessionResumed():
                    fields = {"resumed_from_iteration": first + number, "phase": str(state.phase)}
                    recovered = {"inflight_actions_recovered": len(event.in_flight)}
                    self.signal("loop_resumed", {"loop_id": run, **fields, **recovered})
                case e.StepSkipped() if compensated_step(event.step):
                    fields = {"action": event.step, "error": state.steps[event.step].error}
                    self.signal("compensation_failed", {"loop_id": run, **fields})
                case e.GateOpened():
                    self.signal("gate_opened", {"loop_id": run, "gate": event.gate, "kind": event.kind})
                case _:
                    pass

    # --- traces ---

    def traceparent(self, start: e.SessionStarted, position: int) -> str:
        """Return the W3C header for the call whose INTENT is at a position: its own span, where an observer makes one."""
        if not self._observers or not position:
            return start.traceparent
        run = start.run
        trace, flags = self._traces.get(run) or self._trace(run, start.traceparent)
        return f"00-{trace}-{span_id_of(run, position, CALL)}-{flags}"

    def _trace(self, run: str, asked: str) -> tuple[str, str]:
        """Return the trace id of a run and its sampled flag, cached until the session is released."""
        is_sampled = (bool(asked) and read_traceparent(asked).is_sampled) or any(
            self._contain("observer_failed", run, observer.samples, run) for observer in self._observers
        )
        found = (trace_id_of(run, asked), "01" if is_sampled else "00")
        if len(self._traces) >= _MAX_TRACES:
            self._traces.clear()  # a run that ended with an error is not released
        self._traces[run] = found
        return found

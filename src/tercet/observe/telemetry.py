"""`Telemetry`, an observer of runtimes that exports spans, metrics and logs.

    async with Telemetry(TelemetrySettings(otlp=True)) as telemetry, Runtime(pack, observers=[telemetry]) as runtime:
        ...

While a run makes progress, it only counts events; everything else happens in other threads. Spans are built when a
process releases a session, and only for traced sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tercet.core import events as e
from tercet.core.state import State
from tercet.engine.subscription import ReleasedSession
from tercet.journal.protocol import NewCheckpoint
from tercet.observe import instruments as i
from tercet.observe.log import Entry, Log
from tercet.observe.outbox import Outbox
from tercet.observe.settings import TelemetrySettings, demand_library
from tercet.observe.tally import About, Figures, SharedTally, Tally, figures_of

if TYPE_CHECKING:
    from tercet.observe.prometheus import Endpoint

_MOST_KEPT = 10_000
"""The number of running sessions whose labels are kept in memory."""


class Telemetry:
    """Spans, metrics and logs of every run that it observes; an `Observer` of any number of runtimes.

    A slow or dead collector never delays or fails a run: what it does not accept in time is dropped, and counted.
    """

    def __init__(self, settings: TelemetrySettings | None = None) -> None:
        """Raise `UsageError` if a library that the settings need is not installed."""
        self.settings = TelemetrySettings() if settings is None else settings
        if self.settings.needs_library:
            demand_library()
        self._tally, self._own = Tally(), SharedTally()
        self._abouts: dict[str, About] = {}
        """The labels of running sessions."""
        self._spans: Outbox[ReleasedSession] | None = None
        self._log: Outbox[Entry] | None = None
        self._endpoint: Endpoint | None = None

    async def __aenter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            await self._close()
            raise
        return self

    def _open(self) -> None:
        settings = self.settings
        if settings.log is not None:
            self._log = self._outbox(Log(settings.log, self._own), "log", "log entries")
        if settings.prometheus_port is not None:
            from tercet.observe.prometheus import Endpoint  # noqa: PLC0415 - an optional dependency

            self._endpoint = Endpoint(
                self._tally, self._own, host=settings.prometheus_host, port=settings.prometheus_port
            )
        if settings.otlp:
            from tercet.observe.otlp import Collector  # noqa: PLC0415 - an optional dependency

            collector = Collector(
                self._tally,
                self._own,
                wants=settings.sampling.wants,
                delay_ms=settings.delay_ms,
                interval_ms=settings.interval_ms,
            )
            self._spans = self._outbox(collector, "otlp", "runs")

    def _outbox(self, sender: Any, name: str, what: str) -> Outbox[Any]:
        dropped: Callable[[int], None] = partial(self._drop, what)
        return Outbox(sender, name=name, most=self.settings.most_waiting, dropped=dropped)

    def _drop(self, what: str, number: int) -> None:
        self._own.count(i.DROPPED, what, by=number)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        """Close everything at the same time, then raise the first error."""
        within_s = self.settings.flush_ms / 1000
        closing = [asyncio.to_thread(each.close, within_s) for each in (self._spans, self._log) if each]
        if self._endpoint is not None:
            closing.append(asyncio.to_thread(self._endpoint.close))
        for fault in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(fault, BaseException):
                raise fault

    # --- figures about telemetry ---

    @property
    def figures(self) -> Figures:
        """Return the figures of the runs of this process."""
        return figures_of(self._tally)

    @property
    def dropped(self) -> dict[str, int]:
        """Return the number of dropped runs, spans, metrics, log entries and log lines."""
        return {labels[0]: n for (name, labels), n in self._own.counts.items() if name == i.DROPPED.name}

    @property
    def traced(self) -> tuple[int, int]:
        """Return the number of released sessions that were traced, and of those that were not."""
        count = self._own.counts.get
        return count((i.RUN_SAMPLED.name, ("true",)), 0), count((i.RUN_SAMPLED.name, ("false",)), 0)

    @property
    def metrics_address(self) -> str:
        """The URL of the metrics; empty if they are not served."""
        return "" if self._endpoint is None else self._endpoint.address

    # --- the interface of observers ---

    def samples(self, run: str) -> bool:
        """Return whether a run is traced regardless of its outcome."""
        return self.settings.otlp and self.settings.sampling.picks(run)

    def wrote(self, state: State, events: Sequence[e.Event], checkpoints: Sequence[NewCheckpoint], /) -> None:
        """Count events that have become durable."""
        session = str(state.start.session)
        about = self._abouts.get(session)
        if about is None:
            if len(self._abouts) >= _MOST_KEPT:
                self._abouts.clear()  # runs that fail with an error are never released
            about = self._abouts[session] = About.of(state.start)
        self._tally.add(about, events)
        for written in checkpoints:
            self._tally.add_checkpoint(about, written.kind, len(written.data))
        if self._log is not None:
            first = state.position - len(events) + 1
            self._log.put(Entry(start=state.start, first=first, events=events, checkpoints=checkpoints))

    def rested(self, tenure: ReleasedSession, /) -> None:
        """Send a traced session to the collector, and count the messages that arrived while no process ran it."""
        self._abouts.pop(str(tenure.state.start.session), None)
        if said := _events_before(tenure):
            self._tally.add(About.of(tenure.state.start), said)
            if self._log is not None:
                first = tenure.first - len(said)
                self._log.put(Entry(start=tenure.state.start, first=first, events=said))
        is_wanted = self.settings.sampling.wants(tenure.state)
        self._own.count(i.RUN_SAMPLED, "true" if is_wanted else "false")
        if is_wanted and self._spans is not None:
            self._spans.put(tenure)


def _events_before(tenure: ReleasedSession) -> list[e.Event]:
    """Return the events just before this process took over, which were appended without a lease."""
    said: list[e.Event] = []
    for event in reversed(tenure.events[: tenure.first - 1]):
        if not (getattr(event, "outside", False) or isinstance(event, e.MessageDropped)):
            break
        said.insert(0, event)
    return said

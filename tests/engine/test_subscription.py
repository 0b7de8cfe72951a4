"""The subscription of a runtime: who hears of a run, in which units, and that a subscriber cannot harm it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.request import RequestRuntime
from tercet.contracts.runs.session import ProgressEnvelope, SessionRules
from tercet.contracts.shape import TEN_YEARS_MS
from tercet.core import events as e
from tercet.core.state import State
from tercet.core.transcript import timestamp
from tercet.engine.subscription import ReleasedSession, Subscription

from .test_limits import taking
from .workshop import ADA, ASK, Workshop, events, plan, step

ONE = plan(step("a"))


def failing(*_: Any) -> None:
    """A subscriber whose backend is down."""
    raise RuntimeError("the backend is down")


@pytest.mark.parametrize("role", ["tell", "signal", "progress"])
def test_a_subscriber_that_raises_harms_no_run(workshop: Workshop, role: str) -> None:
    """Whoever is told of events, measurements or progress may raise at each of them, and the run completes."""
    workshop.tool("do.it")
    signals: list[str] = []

    def signal(name: str, told: dict[str, Any]) -> None:
        del told
        signals.append(name)

    subscribers: dict[str, Any] = {"signal": signal, role: failing}

    async def main() -> None:
        async with workshop.runtime(workshop.pack(), **subscribers) as runtime:
            assert (await runtime.run(ASK, plan=ONE, actor=ADA)).status == "completed"

    workshop.run(main())
    assert role == "signal" or f"{role}_failed" in signals


def test_everything_is_published_once_and_in_the_units_it_was_written_in(workshop: Workshop) -> None:
    """All channels hear of the same appends: units, single events, envelopes; a failing one keeps none from the others."""
    workshop.tool("do.it")
    units: list[tuple[int, list[e.Event]]] = []
    single: list[e.Event] = []
    shown: list[str] = []

    def tell(_: State, event: e.Event) -> None:
        single.append(event)

    def show(envelope: ProgressEnvelope) -> None:
        shown.append(envelope.progress_id.rpartition(".p")[2])

    class Unit(Deaf):
        def wrote(self, state: Any, events: Sequence[Any], checkpoints: Sequence[Any], /) -> None:
            units.append((state.position, list(events)))

    async def main() -> None:
        observers = [Deaf(), Unit()]
        async with workshop.runtime(
            workshop.pack(), observers=observers, tell=tell, progress=show
        ) as runtime:
            result = await runtime.run(ASK, plan=ONE, actor=ADA)
            written = await events(runtime.journal, result.session_id)
            assert [event for _, unit in units for event in unit] == single == written
            assert [str(position) for position, _ in units] == shown
            assert 1 < len(units) < len(written)

    workshop.run(main())


def test_a_listener_that_raises_at_one_event_hears_the_next(workshop: Workshop) -> None:
    """Events that were written together are heard one by one."""
    workshop.tool("do.it")
    heard: list[str] = []
    faults: list[str] = []

    def tell(_: State, event: e.Event) -> None:
        heard.append(type(event).__name__)
        failing()

    def signal(name: str, fields: dict[str, Any]) -> None:
        if name == "tell_failed":
            faults.append(fields["error"])

    async def main() -> None:
        async with workshop.runtime(workshop.pack(), tell=tell, signal=signal) as runtime:
            result = await runtime.run(ASK, plan=ONE, actor=ADA)
            written = await events(runtime.journal, result.session_id)
            assert heard == [type(event).__name__ for event in written]
            assert faults == ["RuntimeError: the backend is down"] * len(written)

    workshop.run(main())


class Deaf:
    """An observer that raises whatever it is asked or told."""

    def samples(self, run: str) -> bool:
        """Never says."""
        raise RuntimeError(run)

    def wrote(self, state: Any, events: Sequence[Any], checkpoints: Sequence[Any], /) -> None:
        """Takes in nothing."""
        failing(state, events, checkpoints)

    def rested(self, tenure: ReleasedSession, /) -> None:
        """Takes in nothing."""
        failing(tenure)


def test_an_observer_that_cannot_say_what_it_samples_harms_no_run(workshop: Workshop) -> None:
    """The question comes just before a call; one that raises is told, and the call is made."""
    workshop.tool("do.it")
    faults: list[str] = []

    def signal(name: str, told: dict[str, Any]) -> None:
        if name == "observer_failed":
            faults.append(str(told["error"]).partition(":")[0])

    async def main() -> None:
        async with workshop.runtime(workshop.pack(), observers=[Deaf()], signal=signal) as runtime:
            assert (await runtime.run(ASK, plan=ONE, actor=ADA)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("a", 1)]
    assert set(faults) == {"RuntimeError"}


class Sampling(Deaf):
    """An observer that wants everything."""

    def samples(self, run: str) -> bool:
        """Always."""
        return bool(run)


def test_the_trace_of_a_run_is_kept_only_while_it_is_carried(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many runs there are, what is remembered of their traces does not grow."""
    workshop.tool("do.it", taking(10))
    made: list[Subscription] = []
    kept: list[int] = []
    real = Subscription.traceparent

    def watched(self: Subscription, *args: Any) -> str:
        found = real(self, *args)
        made.append(self)
        kept.append(len(self._traces))  # pyright: ignore[reportPrivateUsage] - that it does not grow is the point
        return found

    monkeypatch.setattr(Subscription, "traceparent", watched)

    async def main() -> None:
        async with workshop.runtime(workshop.pack(), observers=[Sampling()]) as runtime:
            for _ in range(5):
                await runtime.run(ASK, plan=ONE, actor=ADA)
            await asyncio.gather(*(runtime.run(ASK, plan=ONE, actor=ADA) for _ in range(3)))

    workshop.run(main())
    assert kept[:5] == [1] * 5
    assert max(kept) == 3
    assert not made[0]._traces  # pyright: ignore[reportPrivateUsage]


def test_nothing_is_waited_for_longer_than_ten_years(workshop: Workshop) -> None:
    """A time to live that no calendar has is refused where it is written, and where a run is started."""
    builds: list[Callable[[int], object]] = [
        lambda ms: Gate(name="G", roles=(), ttl_ms=ms),
        lambda ms: SessionRules(ttl_ms=ms),
        lambda ms: RequestRuntime(max_session_duration_ms=ms),
    ]
    for build in builds:
        build(TEN_YEARS_MS)
        with pytest.raises(ValidationError, match=f"less than or equal to {TEN_YEARS_MS}"):
            build(TEN_YEARS_MS + 1)

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            with pytest.raises(UsageError) as caught:
                await runtime.run(ASK, plan=ONE, ttl_ms=10**15)
            assert caught.value.code == "wrong_ttl"

    workshop.run(main())


def test_a_time_behind_the_calendar_is_its_end() -> None:
    """A gate that an older version opened for longer can still be shown."""
    assert timestamp(10**15) == "9999-12-31T23:59:59.000Z"
    assert timestamp(1_767_225_600_000) == "2026-01-01T00:00:00.000Z"


@pytest.mark.parametrize("role", ["tell", "none"])
def test_a_gate_is_notified_of_whoever_else_fails(workshop: Workshop, role: str) -> None:
    """A listener that raises does not keep the pack's own notification from being sent."""
    workshop.tool("do.it", mode="network", gates=("G",), authority=(), no_compensation="it only tells")
    sent: list[str] = []
    pack = workshop.pack(
        gates=(Gate(name="G", roles=("boss",)),), notify={"command": ["nowhere-to-be-found"]}
    )
    more: dict[str, Any] = {"tell": failing} if role == "tell" else {}

    async def main() -> None:
        def signal(name: str, told: dict[str, Any]) -> None:
            if name == "notify_failed":
                sent.append(str(told["gate"]))

        async with workshop.runtime(pack, signal=signal, **more) as runtime:
            assert (await runtime.run(ASK, plan=ONE, actor=ADA)).status == "awaiting_gate"

    workshop.run(main())
    assert len(sent) == 1

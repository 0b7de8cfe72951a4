"""Which runs are traced: one in twenty by their ids, and all that somebody will ask about."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.happenings import started
from engine.workshop import ADA, ASK, Workshop, plan, step
from tercet.contracts.errors import UsageError
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.observe import Sampling, Telemetry, TelemetrySettings

from .receiver import Receiver
from .shop import PLAN, pack_of

SAMPLED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_default_takes_one_run_in_twenty() -> None:
    """Of many ids about a twentieth is picked, and the same ones every time."""
    runs = [f"run_{number:x}" for number in range(20_000)]
    picked = [run for run in runs if Sampling().picks(run)]
    assert 850 < len(picked) < 1_150
    assert picked == [run for run in runs if Sampling().picks(run)]


@given(st.text(), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_rate_takes_what_a_lower_one_takes(run: str, one: float, other: float) -> None:
    """All are picked at 1, none at 0, and raising the rate loses none."""
    low, high = sorted((one, other))
    assert Sampling(1.0).picks(run)
    assert not Sampling(0.0).picks(run)
    assert Sampling(high).picks(run) or not Sampling(low).picks(run)


def test_what_somebody_will_ask_about_is_always_wanted() -> None:
    """A gate, a failure, or a caller who traces its request: such runs are wanted at any rate, others are not."""
    none, begun = Sampling(0.0), fold_event(State(), started())
    assert not none.wants(begun)
    assert none.wants(msgspec.structs.replace(begun, opened=1))
    assert none.wants(msgspec.structs.replace(begun, status="failed"))
    assert none.wants(msgspec.structs.replace(begun, ending="cancelled"))
    traced = msgspec.structs.replace(begun.start, traceparent=SAMPLED)
    assert none.wants(msgspec.structs.replace(begun, start=traced))
    quiet = msgspec.structs.replace(begun.start, traceparent=f"{SAMPLED[:-1]}0")
    assert not none.wants(msgspec.structs.replace(begun, start=quiet))


def test_the_rate_is_told_in_words() -> None:
    """What is printed says the share and what is always traced."""
    assert str(Sampling()) == "1 run in 20, and every failed, gated or escalated one"
    assert str(Sampling(0.0)) == "every failed, gated or escalated one"
    assert str(Sampling(1.0)) == "every run"


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_no_share_is_refused(rate: float) -> None:
    """A rate is between 0 and 1."""
    with pytest.raises(UsageError) as caught:
        Sampling(rate)
    assert caught.value.code == "wrong_sampling"


def test_failed_and_gated_runs_reach_the_collector_and_the_others_do_not(
    workshop: Workshop, receiver: Receiver
) -> None:
    """At rate 0 a completed run sends no span, a refused and a gated one do; how many is counted."""
    pack = pack_of(workshop)
    settings = TelemetrySettings(otlp=True, sampling=Sampling(0.0), flush_ms=20_000)

    async def main() -> tuple[int, int]:
        async with Telemetry(settings) as telemetry, workshop.runtime(pack, observers=[telemetry]) as runtime:
            for _ in range(3):
                await runtime.run(ASK, plan=plan(step("look", "shop.look")), actor=ADA)
            assert (await runtime.run(ASK, plan=plan(step("a", "no.where")), actor=ADA)).status == "failed"
            assert (await runtime.run(ASK, plan=PLAN, actor=ADA)).status == "awaiting_gate"
        return telemetry.traced

    assert workshop.run(main()) == (2, 3)
    assert len({span.trace_id for span in receiver.spans}) == 2
    assert receiver.sums("tercet.telemetry_run", "is_traced") == {("true",): 2, ("false",): 3}

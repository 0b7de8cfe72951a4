"""The circuit breaker of a tool: its states, and who shares them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.runs.invocation import CircuitState
from tercet.executor.breaker import Breakers, Circuit, CircuitBreaker
from tercet.journal.memory import MemoryJournal
from tercet.journal.opening import open_journal

THRESHOLD, COOLDOWN_MS = CircuitBreaker().threshold, CircuitBreaker().cooldown_ms


def state(circuit: Circuit, now: int) -> CircuitState:
    """What a circuit does at a time, with the usual cooldown."""
    return circuit.state(now, COOLDOWN_MS)


def failed(times: int, now: int = 1_000) -> Circuit:
    """A circuit after so many failures in a row."""
    circuit = Circuit()
    for _ in range(times):
        circuit = circuit.failed(now, THRESHOLD)
    return circuit


@pytest.mark.req("R122")
def test_a_circuit_opens_waits_and_closes() -> None:
    """CLOSED to OPEN at the threshold, to HALF_OPEN after the cooldown, then to CLOSED or back to OPEN."""
    assert state(failed(THRESHOLD - 1), 1_000) is CircuitState.CLOSED
    opened = failed(THRESHOLD)
    assert state(opened, 1_000) is CircuitState.OPEN
    assert state(opened, 1_000 + COOLDOWN_MS - 1) is CircuitState.OPEN
    later = 1_000 + COOLDOWN_MS
    assert state(opened, later) is CircuitState.HALF_OPEN
    assert state(opened.succeeded(later), later) is CircuitState.CLOSED
    again = opened.failed(later, THRESHOLD)
    assert state(again, later) is CircuitState.OPEN
    assert state(again, later + COOLDOWN_MS) is CircuitState.HALF_OPEN


@given(st.lists(st.booleans(), max_size=40))
def test_only_failures_in_a_row_open_it(outcomes: list[bool]) -> None:
    """A success forgives what came before it; a circuit is open if and only if the last failures reach the threshold."""
    circuit, row = Circuit(), 0
    for is_success in outcomes:
        circuit = circuit.succeeded(1) if is_success else circuit.failed(1, THRESHOLD)
        row = 0 if is_success else row + 1
        assert (state(circuit, 1) is CircuitState.OPEN) == (row >= THRESHOLD)
        assert circuit.failures == row


@pytest.mark.req("R122")
async def test_two_processes_count_together() -> None:
    """Failures that two of them see at the same time all count, and each learns what the other knows."""

    journal = MemoryJournal()
    first, second = Breakers(journal, "t", CircuitBreaker()), Breakers(journal, "t", CircuitBreaker())
    counting = [
        breakers.record("do.it", is_success=False, now=1_000)
        for breakers in (first, second)
        for _ in range(THRESHOLD)
    ]
    await asyncio.gather(*counting)
    assert (await first.look("do.it")).failures == 2 * THRESHOLD
    third = Breakers(journal, "t", CircuitBreaker())
    assert third.glance("do.it").state(1_000, COOLDOWN_MS) is CircuitState.CLOSED  # it has not looked yet
    await third.refresh("do.it", 1_000)
    assert third.glance("do.it").state(1_000, COOLDOWN_MS) is CircuitState.OPEN
    assert (await Breakers(journal, "u", CircuitBreaker()).look("do.it")).failures == 0
    assert (await third.look("do.other")).failures == 0


@pytest.mark.req("R122")
def test_a_circuit_survives_a_restart(tmp_path: Path) -> None:
    """What was open stays open in the next process, until a call goes well."""
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def live(*outcomes: bool) -> Circuit:
        async with open_journal(url) as journal:
            breakers = Breakers(journal, "t", CircuitBreaker())
            await breakers.refresh("do.it", 1_000)
            for is_success in outcomes:
                await breakers.record("do.it", is_success=is_success, now=1_000)
            return await breakers.look("do.it")

    asyncio.run(live(*[False] * THRESHOLD))
    assert asyncio.run(live()).state(1_000, COOLDOWN_MS) is CircuitState.OPEN
    assert asyncio.run(live(True)).state(1_000, COOLDOWN_MS) is CircuitState.CLOSED
    assert asyncio.run(live()).failures == 0


async def test_a_healthy_tool_costs_no_append() -> None:
    """A success while nothing is wrong writes nothing."""

    journal = MemoryJournal()
    breakers = Breakers(journal, "t", CircuitBreaker())
    for _ in range(3):
        await breakers.record("do.it", is_success=True, now=1_000)
    assert (await journal.head("t", "breaker:do.it")).seq == 0
    await breakers.record("do.it", is_success=False, now=1_000)
    await breakers.record("do.it", is_success=True, now=1_000)
    await breakers.record("do.it", is_success=True, now=1_000)
    assert (await journal.head("t", "breaker:do.it")).seq == 2


async def test_knowledge_is_refreshed_only_when_it_is_old() -> None:
    """Within a second a process trusts what it read."""

    journal = MemoryJournal()
    mine, other = Breakers(journal, "t", CircuitBreaker()), Breakers(journal, "t", CircuitBreaker())
    await mine.refresh("do.it", 1_000)
    await other.record("do.it", is_success=False, now=1_100)
    await mine.refresh("do.it", 1_500)
    assert mine.glance("do.it").failures == 0
    await mine.refresh("do.it", 2_000)
    assert mine.glance("do.it").failures == 1

"""The circuit breaker of a tool: its states, and who shares them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.runs.invocation import CircuitState
from tercet.executor.breaker import COOLDOWN_MS, THRESHOLD, Breakers, Circuit
from tercet.journal.memory import MemoryJournal
from tercet.journal.opening import open_journal


def failed(times: int, now: int = 1_000) -> Circuit:
    """A circuit after so many failures in a row."""
    circuit = Circuit()
    for _ in range(times):
        circuit = circuit.failed(now)
    return circuit


@pytest.mark.req("R122")
def test_a_circuit_opens_waits_and_closes() -> None:
    """CLOSED to OPEN at the threshold, to HALF_OPEN after the cooldown, then to CLOSED or back to OPEN."""
    assert failed(THRESHOLD - 1).state(1_000) is CircuitState.CLOSED
    opened = failed(THRESHOLD)
    assert opened.state(1_000) is CircuitState.OPEN
    assert opened.state(1_000 + COOLDOWN_MS - 1) is CircuitState.OPEN
    later = 1_000 + COOLDOWN_MS
    assert opened.state(later) is CircuitState.HALF_OPEN
    assert opened.succeeded(later).state(later) is CircuitState.CLOSED
    again = opened.failed(later)
    assert again.state(later) is CircuitState.OPEN
    assert again.state(later + COOLDOWN_MS) is CircuitState.HALF_OPEN


@given(st.lists(st.booleans(), max_size=40))
def test_only_failures_in_a_row_open_it(outcomes: list[bool]) -> None:
    """A success forgives what came before it; a circuit is open if and only if the last failures reach the threshold."""
    circuit, row = Circuit(), 0
    for is_success in outcomes:
        circuit = circuit.succeeded(1) if is_success else circuit.failed(1)
        row = 0 if is_success else row + 1
        assert (circuit.state(1) is CircuitState.OPEN) == (row >= THRESHOLD)
        assert circuit.failures == row


@pytest.mark.req("R122")
def test_two_processes_count_together() -> None:
    """Failures that two of them see at the same time all count, and each learns what the other knows."""

    async def main() -> None:
        journal = MemoryJournal()
        first, second = Breakers(journal, "t"), Breakers(journal, "t")
        counting = [
            breakers.record("do.it", is_success=False, now=1_000)
            for breakers in (first, second)
            for _ in range(THRESHOLD)
        ]
        await asyncio.gather(*counting)
        assert (await first.look("do.it")).failures == 2 * THRESHOLD
        third = Breakers(journal, "t")
        assert third.glance("do.it").state(1_000) is CircuitState.CLOSED  # it has not looked yet
        await third.refresh("do.it", 1_000)
        assert third.glance("do.it").state(1_000) is CircuitState.OPEN
        assert (await Breakers(journal, "u").look("do.it")).failures == 0
        assert (await third.look("do.other")).failures == 0

    asyncio.run(main())


@pytest.mark.req("R122")
def test_a_circuit_survives_a_restart(tmp_path: Path) -> None:
    """What was open stays open in the next process, until a call goes well."""
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def live(*outcomes: bool) -> Circuit:
        async with open_journal(url) as journal:
            breakers = Breakers(journal, "t")
            await breakers.refresh("do.it", 1_000)
            for is_success in outcomes:
                await breakers.record("do.it", is_success=is_success, now=1_000)
            return await breakers.look("do.it")

    asyncio.run(live(*[False] * THRESHOLD))
    assert asyncio.run(live()).state(1_000) is CircuitState.OPEN
    assert asyncio.run(live(True)).state(1_000) is CircuitState.CLOSED
    assert asyncio.run(live()).failures == 0


def test_a_healthy_tool_costs_no_append() -> None:
    """A success while nothing is wrong writes nothing."""

    async def main() -> None:
        journal = MemoryJournal()
        breakers = Breakers(journal, "t")
        for _ in range(3):
            await breakers.record("do.it", is_success=True, now=1_000)
        assert (await journal.head("t", "breaker:do.it")).seq == 0
        await breakers.record("do.it", is_success=False, now=1_000)
        await breakers.record("do.it", is_success=True, now=1_000)
        await breakers.record("do.it", is_success=True, now=1_000)
        assert (await journal.head("t", "breaker:do.it")).seq == 2

    asyncio.run(main())


def test_knowledge_is_refreshed_only_when_it_is_old() -> None:
    """Within a second a process trusts what it read."""

    async def main() -> None:
        journal = MemoryJournal()
        mine, other = Breakers(journal, "t"), Breakers(journal, "t")
        await mine.refresh("do.it", 1_000)
        await other.record("do.it", is_success=False, now=1_100)
        await mine.refresh("do.it", 1_500)
        assert mine.glance("do.it").failures == 0
        await mine.refresh("do.it", 2_000)
        assert mine.glance("do.it").failures == 1

    asyncio.run(main())

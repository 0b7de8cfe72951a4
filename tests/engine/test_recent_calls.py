"""Recent calls like the one that a gate asks about."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.errors import NotDone
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.core.same_calls import RecentCall
from tercet.engine.checks.journal import check_journal
from tercet.engine.lists import PendingGate
from tercet.engine.streams.recent_calls import MOST, recent_calls
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Journal
from tercet.journal.sqlite.batch import QUERIES
from tercet.packs.pack import Pack
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext

from .workshop import ADA, ASK, BOB, Workshop, echo, plan, step

DAY_MS = 24 * 60 * 60 * 1000
BOSS = Gate(name="BOSS", roles=("boss",))
PAYMENT = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "cents": {"type": "integer"}, "memo": {"type": "string"}},
    "required": ["to", "cents"],
}


def payments(workshop: Workshop, behave: Any = echo, **declared: Any) -> Pack:
    """A pack in which small payments are made at once, and others wait for the boss."""
    workshop.tools.clear()
    given: dict[str, Any] = {"parameters": PAYMENT, "identity": ("to", "cents"), "no_compensation": "final"}
    workshop.tool("pay.it", behave, **{**given, **declared})
    large = {
        "name": "large",
        "scope": "step",
        "effect": "gate",
        "gate": "BOSS",
        "expression": "step.params.cents < 100",
    }
    return workshop.pack(gates=(BOSS,), policies=(large,), on_failure="keep")


def pay(cents: int, to: str = "bob", **params: Any) -> Plan:
    """A plan that pays."""
    return plan(step("p", "pay.it", params={"to": to, "cents": cents, **params}))


async def wait_at_gate(runtime: Runtime, cents: int = 100, to: str = "bob") -> RunResult:
    """A run that waits for the boss."""
    result = await runtime.run(ASK, plan=pay(cents, to), actor=ADA)
    assert result.gate is not None
    return result


async def finish(runtime: Runtime, result: RunResult) -> None:
    """Approve a run that waits, and let it end."""
    assert result.gate is not None
    await runtime.approve(result.gate.id, actor=BOB)
    await runtime.resume(result.session_id)


async def recent_at(runtime: Runtime, result: RunResult) -> tuple[RecentCall, ...]:
    """What the gate of a run shows."""
    [listed] = [gate for gate in await runtime.gates() if gate.session_id == result.session_id]
    assert isinstance(listed, PendingGate)
    return listed.recent


def test_a_gate_shows_the_same_call_and_similar_ones(workshop: Workshop, url: str) -> None:
    """The same first, then those to the same account, the newest first; calls to others are not shown."""
    pack = payments(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            same = await wait_at_gate(runtime)
            assert await recent_at(runtime, same) == ()
            await finish(runtime, same)
            small: list[RunResult] = []
            for cents in (7, 8):
                await workshop.clock.sleep(1_000)
                small.append(await runtime.run(ASK, plan=pay(cents, memo="lunch"), actor=ADA))
            await runtime.run(ASK, plan=pay(9, to="eve"), actor=ADA)
            found = await recent_at(runtime, await wait_at_gate(runtime))
            assert [(each.session, each.identical) for each in found] == [
                (same.session_id, True),
                (small[1].session_id, False),
                (small[0].session_id, False),
            ]
            assert [each.params for each in found] == [
                {"to": "bob", "cents": 100},
                {"to": "bob", "cents": 8},
                {"to": "bob", "cents": 7},
            ]
            assert {each.outcome for each in found} == {"done"}

    workshop.run(main())


def test_what_is_shown_does_not_change_what_is_approved(workshop: Workshop) -> None:
    """A call that another run makes meanwhile is shown, and the digest stays the same."""
    pack = payments(workshop)

    async def main() -> None:
        async with workshop.runtime(pack, MemoryJournal()) as runtime:
            waiting = await wait_at_gate(runtime)
            assert waiting.gate is not None
            await runtime.run(ASK, plan=pay(7), actor=ADA)
            [listed] = await runtime.gates()
            assert (len(listed.recent), listed.digest) == (1, waiting.gate.digest)
            await finish(runtime, waiting)
            assert (await runtime.state(waiting.session_id)).status == "completed"

    workshop.run(main())


def test_at_most_five_calls_of_the_last_thirty_days_are_shown(workshop: Workshop) -> None:
    """An identical call is shown although many similar ones are newer."""
    pack = payments(workshop)

    async def main() -> None:
        async with workshop.runtime(pack, MemoryJournal()) as runtime:
            await finish(runtime, await wait_at_gate(runtime, 500))
            await workshop.clock.sleep(20 * DAY_MS)
            same = await wait_at_gate(runtime)
            await finish(runtime, same)
            for cents in range(1, 10):
                await workshop.clock.sleep(1)
                await runtime.run(ASK, plan=pay(cents), actor=ADA)
            found = await recent_at(runtime, await wait_at_gate(runtime))
            assert len(found) == MOST
            assert found[0].session == same.session_id
            await workshop.clock.sleep(29 * DAY_MS)
            late = await wait_at_gate(runtime)
            assert len(await recent_at(runtime, late)) == MOST
            await workshop.clock.sleep(2 * DAY_MS)
            assert await recent_at(runtime, await wait_at_gate(runtime)) == ()

    workshop.run(main())


def test_what_became_of_a_call_is_shown(workshop: Workshop) -> None:
    """One that did not happen is told from one of unknown outcome."""

    async def behave(_: ToolContext, params: dict[str, Any]) -> Any:
        if params["cents"] == 1:
            raise NotDone("closed", is_retriable=False)
        raise ConnectionError("lost")

    pack = payments(workshop, behave)

    async def main() -> None:
        async with workshop.runtime(pack, MemoryJournal()) as runtime:
            for cents in (1, 2):
                await runtime.run(ASK, plan=pay(cents), actor=ADA)
                await workshop.clock.sleep(1)
            found = await recent_at(runtime, await wait_at_gate(runtime))
            assert [each.outcome for each in found] == ["unknown", "not_done"]

    workshop.run(main())


def test_a_gate_does_not_show_the_call_that_it_is_about(workshop: Workshop) -> None:
    """Somebody who is asked whether a call happened sees the others."""

    async def lost(_: ToolContext, __: dict[str, Any]) -> Any:
        raise ConnectionError("lost")

    pack = payments(workshop, lost)

    async def main() -> None:
        async with workshop.runtime(pack, MemoryJournal()) as runtime:
            first = await runtime.run(ASK, plan=pay(1), actor=ADA)
            second = await runtime.run(ASK, plan=pay(1), actor=ADA)
            assert second.gate is not None
            assert second.gate.kind == "reconcile"
            found = await recent_at(runtime, second)
            assert [(each.session, each.identical) for each in found] == [(first.session_id, True)]

    workshop.run(main())


def test_secrets_are_not_shown_and_other_parameters_are_left_out(workshop: Workshop) -> None:
    """Only what calls are compared by is shown, without what is secret by its name or its shape."""
    key = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
    given = {
        "properties": {
            "to": {"type": "string"},
            "api_key": {},
            "note": {},
            "text": {},
            "cents": {"type": "integer"},
        }
    }
    pack = payments(workshop, parameters=given, identity=("to", "api_key", "note", "cents"))

    async def main() -> None:
        async with workshop.runtime(pack, MemoryJournal()) as runtime:
            secret: dict[str, Any] = {"api_key": "open sesame", "note": [f"use {key}"], "text": "dear bob"}
            await runtime.run(ASK, plan=pay(1, **secret), actor=ADA)
            [found] = await recent_at(runtime, await wait_at_gate(runtime))
            assert found.params == {
                "to": "bob",
                "api_key": "[redacted]",
                "note": ["use [redacted]"],
                "cents": 1,
            }

    workshop.run(main())


class Counting:
    """A journal that counts what is asked of it."""

    def __init__(self, inner: Journal) -> None:
        self.inner = inner
        self.asked = Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self.inner, name)


def test_no_more_is_read_when_there_are_more_sessions(workshop: Workshop) -> None:
    """The journal is asked a bounded number of times, and never for a list of sessions."""
    pack = payments(workshop)

    async def main() -> None:
        journal = MemoryJournal()
        seen: list[Counter[str]] = []
        async with workshop.runtime(pack, journal) as runtime:
            for number in range(60):
                await runtime.run(ASK, plan=pay(number % 90 + 1), actor=ADA)
                if number in (10, 59):
                    result = await wait_at_gate(runtime)
                    [gate] = (await runtime.state(result.session_id)).gates.values()
                    counting: Any = Counting(journal)
                    now = workshop.clock.now()
                    await recent_calls(counting, "default", result.session_id, gate, now)
                    seen.append(counting.asked)
        assert seen[0] == seen[1]
        assert seen[0]["claims"] == 1
        assert "sessions" not in seen[0]

    workshop.run(main())


def test_the_search_uses_the_index_of_claims(workshop: Workshop, file: str) -> None:
    """A table of claims of any size is not read through."""
    pack = payments(workshop)

    async def main() -> None:
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal) as runtime:
            await runtime.run(ASK, plan=pay(1), actor=ADA)

    workshop.run(main())
    with sqlite3.connect(Path(file.removeprefix("sqlite:///"))) as database:
        found = database.execute(
            f"EXPLAIN QUERY PLAN {QUERIES['list_claims']}", ("t", "a", "b", 9)
        ).fetchall()
    assert any("SEARCH c USING INDEX" in row[-1] for row in found)
    assert not any("SCAN" in row[-1] or "TEMP B-TREE" in row[-1] for row in found)


@pytest.mark.parametrize(
    "declared", [{}, {"identity": None, "authority": ("to",)}, {"identity": None}], ids=str
)
def test_a_checked_journal_has_the_keys_of_recent_calls(
    workshop: Workshop, file: str, declared: dict[str, Any]
) -> None:
    """`tercet journal check` derives them from the events."""
    pack = payments(workshop, **declared)

    async def main() -> None:
        async with workshop.journal(file) as journal:
            async with workshop.runtime(pack, journal) as runtime:
                await runtime.run(ASK, plan=pay(1, to="o1"), actor=ADA)
            checked: Any = journal
            assert (await check_journal(checked, None, progress=lambda _: None)).problems == []
            assert await journal.claims("default", "recent:")

    workshop.run(main())

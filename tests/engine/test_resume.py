"""Coming back to a session: after a pause, after a death at any point, and what a resume refuses."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from journal.tampering import split_rows
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.core import codec
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State, Used
from tercet.engine import checkpoint
from tercet.engine.session_reader import load_state
from tercet.engine.values import LARGE
from tercet.journal.errors import JournalCorrupt, LeaseLost
from tercet.journal.protocol import Append, Journal, Lease, Position, StoredCheckpoint
from tercet.tools import ToolContext

from .test_limits import taking
from .workshop import ADA, ASK, Behave, Death, Workshop, events, names, plan, step

CHAIN = plan(
    step("a", estimated_tokens=5),
    step("b", estimated_tokens=6, depends_on=("a",)),
    step("c", depends_on=("a",)),
    step("d", params={"sum": {"$cel": "a.n + b.n + c.n"}}),
    outputs={"x": {"$from": "d#/sum"}},
)


def nothing(_: str) -> None:
    """A crash point at which nothing happens."""


async def refolded(journal: Journal, session: str) -> State:
    """The state of a session by folding all of its events, without any checkpoint."""
    state = State()
    for event in await events(journal, session):
        state = fold_event(state, event)
    return state


@pytest.mark.req("R116", "R150", "R152", "R155")
@pytest.mark.parametrize("point", ["before_append", "after_append", "before_call", "after_answer"])
def test_a_session_survives_a_death_at_every_point(workshop: Workshop, tmp_path: Path, point: str) -> None:
    """However often the process dies there, what is restored is what was durable, and the run ends as if it had lived."""
    workshop.tool("do.it", idempotent=True, cost_microcents=2)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    durable: list[State] = [State()]

    async def life(journal: Journal, death: Death | None, session: str | None) -> Any:
        def tell(state: State, _: e.Event) -> None:
            durable[0] = state

        async with workshop.runtime(workshop.pack(), journal, crash=death or nothing, tell=tell) as runtime:
            living = runtime.run(ASK, plan=CHAIN, actor=ADA) if session is None else runtime.resume(session)
            return await (living if death is None else death.of(living))

    async def main(nth: int) -> bool:
        durable[0] = State()
        workshop.calls.clear()
        async with workshop.journal(url) as journal:
            before = {row.session_id for row in await journal.sessions("default", limit=500)}
            ended = await life(journal, Death(point, nth), None)
        async with workshop.journal(url) as journal:
            new = [
                row for row in await journal.sessions("default", limit=500) if row.session_id not in before
            ]
            if not new:
                return False  # it died before anything was durable: there is nothing to resume
            session = new[0].session_id
            restored = await load_state(journal, "default", session)
            assert restored == await refolded(journal, session)
            if point in ("before_append", "after_answer"):  # elsewhere it may die before it could tell us
                assert restored == durable[0]
            assert restored.position >= durable[0].position
            result = ended or await life(journal, None, session)
            assert (result.status, result.outputs) == ("completed", {"x": "abc"})
            used = (await load_state(journal, "default", session)).used
            assert (used.steps, used.tokens, used.cost, used.reserved_calls) == (4, 11, 8, 0)
            assert used.tool_calls == len(
                [1 for event in await events(journal, session) if isinstance(event, e.Intent)]
            )
        return ended is not None

    deaths = 0
    while not workshop.run(main(deaths + 1)):
        deaths += 1
    assert deaths >= 4


async def test_a_restored_session_has_its_budgets_to_the_last_unit(workshop: Workshop, url: str) -> None:
    """After a pause every counter of the budget is as it was, and nothing is spent twice."""
    workshop.tool("do.it", taking(100), cost_microcents=3)
    many = plan(
        *(step(f"s{n}", estimated_tokens=n, depends_on=(f"s{n - 1}",) if n else ()) for n in range(6))
    )

    async with workshop.journal(url) as journal:
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            running = asyncio.ensure_future(runtime.run(ASK, plan=many))
            await workshop.clock.sleep(250)
            runtime.stop()
            result = await running
            assert (result.status, result.steps_done) == ("paused", 3)
            paused = await runtime.state(result.session_id)
            assert (paused.used.tool_calls, paused.used.tokens, paused.used.cost) == (3, 3, 9)
            assert paused.used.wall_clock == 300
        workshop.clock.advance(10**7)
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            assert (await runtime.state(result.session_id)).used == paused.used
            result = await runtime.resume(result.session_id)
            assert result.status == "completed"
            used = (await runtime.state(result.session_id)).used
            assert (used.tool_calls, used.tokens, used.cost, used.wall_clock) == (6, 15, 18, 600)
    assert [name for name, _ in workshop.calls] == [f"s{n}" for n in range(6)]


@pytest.mark.req("R158")
async def test_a_stopped_process_leaves_a_session_that_can_go_on(workshop: Workshop, url: str) -> None:
    """A call that ends in time is recorded; one that does not is left behind as unknown, and settled on resume."""
    workshop.tool("quick.it", taking(1_000))
    workshop.tool("slow.it", taking(10_000), idempotent=True)

    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
        running = asyncio.ensure_future(
            runtime.run(
                ASK,
                plan=plan(
                    step("q", "quick.it"), step("s", "slow.it"), step("n", "quick.it", depends_on=("q",))
                ),
            )
        )
        await workshop.clock.sleep(500)
        runtime.stop()
        result = await running
        assert (result.status, result.reason) == ("paused", "the process was told to stop")
        state = await runtime.state(result.session_id)
        assert [state.steps[name].status for name in "qsn"] == ["done", "unknown", "pending"]
        assert (state.phase, state.halted_from) == ("HALT", "ACT")
        assert await journal.newest("default", result.session_id, "fold") is not None
        assert (await runtime.resume(result.session_id)).status == "completed"
    assert workshop.calls == [("q", 1), ("s", 1), ("s", 2), ("n", 1)]


@pytest.mark.req("R152")
async def test_what_cannot_be_resumed_says_why(workshop: Workshop, url: str) -> None:
    """An unknown session, another pack and other evidence are refused; a finished session answers as it ended."""
    workshop.tool("do.it")
    fact = {"id": "kg:rule:r1#snapshot_may", "content": {"limit": 5}, "trust": "trusted"}

    def facts(limit: int) -> dict[str, Any]:
        return {"evidence": (Evidence.model_validate({**fact, "content": {"limit": limit}}),)}

    async with workshop.journal(url) as journal:
        async with workshop.runtime(workshop.pack(**facts(5)), journal) as runtime:
            death = Death("before_call")
            async with workshop.runtime(workshop.pack(**facts(5)), journal, crash=death) as mortal:
                await death.of(mortal.run(ASK, plan=plan(step("a", approval_mode="local_write"))))
            [row] = await runtime.sessions()
            before = await runtime.state(row.session_id)
            with pytest.raises(UsageError) as caught:
                await runtime.resume("ses_nobody")
            assert caught.value.code == "unknown_session"
        for pack, code in (
            (workshop.pack(version="1.0.1", **facts(5)), "pack_version_mismatch"),
            (workshop.pack(**facts(6)), "snapshot_version_mismatch"),
        ):
            async with workshop.runtime(pack, journal) as runtime:
                with pytest.raises(UsageError) as caught:
                    await runtime.resume(row.session_id)
                assert caught.value.code == code
                assert await runtime.state(row.session_id) == before
        async with workshop.runtime(workshop.pack(**facts(5)), journal) as runtime:
            with pytest.raises(UsageError, match="no record yet"):
                await runtime.record(row.session_id)
            workshop.clock.advance(60_000)
            first = await runtime.resume(row.session_id)
            assert first.status == "awaiting_gate"


async def test_a_finished_session_answers_as_it_ended(workshop: Workshop) -> None:
    """Resuming it changes nothing, calls nothing, and gives the same result."""
    workshop.tool("do.it")

    async with workshop.runtime(workshop.pack()) as runtime:
        result = await runtime.run(ASK, plan=plan(step("a")))
        before = await runtime.state(result.session_id)
        assert await runtime.resume(result.session_id) == result
        assert await runtime.state(result.session_id) == before
    assert workshop.calls == [("a", 1)]


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        (
            "UPDATE events SET data = CAST(replace(CAST(data AS TEXT), 'n', 'm') AS BLOB) WHERE seq = 7",
            "event 7",
        ),
        ("DELETE FROM events WHERE seq = 7", "event 7"),
        ("DELETE FROM events WHERE seq >= 9", "event 9"),
    ],
    ids=["changed", "removed", "cut off"],
)
def test_a_journal_changed_by_hand_is_found_out(
    workshop: Workshop, tmp_path: Path, statement: str, place: str
) -> None:
    """No session is resumed on what was never written; the message names the place."""
    workshop.tool("do.it", taking(1_000))
    path = tmp_path / "runs.db"

    async def main(session: str | None) -> str:
        async with (
            workshop.journal(f"sqlite:///{path}") as journal,
            workshop.runtime(workshop.pack(), journal) as runtime,
        ):
            if session is not None:
                await runtime.resume(session)
            running = asyncio.ensure_future(runtime.run(ASK, plan=CHAIN))
            await workshop.clock.sleep(1_500)
            runtime.stop()
            return (await running).session_id

    session = workshop.run(main(None))
    split_rows(path)
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM checkpoints WHERE kind = 'fold'")
        assert database.execute(statement).rowcount
    with pytest.raises(JournalCorrupt, match=place):
        workshop.run(main(session))


async def test_a_newer_journal_is_refused_in_words(workshop: Workshop) -> None:
    """An event in a format that this version does not know is not guessed at."""
    workshop.tool("do.it")

    async with workshop.runtime(workshop.pack()) as runtime:
        await runtime.journal.append(
            Append(tenant="default", stream="ses_new", expected=0, events=(b'2{"type":"x"}',))
        )
        with pytest.raises(codec.CodecError) as caught:
            await runtime.resume("ses_new")
        assert caught.value.code == "newer_journal"


def large(mark: str) -> Behave:
    """A tool whose result is too large to stand in an event."""

    async def behave(_: ToolContext, params: dict[str, Any]) -> Any:
        return {"text": mark * (LARGE + 1), "mark": mark}

    return behave


async def test_a_large_result_is_a_blob_and_stays_reachable(workshop: Workshop, url: str) -> None:
    """The event carries a digest; later steps, outputs and the critic read the value, also after a death."""
    workshop.tool("big.it", large("x"))
    workshop.tool("do.it")
    proposed = plan(
        step("a", "big.it"),
        step("b", params={"m": {"$from": "a#/mark"}}),
        step("c", params={"k": {"$from": "a#/mark"}, "l": {"$from": "b#/m"}}),
        outputs={"mark": {"$from": "a#/mark"}, "k": {"$from": "c#/k"}},
    )

    async with workshop.journal(url) as journal:
        death = Death("before_call", 3)
        async with workshop.runtime(workshop.pack(), journal, crash=death) as runtime:
            await death.of(runtime.run(ASK, plan=proposed))
            [row] = await runtime.sessions()
        found = await events(journal, row.session_id)
        [complete] = [event for event in found if isinstance(event, e.Complete) and event.step == "a"]
        assert complete.value is None
        assert len(await journal.blob("default", complete.blob)) > LARGE
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            result = await runtime.resume(row.session_id)
            assert result.status == "awaiting_gate"  # c was on its way, and declares nothing


async def test_a_large_result_satisfies_the_critic(workshop: Workshop) -> None:
    """A run whose steps refer into a large result is judged on that result, and its declared outputs are found in it."""
    workshop.tool("big.it", large("y"))
    workshop.tool("do.it")
    proposed = plan(
        step("a", "big.it"),
        step("b", params={"m": {"$from": "a#/mark"}}),
        outputs={"m": {"$from": "b#/m"}},
        declared_outputs=("mark",),
    )

    async with workshop.runtime(workshop.pack()) as runtime:
        result = await runtime.run(ASK, plan=proposed)
        assert (result.status, result.outputs) == ("completed", {"m": "y", "mark": "y"})


async def test_a_long_session_is_restored_from_a_fold(workshop: Workshop) -> None:
    """The newest fold and the tail behind it come to the same state as all events from the first."""

    async def some(_: ToolContext, params: dict[str, Any]) -> Any:
        return {**params, "text": "t" * 3_000}

    workshop.tool("do.it", some)
    long = plan(*(step(f"s{n}", depends_on=(f"s{n - 1}",) if n else ()) for n in range(40)))

    async with workshop.runtime(workshop.pack(budget={"max_steps": 50})) as runtime:
        result = await runtime.run(ASK, plan=long)
        assert result.status == "completed"
        fold = await runtime.journal.newest("default", result.session_id, "fold")
        assert fold is not None
        assert 0 < fold.seq < (await runtime.state(result.session_id)).position
        assert await runtime.state(result.session_id) == await refolded(runtime.journal, result.session_id)


class Forged:
    """A journal whose newest fold says that nothing was used."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def newest(self, tenant: str, stream: str, kind: Any) -> StoredCheckpoint | None:
        """The newest checkpoint; a fold with other counters in it."""
        stored = await self._journal.newest(tenant, stream, kind)
        if stored is None or kind != "fold":
            return stored
        state = msgspec.structs.replace(checkpoint.read_fold(stored), used=Used())
        return msgspec.structs.replace(stored, data=checkpoint.fold(state).data)


@pytest.mark.req("R154")
async def test_a_forged_fold_is_not_used(workshop: Workshop) -> None:
    """A fold other than the one whose hash the event behind it carries gives way to the events."""
    workshop.tool("do.it", taking(1_000))

    async with workshop.journal("memory:") as journal:
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            running = asyncio.ensure_future(runtime.run(ASK, plan=CHAIN))
            await workshop.clock.sleep(500)
            runtime.stop()
            session = (await running).session_id
            fold = await journal.newest("default", session, "fold")
            assert fold is not None
            state = await runtime.state(session)
            assert fold.seq == state.position - 1
        async with workshop.runtime(workshop.pack(), cast("Journal", Forged(journal))) as runtime:
            assert await runtime.state(session) == state
            assert (await runtime.resume(session)).status == "completed"


async def test_another_process_takes_over_when_the_lease_has_run_out(workshop: Workshop, url: str) -> None:
    """While its owner lives nobody else writes; afterwards the old owner's appends are refused."""
    workshop.tool("do.it", taking(1), idempotent=True)

    death = Death("before_call")
    async with (
        workshop.journal(url) as journal,
        workshop.runtime(workshop.pack(), journal, crash=death) as first,
        workshop.runtime(workshop.pack(), journal) as second,
    ):
        hanging = asyncio.ensure_future(first.run(ASK, plan=plan(step("a"))))
        await workshop.clock.sleep(1)
        [row] = await first.sessions()
        began = workshop.clock.now()
        for task in asyncio.all_tasks():
            if "_maintain" in repr(task.get_coro()):
                task.cancel()  # the process is frozen: it renews nothing
        assert (await second.resume(row.session_id)).status == "completed"
        assert workshop.clock.now() - began >= 9_000
        first.stop()
        with pytest.raises(LeaseLost):
            await hanging


class Ledger:
    """A journal that notes what it is asked to append, and when it was done."""

    def __init__(self, journal: Journal, log: list[str]) -> None:
        self._journal = journal
        self._log = log
        self.fails_at = 0
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, unit: Append) -> Position:
        """The same, with a note after it."""
        self.count += 1
        if self.count == self.fails_at:
            raise OSError("the disk is gone")
        await asyncio.sleep(0)
        done = await self._journal.append(unit)
        self._log += [f"durable {name}" for name in names([codec.decode(data) for data in unit.events])]
        self._log += [f"durable {checkpoint.kind}" for checkpoint in unit.checkpoints]
        return done

    async def acquire(self, *args: Any, **named: Any) -> Lease:
        """The same."""
        return await self._journal.acquire(*args, **named)


@pytest.mark.req("R146", "R150", "R161")
async def test_a_call_comes_between_its_durable_intent_and_its_complete(workshop: Workshop, url: str) -> None:
    """INTENT is durable before the tool is called; COMPLETE, verdict, checkpoint and the next INTENT are one append."""
    log: list[str] = []

    async def noted(context: ToolContext, params: dict[str, Any]) -> Any:
        log.append(f"call {context.step_id}")
        return params

    workshop.tool("do.it", noted)
    steps = [step("s0"), *(step(f"s{n}", depends_on=(f"s{n - 1}",)) for n in range(1, 5))]

    async with workshop.journal(url) as journal:
        ledger: Any = Ledger(journal, log)
        async with workshop.runtime(workshop.pack(), ledger) as runtime:
            await runtime.run(ASK, plan=plan(*steps))
        assert ledger.count == 1 + len(steps)  # the start with the first INTENT, and then one a step
    middle = log[log.index("call s1") : log.index("call s2")]
    assert middle == ["call s1", "durable COMPLETE", "durable step_judged", "durable INTENT", "durable point"]
    first = log[: log.index("call s0")]
    assert first[-2:] == ["durable INTENT", "durable point"]
    assert "durable plan_reviewed" in first


async def test_nothing_is_called_if_the_journal_does_not_take_the_intent(workshop: Workshop) -> None:
    """A failed append is the run's failure: no call begins, and the session can be resumed from what is durable."""
    workshop.tool("do.it")

    async with workshop.journal("memory:") as journal:
        for nth in (1, 2, 3):
            workshop.calls.clear()
            ledger: Any = Ledger(journal, [])
            ledger.fails_at = nth
            async with workshop.runtime(workshop.pack(), ledger) as runtime:
                with pytest.raises(OSError, match="the disk is gone"):
                    await runtime.run(ASK, plan=plan(step("a"), step("b", depends_on=("a",))))
            assert len(workshop.calls) == nth - 1
            if nth == 1:
                continue
            row = (await journal.sessions("default"))[0]
            async with workshop.runtime(workshop.pack(), journal) as runtime:
                result = await runtime.resume(row.session_id)
                assert result.status == "awaiting_gate"  # the call was made, and its end was not recorded

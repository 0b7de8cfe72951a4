"""Rows that were changed by another program are noticed before anybody goes on from them, or make no difference."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from journal.tampering import split_rows
from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.core import codec
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.messages import inbox_of
from tercet.core.state import State
from tercet.engine import checkpoint
from tercet.engine.session_reader import load_history, load_state, read_record, restore
from tercet.engine.streams.kinds import mark_lost
from tercet.engine.streams.stops import STREAM
from tercet.journal.database import DatabaseJournal
from tercet.journal.errors import JournalCorrupt, Loss
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import read_all
from tercet.replay.recording import load
from tercet.replay.report.case import read_case
from tercet.tools import ToolContext

from .workshop import ADA, ASK, BOB, Behave, Workshop, plan, step

BOSS = Gate(name="BOSS", roles=("boss",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a journal."""
    return tmp_path / "runs.db"


def tamper(path: Path, statement: str, *parameters: Any) -> None:
    """Change a journal's rows with another program."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement, parameters)


def rename(path: Path, stream: str, name: str) -> None:
    """Give a stream another name."""
    tamper(path, "UPDATE streams SET stream = ? WHERE stream = ?", name, stream)


async def folded(journal: Journal, session: str) -> State:
    """The state that the events of a session come to."""
    state = State()
    for stored in await read_all(journal, "default", session):
        state = fold_event(state, codec.decode(stored.data))
    return state


def slow(workshop: Workshop) -> Behave:
    """A tool that takes a second."""

    async def behave(_: ToolContext, params: dict[str, Any]) -> Any:
        await workshop.clock.sleep(1_000)
        return params

    return behave


async def stopped_run(workshop: Workshop, journal: Journal) -> str:
    """A session whose process was told to stop in the middle of a call; it was folded at its end."""
    async with workshop.runtime(workshop.pack(), journal) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, plan=plan(step("a"), step("b", depends_on=("a",)))))
        await workshop.clock.sleep(500)
        runtime.stop()
        result = await running
        assert result.status == "paused"
        return result.session_id


async def test_a_forged_fold_approves_nothing(workshop: Workshop, path: Path) -> None:
    """A fold that says that a call was approved is not used: no event of the chain carries its hash."""
    workshop.is_forged = True
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=())
    pack = workshop.pack(gates=(BOSS,))

    async with workshop.journal(f"sqlite:///{path}") as journal:
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)
            assert result.status == "awaiting_gate"
        state = await folded(journal, result.session_id)
        (gate,) = state.gates.values()
        approved = e.GateAnswered(
            at=state.at, gate=gate.id, answer="approve", actor="bob", digest=gate.digest, roles=("boss",)
        )
        forged = msgspec.structs.replace(fold_event(state, approved), position=state.position)
        data = checkpoint.fold(forged).data
        tamper(path, "DELETE FROM checkpoints")
        tamper(
            path,
            "INSERT INTO checkpoints SELECT id, 'fold', ?, ?, ? FROM streams WHERE stream = ?",
            state.position,
            sha256(data).digest(),
            data,
            result.session_id,
        )
        async with workshop.runtime(pack, journal) as runtime:
            assert (await runtime.resume(result.session_id)).status == "awaiting_gate"
    assert workshop.calls == []


async def test_a_fold_that_was_changed_is_not_used(workshop: Workshop, path: Path) -> None:
    """A sealed fold whose bytes and hash were both replaced gives way to the events."""
    workshop.tool("do.it", slow(workshop))

    async with workshop.journal(f"sqlite:///{path}") as journal:
        session = await stopped_run(workshop, journal)
        wanted = await folded(journal, session)
        stored = await journal.newest("default", session, "fold")
        assert stored is not None
        assert stored.seq == wanted.position - 1
        forged = msgspec.structs.replace(checkpoint.read_fold(stored), reason="forged", refused=("x",))
        data = checkpoint.fold(forged).data
        tamper(
            path,
            "UPDATE checkpoints SET data = ?, hash = ? WHERE kind = 'fold'",
            data,
            sha256(data).digest(),
        )
        assert await load_state(journal, "default", session) == wanted


async def test_a_sealed_fold_is_used(workshop: Workshop, path: Path) -> None:
    """A session is restored from its fold without the events before it, as long as the chain vouches for the fold."""
    workshop.tool("do.it", slow(workshop))

    async def main() -> None:
        async with workshop.journal(f"sqlite:///{path}") as journal:
            session = await stopped_run(workshop, journal)
            wanted = await folded(journal, session)
            split_rows(path)
            tamper(path, "UPDATE events SET data = x'00' WHERE seq = 2")
            assert await load_state(journal, "default", session) == wanted

    workshop.is_forged = True
    await main()


@pytest.mark.parametrize("reader", ["state", "resume", "events", "replay", "report", "record"])
async def test_a_stream_whose_tail_was_cut_is_refused_by_every_reader(
    workshop: Workshop, path: Path, reader: str
) -> None:
    """The events that are left hold together; the stream's recorded end says that there were more."""
    workshop.tool("do.it")

    async with workshop.journal(f"sqlite:///{path}") as journal:
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            session = (await runtime.run(ASK, plan=plan(step("a")))).session_id
            state = await runtime.state(session)
        split_rows(path)
        tamper(path, "DELETE FROM events WHERE seq = ?", state.position)
        read = {
            "state": lambda: restore(journal, "default", session),
            "resume": lambda: runtime.resume(session),
            "events": lambda: load_history(journal, "default", session),
            "replay": lambda: load(journal, "default", session),
            "report": lambda: read_case(journal, "default", session),
            "record": lambda: read_record(journal, "default", state),
        }
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            with pytest.raises(JournalCorrupt) as caught:
                await read[reader]()
        assert caught.value.place == f"event {state.position} of stream {session}"


@pytest.mark.parametrize("reader", ["state", "resume", "events", "replay", "report"])
async def test_streams_with_exchanged_names_are_refused_by_every_reader(
    workshop: Workshop, path: Path, reader: str
) -> None:
    """Each chain holds; the first event says whose stream it is."""
    workshop.tool("do.it")

    async with workshop.journal(f"sqlite:///{path}") as journal:
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            ours = (await runtime.run(ASK, plan=plan(step("a")))).session_id
            theirs = (await runtime.run(ASK, plan=plan(step("b")))).session_id
        for old, new in ((ours, "x"), (theirs, ours), ("x", theirs)):
            rename(path, old, new)
        read = {
            "state": lambda: restore(journal, "default", ours),
            "resume": lambda: runtime.resume(ours),
            "events": lambda: load_history(journal, "default", ours),
            "replay": lambda: load(journal, "default", ours),
            "report": lambda: read_case(journal, "default", ours),
        }
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            with pytest.raises(JournalCorrupt) as caught:
                await read[reader]()
        assert caught.value.place == f"stream {ours} of tenant default"
        assert theirs in caught.value.message


async def test_a_message_in_another_sessions_inbox_is_refused(workshop: Workshop, path: Path) -> None:
    """Exchanged inboxes would cancel one session by the word that was meant for another."""
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=())
    pack = workshop.pack(gates=(BOSS,))

    async with (
        workshop.journal(f"sqlite:///{path}") as journal,
        workshop.runtime(pack, journal) as runtime,
    ):
        ours = await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)
        theirs = await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)
        await runtime.cancel(theirs.session_id, actor=BOB)
        rename(path, inbox_of(theirs.session_id), inbox_of(ours.session_id))
        with pytest.raises(JournalCorrupt, match=theirs.session_id):
            await runtime.resume(ours.session_id)


async def test_a_stop_that_was_removed_is_missed(workshop: Workshop, path: Path) -> None:
    """An emergency stop whose event was deleted does not let calls begin."""
    workshop.tool("do.it")

    async with workshop.journal(f"sqlite:///{path}") as journal:
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            await runtime.halt("tool", "do.it", actor=BOB)
        tamper(
            path,
            "DELETE FROM events WHERE stream_id = (SELECT id FROM streams WHERE stream = ?)",
            STREAM,
        )
        with pytest.raises(JournalCorrupt, match=STREAM):
            async with workshop.runtime(workshop.pack(), journal) as runtime:
                await runtime.run(ASK, plan=plan(step("a")))
    assert workshop.calls == []


@pytest.mark.parametrize("is_complete", [True, False])
async def test_sessions_that_may_have_lost_events_are_not_resumed(
    workshop: Workshop, path: Path, is_complete: bool
) -> None:
    """Where the commit log does not name every stream that moved, no session that is not over goes on."""
    workshop.tool("do.it")
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=())
    pack = workshop.pack(gates=(BOSS,))

    async def main() -> None:
        async with (
            workshop.journal(f"sqlite:///{path}") as journal,
            workshop.runtime(pack, journal) as runtime,
        ):
            done = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            waiting = await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)
            loss = Loss(commits=3, streams=(), is_complete=is_complete)
            marked = await mark_lost(cast("DatabaseJournal", journal), loss)
            assert [each.session_id for each in marked] == ([] if is_complete else [waiting.session_id])
            assert (await runtime.resume(done.session_id)).status == "completed"
            if is_complete:
                assert (await runtime.resume(waiting.session_id)).status == "awaiting_gate"
                return
            with pytest.raises(UsageError) as caught:
                await runtime.resume(waiting.session_id)
            assert caught.value.code == "history_lost"

    await main()

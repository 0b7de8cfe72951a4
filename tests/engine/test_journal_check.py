# ruff: noqa: S608 - every statement is a test's own text
"""A whole journal is checked on both durable backends: what was written passes, and what was changed is named."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import msgspec
import pytest

from journal.servers import administrator, new_database
from tercet import Actor, DecisionSpec, Gate, Pack, Plan, Request, tool
from tercet.contracts.mode import ApprovalMode
from tercet.engine.checks.journal import JournalReport, check_journal
from tercet.engine.lists import open_gates
from tercet.engine.rows import details_of
from tercet.journal.errors import JournalCorrupt
from tercet.journal.opening import open_journal, open_to_inspect
from tercet.journal.protocol import Append
from tercet.runtime import Runtime

PLAN = {"intent": "note", "steps": [{"id": "s1", "kind": "note", "params": {"n": 1}}]}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty journal on each of the two durable backends."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    return request.getfixturevalue("postgres_url")


@asynccontextmanager
async def _journal(url: str) -> AsyncGenerator[str]:
    """The address of a journal that nobody else uses."""
    if url.startswith("sqlite"):
        yield url
        return
    async with new_database(url) as own:
        yield own


async def _change(url: str, table: str, change: str) -> None:
    """Change rows with another program."""
    await _execute(url, f"UPDATE {{}}{table} SET {change}")


async def _execute(url: str, statement: str) -> None:
    """Run a statement with another program; `{}` stands before the name of each table."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as database:
            database.execute(statement.format(*[""] * statement.count("{}")))
        return
    async with administrator(url) as connection:
        await connection.execute(statement.format(*["tercet."] * statement.count("{}")))


async def _check(url: str) -> JournalReport:
    journal, loss = await open_to_inspect(url)
    try:
        return await check_journal(journal, loss, progress=lambda _: None)
    finally:
        await journal.close()


async def _run(url: str, tenant: str) -> str:
    pack = Pack(name="notes", version="1.0.0", decisions=[DecisionSpec(id="note")])
    async with Runtime(pack, url, tenant=tenant) as runtime:
        request = Request(intent="note", request_key="k1")
        result = await runtime.run(request, plan=Plan.model_validate(PLAN), actor=Actor(id="ada"))
        return result.session_id


async def test_every_part_of_a_journal_is_checked_on_every_backend(url: str) -> None:
    """Sessions of two tenants pass; then rows, claims and blobs are changed, and each is named."""

    async with _journal(url) as place:
        sessions = {await _run(place, "a"), await _run(place, "b")}
        report = await _check(place)
        assert report.problems == []
        assert (report.streams, report.sessions, report.claims) == (2, 2, 2)
        assert report.blobs >= 2
        await _change(place, "sessions", "status = 'failed'")
        await _change(place, "claims", "stream_id = 999999 WHERE tenant = 'a'")
        await _change(place, "claims", "seq = 999999 WHERE tenant = 'b'")
        await _change(place, "blobs", "data = digest WHERE tenant = 'a'")
        found = (await _check(place)).problems
        assert {problem.stream for problem in found if problem.place == "its row"} == sessions
        claims = {problem.tenant for problem in found if problem.place.startswith("the claim on ")}
        assert claims == {"a", "b"}
        assert {problem.tenant for problem in found if problem.place.startswith("blob ")} == {"a"}


@tool("notes.add", mode="read_only")
def add(text: str) -> dict[str, str]:
    """Return a note."""
    return {"text": text}


@tool("notes.send", mode="destructive", gates=["SEND"], no_compensation="it is sent", idempotent=True)
def send(text: str) -> dict[str, str]:
    """Send a note."""
    return {"text": text}


SENDING = {
    "intent": "note",
    "steps": [
        {"id": "s1", "tool": "notes.add", "params": {"text": "a"}},
        {
            "id": "s2",
            "tool": "notes.send",
            "params": {"text": {"$from": "request#/text"}},
            "depends_on": ["s1"],
        },
    ],
}
PACK = Pack(
    name="notes",
    version="1.0.0",
    safety_mode=ApprovalMode.DESTRUCTIVE,
    tools=[add, send],
    gates=[Gate(name="SEND", roles=("sender",))],
    decisions=[DecisionSpec(id="note")],
)
FRED = Actor(id="fred", roles=("sender",))


async def _run_to_the_gate(url: str) -> tuple[str, str]:
    """Return two sessions at a gate; the gate of the first is answered, and a tool is stopped."""
    async with Runtime(PACK, url, tenant="a") as runtime:
        first, second = [
            await runtime.run(
                Request(intent="note", input={"text": "b"}, request_key=key),
                plan=Plan.model_validate(SENDING),
                actor=Actor(id="ada"),
            )
            for key in ("k1", "k2")
        ]
        assert first.gate is not None
        await runtime.approve(first.gate.id, actor=FRED)
        await runtime.halt("tool", "notes.add", actor=FRED, note="look")
    return first.session_id, second.session_id


_FIRST = "(SELECT id FROM {}streams WHERE stream = '$first')"
_REQUEST = "key LIKE 'request_of:%' AND stream_id = " + _FIRST
_EMPTY = "(SELECT sizes FROM {}events WHERE seq = 1 LIMIT 1)"
"""No bytes, which the two databases write differently: a row of one event has no sizes."""
EDITS = {
    "stops under a name of no kind": (
        "UPDATE {}streams SET stream = 'stopz' WHERE stream = 'stops'",
        "its name",
    ),
    "stops under the name of another kind": (
        "UPDATE {}streams SET stream = 'breaker:x' WHERE stream = 'stops'",
        "its name",
    ),
    "stops of another tenant": ("UPDATE {}streams SET tenant = 'b' WHERE stream = 'stops'", "its name"),
    "the inbox of another session": (
        "UPDATE {}streams SET stream = 'inbox:$second' WHERE stream = 'inbox:$first'",
        "its name",
    ),
    "a renamed request claim": (
        f"UPDATE {{}}claims SET key = 'request_of:x' WHERE {_REQUEST}",
        "the claim on ",
    ),
    "a request claim of another session": (
        "UPDATE {}claims SET stream_id = (SELECT id FROM {}streams WHERE stream = '$second') WHERE "
        + _REQUEST,
        "the claim on ",
    ),
    "a request claim at another event": (f"UPDATE {{}}claims SET seq = 2 WHERE {_REQUEST}", "the claim on "),
    "a removed claim of a call": (
        f"DELETE FROM {{}}claims WHERE key NOT LIKE 'request_of:%' AND stream_id = {_FIRST}",
        "the claim on ",
    ),
    "a claim that no event made": (
        f"INSERT INTO {{}}claims (tenant, key, stream_id, seq) VALUES ('a', 'foreign', {_FIRST}, 6)",
        "the claim on foreign",
    ),
    "a session that is never due": (
        "UPDATE {}sessions SET due_at = NULL WHERE session_id = '$first'",
        "its row",
    ),
    "a session that waits for nobody": (
        "UPDATE {}sessions SET waits_since = NULL WHERE session_id = '$second'",
        "its row",
    ),
    "another next step": ("UPDATE {}sessions SET next_step = 'zz' WHERE session_id = '$first'", "its row"),
    "another time of change": ("UPDATE {}sessions SET updated_at = 5 WHERE session_id = '$first'", "its row"),
    "points that were deleted": (
        f"UPDATE {{}}events SET point = {_EMPTY} WHERE stream_id = {_FIRST}",
        "the point for event ",
    ),
    "a point behind the end": (
        f"INSERT INTO {{}}checkpoints SELECT {_FIRST}, 'point', 5000, chain, data FROM {{}}events LIMIT 1",
        "checkpoint 5000 of ",
    ),
    "an event before the first": (
        f"INSERT INTO {{}}events (stream_id, seq, data, chain) SELECT {_FIRST}, 0, data, chain FROM {{}}events LIMIT 1",
        "event 0 of ",
    ),
    "events without their stream": (
        "UPDATE {}events SET stream_id = 9999 WHERE stream_id = (SELECT id FROM {}streams WHERE stream = 'stops')",
        "event 1 of stream number 9999",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
async def test_rows_that_contradict_the_events_are_named(url: str, edit: str) -> None:
    """Streams, claims, session rows, points and events that another program changed are each reported."""
    statement, place = EDITS[edit]

    async with _journal(url) as own:
        first, second = await _run_to_the_gate(own)
        assert (await _check(own)).problems == []
        await _execute(own, statement.replace("$first", first).replace("$second", second))
        found = (await _check(own)).problems
        assert [problem for problem in found if problem.place.startswith(place)], found


async def test_rows_of_denied_sessions_that_an_earlier_version_wrote_are_sound(tmp_path: Path) -> None:
    """They were due after two heartbeats, and are due at once now; a row that is never due is a fault in both."""
    own = f"sqlite:///{tmp_path / 'runs.db'}"
    _, second = await _run_to_the_gate(own)
    async with Runtime(PACK, own, tenant="a", watchdog_ms=None) as runtime:
        await runtime.deny(f"{second}.g1", actor=FRED)
        heartbeat = (await runtime.state(second)).start.heartbeat
    assert (await _check(own)).problems == []
    where = f"WHERE session_id = '{second}'"
    await _change(own, "sessions", f"due_at = updated_at + {2 * heartbeat} {where}")
    assert (await _check(own)).problems == []
    await _change(own, "sessions", f"due_at = NULL {where}")
    assert [problem.place for problem in (await _check(own)).problems] == ["its row"]


async def test_rows_of_waiting_sessions_that_an_earlier_version_wrote_are_sound(tmp_path: Path) -> None:
    """They did not say who may answer; an upgrade lists them from their last change on, and their gates are found."""
    own = f"sqlite:///{tmp_path / 'runs.db'}"
    _, waiting = await _run_to_the_gate(own)
    async with open_journal(own) as journal:
        row = await journal.session("a", waiting)
    assert row is not None
    said = details_of(row)
    assert said.roles
    before = msgspec.msgpack.encode(msgspec.structs.replace(said, roles=()))
    where = f"WHERE session_id = '{waiting}'"
    await _change(own, "sessions", f"waits_since = updated_at, details = X'{before.hex()}' {where}")
    assert (await _check(own)).problems == []
    async with open_journal(own) as journal:
        found = [gate.id for _, gate in await open_gates(journal, "a", 10)]
    assert found == [f"{waiting}.g1"]


async def test_a_stop_that_was_moved_to_another_tenant_is_not_read_as_its_stop(url: str) -> None:
    """Every event beside the sessions names its tenant and its stream, and readers compare them."""

    async with _journal(url) as own:
        await _run_to_the_gate(own)
        await _change(own, "streams", "tenant = 'b' WHERE stream = 'stops'")
        async with Runtime(PACK, own, tenant="b") as runtime:
            with pytest.raises(JournalCorrupt, match="stream stops of tenant a"):
                await runtime.halt("tool", "notes.send", actor=FRED)


async def test_appending_where_rows_without_a_stream_lie_says_that_the_journal_is_damaged(url: str) -> None:
    """An append that meets an event at its position says so, and is not called an outage."""

    async with _journal(url) as own:
        await _run_to_the_gate(own)
        await _execute(
            own,
            "INSERT INTO {}events (stream_id, seq, data, chain) SELECT stream_id, 2, data, chain FROM {}events"
            " WHERE stream_id = (SELECT id FROM {}streams WHERE stream = 'stops')",
        )
        async with open_journal(own) as journal:
            with pytest.raises(JournalCorrupt, match="a row that no stream knows of"):
                await journal.append(Append(tenant="a", stream="stops", expected=1, events=(b"{}",)))


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("CREATE TRIGGER quiet AFTER INSERT ON events BEGIN DELETE FROM bells; END", "the trigger quiet"),
        ("CREATE VIEW extra AS SELECT 1", "the view extra"),
        ("DROP INDEX sessions_by_due", "the index sessions_by_due"),
        ("DROP TABLE claims", "the table claims"),
    ],
)
async def test_a_schema_that_is_not_a_journals_is_named(tmp_path: Path, statement: str, what: str) -> None:
    """Triggers, views, tables and indexes are compared with those that the migrations make."""
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    await _run(url, "a")
    await _execute(url, statement)
    found = (await _check(url)).problems
    assert [problem for problem in found if problem.what.startswith(what)], found

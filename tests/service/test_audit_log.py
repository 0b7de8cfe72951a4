"""The audit log: every call that changes something is in it, before it takes effect, and also if it is refused unread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tercet.engine.streams import audit
from tercet.engine.streams.audit import AuditEntry, AuditLog, read_audit, read_audit_page, write_audit
from tercet.engine.streams.credentials import SCOPES
from tercet.executor.clock import SystemClock
from tercet.journal.errors import JournalUnavailable
from tercet.journal.memory import MemoryJournal
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, Position
from tercet.service.boundary import Limits

from .desk import Desk, open_desk

STOP = {"kind": "tool", "name": "adp_payments.issue_refund"}


async def outcomes(desk: Desk) -> list[tuple[str, str, str]]:
    """Return the entries: method, subject and outcome."""
    found = await read_audit(desk.journal, "default")
    return [(entry.method, entry.subject, entry.outcome) for _, entry in found]


async def test_a_call_is_in_the_log_before_it_takes_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies after the effect leaves an entry; one that cannot write it does nothing."""
    async with open_desk() as desk:
        key = await desk.key("ops", scopes=SCOPES)
        original, left = AuditLog.write, 1

        async def write(log: AuditLog, entry: AuditEntry) -> None:
            nonlocal left
            if not left:
                raise JournalUnavailable("the journal", "it is gone for a moment")
            left -= 1
            await original(log, entry)

        monkeypatch.setattr(AuditLog, "write", write)
        assert (await desk.rpc(key, "emergencyStop", **STOP))["code"] == "journal_unavailable"
        assert await outcomes(desk) == [("emergencyStop", "tool adp_payments.issue_refund", "begun")]
        assert (await desk.rpc(key, "liftStop", **STOP))["code"] == "journal_unavailable"
        assert len((await desk.rpc(key, "listStops"))["stops"]) == 1
        left = 2
        assert "stop" in await desk.rpc(key, "liftStop", **STOP)
        assert [each[2] for each in await outcomes(desk)] == ["begun", "ok"]


async def test_what_is_refused_unread_is_in_the_log_once_a_minute() -> None:
    """Too many requests, acting as others, and a key that was revoked: an entry for each credential and reason."""
    async with open_desk(limits=Limits(calls_per_second=0.001, burst=2)) as desk:
        busy, spent = await desk.key("ann"), await desk.key("bob")
        await desk.running.keys.revoke(spent.split("_")[1], by="test", now=SystemClock().now())
        for _ in range(5):
            await desk.rpc(busy, "getCaller")
            await desk.rpc(spent, "emergencyStop", **STOP)
        await desk.rpc(desk.running.local_key, "getCaller", _as="eve")
        await desk.client.get("/v1/stops", headers={"authorization": f"Bearer {spent}"})
        await desk.rpc(spent + "x", "emergencyStop", **STOP)
        found = [entry for _, entry in await read_audit(desk.journal, "default")]
    assert [(entry.actor, entry.method, entry.outcome) for entry in found] == [
        ("bob", "POST /rpc", "unauthenticated"),
        ("ann", "POST /rpc", "rate_limited"),
        ("olga", "POST /rpc", "simulation_refused"),
    ]


async def test_a_request_that_is_refused_whole_is_in_the_log() -> None:
    """Bodies that are too large or do not come, of every protocol, and a batch with more calls than its caller has left."""
    calls = [{"jsonrpc": "2.0", "id": n, "method": "emergencyStop", "params": STOP} for n in range(5)]
    limits = Limits(calls_per_second=0.001, burst=4, body_bytes=2_000, body_s=0.05)
    async with open_desk(limits=limits) as desk:
        names = ("ann", "bob", "cleo", "dan")
        keys = {name: f"Bearer {await desk.key(name, scopes=SCOPES)}" for name in names}

        async def half() -> AsyncIterator[bytes]:
            yield b"["
            await asyncio.Event().wait()

        for name, path, content in (
            ("ann", "/rpc", b"x" * 2_001),
            ("bob", "/mcp", b"x" * 2_001),
            ("cleo", "/a2a", half()),
            ("dan", "/rpc", json.dumps(calls).encode()),
        ):
            await desk.client.post(path, content=content, headers={"authorization": keys[name]})
        found = [entry for _, entry in await read_audit(desk.journal, "default")]
    assert [(entry.actor, entry.method, entry.outcome) for entry in found] == [
        ("ann", "POST /rpc", "too_large"),
        ("bob", "POST /mcp", "too_large"),
        ("cleo", "POST /a2a", "timeout"),
        ("dan", "POST /rpc", "rate_limited"),
    ]


async def test_calls_at_the_same_moment_share_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the log is read once, and the entries of many calls are written in few appends, none of them twice."""
    async with open_journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal, open_desk(journal) as desk:
        key, read, append = await desk.key("ops", scopes=SCOPES), journal.head, journal.append
        ends = appends = 0

        async def head(tenant: str, stream: str) -> Position:
            nonlocal ends
            ends += stream == audit.AUDIT
            return await read(tenant, stream)

        async def write(unit: Append) -> Position:
            nonlocal appends
            appends += unit.stream == audit.AUDIT
            return await append(unit)

        monkeypatch.setattr(journal, "head", head)
        monkeypatch.setattr(journal, "append", write)
        await asyncio.gather(*(desk.rpc(key, "emergencyStop", **STOP) for _ in range(20)))
        assert (ends, appends < 30) == (1, True)
        assert sorted(each[2] for each in await outcomes(desk)) == ["ok"] * 20


def _entry(call: str, outcome: str = "ok") -> AuditEntry:
    return AuditEntry(at=1, actor="a", auth="api_key", credential="c", method="m", outcome=outcome, call=call)


async def test_processes_that_write_one_log_lose_no_entry() -> None:
    """Each finds the log where the other has left it, and goes on behind it."""
    journal = MemoryJournal()
    logs = [AuditLog(journal, "t"), AuditLog(journal, "t")]
    for number in range(4):
        await asyncio.gather(*(log.write(_entry(f"{number}.{n}")) for n, log in enumerate(logs)))
    written = [entry.call for _, entry in await read_audit(journal, "t")]
    assert sorted(written) == sorted(f"{number}.{n}" for number in range(4) for n in range(2))


async def test_an_append_that_fails_fails_the_calls_whose_entries_it_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None of them takes effect, and the next entry is written."""
    journal = MemoryJournal()
    log, append = AuditLog(journal, "t"), journal.append

    async def fail(unit: Append) -> Position:
        raise JournalUnavailable("the journal", f"it takes no unit for {unit.stream}")

    monkeypatch.setattr(journal, "append", fail)
    refused = await asyncio.gather(*(log.write(_entry(str(n))) for n in range(3)), return_exceptions=True)
    assert [type(each) for each in refused] == [JournalUnavailable] * 3
    monkeypatch.setattr(journal, "append", append)
    await log.write(_entry("later"))
    assert [entry.call for _, entry in await read_audit(journal, "t")] == ["later"]


async def test_pages_of_the_log() -> None:
    """A call is one entry once it has ended, and pages come to the end whatever they leave out."""
    journal = MemoryJournal()
    written = [
        ("1", "begun"),
        ("2", "begun"),
        ("2", "ok"),
        ("1", "ok"),
        ("3", "begun"),
        ("4", "begun"),
        ("4", "ok"),
    ]
    for call, outcome in written:
        await write_audit(journal, "t", _entry(call, outcome))
    seen: list[str] = []
    after: int | None = 0
    while after is not None:
        page, after = await read_audit_page(journal, "t", after=after, limit=2)
        assert len(page) <= 2
        seen += [f"{each.call} {each.outcome}" for _, each in page]
    assert seen == ["2 ok", "1 ok", "3 begun", "4 ok"]
    async with open_desk() as desk:
        key = await desk.key("ops", scopes=SCOPES)
        for _ in range(3):
            await desk.rpc(key, "emergencyStop", **STOP)
        first = await desk.rpc(key, "listAudit", limit=2)
        rest = await desk.rpc(key, "listAudit", limit=2, after=first["next_cursor"])
        assert (len(first["entries"]), len(rest["entries"]), rest["next_cursor"]) == (2, 1, None)

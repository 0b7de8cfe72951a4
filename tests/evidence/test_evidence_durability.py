"""What a store keeps through crashes, interruptions, damage, and ten thousand later changes."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from journal.servers import administrator
from tercet.contracts.errors import UsageError
from tercet.contracts.values.canonical import canonical
from tercet.evidence.errors import NewerStore, StoreBusy, StoreCorrupt, StoreError, StoreUnavailable
from tercet.evidence.opening import open_evidence
from tercet.evidence.retrieval import facts_for
from tercet.evidence.store import Change, NewFact
from tercet.testing.evidence_backend import contents, fact, take
from tercet.testing.expectation import new_tenant

CRASH = """
import asyncio, os, signal, sys
from tercet.evidence.opening import open_evidence
from tercet.evidence.store import NewFact

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def changes(last):
    for number in range(5_000):
        if number == last:
            die()
        yield NewFact(classification="policy", key=f"k{number}", content=f"word{number % 7}")

async def main(url, where):
    store = await open_evidence(url)
    await store.create("acme", "d", now_ms=1)
    await store.put("acme", "d", changes(2_500 if where == "put" else -1))
    await store.freeze("acme", "d", now_ms=2, progress=lambda done: die() if done >= 2_000 else None)

asyncio.run(main(*sys.argv[1:]))
"""


def at(path: Path) -> str:
    """The address of a file."""
    return f"sqlite:///{path}"


async def evidence_bytes(store: Any, tenant: str, snapshot: str) -> bytes:
    """All facts of a snapshot, as a session would keep them."""
    facts = await facts_for(store, tenant, snapshot)
    return canonical([each.model_dump(mode="json") for each in facts])


async def _outlast(url: str) -> None:
    tenant = new_tenant()
    async with open_evidence(url) as store:
        await take(
            store, tenant, "pinned", *(fact(f"k{number}", f"red apple {number}") for number in range(50))
        )
        await store.pin(tenant, "pinned", "ses_waiting")
        before = await evidence_bytes(store, tenant, "pinned")
        hits = await store.search(tenant, "pinned", "red apple 7", limit=50)
        for number in range(20):
            changes = (fact(f"k{key}", f"red apple {number} {key}") for key in range(500))
            await take(store, tenant, f"s{number}", *changes)
        assert await evidence_bytes(store, tenant, "pinned") == before
        assert await store.search(tenant, "pinned", "red apple 7", limit=50) == hits
        assert (await store.head(tenant, "s19")).facts == 500


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_pinned_snapshot_outlasts_ten_thousand_changes(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A waiting session finds the same evidence, byte by byte, and the same answers, after 10,000 later changes."""
    url = {"memory": "memory:", "sqlite": at(tmp_path / "evidence.db")}.get(kind)
    await _outlast(url or request.getfixturevalue("postgres_url"))


async def test_a_snapshot_copies_nothing(tmp_path: Path) -> None:
    """A snapshot that changes one fact of a thousand adds one row."""
    path = tmp_path / "evidence.db"

    async with open_evidence(at(path)) as store:
        await take(store, "acme", "s0", *(fact(f"k{number}", number) for number in range(1_000)))
        for number in range(1, 51):
            await take(store, "acme", f"s{number}", fact("k1", -number))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM versions").fetchone() == (1_050,)
        assert connection.execute("SELECT count(*) FROM facts").fetchone() == (1_050,)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["put", "freeze"])
def test_a_killed_process_leaves_nothing_in_part(tmp_path: Path, where: str) -> None:
    """After kill -9 the earlier snapshot is as it was, the draft is whole or as it was, and the work can go on."""
    url = at(tmp_path / "evidence.db")

    async def before() -> None:
        async with open_evidence(url) as store:
            await take(store, "acme", "s", fact("k1", "first"))

    async def after() -> tuple[int, str]:
        async with open_evidence(url) as store:
            assert await contents(store, "acme", "s") == {"k1": "first"}
            draft = await store.head("acme", "d")
            assert not draft.is_frozen
            assert draft.facts == (0 if where == "put" else 5_000)
            await store.put(
                "acme",
                "d",
                [NewFact(classification="policy", key=f"k{n}", content=f"word{n % 7}") for n in range(5_000)],
            )
            head = await store.freeze("acme", "d", now_ms=3)
            assert len(await store.search("acme", "d", "word3", limit=1_000)) == 714
            return head.facts, head.hash

    async def whole() -> tuple[int, str]:
        async with open_evidence("memory:") as store:
            await take(store, "acme", "s", fact("k1", "first"))
            head = await take(store, "acme", "d", *(fact(f"k{n}", f"word{n % 7}") for n in range(5_000)))
            return head.facts, head.hash

    asyncio.run(before())
    done = subprocess.run(
        [sys.executable, "-c", CRASH, url, where], check=False, capture_output=True, timeout=600
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert asyncio.run(after()) == asyncio.run(whole())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_cancelled_put_leaves_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Whoever is interrupted while files are read has added nothing, and the source is not read to its end."""
    url = at(tmp_path / "e.db") if kind == "sqlite" else request.getfixturevalue("postgres_url")
    begun, cancelled = threading.Event(), threading.Event()
    taken: list[int] = []

    def changes() -> Iterator[Change]:
        for number in range(100):
            taken.append(number)
            begun.set()
            assert cancelled.wait(300)
            yield fact(f"k{number}", number)

    tenant = new_tenant()
    async with open_evidence(url) as store:
        await store.create(tenant, "d", now_ms=1)
        putting = asyncio.create_task(store.put(tenant, "d", changes()))
        await asyncio.to_thread(begun.wait, 30)
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
        cancelled.set()
        assert (await store.head(tenant, "d")).facts == 0
    assert len(taken) < 100


async def test_sessions_can_pin_while_files_are_read(tmp_path: Path) -> None:
    """An import that takes long does not hold the lock meanwhile."""
    may_go = threading.Event()

    def changes() -> Iterator[Change]:
        yield fact("a", 1)
        assert may_go.wait(300)
        yield fact("b", 2)

    async with (
        open_evidence(at(tmp_path / "e.db")) as store,
        open_evidence(at(tmp_path / "e.db")) as other,
    ):
        await take(store, "acme", "s", fact("x", 1))
        await store.create("acme", "d", now_ms=1)
        putting = asyncio.create_task(store.put("acme", "d", changes()))
        await store.pin("acme", "s", "ses_1")
        await other.pin("acme", "s", "ses_2")
        may_go.set()
        await putting
        assert await store.pins("acme", "s") == ("ses_1", "ses_2")


async def _fails(url: str, **options: Any) -> Exception:
    with pytest.raises((UsageError, StoreError)) as caught:
        await open_evidence(url, **options)
    assert isinstance(caught.value, UsageError | StoreError)
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("", "unknown_store"),
        ("evidence.db", "unknown_store"),
        ("mysql://x", "unknown_store"),
        ("sqlite:///", "unknown_store"),
        ("sqlite:///:memory:", "unknown_store"),
        ("sqlite:///no/such/folder/e.db", "evidence_unavailable"),
        ("postgresql://localhost:1/none", "evidence_unavailable"),
        ("postgresql://[bad", "unknown_store"),
    ],
)
async def test_an_address_that_is_none_is_refused(
    url: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wrong address has a typed answer with a remedy."""
    monkeypatch.chdir(tmp_path)
    error = await _fails(url, patience_s=0.2)
    assert getattr(error, "code", "") == code


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """A journal, a newer store and a file that is no database are told apart, and not touched."""
    journal, newer, text = tmp_path / "j.db", tmp_path / "n.db", tmp_path / "t.db"
    with sqlite3.connect(journal) as connection:
        connection.execute("CREATE TABLE events (id)")
    text.write_text("no database " * 100)
    assert getattr(asyncio.run(_fails(at(journal))), "code", "") == "not_evidence"
    assert isinstance(asyncio.run(_fails(at(text))), StoreCorrupt)

    async def make() -> None:
        await (await open_evidence(at(newer))).close()

    asyncio.run(make())
    with sqlite3.connect(newer) as connection:
        connection.execute("INSERT INTO evidence_schema VALUES (99)")
    assert isinstance(asyncio.run(_fails(at(newer))), NewerStore)


def test_changed_bytes_are_noticed(tmp_path: Path) -> None:
    """A fact whose bytes are not those of its hash is not handed out."""
    path = tmp_path / "evidence.db"

    async def fill() -> None:
        async with open_evidence(at(path)) as store:
            await take(store, "acme", "s", fact("a", "pay Ann"))

    async def read() -> None:
        async with open_evidence(at(path)) as store:
            for call in (
                store.fact("acme", "kg:policy:a#snapshot_s"),
                store.facts("acme", "s"),
                store.search("acme", "s", "pay"),
            ):
                with pytest.raises(StoreCorrupt) as caught:
                    await call
                assert "kg:policy:a#snapshot_s" in caught.value.message

    asyncio.run(fill())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE facts SET content = ?", (b'"pay Bob"',))
    asyncio.run(read())


async def test_a_locked_file_is_told(tmp_path: Path) -> None:
    """Somebody else who holds the lock for longer than we wait is named as the reason; nothing is written."""
    path = tmp_path / "evidence.db"

    async with open_evidence(at(path), patience_s=0.05) as store:
        await take(store, "acme", "s", fact("a", 1))
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            await store.create("acme", "d", now_ms=1)
        assert await contents(store, "acme", "s") == {"a": 1}
        blocker.execute("ROLLBACK")
        blocker.close()
        await store.create("acme", "d", now_ms=1)


async def test_a_server_that_goes_away_is_told(postgres_url: str) -> None:
    """A read goes on over a new connection; an address without a database says so."""

    tenant = new_tenant()
    async with open_evidence(postgres_url) as store:
        await take(store, tenant, "s", fact("a", 1))
        async with administrator(postgres_url) as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tercet'"
            )
        assert await contents(store, tenant, "s") == {"a": 1}
    error = await _fails(postgres_url.replace("/postgres?", "/nobody?"))
    assert isinstance(error, StoreUnavailable)

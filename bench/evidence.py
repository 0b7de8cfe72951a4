"""Evidence: bringing 100,000 chunks in, the bytes they take, and finding some of them again, on SQLite and PostgreSQL.

Each figure stands beside a floor that was measured in the same run with the same texts: for the import, plain INSERTs of the
bytes and of the texts into the store's own full text index, without snapshots, hashes, labels and provenance; for retrieval,
the store's own ranked query, whose order changes with every fact that is added later; for the bytes, the texts themselves.
Queries alternate with their floor, so that a noisy machine is noisy for both.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from plugins.postgres import running_server
from tercet.contracts.text.words import terms_of
from tercet.contracts.values.canonical import hash_bytes
from tercet.database.postgres import Connection, connect
from tercet.evidence.opening import open_evidence
from tercet.evidence.store import Change, EvidenceStore, NewDocument, NewFact

CHUNKS = 100_000
PER_DOCUMENT = 100
WORDS = 120
VOCABULARY = 30_000
ROUNDS = 7
QUERIES = ("word9000", "word900 word2500", "word90 word400 word20000 word11")
"""A rare word, two that are neither, and four of which one stands in every tenth chunk or so."""

Timed = tuple[float, Any]


def texts(count: int) -> list[str]:
    """Chunks of about 800 bytes, whose words are as unevenly common as those of a language."""
    dice = random.Random(7)  # noqa: S311 - the same texts every time
    names = [f"word{number}" for number in range(VOCABULARY)]
    weights = list(accumulate(1 / (number + 3) for number in range(VOCABULARY)))
    return [" ".join(dice.choices(names, cum_weights=weights, k=WORDS)) for _ in range(count)]


def changes(chunks: list[str]) -> Iterator[Change]:
    """The chunks as documents of a hundred each."""
    for number, text in enumerate(chunks):
        document = f"docs/{number // PER_DOCUMENT}.md"
        if number % PER_DOCUMENT == 0:
            body = "".join(chunks[number : number + PER_DOCUMENT])
            yield NewDocument(name=document, hash=hash_bytes(body.encode()), size=len(body))
        at = number % PER_DOCUMENT
        yield NewFact(
            classification="policy", key=f"{document}/{at}", content={"text": text}, source=document,
            document=document, chunk=at, start=at * 1_000, end=at * 1_000 + len(text),
        )  # fmt: skip


async def timed(call: Coroutine[Any, Any, Any]) -> Timed:
    """How long a coroutine takes, and what it gives."""
    began = time.perf_counter()
    result = await call
    return time.perf_counter() - began, result


async def fill(store: EvidenceStore, chunks: list[str]) -> None:
    """Import and freeze."""
    await store.create("bench", "s", now_ms=1)
    added = await store.put("bench", "s", changes(chunks))
    head = await store.freeze("bench", "s", now_ms=2)
    assert added.facts == head.facts == len(chunks)


async def compare(store: EvidenceStore, plain: Callable[[str], Coroutine[Any, Any, int]], name: str) -> None:
    """Print a row for each query: ours, the floor, and their ratio."""
    for query in QUERIES:
        ours, floor = list[float](), list[float]()
        for _ in range(ROUNDS):
            took, hits = await timed(store.search("bench", "s", query))
            ours.append(took)
            took, found = await timed(plain(query))
            floor.append(took)
            assert len(hits) == found
        ratio = statistics.median(a / b for a, b in zip(ours, floor, strict=True))
        title = f"{name}: search {len(terms_of(query))} word{'s' * (len(terms_of(query)) > 1)}"
        show(
            title,
            f"{1_000 * statistics.median(ours):.1f} ms",
            f"{1_000 * statistics.median(floor):.1f} ms",
            ratio,
        )


def show(title: str, ours: str, floor: str, ratio: float) -> None:
    """Print one row."""
    print(f"{title:34}{ours:>16}{floor:>16}{ratio:>9.2f}", flush=True)


def show_import(name: str, took: float, floor: float, count: int) -> None:
    """Print the row of an import."""
    show(f"{name}: import", f"{count / took:,.0f} chunks/s", f"{count / floor:,.0f} chunks/s", took / floor)


def show_size(name: str, size: int, chunks: list[str]) -> None:
    """Print the row of the bytes."""
    raw = sum(len(text.encode()) for text in chunks) / len(chunks)
    show(
        f"{name}: bytes per chunk", f"{size / len(chunks):,.0f} B", f"{raw:,.0f} B", size / len(chunks) / raw
    )


def fill_plain_sqlite(path: Path, chunks: list[str]) -> float:
    """Seconds of plain INSERTs into a table and an FTS5 index."""
    began = time.perf_counter()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY, content BLOB)")
    connection.execute("CREATE VIRTUAL TABLE plain_words USING fts5 (text, content = '')")
    connection.execute("BEGIN")
    rows = [(number, text) for number, text in enumerate(chunks)]
    connection.executemany("INSERT INTO plain VALUES (?, ?)", ((at, text.encode()) for at, text in rows))
    connection.executemany("INSERT INTO plain_words (rowid, text) VALUES (?, ?)", rows)
    connection.execute("COMMIT")
    connection.close()
    return time.perf_counter() - began


async def measure_sqlite(folder: Path, chunks: list[str]) -> None:
    """The rows of SQLite."""
    path, plain = folder / "evidence.db", folder / "plain.db"
    floor = fill_plain_sqlite(plain, chunks)
    async with open_evidence(f"sqlite:///{path}") as store:
        took, _ = await timed(fill(store, chunks))
        show_import("SQLite", took, floor, len(chunks))
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        show_size("SQLite", path.stat().st_size, chunks)
        reader = sqlite3.connect(plain, check_same_thread=False)

        def ask(query: str) -> int:
            found = reader.execute(
                "SELECT p.content, w.rank FROM plain_words AS w JOIN plain AS p ON p.id = w.rowid "
                "WHERE plain_words MATCH ? ORDER BY w.rank LIMIT 10",
                (" OR ".join(query.split()),),
            )
            return len(found.fetchall())

        await compare(store, lambda query: asyncio.to_thread(ask, query), "SQLite")
        reader.close()


async def fill_plain_postgres(connection: Connection, chunks: list[str]) -> float:
    """Seconds of plain INSERTs into a table with a GIN index."""
    began = time.perf_counter()
    await connection.execute(
        "CREATE TABLE plain (id bigint PRIMARY KEY, content bytea, words tsvector);"
        "CREATE INDEX ON plain USING gin (words)"
    )
    async with connection.transaction():
        for start in range(0, len(chunks), 1_000):
            page = chunks[start : start + 1_000]
            await connection.execute(
                "INSERT INTO plain SELECT id, content, to_tsvector('simple', text) "
                "FROM unnest($1::bigint[], $2::bytea[], $3::text[]) AS new (id, content, text)",
                list(range(start, start + len(page))), [text.encode() for text in page], page,
            )  # fmt: skip
    return time.perf_counter() - began


async def measure_postgres(url: str, chunks: list[str]) -> None:
    """The rows of PostgreSQL."""
    connection = await connect(url, settings={"application_name": "bench"})
    floor = await fill_plain_postgres(connection, chunks)
    async with open_evidence(url) as store:
        took, _ = await timed(fill(store, chunks))
        show_import("PostgreSQL", took, floor, len(chunks))
        await connection.execute("VACUUM ANALYZE")
        size = await connection.fetchval(
            "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class AS c JOIN pg_namespace AS n "
            "ON n.oid = c.relnamespace WHERE n.nspname = 'tercet' AND c.relkind = 'r' AND c.relname LIKE 'evidence%'"
        )
        show_size("PostgreSQL", size, chunks)

        async def ask(query: str) -> int:
            rows = await connection.fetch(
                "SELECT content, ts_rank(words, q) FROM plain, to_tsquery('simple', $1) AS q "
                "WHERE words @@ q ORDER BY 2 DESC, id LIMIT 10",
                " | ".join(query.split()),
            )
            return len(rows)

        await compare(store, ask, "PostgreSQL")
    await connection.close()


def run(*, is_smoke: bool = False) -> list[str]:
    """Print the table; it has no targets."""
    count = 500 if is_smoke else CHUNKS
    chunks = texts(count)
    print(f"{f'evidence, {count:,} chunks':34}{'Tercet':>16}{'floor':>16}{'ratio':>9}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(measure_sqlite(folder, chunks))
    with running_server(is_synced=True) as server:
        asyncio.run(measure_postgres(server.url, chunks))
    return []

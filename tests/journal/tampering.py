"""Changing a SQLite journal behind its back, event by event."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tercet.journal.append_rows import decompress, unpack_events


def split_rows(path: Path | str) -> None:
    """Rewrite a journal as an earlier version of Tercet wrote it: a row for every event, and points as checkpoints."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        rows = database.execute(
            "SELECT stream_id, seq, data, chain, sizes, size, point FROM events"
        ).fetchall()
        database.execute("BEGIN IMMEDIATE")
        database.execute("DELETE FROM events")
        for stream, end, data, chain, sizes, size, point in rows:
            for stored in unpack_events("", end, decompress(data, size, ""), chain, sizes):
                database.execute(
                    "INSERT INTO events (stream_id, seq, data, chain) VALUES (?, ?, ?, ?)",
                    (stream, stored.seq, stored.data, stored.chain),
                )
            if point:
                database.execute(
                    "INSERT INTO checkpoints (stream_id, kind, seq, hash, data) VALUES (?, 'point', ?, ?, ?)",
                    (stream, end, point[:32], point[32:]),
                )
        database.execute("COMMIT")

"""Opens an evidence store by its URL: `memory:`, `sqlite:///evidence.db`, `postgresql://…`."""

from __future__ import annotations

from functools import partial

from tercet.database.schema import LOCK_S, Opening, demand_driver, parse_address
from tercet.evidence.errors import EVIDENCE
from tercet.evidence.store import EvidenceStore


def open_evidence(url: str, *, patience_s: float | None = None) -> Opening[EvidenceStore]:
    """Open a store by its URL: `async with open_evidence(url) as store`, or `await open_evidence(url)`.

    `patience_s` is how long to wait for a lock, and for a server that went away: by default 5 and 45 seconds. Raises
    `UsageError` for an unknown URL, and a kind of `StoreError` if the store cannot be opened.
    """
    return Opening(partial(_open, url, patience_s))


async def _open(url: str, patience_s: float | None) -> EvidenceStore:
    # The drivers are imported where they are used: importing sqlite3 takes time in a process without a store,
    # and asyncpg is an optional dependency.
    address = parse_address(url, EVIDENCE)
    match address.backend:
        case "memory" | "sqlite":
            from tercet.evidence.sqlite import SqliteEvidence  # noqa: PLC0415 - see above

            if address.backend == "memory":
                return SqliteEvidence.in_memory()
            return await SqliteEvidence.open(
                address.path, patience_s=LOCK_S if patience_s is None else patience_s
            )
        case "postgres":
            with demand_driver(EVIDENCE):
                from tercet.evidence.postgres import PostgresEvidence  # noqa: PLC0415 - see above
            return await PostgresEvidence.open(url, patience_s=patience_s)

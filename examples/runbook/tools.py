"""The machines of Marigold Outfitters, an invented shop: seven tools over one small SQLite database.

The database is the file that TERCET_RUNBOOK_DB names, else `runbook.db` in the working folder. It is made from
`schema.sql` and `seed.sql` at its first use. Every change is written down under its key in the same transaction, so a
call that is repeated finds its own line and changes nothing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tercet import NotDone, ToolContext, tool

HERE = Path(__file__).resolve().parent
FULL = 90
"""From so much memory on, in percent, a host is not well."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """A service as its metrics show it: the host in the worst state, and the release before the one that it runs."""

    service: str
    host: str
    version: str
    previous_version: str
    memory_percent: int
    healthy: bool


@dataclass(frozen=True, kw_only=True)
class Host:
    """A host after something was done to it."""

    host: str
    version: str
    in_balancer: bool


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A release on a host, and the one that it took the place of."""

    host: str
    version: str
    replaced: str


@tool(
    "ops_metrics.inspect",
    mode="read_only",
    trust="trusted",
    result_kinds={"version": "version", "previous_version": "version"},
    estimated_ms=50,
)
def inspect(service: str) -> Service:
    """Say how a service is: by the worst of its hosts, those in the balancer first."""
    query = """
        SELECT h.host, h.version, h.memory_percent,
               coalesce((SELECT max(r.version) FROM releases AS r
                         WHERE r.service = h.service AND r.version < h.version), '') AS previous_version
        FROM hosts AS h WHERE h.service = ? ORDER BY h.in_balancer DESC, h.memory_percent DESC, h.host LIMIT 1
    """
    with database() as db:
        row = db.execute(query, (service,)).fetchone()
    if row is None:
        raise NotDone(
            f"no host runs {service!r}", code="service_unknown", remedy="name a service of the shop"
        )
    return Service(service=service, healthy=row["memory_percent"] < FULL, **row)


@tool(
    "ops_balancer.drain",
    mode="local_write",
    trust="trusted",
    authority=["host"],
    reversibility="compensable",
    compensate={"tool": "ops_balancer.undrain", "params": {"host": {"$from": "params#/host"}}},
    establishes=["drained"],
    idempotent=True,
    estimated_ms=500,
)
def drain(ctx: ToolContext, host: str) -> Host:
    """Let a host finish what it does, and send it nothing more."""
    return _change(ctx, "drain", host, "UPDATE hosts SET in_balancer = 0 WHERE host = ?")


@tool(
    "ops_balancer.undrain",
    mode="local_write",
    trust="trusted",
    authority=["host"],
    reversibility="compensable",
    no_compensation="a host that serves again is what everybody wants; drain it if not",
    revokes=["drained"],
    idempotent=True,
    estimated_ms=200,
)
def undrain(ctx: ToolContext, host: str) -> Host:
    """Send requests to a host again, if it still serves anything."""
    return _change(ctx, "undrain", host, "UPDATE hosts SET in_balancer = service IS NOT NULL WHERE host = ?")


@tool(
    "ops_hosts.restart",
    mode="local_write",
    trust="trusted",
    authority=["host"],
    reversibility="compensable",
    no_compensation="a restart leaves nothing behind that could be undone",
    preconditions=["drained"],
    idempotent=True,
    estimated_ms=2_000,
)
def restart(ctx: ToolContext, host: str) -> Host:
    """Restart a host; its memory is empty afterwards, until its release has filled it again."""
    with database() as db:
        row = db.execute("SELECT is_frozen FROM hosts WHERE host = ?", (host,)).fetchone()
    if row is not None and row["is_frozen"]:
        raise NotDone(
            f"{host} does not answer its console", code="host_frozen", remedy="repair it without a restart"
        )
    return _change(
        ctx,
        "restart",
        host,
        """UPDATE hosts SET memory_percent = (
               SELECT memory_percent FROM releases AS r WHERE r.service = hosts.service AND r.version = hosts.version
           ) WHERE host = ?""",
    )


@tool(
    "ops_deploys.deploy",
    mode="local_write",
    trust="trusted",
    authority=["host", "version"],
    kinds={"version": "version"},
    reversibility="compensable",
    compensate={
        "tool": "ops_deploys.deploy",
        "params": {"host": {"$from": "params#/host"}, "version": {"$from": "self#/replaced"}},
    },
    preconditions=["drained"],
    idempotent=True,
    estimated_ms=4_000,
)
def deploy(ctx: ToolContext, host: str, version: str) -> Deployment:
    """Put a release on a host; one that was archived cannot be had any more."""
    with database() as db:
        row = db.execute(
            """SELECT h.version, r.memory_percent FROM hosts AS h
               JOIN releases AS r ON r.service = h.service AND r.version = ? AND NOT r.is_archived
               WHERE h.host = ?""",
            (version, host),
        ).fetchone()
    if row is None:
        raise NotDone(
            f"there is no release {version or 'before this one'} for {host}",
            code="release_gone",
            remedy="deploy another release",
        )
    _change(
        ctx,
        f"deploy {version}",
        host,
        "UPDATE hosts SET version = ?, memory_percent = ? WHERE host = ?",
        version,
        row["memory_percent"],
    )
    return Deployment(host=host, version=version, replaced=row["version"])


@tool(
    "ops_fleet.add_host",
    mode="local_write",
    trust="trusted",
    authority=["service"],
    reversibility="compensable",
    compensate={"tool": "ops_fleet.retire", "params": {"host": {"$from": "self#/host"}}},
    idempotent=True,
    estimated_ms=8_000,
)
def add_host(ctx: ToolContext, service: str) -> Host:
    """Give a service a spare host with the release that it runs, and put that into the balancer."""
    query = """
        SELECT host FROM actions WHERE idempotency_key = ?
        UNION ALL SELECT host FROM hosts WHERE service IS NULL AND host LIKE 'spare-%' LIMIT 1
    """
    with database() as db:
        row = db.execute(query, (ctx.idempotency_key,)).fetchone()
    if row is None:
        raise NotDone("no spare host is left", code="no_spare_host", remedy="order one")
    return _change(
        ctx,
        "add_host",
        row["host"],
        """UPDATE hosts SET service = ?1, in_balancer = 1, memory_percent = 25,
               version = (SELECT max(version) FROM hosts WHERE service = ?1) WHERE host = ?2""",
        service,
    )


@tool(
    "ops_fleet.retire",
    mode="local_write",
    trust="trusted",
    authority=["host"],
    reversibility="compensable",
    no_compensation="a retired host is set up again before it serves again",
    idempotent=True,
    estimated_ms=500,
)
def retire(ctx: ToolContext, host: str) -> Host:
    """Take a host out of service for good."""
    return _change(
        ctx,
        "retire",
        host,
        "UPDATE hosts SET service = NULL, version = NULL, in_balancer = 0, memory_percent = 0 WHERE host = ?",
    )


def _change(ctx: ToolContext, what: str, host: str, statement: str, *values: object) -> Host:
    """Changes a host once for each key, and says how it is afterwards."""
    line = "INSERT INTO actions VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    with database() as db:
        db.execute("BEGIN IMMEDIATE")
        if db.execute(line, (ctx.idempotency_key, what, host)).rowcount:
            db.execute(statement, (*values, host))
        row = db.execute("SELECT host, version, in_balancer FROM hosts WHERE host = ?", (host,)).fetchone()
        if row is None:
            db.execute("ROLLBACK")
            raise NotDone(f"there is no host {host!r}", code="host_unknown", remedy="name a host of the shop")
        db.execute("COMMIT")
    return Host(host=row["host"], version=row["version"] or "", in_balancer=bool(row["in_balancer"]))


@contextmanager
def database() -> Generator[sqlite3.Connection]:
    """The shop's machines for the time of one call."""
    path = os.environ.get("TERCET_RUNBOOK_DB") or "runbook.db"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as db:
        db.row_factory = sqlite3.Row
        if not db.execute("PRAGMA user_version").fetchone()[0]:
            parts = [(HERE / name).read_text(encoding="utf-8") for name in ("schema.sql", "seed.sql")]
            db.executescript("\n".join(["BEGIN IMMEDIATE;", *parts, "PRAGMA user_version = 1;", "COMMIT;"]))
        yield db

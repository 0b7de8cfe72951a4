"""The journal on a PostgreSQL server."""

from __future__ import annotations

from tercet.database.postgres import CONNECTIONS, Pool, Server
from tercet.journal.database import DatabaseJournal
from tercet.journal.postgres.rows import SCHEMA
from tercet.journal.postgres.writer import Writer


class PostgresJournal(DatabaseJournal):
    """A durable journal on a server, for many machines. Open it with `open_journal("postgresql://host/database")`."""

    @classmethod
    async def open(cls, url: str, *, patience_s: float | None = None) -> PostgresJournal:
        """Connect to a database; `patience_s` is how long to wait for locks and for a server that restarts, by default 5
        seconds for locks and 45 for a server that restarts."""
        server = Server(url, SCHEMA, patience_s=patience_s)
        writer, reader = Writer(server), Pool(server, most=CONNECTIONS - 1, is_read_only=True)
        journal = cls(writer, reader)
        try:
            await writer.open()
            await reader.open()
        except BaseException:
            await journal.close()
            raise
        return journal

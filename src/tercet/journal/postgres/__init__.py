"""The journal on a PostgreSQL server, for many machines: batches of appends, one statement each."""

from tercet.journal.postgres.journal import PostgresJournal

__all__ = ["PostgresJournal"]

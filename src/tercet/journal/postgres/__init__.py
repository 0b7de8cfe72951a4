"""The journal on a PostgreSQL server, for many machines: batches of appends, one statement each."""

from tercet.journal.postgres.writer import PostgresJournal as PostgresJournal

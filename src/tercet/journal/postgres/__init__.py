"""The journal on a PostgreSQL server, for many machines: batches of appends, one statement each.

Only this folder imports `asyncpg`, which comes with the extra `tercet[postgres]`.
"""

from tercet.journal.postgres.journal import PostgresJournal

__all__ = ["PostgresJournal"]

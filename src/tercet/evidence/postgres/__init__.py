"""Evidence on a PostgreSQL server, for many machines, with its full-text index."""

from tercet.evidence.postgres.store import PostgresEvidence as PostgresEvidence

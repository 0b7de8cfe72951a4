"""Evidence on a PostgreSQL server, for many machines. Its full text index says which facts have a word."""

from tercet.evidence.postgres.store import PostgresEvidence as PostgresEvidence

"""Evidence in one SQLite file: one thread writes, others read. FTS5 says which facts have a word."""

from tercet.evidence.sqlite.store import SqliteEvidence as SqliteEvidence

"""Evidence in one SQLite file: one thread writes, others read. FTS5 indexes the words."""

from tercet.evidence.sqlite.store import SqliteEvidence as SqliteEvidence

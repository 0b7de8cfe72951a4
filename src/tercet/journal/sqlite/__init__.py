"""The journal in one SQLite file: one thread writes and commits in groups, others read."""

from tercet.journal.sqlite.journal import SqliteJournal as SqliteJournal

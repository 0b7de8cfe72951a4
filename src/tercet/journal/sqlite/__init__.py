"""The journal in one SQLite file: one thread writes and commits in groups, others read.

Only this folder imports `sqlite3`.
"""

from tercet.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]

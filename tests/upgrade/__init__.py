"""Sessions that an earlier version left unfinished, and what becomes of them under the current rules.

`0.1.0-rules-4.journal` is a SQLite journal that the version with rules 1 to 4 wrote. It is never changed: a test opens a
copy. `python -m upgrade FILE`, with `tests` on the path, records the same sessions with the code that is installed.
"""

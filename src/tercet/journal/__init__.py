"""Remembers. For now: the records of the write-ahead log, as types.

An INTENT is written before an effect, a COMPLETE or an ABORT after it.
"""

"""Runs on many machines: Temporal wakes sessions, and the journal on PostgreSQL holds and fences them."""

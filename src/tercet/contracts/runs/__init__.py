"""Runs: their budget, session, transcript and records."""

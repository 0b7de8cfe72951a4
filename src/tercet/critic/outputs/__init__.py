"""Judges what a run produced."""

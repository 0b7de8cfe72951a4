"""Judging and repairing outputs, as far as it is part of a run's events."""

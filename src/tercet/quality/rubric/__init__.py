"""Outputs scored by a rubric."""

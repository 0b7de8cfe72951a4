"""Judges and repairs outputs: verification, rubric, repair, control, exit. Pure."""

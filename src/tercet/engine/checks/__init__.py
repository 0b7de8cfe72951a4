"""Checks of a whole journal, provenance of runs, and retention."""

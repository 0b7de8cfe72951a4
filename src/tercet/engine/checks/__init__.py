"""Checks of a whole journal, and what is kept of it."""

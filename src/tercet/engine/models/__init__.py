"""Planners, and the language models that they ask."""

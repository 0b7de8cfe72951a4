"""Mutation checks: a test proves a requirement line if it fails when the code for that line is broken."""

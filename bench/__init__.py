"""Benchmarks: `make bench` runs all of them, `python -m bench NAME` one, and the tests a small round of each.

Each module has `run(is_smoke=...)`, which prints what it measured and returns the targets that were missed.
"""

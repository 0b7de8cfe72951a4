"""Judges plans, steps, runs and outputs. Pure: results depend on the arguments only.

- `verify` reviews a plan before it runs: five published checks, then the feasibility matrix and the information flow;
- `score` runs five evaluators over the record of a run; `consolidate` combines both into a report; `judge` returns the
  outcome: accept, retry, replan or escalate;
- `pluggable` holds the types and the chain of user-written critics.

This package imports only contracts and policy; it uses no I/O, no clock and no randomness.
"""

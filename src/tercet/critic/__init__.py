"""Judges plans, steps, runs and outputs. Pure: what comes out depends on what goes in, and on nothing else.

- `verify` reviews a plan before anything happens: five checks in their order, then the feasibility matrix and the
  information flow;
- `score` runs five evaluators over what was recorded of a run; `consolidate` packs both into a report; `judge` says
  what follows: accept, retry, replan or escalate;
- `outputs` judges what a run produced: verification, critique, self-consistency;
- `pluggable` holds the types and the chain of the critics that people write themselves.

This room may import contracts and policy, and nothing that does I/O, tells the time or draws lots.
"""

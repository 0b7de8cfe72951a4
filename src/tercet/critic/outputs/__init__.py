"""Judges what a run produced. Pure, like the rest of the critic.

- `verification`: schema, then claims against the evidence, then claims against authoritative sources;
- `grounding`: the embedded judge of claims; `asking`: a language model as judge, which only yields its questions;
- `junit`, `traces`, `harness`: tests as verification;
- `consistency`, `similarity`: what several samples agree on;
- `critique`, `scorers`, `safety`, `adversarial`: a critic with a context of its own.
"""

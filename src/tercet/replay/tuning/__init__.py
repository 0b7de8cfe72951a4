"""Tuning: named surfaces of a pack, searched within bounds, scored by replay alone, proposed to a person.

- `measuring`: the outcome of one recorded run under a pack;
- `scoring`: the results of many runs, with confidence intervals;
- `frozen`: the check that only surfaces have changed, and the guardrails: the floors, and what may not get worse;
- `evaluation`: the value of candidates, each measured once;
- `search`: values are drawn, and replay evaluates them;
- `proposal`: the diff, expected transcripts, records and scores that a person sees;
- `acceptance`: applying a proposal, which only a person can do.
"""

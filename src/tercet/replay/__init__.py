"""Replay, what-if and tuning: recorded runs are folded and judged again, offline. Nothing here calls a tool or a model.

- `bundle`: one file of a whole run;
- `recording`: a run as it was recorded, loaded whole before anything is judged;
- `rulebook`: the rules that it is judged by, from what the run has kept; no code comes from there;
- `scene`, `derivations`: what every judgement is derived from, one entry for each type of event;
- `agents`: whose critics are pure and can be asked again; `driving`: how, without an event loop;
- `replaying`, `outcome`: `replay_equal`, or the first event, step and field that differ;
- `what_if`, `verdicts`, `pool`: recorded runs under another pack, on all cores;
- `report`: one page about a run, for people;
- `golden`: chosen runs as a regression set;
- `guard`: any I/O while a run is judged again is an error.
"""

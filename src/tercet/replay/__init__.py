"""Replay, what-if and tuning: recorded runs are folded and judged again, offline. Nothing here calls a tool or a model.

- `bundle`: one file of a whole run;
- `recording`: a run as it was recorded, loaded whole before anything is judged;
- `recorded_run`: the interpreter's `Run`, fed from a recording; any I/O while it is judged again is an error;
- `rules`: the packs that runs are judged by, from what they have kept, and the agents whose critics can be asked again;
- `answers`: the recorded answer to each command, from which `resolve` makes the events again;
- `replay`, `comparison`: `replay_equal`, or the first event, step and field that differ;
- `what_if`, `verdict_changes`, `pool`: recorded runs under another pack, on all cores;
- `golden`: chosen runs as a regression set;
- `tuning`: better settings of a pack, proposed to a person.
"""

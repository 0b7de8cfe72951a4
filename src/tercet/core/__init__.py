"""The interpreter of a run: `decide` says what is due, `resolve` makes the events, `fold` applies them. Pure.

`events` are the structs of the journal, `table` describes every one of them once, `state` is the fold of a run's events,
and `config` is what a run is judged and executed under.
"""

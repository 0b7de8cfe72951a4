"""Moves a run from event to event: the transition table, `evolve`, `decide`, and the driver that carries commands out.

`state`, `machine`, `commands` and `deciding` are pure. The driver appends what happened, and does what `decide` says.
"""

"""Proposes plans, and touches nothing: no clock, no randomness, no I/O.

`template` fills a pack's own plans. `htn` breaks tasks down by methods, `network` makes a plan of what came of it,
`alternatives` proposes it, and another one after a setback. `partial_order`, `flexibility` and `schedule` are about any
plan: what its conditions order, how free it is, and how long it takes.
"""

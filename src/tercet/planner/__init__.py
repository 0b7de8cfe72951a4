"""Proposes plans, and touches nothing: no clock, no randomness, no I/O.

`template` fills a pack's own plans. `htn` breaks tasks down by methods, `network` makes a plan of what came of it,
`alternatives` proposes it, and another one after a setback. `partial_order`, `flexibility` and `schedule` are about any
plan: what its conditions order, how free it is, and how long it takes. For plans that language models write, `assignment`
is what one is asked for, `prompt` and `fence` what it is told, `plan_schema` and `sources` what its answer is held to,
`answer` reads it, and `revision` says what of a plan stays.
"""

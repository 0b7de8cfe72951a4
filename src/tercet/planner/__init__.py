"""Proposes plans; pure: no clock, no randomness, no I/O.

`template` fills a pack's own plans. `htn` breaks tasks down by methods, `partial_order` turns the result into a plan,
`alternatives` proposes it, and another one after a setback. `flexibility` and `schedule` analyse any plan: how free its
order is, and how long it takes. For plans that language models write, `assignment` is the task, `prompt` the question,
`plan_schema` and `sources` constrain the answer, and `answer` reads it.
"""

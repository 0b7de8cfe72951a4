"""View models: what people and consoles see of a run, as frozen dataclasses built once from its state and events.

`events`, `session`, `gate`, `hand_off`, `plan`, `timeline`, `phases`, `quality`, `diff`, `evidence` and `revisions` hold the models,
`run` all of them, and `vocabulary` the words. They are independent of any output: `terminal` and `html` render them.
Text in a model is as it was recorded; a renderer removes what must not be printed.
"""

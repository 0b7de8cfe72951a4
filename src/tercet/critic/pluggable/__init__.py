"""The pluggable critics: what a critic returns, how several are asked in turn, what a retry changes, when a run ends.

A critic is anybody's code and looks at one step: it may read everything, and it writes to `state.metadata` at most.
The modules here are pure. Awaiting an async critic is all the chain does, under whatever loop its caller runs.
People import these names from `tercet.critics`.
"""

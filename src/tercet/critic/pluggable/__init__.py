"""The pluggable critics: their results, the chain that asks them in turn, the effect of a retry, and stop criteria.

A critic is user code that looks at one step: it may read everything, and writes to `state.metadata` only. The modules
here are pure. The chain awaits async critics under whatever event loop its caller runs. Users import these names from
`tercet.critics`.
"""

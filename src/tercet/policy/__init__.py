"""CEL expressions: compiled and type-checked when a pack is loaded, bounded, and failing closed when they run.

This room knows nothing of plans or packs beyond the names of the variables that a rule may read. It is pure.
"""

"""CEL expressions: compiled and type-checked when a pack is loaded, bounded, and failing closed when they run.

This package knows nothing of plans or packs except the names of the variables that a rule may read. It is pure.
"""

"""Looks back: bundles, re-derivation, what-if.

Reads journals and bundles, and never runs a tool. `bundle` is one file of a whole run.
"""

"""Looks back: bundles, re-derivation, what-if, reports.

Reads journals and bundles, and never runs a tool. `bundle` is one file of a whole run, `report` one page about it.
"""

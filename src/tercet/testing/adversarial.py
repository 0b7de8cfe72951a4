"""Edge cases out of a JSON Schema, for a pack's own tests; a run makes them for the attacks that its decision declares."""

from __future__ import annotations

from tercet.core.outputs.edge_cases import make_edge_cases

__all__ = ["make_edge_cases"]

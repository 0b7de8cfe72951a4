"""Edge cases generated from a JSON Schema, for a pack's own tests; a run generates them for its decision's attacks."""

from __future__ import annotations

from tercet.core.outputs.edge_cases import make_edge_cases

__all__ = ["make_edge_cases"]

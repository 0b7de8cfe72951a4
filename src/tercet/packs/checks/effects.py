"""Tools that change something: who must approve them, and how they are taken back."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.contracts import references
from tercet.contracts.mode import ApprovalMode, Reversibility
from tercet.contracts.plan import Compensation
from tercet.contracts.references import Malformed, Reference
from tercet.contracts.shape import as_list
from tercet.contracts.tool import ToolSpec
from tercet.packs.checks import Check, Problems
from tercet.packs.checks.schema_paths import fields_of, missing_field
from tercet.packs.parts import Parts
from tercet.policy.expressions import ExpressionError, compile_planner


def effects_are_gated(parts: Parts) -> Problems:
    """A destructive or irreversible tool waits for a gate that no condition lifts, in every decision that offers it."""
    for tool in parts.tools:
        is_irreversible = tool.effective_reversibility is Reversibility.IRREVERSIBLE
        if tool.mode is not ApprovalMode.DESTRUCTIVE and not is_irreversible:
            continue
        if _holds_back(parts, tool.gates) or _decisions_hold_back(parts, tool):
            continue
        what = tool.mode if tool.mode is ApprovalMode.DESTRUCTIVE else "irreversible"
        silent = " (it says nothing else)" if tool.reversibility is None and what == "irreversible" else ""
        yield parts.problem(
            "ungated",
            f"tool {tool.name}, gates",
            f"it is {what}{silent} and waits for no gate without a condition",
            "name a gate that has no 'when'"
            + (", or say that it is reversible or compensable" if silent else ""),
        )

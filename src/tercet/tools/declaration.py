"""What a pack's table may say about a tool that is no Python function: what `@tool` may, but for what is derived."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tercet.contracts.mode import Trust
from tercet.contracts.shape import as_list
from tercet.contracts.tool import ToolSpec

_DERIVED = {"name", "parameters", "result", "adapter", "reconciles"}

SAYABLE = frozenset(ToolSpec.model_fields) - _DERIVED
"""The fields of `ToolSpec` that a table may hold."""


def split(table: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a table says about the tool, and the rest of it."""
    said = {key: value for key, value in table.items() if key in SAYABLE}
    if (limits := as_list(said.get("limits"))) is not None:
        said["limits"] = [{"expression": limit} if isinstance(limit, str) else limit for limit in limits]
    return said, {key: value for key, value in table.items() if key not in SAYABLE}


def with_trust(said: Mapping[str, Any]) -> dict[str, Any]:
    """The same where a table that names the untrusted fields, also none of them, says that it trusts the others."""
    trust = {"trust": Trust.TRUSTED} if "untrusted" in said and said.get("trust") is None else {}
    return {**said, **trust}

"""What an action is: the idempotency key, and the hash that the loop guard compares."""

from __future__ import annotations

from typing import Any

import orjson

from tercet.contracts.canonical import digest, hash_bytes
from tercet.contracts.errors import UsageError
from tercet.contracts.tool import ToolSpec


def identity(tool: ToolSpec, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters that say what an action is: those declared, else the authority parameters, else all."""
    names = tool.identity or tool.authority
    return {name: params.get(name) for name in names} if names else params


def idempotency_key(
    tenant: str, session: str, tool: ToolSpec, params: dict[str, Any], occurrence: int
) -> str:
    """The key of an action: what it is, in which session, and the how-manieth time; never where it stood in a plan."""
    return _hashed([tenant, session, tool.name, identity(tool, params), occurrence])


def call_hash(tool: str, params: dict[str, Any]) -> str:
    """The hash of a call: what the loop guard compares, within one run, so that sorted JSON is enough."""
    return hash_bytes(_sorted([tool, params]))


def _hashed(value: list[Any]) -> str:
    try:
        return digest(value)
    except UsageError:
        # An integer that canonical JSON does not have. Sorted JSON still says the same thing the same way.
        return hash_bytes(_sorted(value))


def _sorted(value: list[Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=str)

"""What an action is: the idempotency key, and the hash that the loop guard compares."""

from __future__ import annotations

from typing import Any

import orjson

from tercet.contracts.canonical import canonical_dump, hash_bytes
from tercet.contracts.errors import UsageError
from tercet.contracts.tool import ToolSpec
from tercet.policy.call_params import identity_params


def idempotency_key(
    tenant: str,
    session: str,
    tool: ToolSpec,
    params: dict[str, Any],
    occurrence: int,
    *,
    is_strict: bool = True,
) -> str:
    """Return the key of an action: what it is, in which session, and its occurrence; never its place in a plan.

    Give `canonical_params`, so that one action has one key however it is written.
    """
    identity = identity_params(tool, params, is_strict=is_strict)
    return _hashed([tenant, session, tool.name, identity, occurrence])


def params_digest(tool: str, params: dict[str, Any]) -> str:
    """Return the digest of a tool's name with some of its parameters: equal calls of any session have the same."""
    return _hashed([tool, params])


def call_hash(tool: str, params: dict[str, Any]) -> str:
    """The hash of a call: what the loop guard compares, within one run, so that sorted JSON is enough."""
    return hash_bytes(_sorted([tool, params]))


def _hashed(value: list[Any]) -> str:
    try:
        return hash_bytes(canonical_dump(value))  # parameters of a call are built-in types only
    except UsageError:
        # An integer that canonical JSON does not have. Sorted JSON still says the same thing the same way.
        return hash_bytes(_sorted(value))


def _sorted(value: list[Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=str)

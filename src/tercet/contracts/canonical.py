"""Canonical JSON (RFC 8785) and the SHA-256 over it: the hash of a plan, a record, evidence, a gate, a pack.

`rfc8785` is exact and slow. For values made of ASCII keys, strings, booleans, nulls and integers within ±2^53,
orjson with sorted keys gives the same bytes far faster, so a scan decides whose print counts. Floats, other integers
and other keys go to `rfc8785`: RFC 8785 orders keys by UTF-16 code units and prints numbers as ECMAScript does.
"""

from __future__ import annotations

import hashlib
from typing import Any, cast

import orjson
import rfc8785
from pydantic import BaseModel

from tercet.contracts.errors import UsageError

_MAX_INT = 2**53 - 1


def canonical(value: Any) -> bytes:
    """The canonical JSON of a JSON value or a contract; a value that has none raises `UsageError`."""
    try:
        plain = value.model_dump(mode="json", exclude_none=True) if isinstance(value, BaseModel) else value
        printed = _print(plain)
        # A value that orjson could print ends somewhere, so the scan of it ends as well.
        return printed if printed is not None and _is_simple(plain) else rfc8785.dumps(plain)
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(
            f"this value has no canonical JSON: {error}",
            code="not_canonical",
            remedy="use JSON values only, finite numbers, and integers within ±(2^53 - 1); write larger ones as strings",
        ) from error


def digest(value: Any) -> str:
    """`sha256:` and the hexadecimal SHA-256 of the canonical JSON of a value."""
    return hash_bytes(canonical(value))


def hash_bytes(data: bytes) -> str:
    """`sha256:` and the hexadecimal SHA-256 of bytes as they are."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _print(value: Any) -> bytes | None:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return None


def _is_simple(value: Any) -> bool:
    """Whether orjson prints this value exactly as RFC 8785 demands."""
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        kind = cast("type[object]", type(item))
        if kind is str or kind is bool or item is None:
            continue
        if kind is int:
            if not -_MAX_INT <= item <= _MAX_INT:
                return False
        elif kind is dict:
            for key in cast("dict[Any, Any]", item):
                if type(key) is not str or not key.isascii():
                    return False
            stack.extend(item.values())
        elif kind is list:
            stack.extend(item)
        else:
            return False
    return True

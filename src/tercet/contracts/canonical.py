"""Canonical JSON (RFC 8785) and the SHA-256 over it: the hash of a plan, a record, evidence, a gate, a pack.

`rfc8785` is exact and slow. For values made of ASCII keys, strings, booleans, nulls, integers within ±2^53 and floats
between 0.0001 and 2^53, orjson with sorted keys gives the same bytes far faster, so a scan decides whose print counts.
Whole floats are first made integers, since RFC 8785 prints numbers as ECMAScript does: 1.0 as 1. Other numbers and
other keys go to `rfc8785`, which orders keys by UTF-16 code units.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, cast

import orjson
import rfc8785
from pydantic import BaseModel

from tercet.contracts.errors import UsageError

_MAX_INT = 2**53 - 1
_MIN_FLOAT = 1e-4
"""Below, orjson goes over to exponents before ECMAScript does."""


def canonical(value: Any) -> bytes:
    """The canonical JSON of a JSON value or a contract; a value that has none raises `UsageError`."""
    try:
        plain = value.model_dump(mode="json", exclude_none=True) if isinstance(value, BaseModel) else value
        printed = _print(plain)
        # A value that orjson could print ends somewhere, so the scan of it ends as well.
        kind = None if printed is None else _scan(plain)
        if printed is None or kind is None:
            return rfc8785.dumps(plain)
        if kind == "simple":
            return printed
        copied = [plain if plain is not value else orjson.loads(printed)]
        return orjson.dumps(_with_whole_floats_as_integers(copied)[0], option=orjson.OPT_SORT_KEYS)
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


def _scan(value: Any) -> Literal["simple", "whole floats"] | None:
    """Whether orjson prints this value exactly as RFC 8785 demands, at once or with its whole floats as integers."""
    found: Literal["simple", "whole floats"] = "simple"
    stack: list[Any] = [(value,)]
    while stack:
        for item in stack.pop():
            kind: type[object] = type(item)  # pyright: ignore[reportUnknownVariableType] - a cast would cost a call
            if kind is str or kind is bool or item is None:
                continue
            if kind is int:
                if not -_MAX_INT <= item <= _MAX_INT:
                    return None
            elif kind is dict:
                for key in item:
                    if type(key) is not str or not key.isascii():
                        return None
                stack.append(item.values())
            elif kind is list:
                stack.append(item)
            elif kind is float and _is_usual(item):
                if item.is_integer():
                    found = "whole floats"
            else:
                return None
    return found


def _is_usual(number: float) -> bool:
    """Whether orjson and ECMAScript print a float alike, but for the `.0` of a whole one."""
    return -_MAX_INT <= number <= _MAX_INT and (abs(number) >= _MIN_FLOAT or number == 0)


def _with_whole_floats_as_integers(root: list[Any]) -> list[Any]:
    """The same list, changed in place."""
    stack: list[Any] = [root]
    while stack:
        item = cast("dict[Any, Any]", stack.pop())  # or a list, which is read and written the same way
        for place in item if type(item) is dict else range(len(item)):
            member = item[place]
            kind: type[object] = type(member)  # pyright: ignore[reportUnknownVariableType] - as above
            if kind is float:
                if member.is_integer():
                    item[place] = int(member)
            elif kind is dict or kind is list:
                stack.append(member)
    return root

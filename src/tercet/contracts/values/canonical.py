"""Canonical JSON (RFC 8785) and its SHA-256: the hash of a plan, a record, evidence, a gate, a pack.

`rfc8785` is exact and slow. For values made of ASCII keys, strings, booleans, nulls, integers within ±2^53 and floats
between 0.0001 and 2^53, orjson with sorted keys gives the same bytes far faster, so a scan decides which of the two is
used. Whole floats are printed as integers, since RFC 8785 prints numbers as ECMAScript does: 1.0 as 1. Other
numbers and other keys go to `rfc8785`, which orders keys by UTF-16 code units. The scan is the expensive part. Keys
need not be scanned if the whole output is ASCII, and a Pydantic dump needs no scan at all if its floats are whole, as
most scores are, or it has none.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import orjson
import rfc8785
from pydantic import BaseModel

from tercet.contracts.errors import UsageError

_MAX_FLOAT = float(2**53 - 1)
_MIN_FLOAT = 1e-4
"""Below this, orjson switches to exponents earlier than ECMAScript."""
_PRINT = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
)
"""Sorted keys, integers within ±2^53 only, and most of orjson's non-JSON types disabled."""
_pack = msgspec.msgpack.Encoder().encode
_FLOAT = 0xCB
"""The byte that precedes every float in MessagePack, and never occurs in ASCII text."""


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a JSON value or a contract; raise `UsageError` if there is none."""
    try:
        # The check for a model costs as much as printing a small value, so it comes last.
        if type(value) not in (dict, list) and isinstance(value, BaseModel):
            return _canonical(value.model_dump(mode="json", exclude_none=True), is_dumped=True)
        return _canonical(value, is_dumped=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise _refusal(error) from error


def canonical_dump(dumped: Any) -> bytes:
    """Return the canonical JSON of a `model_dump(mode="json")`: it holds built-in types only, which saves a check."""
    try:
        return _canonical(dumped, is_dumped=True)
    except (ValueError, TypeError, RecursionError) as error:
        raise _refusal(error) from error


def _canonical(value: Any, *, is_dumped: bool) -> bytes:
    printed = _print(value)
    if printed is None:
        return rfc8785.dumps(value)
    is_ascii = printed.isascii()
    whole: int | None = None
    if is_dumped and is_ascii:
        if (floats := _pack(value).count(_FLOAT)) == 0:
            return printed
        whole = _count_printed_floats(printed, floats)
    if whole is None:
        # orjson could print the value, so it is not recursive and the scan terminates.
        whole = _count_whole_floats(value, has_ascii_keys=is_ascii)
    if whole is None:
        return rfc8785.dumps(value)
    if not whole:
        return printed
    # With as many ends as floats, none of them is part of a text. RFC 8785 prints -0.0 as 0.
    if sum(map(printed.count, _WHOLE)) == whole and b"-0.0" not in printed:
        for end in _WHOLE:
            printed = printed.replace(end, end[-1:])
        return printed
    return orjson.dumps(_with_whole_floats_as_integers(value), option=orjson.OPT_SORT_KEYS)


def _refusal(error: Exception) -> UsageError:
    return UsageError(
        f"this value has no canonical JSON: {error}",
        code="not_canonical",
        remedy="use JSON values only, finite numbers, and integers within ±(2^53 - 1); write larger ones as strings",
    )


def digest(value: Any) -> str:
    """Return `sha256:` and the hexadecimal SHA-256 of the canonical JSON of a value."""
    return hash_bytes(canonical(value))


def hash_bytes(data: bytes) -> str:
    """Return `sha256:` and the hexadecimal SHA-256 of bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _print(value: Any) -> bytes | None:
    try:
        return orjson.dumps(value, option=_PRINT)
    except orjson.JSONEncodeError:
        return None


_WHOLE = b".0,", b".0}", b".0]"
"""The end of a whole float as orjson prints it, with what follows in a list or an object."""


_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 16


def _count_printed_floats(printed: bytes, most: int) -> int | None:
    """Return how many whole floats a value has that orjson printed in ASCII, without a walk over its parts; None if that
    does not show, or there may be other floats.

    `most` is how often the byte of a float occurs in MessagePack: once for every float, and perhaps in lengths and
    integers. If as many floats are printed, none is hidden, as NaN is behind `null`.
    """
    if b"\\" in printed:
        return None
    numbers = b"".join(printed.split(b'"')[::2])  # without an escape, every second part is a text
    whole = sum(map(numbers.count, _WHOLE))
    # Those with 16 digits may be too large for ECMAScript to print them alike.
    is_all = whole == most == numbers.count(b".") and _LONG_NUMBER not in numbers.translate(_AS_ZEROS)
    return whole if is_all else None


def _count_whole_floats(value: Any, *, has_ascii_keys: bool) -> int | None:
    """Return how many whole floats a value has; None if orjson does not print the rest as RFC 8785 demands.

    orjson has already printed the value, so its keys are strings and its integers are within bounds.
    """
    count = 0
    stack: list[Any] = [(value,)]
    while stack:
        for item in stack.pop():
            kind: type[object] = type(item)  # pyright: ignore[reportUnknownVariableType] - a cast would cost a call
            if kind is str or kind is int or kind is bool or item is None:
                continue
            if kind is dict:
                if not has_ascii_keys and not "".join(item).isascii():
                    return None
                stack.append(item.values())
            elif kind is list:
                stack.append(item)
            elif kind is float and _is_usual(item):
                count += item.is_integer()
            else:
                return None
    return count


def _is_usual(number: float) -> bool:
    """Return whether orjson and ECMAScript print a float alike, except for the `.0` of a whole one."""
    return _MIN_FLOAT <= number <= _MAX_FLOAT or number == 0.0 or _MIN_FLOAT <= -number <= _MAX_FLOAT


def _with_whole_floats_as_integers(value: Any) -> Any:
    """Return the same value with 1 for 1.0; orjson prints no value that is too deep for this recursion."""
    kind: type[object] = type(value)  # pyright: ignore[reportUnknownVariableType] - as above
    if kind is float:
        return int(value) if value.is_integer() else value
    # Most members are texts: they need no call of their own.
    if kind is dict:
        return {
            key: member if type(member) is str else _with_whole_floats_as_integers(member)
            for key, member in value.items()
        }
    if kind is list:
        return [member if type(member) is str else _with_whole_floats_as_integers(member) for member in value]
    return value

"""Plain data: JSON values that arrive in a request, as evidence, or as a result.

A value that is not JSON, cannot be encoded, has no canonical form or is nested too deep would break a hash, a rule or a
tool much later. So the contracts reject it on entry.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, cast

from pydantic import AfterValidator

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.references import MAX_DEPTH, NO_KEYS, TOO_DEEP, Found, Leaf, Place, is_text

MAX_NUMBER = 2**53 - 1
"""Up to here every JSON reader keeps integers exact. Beyond it, two account numbers may be read as the same."""
_TOO_LARGE = (
    "numbers beyond ±(2^53 - 1), NaN and infinities are no JSON numbers: such a value is written as a string"
)


def not_json(value: Any) -> str | None:
    """Return why a scalar cannot be written as JSON, or None if it can."""
    kind: type[object] = type(value)  # pyright: ignore[reportUnknownVariableType] - a cast would cost a call
    if kind is str:
        # Encoding is the test for unpaired surrogates; most strings are ASCII and skip it.
        return None if is_text(value) else "a string holds an unpaired surrogate"
    if kind is int or kind is float:
        return None if -MAX_NUMBER <= value <= MAX_NUMBER else _TOO_LARGE
    if kind is bool or value is None or kind is dict or kind is list:
        return None  # a container is a leaf only when it is empty
    return f"a {kind.__name__} is no JSON value"


def scan_scalars(members: dict[str, Any]) -> list[Found] | None:
    """Return what `references.scan` returns for an object of plain scalars; None for any other object.

    Most parameters are such objects, and one pass both scans and checks them.
    """
    found: list[Found] = []
    for name, value in members.items():
        kind: type[object] = type(value)  # pyright: ignore[reportUnknownVariableType] - as above
        if kind is str:
            if not value.isascii():
                return None
        elif kind is int:
            if not -MAX_NUMBER <= value <= MAX_NUMBER:
                return None
        elif kind is not bool and value is not None:
            return None
        if type(name) is not str or not name.isascii() or name[:1] == "$":
            return None
        found.append(Leaf(value, (name,)))
    return found


def storable(text: str) -> str:
    """Return a text without lone surrogates, as in file names that are not UTF-8, so that it can be encoded."""
    # A new string also where nothing changes: an event leaves out a default that is the very same object, so that
    # returning the text itself would change the bytes that are recorded.
    return text.encode("utf-8", "replace").decode()


_NUMERIC = frozenset({int, float, bool})
_SMALL = 4_000
"""The maximum number of parts of a small value; 64 characters count as one."""


def is_small(value: Any) -> bool:
    """Return whether a JSON value can be read in negligible time. Inspects a bounded part of it; False for other types."""
    if value is None or type(value) in _NUMERIC:
        return True
    if type(value) is dict and _has_few_scalars(cast("dict[Any, Any]", value)):
        return True
    left = _SMALL
    stack: list[Any] = [value]
    while stack and left >= 0:
        item = stack.pop()
        left -= 1
        kind: type[object] = type(item)  # pyright: ignore[reportUnknownVariableType] - a cast would cost a call
        if kind in _NUMERIC or item is None:
            continue
        if kind is str:
            left -= len(item) >> 6
        elif kind is dict or kind is list:
            left -= len(item)
            if left < 0:
                return False
            if kind is dict:
                for key in item:
                    left -= len(key) >> 6 if type(key) is str else _SMALL
                stack.extend(item.values())
            else:
                stack.extend(item)
        else:
            return False
    return left >= 0


_FEW = 16
_SHORT = 64


def _has_few_scalars(members: dict[Any, Any]) -> bool:
    """Return whether an object has a few short members, as the parameters of most calls do."""
    if len(members) > _FEW:
        return False
    for name, value in members.items():
        if type(name) is not str or len(name) > _SHORT:
            return False
        if type(value) in _NUMERIC or value is None or (type(value) is str and len(value) <= _SHORT):
            continue
        return False
    return True


def is_too_deep(value: Any, most: int = MAX_DEPTH) -> bool:
    """Return whether JSON nests deeper than so many levels."""
    level: list[Any] = [value]
    for _ in range(most + 1):
        below: list[Any] = []
        for item in level:
            if (members := as_object(item)) is not None:
                below.extend(members.values())
            elif (items := as_list(item)) is not None:
                below.extend(items)
        if not below:
            return False
        level = below
    return True


def not_plain(value: Any) -> str | None:
    """Return where and why a value is not plain data, or None if it is."""
    return None if _is_plain(value) else _first_fault(value)


def _is_plain(value: Any) -> bool:
    """Return whether a value is plain data. Goes level by level: ten times as fast as tracking the place of every part."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            kind = cast("type[object]", type(item))
            if kind is dict:
                if not all(map(is_text, item)):
                    return False
                below.extend(item.values())
            elif kind is list:
                below.extend(item)
            elif not_json(item) is not None:
                return False
        if not below:
            return True
        level = below
    return False


def _first_fault(value: Any) -> str | None:
    stack: list[tuple[Any, Place]] = [(value, ())]
    while stack:
        item, place = stack.pop()
        if (fault := _fault(item, place)) is not None:
            return f"{pointer.join(place)}: {fault}" if place else fault
        if (members := as_object(item)) is not None:
            stack.extend((member, (*place, key)) for key, member in members.items())
        elif (items := as_list(item)) is not None:
            stack.extend((member, (*place, index)) for index, member in enumerate(items))
    return None


def _fault(item: Any, place: Place) -> str | None:
    if len(place) > MAX_DEPTH:
        return TOO_DEEP
    members = as_object(item)
    if members is None:
        return not_json(item)
    return None if all(map(is_text, members)) else NO_KEYS


def _checked(value: Any) -> Any:
    fault = not_plain(value)
    if fault is not None:
        raise ValueError(fault)
    return value


PlainValue: TypeAlias = Annotated[Any, AfterValidator(_checked)]
PlainObject: TypeAlias = Annotated[JsonObject, AfterValidator(_checked)]

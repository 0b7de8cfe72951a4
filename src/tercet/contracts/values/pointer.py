"""JSON Pointers (RFC 6901) into results and evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

# RFC 6901: no leading zeros, ASCII digits only. Each item has one name, so that a mark on `/items/0` cannot be bypassed
# as `/items/00`; and the length limit keeps numbers parseable.
_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")


class PointerError(LookupError):
    """A pointer that leads nowhere in a value."""


@lru_cache(maxsize=4_096)
def parts(pointer: str) -> tuple[str, ...]:
    """Return the reference tokens of a pointer; the empty pointer has none and means the whole value."""
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise PointerError(f"a pointer begins with '/', not {pointer[:40]!r}")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))


def place_of(name: str) -> tuple[str, ...]:
    """Return the place of a field that is written as a name or as a pointer."""
    return parts(name) if name.startswith("/") else (name,)


def join(tokens: Sequence[str | int]) -> str:
    """Return the pointer made of these tokens."""
    return "".join(["/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens])


def follow(value: Any, pointer: str) -> Any:
    """Return the part of `value` at `pointer`."""
    for token in parts(pointer):
        if isinstance(value, dict) and token in value:
            value = cast("dict[str, Any]", value)[token]
        elif (
            isinstance(value, list | tuple)
            and _INDEX.fullmatch(token)
            and int(token) < len(cast("list[Any]", value))
        ):
            value = cast("list[Any]", value)[int(token)]
        else:
            raise PointerError(f"there is nothing at {pointer!r}")
    return value


def value_at(value: Any, pointer: str) -> Any:
    """Return the part of `value` at `pointer`; None if there is none."""
    try:
        return follow(value, pointer)
    except PointerError:
        return None

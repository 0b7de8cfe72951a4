"""Values of a TOML file changed in place: comments, order and everything else stay as they were written.

What tomlkit writes is read by `tomllib` again and must be what was there, with those values changed, and nothing else.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, TypeAlias

from tercet.contracts.errors import UsageError, extra_missing
from tercet.contracts.tuning import Value

TomlPath: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys, and the numbers of elements."""


def edit_toml(text: str, changes: Mapping[TomlPath, Value]) -> str:
    """Return the text with other values at some places; raises `UsageError` where one cannot be changed safely."""
    try:
        import tomlkit  # noqa: PLC0415 - an optional dependency
        from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise extra_missing("tuning", "tomlkit", "tuning") from error
    wanted, written = tomllib.loads(text), ""
    for path, value in changes.items():
        if not _replace(wanted, path, value):
            raise _uneditable(path)
    try:
        document = tomlkit.parse(text)
        for path, value in changes.items():
            _replace(document, path, value)
        written = tomlkit.dumps(document)
    except (TOMLKitError, LookupError, TypeError, ValueError, RecursionError):
        raise _uneditable(next(iter(changes))) from None
    if not _is_same(written, wanted):
        raise _uneditable(next(iter(changes)))
    return written


def _replace(document: Any, path: TomlPath, value: Value) -> bool:
    """Replace a value that is there; returns whether it was."""
    try:
        for part in path[:-1]:
            document = document[part]
        document[path[-1]]  # pyright: ignore[reportUnusedExpression] - raises where there is nothing to replace
        document[path[-1]] = value
    except (LookupError, TypeError):
        return False
    return True


def _is_same(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _uneditable(path: TomlPath) -> UsageError:
    place = ".".join(map(str, path))
    return UsageError(
        f"the value {place} cannot be changed where it stands",
        code="value_not_editable",
        remedy=f"write it on a line of its own, as {path[-1]} = …",
    )

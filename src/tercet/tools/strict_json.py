"""Strict JSON: no duplicate keys, no NaN, no excessive nesting."""

from __future__ import annotations

import json
from typing import Any, NoReturn


class JsonFault(ValueError):  # noqa: N818 - named after what is wrong
    """Why a text is not usable JSON, in a message that quotes nothing of it."""

    def __init__(self, message: str, row: int | None = None, key: str = "") -> None:
        super().__init__(message)
        self.row = row
        """The line of the fault, if known."""
        self.key = key
        """A key that occurs twice in one object, if that is the fault."""
        self.quoted = f"the key {key!r} occurs twice in one object" if key else message
        """The message with a quote, for a text that is not secret."""


def read_strictly(text: str) -> Any:
    """Return the value in a text; raise `JsonFault`."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        fault = JsonFault(f"{error.msg}, line {error.lineno}, column {error.colno}", error.lineno)
    except RecursionError:
        fault = JsonFault("it is nested too deep")
    except JsonFault as found:
        fault = found
    except ValueError as error:  # a number of thousands of digits
        fault = JsonFault(str(error))
    raise fault


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise JsonFault(
            "a key occurs twice in one object", key=next(name for name in names if names.count(name) > 1)
        )
    return found


def _refuse(constant: str) -> NoReturn:
    raise JsonFault(f"{constant} is not a JSON number")

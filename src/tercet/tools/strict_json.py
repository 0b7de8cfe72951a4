"""JSON as everybody reads it: no key twice in one object, no NaN, nothing nested beyond measure."""

from __future__ import annotations

import json
from typing import Any, NoReturn


class JsonFault(ValueError):  # noqa: N818 - what is wrong is named, not that it is an error
    """Why a text is no JSON that can be used, in a sentence that quotes nothing of it."""

    def __init__(self, message: str, row: int | None = None, key: str = "") -> None:
        super().__init__(message)
        self.row = row
        """The line where that is, if it is known."""
        self.quoted = f"the key {key!r} stands twice in one object" if key else message
        """The same where the text is no secret."""


def read_strictly(text: str) -> Any:
    """The value that a text spells; raises `JsonFault`."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        fault = JsonFault(f"{error.msg}, line {error.lineno}, column {error.colno}", error.lineno)
    except RecursionError:
        fault = JsonFault("it nests beyond measure")
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
            "a key stands twice in one object", key=next(name for name in names if names.count(name) > 1)
        )
    return found


def _refuse(constant: str) -> NoReturn:
    raise JsonFault(f"{constant} is no JSON number")

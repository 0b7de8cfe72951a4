"""JSON as everybody reads it: no key twice in one object, no NaN, nothing nested beyond measure."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def read_strictly(text: str) -> Any:
    """The value that a text spells; raises `ValueError` with a sentence that quotes nothing of it."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        fault = f"{error.msg}, line {error.lineno}, column {error.colno}"
    except RecursionError:
        fault = "it nests beyond measure"
    raise ValueError(fault)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")

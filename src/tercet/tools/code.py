"""The identity of a tool's code in the hash of a pack: its source, not the name it was imported under.

The same file is `__main__` when it is run and `shop` when it is imported, and a session that one of them started must
be resumable by the other. So the hash covers the text of the function. Code of a pack folder is identified by its
module, which is named after its content, and code of Tercet by its name: its text changes with every release.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any, cast

from tercet.contracts.shape import JsonObject
from tercet.contracts.values.canonical import digest

PACK_MODULE = "tercet_pack_"
"""The prefix of module names of pack folders; the hash of their content follows."""


def name_code(
    call: Callable[..., Any],
    reconcile: Callable[..., Any] | None = None,
    definition: JsonObject | None = None,
) -> str:
    """Return the identity of the code of a tool and of its look-up, the same in every process that loads it.

    `definition` is what the code does, for code of Tercet that many tools share.
    """
    if isinstance(recorded := getattr(call, "recorded_name", None), str):
        return recorded
    name = _name(call) if definition is None else digest([_name(call), definition])
    if reconcile is None or _is_in_pack_folder(_named(reconcile)):
        return name
    return digest([name, _name(reconcile)])


def _named(call: Callable[..., Any]) -> Any:
    """Return the underlying function, or the class of a callable object."""
    function: object = inspect.unwrap(call)
    return function if hasattr(function, "__qualname__") else type(function)


def _is_in_pack_folder(named: Any) -> bool:
    return str(named.__module__).startswith(PACK_MODULE)


@lru_cache(maxsize=4_096)
def _name(call: Callable[..., Any]) -> str:
    named = _named(call)
    if _is_in_pack_folder(named) or str(named.__module__).partition(".")[0] == "tercet":
        return f"{named.__module__}:{named.__qualname__}"
    return _source(named) or _bytecode(named) or f"name:{named.__qualname__}"


def _source(named: Any) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(named))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return ""
    return f"source:{digest(text)}"


def _bytecode(named: Any) -> str:
    """Return the identity of code without a file, as from a prompt or `python -c`: stable within one Python version."""
    code = getattr(named, "__code__", None)
    return f"bytecode:{digest(_parts(code))}" if isinstance(code, CodeType) else ""


def _parts(code: CodeType) -> list[Any]:
    constants = [_constant(value) for value in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), list(code.co_varnames), constants]


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return _parts(value)
    if isinstance(value, tuple):
        return [_constant(each) for each in cast("tuple[Any, ...]", value)]
    if isinstance(value, frozenset):  # sets have no order
        return sorted(repr(each) for each in cast("frozenset[Any]", value))
    return repr(value)

"""The identity of a tool's code in the hash of a pack: its source, not the name it was imported under.

The same file is `__main__` when it is run and `shop` when it is imported, and a session that one of them started must
be resumable by the other. So the hash covers the text of the function. Code of a pack folder is identified by its
module, which is named after its content, and code of Tercet by its name: its text changes with every release.
"""

from __future__ import annotations

import errno
import hashlib
import inspect
import os
import stat
import textwrap
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
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


# --- pinned files ---


MAX_BYTES = 2**28
"""The largest file that is hashed, since it is compared before each call."""


def find_changed(folder: Path, files: Mapping[str, str]) -> str | None:
    """Return the name of a file that no longer has its hash, or None; names are relative to the folder, or absolute."""
    return next((name for name, known in files.items() if _hash(folder, name) != known), None)


def hash_file(path: Path, *, follow_links: bool) -> str:
    """Return the hash of a regular file; raise `OSError` for anything else, such as a pipe, without waiting for it."""
    # Opening a pipe without O_NONBLOCK waits until another process writes to it.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    # With an opener, a folder is closed again before it is refused; `os.fdopen` would leave it open.
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if found.st_size > MAX_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {MAX_BYTES:,} bytes")
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _hash(folder: Path, name: str) -> str:
    """Return the hash of a file, or an empty text if it has none; only a file outside of the pack may be a link."""
    try:
        return hash_file(folder / name, follow_links=PurePosixPath(name).is_absolute())
    except OSError:
        return ""

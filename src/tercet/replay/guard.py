"""A guard: while a run is judged again, any I/O is an error.

Python tells audit hooks of every file that is opened, every socket, process and thread. A hook cannot be taken away once
it is there, so this one is put in place when it is first needed and looks at nothing outside of a guarded section.
A section belongs to its thread: what other threads do meanwhile is their own business, and a guarded one starts none.
Python tells of new threads from 3.12 on. Before, the functions that start them are replaced, as lastingly as the hook is
there, by ones that look where they are called and else do what they did. Unseen are threads that C code starts by itself,
in every version, and before 3.12 also code that kept a reference to such a function from before the first section.

One thing is let through. Libraries load parts of themselves when they are first used: an import is allowed if its package
has been imported before, and then only code files of the interpreter and of what is installed with it are opened. A pack's
code is neither, so it cannot be imported here.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tercet.contracts.errors import TercetError

_ResultT = TypeVar("_ResultT")

_REFUSED = (
    "open",
    "os.",
    "socket.",
    "subprocess.",
    "shutil.",
    "sqlite3.",
    "ctypes.",
    "mmap.",
    "tempfile.",
    "urllib.",
    "http.",
    "ftplib.",
    "smtplib.",
    "_thread.start",
    "pty.",
    "fcntl.",
    "import",
)
"""The prefixes of refused audit events."""
_ROOTS = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]))
_FOLDERS = tuple(f"{folder}{os.sep}" for root in _ROOTS for folder in {root, os.path.realpath(root)})
"""Where the code of the interpreter and of what is installed lies."""
_CODE = (".py", ".pyc", ".so", ".pyd")


class IoRefused(TercetError):  # noqa: N818 - what happened is named, not that it is an error
    """Something read or wrote while a run was judged again."""

    default_code = "replay_io"


class _Section(threading.local):
    is_guarded = False
    refused: IoRefused | None = None
    """The first attempt of the section, which counts even if its error was caught."""


_section = _Section()
_lock = threading.Lock()
_placed: list[Any] = []


def _is_loading(event: str, args: tuple[Any, ...]) -> bool:
    """Return whether a library that is in use loads another part of itself."""
    if event == "import":
        return str(args[0]).partition(".")[0] in sys.modules
    if event == "open":
        return _is_installed(args[0]) and str(args[0]).endswith(_CODE)
    return event == "os.listdir" and _is_installed(args[0])


def _is_installed(path: object) -> bool:
    return isinstance(path, str) and path.startswith(_FOLDERS)


def _look(event: str, args: tuple[Any, ...]) -> None:
    if _section.is_guarded and event.startswith(_REFUSED) and not _is_loading(event, args):
        # Building the message may import or open something: that is not what is being guarded.
        _section.is_guarded = False
        try:
            refused = IoRefused(
                f"replay must not touch the world, and this is {event} {args[:1]!r:.120}",
                remedy="this is a bug: what is judged again must be pure, and so must a critic that is declared so",
            )
        finally:
            _section.is_guarded = True
        _section.refused = _section.refused or refused
        raise refused


def _place() -> None:
    with _lock:
        if not _placed:
            sys.addaudithook(_look)
            if sys.version_info < (3, 12):
                _watch_threads()
            _placed.append(_look)


_STARTERS = ((_thread, "start_new_thread"), (_thread, "start_new"), (threading, "_start_new_thread"))
"""Every name by which the standard library starts a thread."""


def _watch_threads() -> None:
    for module, name in _STARTERS:
        setattr(module, name, _watched(getattr(module, name)))


def _watched(start: Callable[..., int]) -> Callable[..., int]:
    """Return the same function, which reports a thread before it starts one, as later versions do."""

    def start_new_thread(function: Callable[..., object], *rest: Any) -> int:
        _look("_thread.start_new_thread", (function, *rest))
        return start(function, *rest)

    return start_new_thread


@contextmanager
def guarded() -> Generator[None]:
    """A section in which this thread can do no I/O: an attempt raises `IoRefused`. Sections may be nested.

    Rules fail closed, so one of them may catch what an attempt raised: then the end of the section raises it.
    """
    _place()
    before, _section.is_guarded = _section.is_guarded, True
    try:
        yield
    finally:
        _section.is_guarded = before
        refused = None if before else _section.refused
        if not before:
            _section.refused = None
    if refused is not None:
        raise refused


def drive(coroutine: Coroutine[Any, Any, _ResultT]) -> _ResultT:
    """Return the result of a coroutine without an event loop; raises `IoRefused` if it waits for something."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    finally:
        coroutine.close()
    raise IoRefused(
        "what is judged again waits for something, so it is not pure",
        remedy="declare only those critics pure that look at nothing but what they are given",
    )

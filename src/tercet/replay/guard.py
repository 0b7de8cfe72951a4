"""A guard: while a run is judged again, any I/O is an error.

Python tells audit hooks of every file that is opened, every socket, process and thread. A hook cannot be taken away once
it is there, so this one is put in place when it is first needed and looks at nothing outside of a guarded section.
A section belongs to its thread: what other threads do meanwhile is their own business, and a guarded one starts none.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tercet.contracts.errors import TercetError

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
    "marshal.load",
    "import",
)
"""What the names of refused audit events begin with. An import would read a file, and run it."""


class IoRefused(TercetError):  # noqa: N818 - what happened is named, not that it is an error
    """Something read or wrote while a run was judged again."""

    default_code = "replay_io"


class _Section(threading.local):
    is_guarded = False


_section = _Section()
_lock = threading.Lock()
_placed: list[Any] = []


def _look(event: str, args: tuple[Any, ...]) -> None:
    if _section.is_guarded and event.startswith(_REFUSED):
        # Building the message may import or open something: that is not what is being guarded.
        _section.is_guarded = False
        try:
            told = IoRefused(
                f"replay must not touch the world, and this is {event} {args[:1]!r:.120}",
                remedy="this is a bug: what is judged again must be pure, and what it reads loaded before",
            )
        finally:
            _section.is_guarded = True
        raise told


def _place() -> None:
    with _lock:
        if not _placed:
            sys.addaudithook(_look)
            _placed.append(_look)


@contextmanager
def guarded() -> Generator[None]:
    """A section in which this thread can do no I/O: an attempt raises `IoRefused`. Sections may stand in one another."""
    _place()
    before, _section.is_guarded = _section.is_guarded, True
    try:
        yield
    finally:
        _section.is_guarded = before

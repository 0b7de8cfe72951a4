"""A bounded queue whose thread sends the items; items that do not fit are dropped.

`put` never waits. The thread is a daemon, so that a hanging collector keeps no process alive.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Generic, Protocol, TypeVar

_T = TypeVar("_T")
_T_contra = TypeVar("_T_contra", contravariant=True)

_PAUSE_S = 0.02
"""How long the thread collects items before it handles them: waking for each one would cost more than the work."""


class Sender(Protocol[_T_contra]):
    """Sends the items of an outbox. All methods but `abort` are called in its thread, and may block."""

    def take(self, item: _T_contra, /) -> None:
        """Accept one item, to be sent now or with others."""
        ...

    def due(self) -> float | None:
        """Return the seconds until `send` is to be called; None if nothing waits."""
        ...

    def send(self, *, is_last: bool) -> None:
        """Send what is due; with `is_last`, everything."""
        ...

    def abort(self) -> None:
        """Stop waiting; called from another thread when there is no time left."""
        ...


class Outbox(Generic[_T]):
    """A queue and its thread."""

    def __init__(self, sender: Sender[_T], *, name: str, most: int, dropped: Callable[[int], None]) -> None:
        self._carrier = sender
        self._dropped = dropped
        self._most = most
        self._waiting: deque[_T] = deque()
        self._stirred = threading.Event()
        """Set when an item waits, or when the outbox is closed."""
        self._closing = threading.Event()
        self._is_aborted = False
        self._thread = threading.Thread(target=self._work, name=f"tercet-{name}", daemon=True)
        self._thread.start()

    def put(self, item: _T) -> None:
        """Queue an item, or drop it if the queue is full."""
        if len(self._waiting) >= self._most:
            self._dropped(1)
            return
        self._waiting.append(item)
        if not self._stirred.is_set():
            self._stirred.set()

    def close(self, within_s: float) -> None:
        """Send the queued items within a time limit; the rest is dropped."""
        self._closing.set()
        self._stirred.set()
        self._thread.join(within_s)
        if self._thread.is_alive():
            self._is_aborted = True
            self._carrier.abort()
            if left := len(self._waiting):
                self._dropped(left)

    def _work(self) -> None:
        while not self._is_aborted and not (self._closing.is_set() and not self._waiting):
            try:
                self._work_once()
            except Exception:  # noqa: BLE001 - one item that cannot be sent must not keep back the next ones
                self._dropped(1)
        if not self._is_aborted:
            try:
                self._carrier.send(is_last=True)
            except Exception:  # noqa: BLE001 - `dropped` is the only place left to report it
                self._dropped(1)

    def _work_once(self) -> None:
        for _ in range(len(self._waiting)):  # bounded, so that items are sent in between
            self._carrier.take(self._waiting.popleft())
        due = self._carrier.due()
        if due is not None and due <= 0:
            self._carrier.send(is_last=False)
            return
        self._stirred.clear()
        if not self._waiting and not self._closing.is_set() and self._stirred.wait(due):
            self._closing.wait(_PAUSE_S)


class Timer:
    """A timer on the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._at: float | None = None

    def start(self) -> None:
        """Start it, unless it is running."""
        if self._at is None:
            self._at = monotonic() + self._seconds

    def stop(self) -> None:
        """Stop it."""
        self._at = None

    @property
    def left(self) -> float | None:
        """Return the remaining seconds; None if it is not running."""
        return None if self._at is None else self._at - monotonic()

    @property
    def is_due(self) -> bool:
        """Return whether it has expired."""
        return self._at is not None and self._at <= monotonic()

"""A bounded way out of the event loop: a thread carries away what is put here, and what does not fit is dropped.

Putting never waits. The thread is a daemon: a collector that hangs keeps no process alive.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Generic, Protocol, TypeVar

_T = TypeVar("_T")
_T_contra = TypeVar("_T_contra", contravariant=True)

_PAUSE_S = 0.02
"""How long the thread lets things gather."""


class Carrier(Protocol[_T_contra]):
    """Where things are carried to. Everything but `abort` is called in the thread of the outbox, and may take its time."""

    def take(self, item: _T_contra, /) -> None:
        """Take one thing, to be sent now or with others."""
        ...

    def due(self) -> float | None:
        """In how many seconds `send` wants to be called; None if nothing waits."""
        ...

    def send(self, *, is_last: bool) -> None:
        """Send what is due; everything, if it is the last time."""
        ...

    def abort(self) -> None:
        """Called from outside when there is no time left: let go of whatever is being waited for."""
        ...


class Outbox(Generic[_T]):
    """A queue and its thread."""

    def __init__(self, carrier: Carrier[_T], *, name: str, most: int, dropped: Callable[[int], None]) -> None:
        self._carrier = carrier
        self._dropped = dropped
        self._queue: queue.Queue[_T | None] = queue.Queue(maxsize=most)
        self._closing = threading.Event()
        self._is_aborted = False
        self._thread = threading.Thread(target=self._work, name=f"tercet-{name}", daemon=True)
        self._thread.start()

    def put(self, item: _T) -> None:
        """Hand something over, or drop it if too much waits already."""
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            self._dropped(1)

    def close(self, within_s: float) -> None:
        """Send what waits, for no longer than this; what is left then is dropped."""
        self._closing.set()
        with suppress(queue.Full):  # then the thread has enough to do, and looks up before it waits again
            self._queue.put_nowait(None)
        self._thread.join(within_s)
        if self._thread.is_alive():
            self._is_aborted = True
            self._carrier.abort()
            left = sum(item is not None for item in tuple(self._queue.queue))
            if left:
                self._dropped(left)

    def _work(self) -> None:
        while not self._is_aborted and not (self._closing.is_set() and self._queue.empty()):
            try:
                self._work_once()
            except Exception:  # noqa: BLE001 - one run that cannot be told must not keep the next ones from being told
                self._dropped(1)
        if not self._is_aborted:
            try:
                self._carrier.send(is_last=True)
            except Exception:  # noqa: BLE001 - nobody is left to be told but whoever asks what was dropped
                self._dropped(1)

    def _work_once(self) -> None:
        due = self._carrier.due()
        if due is not None and due <= 0:
            self._carrier.send(is_last=False)
            return
        with suppress(queue.Empty):
            self._take(self._queue.get(timeout=due))
            for _ in range(self._queue.qsize()):
                self._take(self._queue.get_nowait())
            if self._queue.empty():
                # A thread that wakes for every single thing takes more from the runs than what it does then.
                self._closing.wait(_PAUSE_S)

    def _take(self, item: _T | None) -> None:
        if item is not None:
            self._carrier.take(item)


class Timer:
    """When something is due next, in seconds of this process."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._at: float | None = None

    def start(self) -> None:
        """Let it run, unless it does."""
        if self._at is None:
            self._at = monotonic() + self._seconds

    def stop(self) -> None:
        """Let it run no more."""
        self._at = None

    @property
    def left(self) -> float | None:
        """How many seconds are left; None if it does not run."""
        return None if self._at is None else self._at - monotonic()

    @property
    def is_due(self) -> bool:
        """Whether its time has come."""
        return self._at is not None and self._at <= monotonic()

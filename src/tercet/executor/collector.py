"""The garbage collector of this process, held back while nothing is made that it could find.

It only finds cycles, and runs and JSON values have none: they are freed when nothing refers to them any more. There is one
collector in a process, so that what holds it back is counted, and the last to end puts it back as it was.
"""

from __future__ import annotations

import gc
import threading
from abc import ABC, abstractmethod

YOUNG = 50_000
"""How many more objects than before there are when the collector looks at the new ones. Python's default is 700 or 2,000,
which fifty runs exceed many times by being under way."""


class HoldBack(ABC):
    """A context manager that any number of threads and tasks may be in at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._begin()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._end()

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _end(self) -> None: ...


class _Pause(HoldBack):
    """Pauses the collector.

    Each of its runs looks at every object and holds all threads, for seconds where a large value has millions of parts.
    """

    _was_enabled = False

    def _begin(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def _end(self) -> None:
        if self._was_enabled:
            gc.enable()


class _Ease(HoldBack):
    """Lets the collector look at new objects less often. Thresholds that the program sets itself are left alone."""

    _before = (0, 0, 0)

    def _begin(self) -> None:
        self._before = gc.get_threshold()
        if 0 < self._before[0] < YOUNG:
            gc.set_threshold(YOUNG, *self._before[1:])

    def _end(self) -> None:
        if gc.get_threshold() == (YOUNG, *self._before[1:]):
            gc.set_threshold(*self._before)


paused = _Pause()
"""For work on one large value."""
eased = _Ease()
"""While runs are under way."""

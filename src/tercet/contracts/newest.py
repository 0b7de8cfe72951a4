"""A bounded cache."""

from __future__ import annotations

from threading import Lock
from typing import Generic, TypeVar

_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")


class Newest(Generic[_KeyT, _ValueT]):
    """The values that were kept last, by their keys. Threads may share it.

    A key must hold all that its value depends on. The `id` of an object does so only while the object lives, so a value
    that is kept under one refers to that object.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[_KeyT, _ValueT] = {}
        self._lock = Lock()
        self.get = self._kept.get

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, key: _KeyT, value: _ValueT) -> _ValueT:
        """Keep a value, in place of the oldest one if there are too many."""
        with self._lock:
            if len(self._kept) >= self._most and key not in self._kept:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = value
        return value

"""A bounded cache."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")


class BoundedCache(Generic[_KeyT, _ValueT]):
    """A bounded cache of the most recent values. Threads may share it: each step is one operation of a dict.

    A key must determine its value. The `id` of an object does so only while the object lives, so a value cached under
    an `id` must hold a reference to that object.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[_KeyT, _ValueT] = OrderedDict()
        self.get = self._kept.get

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, key: _KeyT, value: _ValueT) -> _ValueT:
        """Store a value, evicting the oldest one if the cache is full."""
        self._kept[key] = value
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return value

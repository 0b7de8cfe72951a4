"""A bounded cache."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")


class Newest(Generic[_KeyT, _ValueT]):
    """The values that were kept last, by their keys. Threads may share it: each step is one operation of a dict.

    A key must hold all that its value depends on. The `id` of an object does so only while the object lives, so a value
    that is kept under one refers to that object.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[_KeyT, _ValueT] = OrderedDict()
        self.get = self._kept.get

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, key: _KeyT, value: _ValueT) -> _ValueT:
        """Keep a value, in place of the oldest one if there are too many."""
        self._kept[key] = value
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return value

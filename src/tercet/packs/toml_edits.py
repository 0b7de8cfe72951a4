"""Values of a TOML file changed in place: comments, order and everything else stay as they were written.

`tomllib` reads and does not write, so a scan over the text finds where each value stands. The scan is not trusted: what
comes out is read by `tomllib` again and must be what was there, with those values changed, and nothing else.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, TypeAlias

from tercet.contracts.errors import UsageError
from tercet.contracts.tuning import Value

TomlPath: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys, and the numbers of elements."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r'[ \t]*(?:(?P<bare>[\w\-]+)|"(?P<basic>(?:[^"\\]|\\.)*)"|\'(?P<literal>[^\']*)\')[ \t]*')
_SCALAR = re.compile(r"[^\s,\]}#][^,\]}#\n]*?(?=[ \t\r]*(?:[,\]}#\n]|$))")
_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'',
    re.DOTALL,
)


class _LostError(ValueError):
    """The scan does not understand what it reads."""


def edit_toml(text: str, changes: Mapping[TomlPath, Value]) -> str:
    """The text with other values at some places; raises `UsageError` where a place cannot be found or changed safely."""
    try:
        spans = _Scan(text).spans()
    except (_LostError, IndexError, RecursionError):
        spans = {}
    absent = next((path for path in changes if path not in spans), None)
    if absent is not None:
        raise _uneditable(absent)
    edited = text
    for path in sorted(changes, key=lambda each: spans[each], reverse=True):
        start, end = spans[path]
        edited = edited[:start] + write_value(changes[path]) + edited[end:]
    if not _is_as_wanted(text, edited, changes):
        raise _uneditable(next(iter(changes)))
    return edited


def write_value(value: Value) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _uneditable(path: TomlPath) -> UsageError:
    place = ".".join(map(str, path))
    return UsageError(
        f"the value {place} cannot be changed where it stands",
        code="value_not_editable",
        remedy=f"write it on a line of its own, as {path[-1]} = …",
    )


def _is_as_wanted(before: str, after: str, changes: Mapping[TomlPath, Value]) -> bool:
    wanted = copy.deepcopy(tomllib.loads(before))
    for path, value in changes.items():
        place: Any = wanted
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
    try:
        return tomllib.loads(after) == wanted
    except tomllib.TOMLDecodeError:
        return False


class _Scan:
    """One pass over a text that finds where every value begins and ends."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: dict[TomlPath, tuple[int, int]] = {}
        self._counts: dict[TomlPath, int] = {}

    def spans(self) -> dict[TomlPath, tuple[int, int]]:
        table: TomlPath = ()
        while self._skip() < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._found

    def _skip(self) -> int:
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at
        return self._at

    def _take(self, mark: str) -> bool:
        is_there = self._text.startswith(mark, self._at)
        self._at += len(mark) if is_there else 0
        return is_there

    def _keys(self) -> list[str]:
        keys: list[str] = []
        while True:
            found = _KEY.match(self._text, self._at)
            if found is None:
                raise _LostError
            self._at = found.end()
            keys.append(found["bare"] or found["literal"] or json.loads(f'"{found["basic"] or ""}"'))
            if not self._take("."):
                return keys

    def _header(self) -> TomlPath:
        is_list = self._take("[[")
        self._at += 0 if is_list else 1
        keys = self._keys()
        if not self._take("]]" if is_list else "]"):
            raise _LostError
        path: TomlPath = ()
        for number, key in enumerate(keys, 1):
            path = (*path, key)
            if is_list and number == len(keys):
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _pair(self, table: TomlPath) -> None:
        path = (*table, *self._keys())
        if not self._take("="):
            raise _LostError
        self._value(path)

    def _value(self, path: TomlPath) -> None:
        self._skip()
        start = self._at
        if self._take("["):
            self._items(path)
        elif self._take("{"):
            self._members(path)
        else:
            found = _TEXT.match(self._text, start) or _SCALAR.match(self._text, start)
            if found is None:
                raise _LostError
            self._at = found.end()
        self._found[path] = (start, self._at)

    def _items(self, path: TomlPath) -> None:
        number = 0
        while self._skip() < len(self._text) and not self._take("]"):
            self._value((*path, number))
            number += 1
            self._skip()
            self._take(",")

    def _members(self, path: TomlPath) -> None:
        while self._skip() < len(self._text) and not self._take("}"):
            self._pair(path)
            self._skip()
            self._take(",")

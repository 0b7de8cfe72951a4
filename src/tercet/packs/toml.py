"""A TOML file of a pack: its values, and the line on which each key was written.

`tomllib` tells no lines, so a scan over the text finds them: table headers and keys at the beginning of a line. It can
be misled (a header in a comment is not, one inside a string with odd quotes is), and then a row is off or missing;
the values are always `tomllib`'s.

Values of a TOML file changed in place: comments, order and everything else stay as they were written.

`tomllib` reads and does not write, so a scan over the text finds where each value stands. The scan is not trusted: what
comes out is read by `tomllib` again and must be what was there, with those values changed, and nothing else.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tuning import Value
from tercet.packs.folder import MAX_TOML_BYTES, Draft

_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)")
_HEADER = re.compile(r"\s*(?P<open>\[\[?)\s*(?P<name>[\w.\-]+)\s*\]")
_KEY = re.compile(r"\s*(?P<name>[\w\-]+)\s*[=.]")
_NAME = r"""(?:[\w\-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONGEST_KEY = 16
"""A key with more dots is refused unread: the parser's time grows with the square of their number."""
_LONG_KEY = re.compile(rf"(?<![\w\-]){_NAME}(?:[ \t]*+\.[ \t]*+{_NAME}){{{_LONGEST_KEY + 1}}}")
_MOST_TABLES = 5_000
"""A file with more tables is refused: checking a pack takes time for each of them."""
_TABLE_LINE = re.compile(r"^[ \t]*+\[", re.MULTILINE)
_FENCES = ('"""', "'''")


@dataclass(frozen=True)
class TomlFile:
    """The values of a file, and the rows of its keys by dotted path: `budget.max_steps`, `gate.0.quorum`."""

    values: Mapping[str, Any]
    rows: Mapping[str, int]

    def row(self, path: Sequence[str | int]) -> int | None:
        """The line of a key, or of the nearest one around it."""
        for length in range(len(path), 0, -1):
            found = self.rows.get(".".join(map(str, path[:length])))
            if found is not None:
                return found
        return None

    def rows_in(self, kind: str, number: int) -> Mapping[str, int]:
        """The rows of the keys in one table of a kind, by their paths in it."""
        return self._rows_by_table.get(f"{kind}.{number}", {})

    @cached_property
    def _rows_by_table(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for path, row in self.rows.items():
            kind, _, rest = path.partition(".")
            number, dot, key = rest.partition(".")
            if dot:
                found.setdefault(f"{kind}.{number}", {})[key] = row
        return found


def read_toml(draft: Draft, name: str) -> TomlFile | None:
    """A TOML file of the folder; None, and a problem, if it cannot be read."""
    text = draft.read_text(name, MAX_TOML_BYTES)
    if text is None or _note_too_much(draft, name, text):
        return None
    try:
        toml = TomlFile(tomllib.loads(text), _rows(text))
        return None if _note_too_many(draft, name, toml) else toml
    except tomllib.TOMLDecodeError as error:
        position = _POSITION.search(str(error))
        draft.note(
            "toml_syntax",
            f"not TOML: {error}",
            "mend the line; strings stand in quotes, lists in square brackets",
            file=name,
            row=int(position.group(1)) if position else None,
        )
    except (
        RecursionError,
        ValueError,
    ) as error:  # nested beyond measure, or an integer of thousands of digits
        draft.note("toml_syntax", f"not TOML that can be read: {error}", "write it simpler", file=name)
    return None


def _note_too_much(draft: Draft, name: str, text: str) -> bool:
    """Note what a parser would need too long for; returns whether there is any."""
    if key := _LONG_KEY.search(text):
        draft.note(
            "key_too_long",
            f"a key has more than {_LONGEST_KEY} dots",
            "use fewer nested tables; in a text, put a space between the words",
            file=name,
            row=text.count("\n", 0, key.start()) + 1,
        )
        return True
    for count, line in enumerate(_TABLE_LINE.finditer(text)):
        if count == _MOST_TABLES:
            _note_tables(draft, name, text.count("\n", 0, line.start()) + 1)
            return True
    return False


def _note_too_many(draft: Draft, name: str, toml: TomlFile) -> bool:
    """Note a list of too many tables that was written without headers; returns whether there is one."""
    for key, value in (("", toml.values), *toml.values.items()):
        if len(as_list(value) or as_object(value) or ()) > _MOST_TABLES:
            _note_tables(draft, name, toml.row((key,)))
            return True
    return False


def _note_tables(draft: Draft, name: str, row: int | None) -> None:
    message = f"it has more than {_MOST_TABLES:,} tables or keys"
    draft.note("too_many_tables", message, "split the pack, or declare less", file=name, row=row)


def _rows(text: str) -> dict[str, int]:
    rows: dict[str, int] = {}
    count: Counter[str] = Counter()
    table = ""
    inside = False
    for row, line in enumerate(text.split("\n"), start=1):
        was_inside, inside = inside, inside ^ (sum(line.count(fence) for fence in _FENCES) % 2 == 1)
        if was_inside:
            continue
        if header := _HEADER.match(line):
            root, dot, rest = header["name"].partition(".")
            if header["open"] == "[[" and not dot:
                count[root] += 1
            numbered = f"{root}.{count[root] - 1}" if root in count else root
            table = f"{numbered}{dot}{rest}"
            rows.setdefault(table, row)
            if header["open"] == "[[" and dot:
                count[table] += 1
                table = f"{table}.{count[table] - 1}"
                rows.setdefault(table, row)
        elif key := _KEY.match(line):
            rows.setdefault(f"{table}.{key['name']}" if table else key["name"], row)
    return rows


TomlPath: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys, and the numbers of elements."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_WRITTEN_KEY = re.compile(
    r'[ \t]*(?:(?P<bare>[\w\-]+)|"(?P<basic>(?:[^"\\]|\\.)*)"|\'(?P<literal>[^\']*)\')[ \t]*'
)
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
            found = _WRITTEN_KEY.match(self._text, self._at)
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

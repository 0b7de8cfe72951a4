"""A TOML file of a pack: its values, and the line of each key.

`tomllib` reports no lines, so a scan over the text finds them: table headers and keys at the beginning of a line. It
can be misled by a header inside a string with odd quotes, and then a row is off or missing; the values are always
`tomllib`'s.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tercet.contracts.shape import as_list, as_object
from tercet.packs.folder import MAX_TOML_BYTES, Draft

_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)")
_HEADER = re.compile(r"\s*(?P<open>\[\[?)\s*(?P<name>[\w.\-]+)\s*\]")
_KEY = re.compile(r"\s*(?P<name>[\w\-]+)\s*[=.]")
_NAME = r"""(?:[\w\-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONGEST_KEY = 16
"""The maximum number of dots in a key: the parser's time grows with its square."""
_LONG_KEY = re.compile(rf"(?<![\w\-]){_NAME}(?:[ \t]*+\.[ \t]*+{_NAME}){{{_LONGEST_KEY + 1}}}")
_MOST_TABLES = 5_000
"""The maximum number of tables: checking a pack takes time for each of them."""
_TABLE_LINE = re.compile(r"^[ \t]*+\[", re.MULTILINE)
_FENCES = ('"""', "'''")


@dataclass(frozen=True)
class TomlFile:
    """The values of a file, and the rows of its keys by dotted path: `budget.max_steps`, `gate.0.quorum`."""

    values: Mapping[str, Any]
    rows: Mapping[str, int]

    def row(self, path: Sequence[str | int]) -> int | None:
        """Return the line of a key, or of the nearest enclosing one."""
        for length in range(len(path), 0, -1):
            found = self.rows.get(".".join(map(str, path[:length])))
            if found is not None:
                return found
        return None

    def rows_in(self, kind: str, number: int) -> Mapping[str, int]:
        """Return the rows of the keys in one table of a kind, by their paths in it."""
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
    """Return a TOML file of the folder; None, with a problem noted, if it cannot be read."""
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
            "correct the line; strings are written in quotes, lists in square brackets",
            file=name,
            row=int(position.group(1)) if position else None,
        )
    except (
        RecursionError,
        ValueError,
    ) as error:  # nested too deep, or an integer of thousands of digits
        draft.note("toml_syntax", f"not TOML that can be read: {error}", "write it simpler", file=name)
    return None


def _note_too_much(draft: Draft, name: str, text: str) -> bool:
    """Note content that would take the parser too long; return whether there is any."""
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
    """Note a list of too many tables that was written without headers; return whether there is one."""
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

"""A TOML file of a pack: its values, and the line on which each key was written.

`tomllib` tells no lines, so a scan over the text finds them: table headers and keys at the beginning of a line. It can
be misled (a header in a comment is not, one inside a string with odd quotes is), and then a row is off or missing;
the values are always `tomllib`'s.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.packs.folder import MAX_TOML_BYTES, Draft

_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)")
_HEADER = re.compile(r"\s*(?P<open>\[\[?)\s*(?P<name>[\w.\-]+)\s*\]")
_KEY = re.compile(r"\s*(?P<name>[\w\-]+)\s*[=.]")
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


def read_toml(draft: Draft, name: str) -> TomlFile | None:
    """A TOML file of the folder; None, and a problem, if it cannot be read."""
    text = draft.read_text(name, MAX_TOML_BYTES)
    if text is None:
        return None
    try:
        return TomlFile(tomllib.loads(text), _rows(text))
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

"""The files that a command line names: what runs must be what was loaded, hashed and approved.

A bare program name is looked up on the machine's search path and belongs to the machine. A path belongs to the pack:
the program itself and every file that the fixed arguments name is hashed, and one outside the folder is refused unless
the pack lists it, because it could change after a call was approved.

Also the shared code for files that declare tools outside of Python: tables with spots, rows of faults, unique names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values.canonical import hash_bytes
from tercet.packs.declarations import TomlFile, note_all, note_duplicate, note_unknown_keys, read_toml
from tercet.packs.folder import Draft
from tercet.packs.parts import Severity, Spot
from tercet.tools.code import hash_file
from tercet.tools.tool import Tool

_LONGEST_PATH = 4_096
"""The longest path that operating systems accept."""
_MOST_LETTERS = 32
"""The longest prefix of an argument that may be short options."""
_EQUALS = re.compile("=")
_SHORT_OPTIONS = re.compile("-[A-Za-z0-9]+")


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """A command line of a pack, and where it is declared."""

    words: Sequence[str]
    """The program and its fixed arguments."""
    file: str
    place: str
    row: int | None
    cwd: str = "."
    outside_files: Sequence[str] = ()
    """Files outside the pack that it may name; they are hashed as well."""
    remedy: str = "copy the file into the pack, or name a program of the machine without a path"


def hash_files(draft: Draft, line: CommandLine) -> dict[str, str]:
    """Return the hash of every file that a command line names; a forbidden file is noted as a problem."""
    found: dict[str, str] = {}
    for number, word in enumerate(line.words):
        is_program = number == 0
        for path in _paths(word, is_program=is_program):
            for name in _locate(draft, line, path, is_program=is_program):
                if (hashed := _hash(draft, name)) is not None:
                    found[name] = hashed
    return found


def _paths(word: str, *, is_program: bool) -> Iterator[PurePosixPath]:
    """Return the paths that a word may name: itself, or a part that is the value of an option or of a variable."""
    if "\0" in word or (is_program and "/" not in word):
        return
    texts = [word] if is_program else dict.fromkeys(_values(word))
    yield from (PurePosixPath(text) for text in texts if text and len(text) <= _LONGEST_PATH)


def _values(word: str) -> Iterator[str]:
    """Return the texts in an argument that a program may read as a file name.

    These are the argument, what follows each `=` in it (`--rules=FILE`, `NAME=FILE`), what follows the letters of short
    options in any of them (`-fFILE`, `-nfFILE`), and what follows a leading `@` in any of those (`-d@FILE`).
    """
    starts = [match.end() for match in _EQUALS.finditer(word) if len(word) - match.end() <= _LONGEST_PATH]
    for text in (word, *(word[start:] for start in starts)):
        letters = _SHORT_OPTIONS.match(text)
        ends = range(2, min(letters.end(), _MOST_LETTERS) + 1) if letters else ()
        for value in (text, *(text[end:] for end in ends)):
            yield value
            if value.startswith("@"):
                yield value[1:]


def _locate(draft: Draft, line: CommandLine, path: PurePosixPath, *, is_program: bool) -> Iterator[str]:
    """Return the files that a path means, inside the pack by their names there."""
    if str(path) in line.outside_files:
        yield str(path)
        return
    if ".." in path.parts:
        _refuse(draft, line, path)
        return
    bases = [draft.folder] if is_program else list(dict.fromkeys((draft.folder / line.cwd, draft.folder)))
    for found in dict.fromkeys(base / path for base in bases):
        is_inside = found.is_relative_to(draft.folder)
        if is_program and is_inside and not _is_file(found):
            draft.unread.add("tool")
            _note(draft, line, "missing_file", f"there is no file {path} in the pack", "create it")
        elif not is_inside and (is_program or _is_file(found)):
            _refuse(draft, line, found)
        elif _is_file(found):
            yield str(found.relative_to(draft.folder))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long for the file system
        return False


def _hash(draft: Draft, name: str) -> str | None:
    if not PurePosixPath(name).is_absolute():
        data = draft.read_bytes(name)
        return None if data is None else hash_bytes(data)
    try:
        return hash_file(Path(name), follow_links=True)
    except OSError as error:
        draft.unread.add("tool")
        draft.note("unreadable", f"it cannot be read: {error.strerror}", "check the path", file=name)
        return None


def _refuse(draft: Draft, line: CommandLine, path: Path | PurePosixPath) -> None:
    draft.unread.add("tool")
    what = f"{path} lies outside the pack: it could change after a call of it was approved"
    _note(draft, line, "outside_pack", what, line.remedy)


def _note(draft: Draft, line: CommandLine, code: str, what: str, remedy: str) -> None:
    draft.note(code, what, remedy, file=line.file, place=line.place, row=line.row)


ModelT = TypeVar("ModelT", bound=BaseModel)


class Table(NamedTuple):
    """A table of a file, and its place."""

    draft: Draft
    values: JsonObject
    place: str
    spot: Spot
    path: tuple[str | int, ...]
    toml: TomlFile

    def note(
        self, code: str, message: str, remedy: str, *, place: str = "", severity: Severity = "error"
    ) -> None:
        """Note a problem of the table, or of a place in it."""
        file, row = self.spot
        self.draft.note(
            code, message, remedy, file=file, place=place or self.place, row=row, severity=severity
        )

    def warn(self, code: str, message: str, remedy: str, *, place: str = "") -> None:
        """Note a warning, which does not keep the pack from loading."""
        self.note(code, message, remedy, place=place, severity="warning")


def read_tables(draft: Draft, file: str, kind: str) -> Iterator[Table]:
    """Return the tables of the only kind in a file; problems are noted."""
    toml = read_toml(draft, file) if draft.has(file) else None
    if toml is None:
        if draft.has(file):
            draft.unread.add("tool")
        return
    note_unknown_keys(draft, file, toml, kind)
    yield from inner_tables(Table(draft, dict(toml.values), "", Spot(file), (), toml), kind)


def inner_tables(around: Table, key: str) -> Iterator[Table]:
    """Return the tables under a key of another one."""
    given = around.values.get(key, [])
    for number, item in enumerate(as_list(given) or [given]):
        values = as_object(item)
        path = (*around.path, key, number)
        row = around.toml.row(path)
        if values is None:
            if given != []:
                around.draft.unread.add("tool")
                around.draft.note(
                    "wrong_value", f"{key} is not a list of tables", f"write [[{key}]], with two brackets",
                    file=around.spot.file, place=around.place, row=row,
                )  # fmt: skip
            continue
        name = values.get("name") or values.get("operation")
        shown = name if isinstance(name, str) and name else f"number {number + 1}"
        place = f"{around.place}, {key} {shown}" if around.place else f"{key} {shown}"
        yield Table(around.draft, values, place, Spot(around.spot.file, row), path, around.toml)


def read_model(table: Table, model: type[ModelT], values: JsonObject) -> ModelT | None:
    """Return the model of a table; None, with problems noted, if it is invalid."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        note_faults(table, model, error)
    return None


def note_faults(table: Table, model: type[BaseModel], error: ValidationError) -> None:
    """Note every problem that a contract found in a table."""
    table.draft.unread.add("tool")
    note_all(table.draft, error, model, table.place, table.spot, table.toml, table.path)


def keep_tool(draft: Draft, found: dict[str, Tool], tool: Tool, spot: Spot) -> None:
    """Add a tool, unless the pack already has one of that name."""
    place = f"tool {tool.name}"
    if place in draft.spots:
        note_duplicate(draft, place, draft.spots[place], spot)
        return
    draft.spots[place] = spot
    # The hash of the pack covers the declaring file and all files that it names.
    found[tool.name] = tool.model_copy(update={"definition": None})

"""The files that a command line names: what runs must be what was loaded, hashed and approved.

A bare program name is looked up on the machine's search path and belongs to the machine. A path belongs to the pack:
the program itself and every file that the fixed arguments name is hashed, and one outside the folder is refused unless
the pack lists it, because it could change after a call was approved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tercet.contracts.values.canonical import hash_bytes
from tercet.packs.folder import Draft
from tercet.tools.code import hash_file

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

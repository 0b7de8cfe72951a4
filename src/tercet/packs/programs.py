"""The files that a command line names: what runs must be what was loaded, hashed and approved.

A bare program name is looked for on the machine's search path and belongs to the machine. A path belongs to the pack: the
program itself and every file among the fixed arguments is hashed, and one outside of the folder is refused unless the pack
lists it, because it could change after a call of it was approved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tercet.contracts.canonical import hash_bytes
from tercet.packs.folder import Draft


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
    """Files outside of the pack that it may name; they are hashed as well."""
    remedy: str = "copy the file into the pack, or name a program of the machine without a path"


def hash_files(draft: Draft, line: CommandLine) -> dict[str, str]:
    """Return the hash of every file that a command line names; a file that it must not name is noted as a problem."""
    found: dict[str, str] = {}
    for number, word in enumerate(line.words):
        is_program = number == 0
        for path in _paths(word, is_program=is_program):
            for name in _locate(draft, line, path, is_program=is_program):
                data = _read(draft, name)
                if data is not None:
                    found[name] = hash_bytes(data)
    return found


def _paths(word: str, *, is_program: bool) -> Iterator[PurePosixPath]:
    """The paths that a word may be; the value of an option is one as well."""
    if not word or "\0" in word or (is_program and "/" not in word):
        return
    yield PurePosixPath(word)
    if not is_program and word.startswith("-") and "=" in word:
        yield PurePosixPath(word.partition("=")[2])


def _locate(draft: Draft, line: CommandLine, path: PurePosixPath, *, is_program: bool) -> Iterator[str]:
    """The files that a path means, inside the pack by their names there."""
    if str(path) in line.outside_files:
        yield str(path)
        return
    if ".." in path.parts:
        _refuse(draft, line, path)
        return
    bases = [draft.folder] if is_program else list(dict.fromkeys((draft.folder / line.cwd, draft.folder)))
    for found in dict.fromkeys(base / path for base in bases):
        is_inside = found.is_relative_to(draft.folder)
        if is_program and is_inside and not found.is_file():
            draft.unread.add("tool")
            _note(draft, line, "missing_file", f"there is no file {path} in the pack", "create it")
        elif not is_inside and (is_program or found.is_file()):
            _refuse(draft, line, found)
        elif found.is_file():
            yield str(found.relative_to(draft.folder))


def _read(draft: Draft, name: str) -> bytes | None:
    if not PurePosixPath(name).is_absolute():
        return draft.read_bytes(name)
    try:
        return Path(name).read_bytes()
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

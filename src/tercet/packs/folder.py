"""Reads files of a pack folder: with size limits, as UTF-8, and without following links out of it.

Problems are collected in a `Draft`, so that one pass over a folder reports all of them.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tercet.contracts.problem import Problem
from tercet.packs.parts import Kind, Severity, Spot, printable

HTTP_FILE = "http.toml"
COMMANDS_FILE = "commands.toml"

MAX_BYTES = 16 * 2**20
"""Larger files are rejected without reading."""
MAX_TOML_BYTES = 2**20
"""The limit for TOML files, whose parser is slow."""


@dataclass
class Draft:
    """A folder being read, and the problems found so far."""

    folder: Path
    problems: list[Problem] = field(default_factory=list[Problem])
    spots: dict[str, Spot] = field(default_factory=dict[str, Spot])
    broken: set[str] = field(default_factory=set[str])
    unread: set[Kind] = field(default_factory=set[Kind])

    def note(
        self,
        code: str,
        message: str,
        remedy: str,
        *,
        file: str,
        place: str = "",
        row: int | None = None,
        severity: Severity = "error",
    ) -> None:
        """Note a problem; a warning does not keep the pack from loading."""
        self.problems.append(
            Problem(
                code=code,
                message=printable(message),
                remedy=printable(remedy),
                file=printable(file),
                place=printable(place),
                row=row,
                severity=severity,
            )
        )

    def has(self, name: str) -> bool:
        """Return whether the folder has an entry of this name."""
        return self._mode(name) is not None

    def read_bytes(self, name: str, limit: int = MAX_BYTES) -> bytes | None:
        """Return the bytes of a file; None, with a problem noted, if it cannot or must not be read."""
        if not self._is_own_file(name):
            return None
        try:
            with (self.folder / name).open("rb") as file:
                data = file.read(limit + 1)
        except OSError as error:
            self._unreadable(name, error)
            return None
        if len(data) > limit:
            self.note(
                "file_too_large",
                f"it has more than {limit:,} bytes",
                "split it, or let a tool fetch the data",
                file=name,
            )
            return None
        return data

    def read_text(self, name: str, limit: int = MAX_BYTES) -> str | None:
        """Return the text of a file; None, with a problem noted, if it cannot be read."""
        data = self.read_bytes(name, limit)
        return None if data is None else self.decode(name, data)

    def decode(self, name: str, data: bytes) -> str | None:
        """Return the text of a file's bytes; None, with a problem noted, if they are not UTF-8."""
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.note(
                "not_utf8",
                f"byte {error.start} is not UTF-8",
                "save the file as UTF-8",
                file=name,
                row=data.count(b"\n", 0, error.start) + 1,
            )
            return None

    def list_files(self, name: str, suffix: str) -> list[str]:
        """Return the files with a suffix in a folder of the pack, ordered by name."""
        mode = self._mode(name)
        if mode is None:
            return []
        if not stat.S_ISDIR(mode):
            self.note("not_a_folder", "it is not a folder of this pack", "make it a plain folder", file=name)
            return []
        try:
            entries = sorted(entry.name for entry in (self.folder / name).iterdir())
        except OSError as error:
            self._unreadable(name, error)
            return []
        return [str(PurePosixPath(name, entry)) for entry in entries if entry.endswith(suffix)]

    def list_folders(self) -> list[str]:
        """Return the folders inside the pack, without links, ordered by name; none if they cannot be listed."""
        try:
            return sorted(
                entry.name for entry in self.folder.iterdir() if entry.is_dir() and not entry.is_symlink()
            )
        except OSError:
            return []

    def _is_own_file(self, name: str) -> bool:
        """Return whether a name is a regular file inside the folder, without links."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name:
            self.note(
                "outside_pack", f"{name} lies outside the pack", "name a file inside the folder", file=name
            )
            return False
        modes = [self._mode(str(part)) for part in (*path.parents[:-1], path)]
        if None in modes:
            self.note("missing_file", "it does not exist", "create it, or do not name it", file=name)
            return False
        if any(mode is not None and stat.S_ISLNK(mode) for mode in modes):
            self.note(
                "symlink", "it is a link", "put the file itself into the pack: what a pack is must not change elsewhere",
                file=name,
            )  # fmt: skip
            return False
        if modes[-1] is not None and not stat.S_ISREG(modes[-1]):
            self.note("not_a_file", "it is not a regular file", "put a regular file there", file=name)
            return False
        return True

    def _mode(self, name: str) -> int | None:
        try:
            return (self.folder / name).lstat().st_mode
        except (OSError, ValueError):  # ValueError: a name with a null character
            return None

    def _unreadable(self, name: str, error: OSError) -> None:
        self.note(
            "unreadable", f"it cannot be read: {error.strerror or error}", "check its permissions", file=name
        )

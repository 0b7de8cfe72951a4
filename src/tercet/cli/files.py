"""The files that commands write, by one rule.

A page or a drawing that Tercet made is made again where it stands: its first bytes say what it is, and it can be made at
any time. Everything else that is there stays, also a bundle, a proposal or weights, unless `--force` is given. That is
asked before any work is done, and a file that was there stays until the new one is whole.
"""

from __future__ import annotations

from pathlib import Path

from tercet.contracts.errors import UsageError
from tercet.replay.bundle.writing import demand_free, new_file

DRAWING = b"<!-- drawn by Tercet -->\n"
"""What a drawing begins with, as a file."""


def require_writable(path: Path, *, is_forced: bool, mark: bytes = b"") -> None:
    """Raises `UsageError` if a file may not be made here; `mark` is what those begin with that are made again."""
    demand_free(path, is_forced=True)  # a reader of a pipe would wait for ever
    demand_free(path, is_forced=is_forced or _begins(path, mark))


def _begins(path: Path, mark: bytes) -> bool:
    if not mark or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


def write_file(path: Path, data: bytes) -> None:
    """Put a file in its place, in which `require_writable` has allowed it; a link is followed."""
    with new_file(path.resolve(), is_forced=True) as file:
        file.write(data)


def make_folder(folder: Path) -> None:
    """Make a folder if need be; raises `UsageError` if there is something else in its place, or it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(
            f"{folder} cannot be a folder: there is a file in its place",
            code="not_a_folder",
            remedy="name a folder that is there, or one that can be made",
        ) from error
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {folder}: {error.strerror or error}",
            code="unwritable",
            remedy="name a folder that is there, or one that can be made",
        ) from error

"""Writing the files that commands make.

A report or drawing that Tercet made, which its first bytes show, is replaced, since it can be made again at any time.
Any other file is kept, also a bundle, a proposal or weights, unless `--force` is given. This is checked before any work
is done, and an existing file stays until the new one is complete.
"""

from __future__ import annotations

from pathlib import Path

from tercet.contracts.errors import UsageError
from tercet.replay.bundle.writing import demand_free, new_file

DRAWING = b"<!-- drawn by Tercet -->\n"
"""The first bytes of a drawing."""


def require_writable(path: Path, *, is_forced: bool, mark: bytes = b"") -> None:
    """Raise `UsageError` if a file would be overwritten that does not begin with `mark`."""
    demand_free(path, is_forced=True)  # refuses pipes and devices, which must not be read
    demand_free(path, is_forced=is_forced or _begins(path, mark))


def _begins(path: Path, mark: bytes) -> bool:
    if not mark or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


def write_file(path: Path, data: bytes) -> None:
    """Write a file that `require_writable` has allowed; a link is followed."""
    with new_file(path.resolve(), is_forced=True) as file:
        file.write(data)


def make_folder(folder: Path) -> None:
    """Create a folder unless it exists; raise `UsageError` if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(
            f"{folder} is not a folder",
            code="not_a_folder",
            remedy="name a folder that exists, or one that you can create",
        ) from error
    except OSError as error:
        raise UsageError(
            f"cannot create the folder {folder}: {error.strerror or error}",
            code="unwritable",
            remedy="name a folder that exists, or one that you can create",
        ) from error

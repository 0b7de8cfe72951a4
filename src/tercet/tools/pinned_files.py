"""Files that were hashed when a pack was loaded, compared again just before they are used."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

MAX_BYTES = 2**28
"""The largest file that is hashed, since it is compared before each call."""


def find_changed(folder: Path, files: Mapping[str, str]) -> str | None:
    """Return the name of a file that no longer has its hash, or None; names are relative to the folder, or absolute."""
    return next((name for name, known in files.items() if _hash(folder, name) != known), None)


def hash_file(path: Path, *, follow_links: bool) -> str:
    """Return the hash of a regular file; raise `OSError` for anything else, such as a pipe, without waiting for it."""
    # Opening a pipe without O_NONBLOCK waits until another process writes to it.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    with os.fdopen(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if found.st_size > MAX_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {MAX_BYTES:,} bytes")
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _hash(folder: Path, name: str) -> str:
    """Return the hash of a file, or an empty text if it has none; only a file outside of the pack may be a link."""
    try:
        return hash_file(folder / name, follow_links=PurePosixPath(name).is_absolute())
    except OSError:
        return ""

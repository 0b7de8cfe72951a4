"""Files whose bytes were hashed when a pack was loaded, compared again just before they are used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tercet.contracts.canonical import hash_bytes


def find_changed(folder: Path, files: Mapping[str, str]) -> str | None:
    """Return the name of a file that no longer has its hash, or None; names are relative to the folder, or absolute."""
    return next((name for name, known in files.items() if _hash(folder / name) != known), None)


def _hash(path: Path) -> str:
    try:
        return hash_bytes(path.read_bytes())
    except OSError:
        return ""

"""The files of a pack folder that its hash covers, as bytes.

Excluded are the people, the evidence, which is pinned separately, and any other file in the folder, such as a database
or secrets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tercet.contracts.errors import PackError
from tercet.packs.declarations import ACTORS, ALL_DECLARED, PACK_FILE
from tercet.packs.folder import COMMANDS_FILE, HTTP_FILE, Draft
from tercet.packs.loading import TEMPLATES
from tercet.packs.lock import LOCK_FILE
from tercet.packs.pack import Pack


def read_files(path: str | os.PathLike[str], pack: Pack) -> dict[str, bytes]:
    """Return the files that a pack was loaded from, by name; raise `PackError` if one can no longer be read."""
    draft = Draft(Path(os.path.realpath(path)))
    found = {name: draft.read_bytes(name) for name in sorted(set(_names(draft, pack)))}
    if draft.problems:
        raise PackError(draft.problems)
    return {name: data for name, data in found.items() if data is not None}


def _names(draft: Draft, pack: Pack) -> Iterator[str]:
    declared = (each.file for each in ALL_DECLARED if each.file != ACTORS.file)
    for name in (PACK_FILE, *declared, HTTP_FILE, COMMANDS_FILE, LOCK_FILE, *pack.code):
        if draft.has(name):
            yield name
    yield from draft.list_files(TEMPLATES, ".json")

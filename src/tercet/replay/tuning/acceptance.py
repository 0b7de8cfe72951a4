"""A person accepts a proposal: only then, and only here, is a pack changed.

What is applied is not what the proposal's file says the files should hold. The typed values are applied to the folder again
as it is now, checked again, and must come to what the person was shown.
"""

from __future__ import annotations

import json
import os
import shlex
from datetime import datetime
from pathlib import Path

from tercet.contracts.errors import PackError, UsageError
from tercet.contracts.shape import Published
from tercet.contracts.values.canonical import hash_bytes
from tercet.packs.declarations import PACK_FILE
from tercet.packs.loading import TEMPLATES
from tercet.packs.pack import Pack
from tercet.replay.tuning.proposal import Change, FileEdit, Proposal, edit_folder

NEW, KEPT = ".accepting", ".before-accepting"
"""The endings of file names during a replacement: the new and the old contents."""
LOG = "tuning.accepted.jsonl"
"""Who accepted what, and when: one line each, in the pack's folder."""


class Accepted(Published):
    """A proposal that a person has accepted."""

    proposal: str
    by: str
    at: str
    pack: str
    """Its value before."""
    pack_hash: str
    new_version: str
    new_hash: str
    changes: tuple[Change, ...]


def accept(folder: Path, proposal: Proposal, *, by: str, at: datetime) -> Accepted:
    """Apply a proposal to the folder of its pack; raises `UsageError` if that is no longer the pack it was made for."""
    recover(folder)
    if (done := _find_acceptance(folder, proposal)) is not None:
        raise UsageError(
            f"{proposal.id} was accepted by {done} already",
            code="already_accepted",
            remedy="there is nothing to do",
        )
    edits = _edit_again(folder, proposal)
    _demand_shown(folder, proposal, edits)
    apply_edits(folder, edits)
    _demand_result(folder, proposal)
    accepted = Accepted(
        proposal=proposal.id,
        by=by,
        at=at.isoformat(),
        pack=proposal.pack,
        pack_hash=proposal.pack_hash,
        new_version=proposal.new_version,
        new_hash=proposal.new_hash,
        changes=proposal.changes,
    )
    with (folder / LOG).open("a", encoding="utf-8") as log:
        log.write(f"{accepted.model_dump_json()}\n")
    _clear(folder)
    return accepted


def _edit_again(folder: Path, proposal: Proposal) -> tuple[FileEdit, ...]:
    """Return the files of the folder with the proposed values."""
    pack = Pack.load(folder)
    if pack.hash != proposal.pack_hash:
        raise UsageError(
            f"{pack.ref} in {folder} is not the pack that {proposal.id} was made for",
            code="pack_changed",
            remedy=f"tune it again as it is now: {_tune(folder)}",
        )
    return edit_folder(folder, pack, proposal.candidate, proposal.new_version)


def _demand_shown(folder: Path, proposal: Proposal, edits: tuple[FileEdit, ...]) -> None:
    """Raise `UsageError` if the proposed values change the files otherwise than the proposal shows."""
    if edits != proposal.edits:
        raise UsageError(
            f"the files that {proposal.id} shows do not have its values",
            code="proposal_changed",
            remedy=f"make it again: {_tune(folder)}",
        )


def _tune(folder: Path) -> str:
    return f"tercet tune {shlex.quote(str(folder))} --all"


# --- files ---


def _hash(folder: Path, name: str) -> str:
    try:
        return hash_bytes((folder / name).read_bytes())
    except OSError:
        return ""


def apply_edits(folder: Path, edits: tuple[FileEdit, ...]) -> None:
    """Replace the files one by one, each atomically, the one with the version last. Their old contents are kept beside
    them: an interrupted attempt is undone by the next one, and a failed one immediately."""
    ordered = sorted(edits, key=lambda edit: (edit.file == PACK_FILE, edit.file))
    try:
        for edit in ordered:
            _write(_backup_path(folder / edit.file, NEW), edit.text.encode())
        for edit in ordered:
            _write(_backup_path(folder / edit.file, KEPT), (folder / edit.file).read_bytes())
        for edit in ordered:
            _backup_path(folder / edit.file, NEW).replace(folder / edit.file)
    except OSError as error:
        _put_back(folder)
        raise UsageError(
            f"cannot change {folder}: {error.strerror or error}",
            code="file_unwritable",
            remedy="make its files writable; it is as it was",
        ) from error


def recover(folder: Path) -> None:
    """Undo an interrupted attempt; one that reached the log is complete."""
    if not _backup_files(folder):
        _clear(folder)
        return
    last = accepted_in(folder)[-1:]
    try:
        is_done = bool(last) and Pack.load(folder).hash == last[0].new_hash
    except PackError:
        is_done = False
    if is_done:
        _clear(folder)
    else:
        _put_back(folder)


def _backup_files(folder: Path) -> list[Path]:
    return [path for where in (folder, folder / TEMPLATES) for path in sorted(where.glob(f".*{KEPT}"))]


def _put_back(folder: Path) -> None:
    for path in _backup_files(folder):
        path.replace(path.with_name(path.name.removeprefix(".").removesuffix(KEPT)))
    _clear(folder)


def _clear(folder: Path) -> None:
    for where in (folder, folder / TEMPLATES):
        for path in (*where.glob(f".*{NEW}"), *where.glob(f".*{KEPT}")):
            path.unlink(missing_ok=True)


def _backup_path(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}{suffix}")


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _demand_result(folder: Path, proposal: Proposal) -> None:
    pack = Pack.load(folder)
    if pack.hash != proposal.new_hash:
        _put_back(folder)
        raise UsageError(
            f"{folder} does not have the values of {proposal.id} after the change",
            code="pack_changed",
            remedy="check the folder: it was changed at the same moment",
        )


def _find_acceptance(folder: Path, proposal: Proposal) -> str | None:
    """Return who accepted this proposal before, if it is still in force."""
    if any(_hash(folder, edit.file) != edit.after for edit in proposal.edits):
        return None
    return next((each.by for each in accepted_in(folder) if each.proposal == proposal.id), None)


def accepted_in(folder: Path) -> list[Accepted]:
    """Return every proposal that was accepted for a pack folder, oldest first."""
    path = folder / LOG
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Accepted.model_validate(json.loads(line)) for line in lines if line.strip()]

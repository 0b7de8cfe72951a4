"""A candidate as changes to the files of a pack folder.

Every file is edited where the value stands. What the edited folder loads as is then held against the candidate: an edit
that changes anything else is never shown and never applied.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any, TypeAlias

from tercet.contracts.errors import UsageError, extra_missing
from tercet.contracts.packs.tuning import Candidate, TemplateSurface, Value
from tercet.contracts.shape import Published, as_list, as_object
from tercet.contracts.values.canonical import hash_bytes
from tercet.packs.declarations import DECISIONS, METHODS, PACK_FILE
from tercet.packs.pack import Pack
from tercet.packs.surfaces import PackPath, changes_of, missing, template_of
from tercet.replay.tuning.frozen import demand_same

TomlPath: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys, and the numbers of elements."""


def edit_toml(text: str, changes: Mapping[TomlPath, Value]) -> str:
    """Return the text with other values at some places; raises `UsageError` where one cannot be changed safely."""
    try:
        import tomlkit  # noqa: PLC0415 - an optional dependency
        from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise extra_missing("tuning", "tomlkit", "tuning") from error
    wanted, written = tomllib.loads(text), ""
    for path, value in changes.items():
        if not _replace(wanted, path, value):
            raise _uneditable(path)
    try:
        document = tomlkit.parse(text)
        for path, value in changes.items():
            _replace(document, path, value)
        written = tomlkit.dumps(document)
    except (TOMLKitError, LookupError, TypeError, ValueError, RecursionError):
        raise _uneditable(next(iter(changes))) from None
    if not _is_same(written, wanted):
        raise _uneditable(next(iter(changes)))
    return written


def _replace(document: Any, path: TomlPath, value: Value) -> bool:
    """Replace an existing value; return whether there was one."""
    try:
        for part in path[:-1]:
            document = document[part]
        document[path[-1]]  # pyright: ignore[reportUnusedExpression] - raises where there is nothing to replace
        document[path[-1]] = value
    except (LookupError, TypeError):
        return False
    return True


def _is_same(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _uneditable(path: TomlPath) -> UsageError:
    place = ".".join(map(str, path))
    return UsageError(
        f"the value {place} cannot be changed in its place",
        code="value_not_editable",
        remedy=f"write it on a line of its own, as {path[-1]} = …",
    )


# --- edits ---


_PARAMS = ("params", "args")
"""The names of a step's parameters in the two published formats."""
_INDENTS = (2, 4, None)
_LEFT_BEHIND = shutil.ignore_patterns("__pycache__", "*.db", "*.db-*", "*.tercet", ".git", ".venv")


class FileEdit(Published):
    """One file before and after."""

    file: str
    before: str
    """The hash of its bytes."""
    after: str
    text: str
    """Its contents afterwards."""
    diff: str


def edit_folder(folder: Path, pack: Pack, candidate: Candidate, version: str) -> tuple[FileEdit, ...]:
    """Return the files that a candidate changes, under a new version. Nothing is written.

    Raises `UsageError` for a value that cannot be edited where it stands, and `CandidateRefused` where the edited folder
    would be anything but the pack with the candidate's values.
    """
    texts = _apply_all(folder, pack, candidate, version)
    edits = tuple(_edit(folder, name, text) for name, text in sorted(texts.items()))
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(folder, Path(scratch) / "pack", ignore=_LEFT_BEHIND))
        for edit in edits:
            (copy / edit.file).write_bytes(edit.text.encode())
        demand_same(pack, candidate, Pack.load(copy), version=version)
    return edits


def next_version(version: str) -> str:
    """Return the version after one: its last number is one more."""
    head, _, last = version.rpartition(".")
    return f"{head}.{int(last) + 1}"


def _apply_all(folder: Path, pack: Pack, candidate: Candidate, version: str) -> dict[str, str]:
    toml: dict[str, dict[TomlPath, Value]] = {PACK_FILE: {("version",): version}}
    texts: dict[str, str] = {}
    for surface in pack.tuning.surfaces:
        if surface.id not in candidate.values:
            continue
        value = candidate.values[surface.id]
        if isinstance(surface, TemplateSurface):
            name = _template_file(pack, surface)
            texts[name] = _edit_template(texts.get(name) or _read(folder, name), pack, surface, value)
        else:
            for path, changed in changes_of(pack, surface, value).items():
                file, place = _toml_place(path)
                toml.setdefault(file, {})[place] = changed
    return texts | {file: edit_toml(_read(folder, file), changes) for file, changes in toml.items()}


def _edit(folder: Path, name: str, text: str) -> FileEdit:
    before = _read(folder, name)
    lines = unified_diff(
        before.splitlines(keepends=True), text.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=1
    )
    return FileEdit(
        file=name,
        before=hash_bytes(before.encode()),
        after=hash_bytes(text.encode()),
        text=text,
        diff="".join(line if line.endswith("\n") else f"{line}\n" for line in lines),
    )


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_bytes().decode()


_FILES: dict[tuple[str | int, ...], tuple[str, str]] = {
    ("decisions",): (DECISIONS.file, DECISIONS.kind),
    ("library", "methods"): (METHODS.file, METHODS.kind),
}
"""The file that holds declarations of a kind, and what they are called in it; the rest is in the pack's own file."""


def _toml_place(path: PackPath) -> tuple[str, TomlPath]:
    """Return the TOML file with a value of a pack, and its path in that file."""
    for head, (file, kind) in _FILES.items():
        if path[: len(head)] == head:
            return file, (kind, *path[len(head) :])
    return PACK_FILE, path


# --- templates ---


def _template_file(pack: Pack, surface: TemplateSurface) -> str:
    spot = pack.spots.get(f"template {surface.intent}")
    if spot is None:
        raise missing(surface, "the pack was not loaded from a folder", "load it from its folder")
    return spot.file


def _edit_template(text: str, pack: Pack, surface: TemplateSurface, value: Value) -> str:
    """Return a template with a changed parameter, in its own indentation; one that was laid out by hand is formatted
    again."""
    plan, step = template_of(pack, surface)
    document = json.loads(text)
    steps = as_list((as_object(document) or {}).get("steps")) or []
    written = as_object(steps[plan.steps.index(step)]) or {}
    params = next((as_object(written[name]) for name in _PARAMS if name in written), None)
    if params is None or surface.param not in params:
        raise UsageError(
            f"{surface.id} is not a parameter in the file of its template",
            code="value_not_editable",
            remedy="write it under params",
        )
    layout = next((each for each in _INDENTS if _format_template(document, each) == text.rstrip("\n")), 2)
    params[surface.param] = value
    return f"{_format_template(document, layout)}\n"


def _format_template(document: Any, indent: int | None) -> str:
    return json.dumps(document, indent=indent, ensure_ascii=False)

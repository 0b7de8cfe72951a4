"""Creates a new pack from the template, under its own name."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from tercet.contracts.errors import UsageError
from tercet.packs.parts import NAME

_TEMPLATE_NAME = "greenhouse"
EXAMPLE_INTENT = "garden.water_bed"
EXAMPLE_INPUT = '{"plant": "tomato"}'
"""A request that the template pack answers."""
EXAMPLE_ACTOR = "ada.example"
"""A person of the template pack who may start runs, and has no role."""
FLAVOURS = {
    "gate": "a second person agrees to large amounts",
    "http": "a tool of an HTTP service",
    "agent": "a language model that plans",
}
"""What a new pack may have besides, by name."""


def scaffold(
    path: str | os.PathLike[str], name: str | None = None, flavours: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Create a small pack in a new or empty folder, and return its files; nothing is overwritten.

    The pack is called `name`, else after its folder. `flavours` add to it: each of their files is added to the file of
    the same name, and scenarios replace those of the same name, since they expect something else. Everything is first
    written to a temporary folder beside it and moved when complete, so a failure leaves nothing half-written.
    """
    folder = Path(path)
    pack_name = _checked(name) if name is not None else _name_of(folder)
    workshop = folder.absolute().parent / f".{folder.absolute().name}.{secrets.token_hex(4)}"
    added = _checked_flavours(flavours)
    try:
        _demand_room(folder)
        written = _write(workshop, pack_name, added)
        _put_in_place(workshop, folder)
    except OSError as error:
        raise UsageError(
            f"cannot make a pack in {folder}: {error.strerror or error}",
            code="not_writable",
            remedy="check that you may write there",
        ) from error
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return tuple(folder / name for name in written)


def template_files() -> Iterator[tuple[str, str]]:
    """Return the files of the template by their path in the folder, with their text."""
    yield from _walk(files("tercet.packs").joinpath("template"), PurePosixPath())


def _walk(folder: Traversable, prefix: PurePosixPath) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name == "__pycache__":  # created by installers
            continue
        if entry.is_dir():
            yield from _walk(entry, prefix / entry.name)
        else:
            yield str(prefix / entry.name), entry.read_text(encoding="utf-8")


def _checked(name: str) -> str:
    if not re.fullmatch(NAME, name):
        raise UsageError(
            f"{name!r} cannot be the name of a pack",
            code="pack_name",
            remedy="use lower-case letters, digits, '-' and '_', for example refunds",
        )
    return name


def _name_of(folder: Path) -> str:
    """Return the folder's name, adapted to a pack's; the template's if nothing is left."""
    fit = re.sub(r"[^a-z0-9_-]+", "-", folder.absolute().name.lower()).strip("-_")[:100]
    return fit or _TEMPLATE_NAME


def _demand_room(folder: Path) -> None:
    """Check that the folder is absent or empty, and its parent exists."""
    if folder.is_dir():
        if any(folder.iterdir()):
            raise UsageError(
                f"{folder} is not empty",
                code="folder_not_empty",
                remedy="name a new folder; nothing is overwritten",
            )
    elif os.path.lexists(folder):
        raise UsageError(f"{folder} is not a folder", code="not_a_folder", remedy="name a new folder")
    elif not folder.absolute().parent.is_dir():
        raise UsageError(
            f"there is no folder {folder.absolute().parent}", code="missing_folder", remedy="create it first"
        )


def _checked_flavours(flavours: Sequence[str]) -> tuple[str, ...]:
    """Return the flavours in their fixed order; raise `UsageError` for one that does not exist."""
    for name in flavours:
        if name not in FLAVOURS:
            listed = ", ".join(f"{known} ({text})" for known, text in FLAVOURS.items())
            raise UsageError(
                f"unknown flavour {name!r}", code="unknown_flavour", remedy=f"combine any of {listed}"
            )
    return tuple(name for name in FLAVOURS if name in flavours)


def _texts(flavours: Sequence[str]) -> dict[str, str]:
    """Return the files of the template with those of the flavours."""
    texts = dict(template_files())
    for flavour in flavours:
        for name, text in _walk(files("tercet.packs").joinpath("flavours", flavour), PurePosixPath()):
            is_scenario = name.startswith("scenarios/")
            texts[name] = text if is_scenario else texts.get(name, "") + text
    return texts


def _write(workshop: Path, pack_name: str, flavours: Sequence[str]) -> list[str]:
    written: list[str] = []
    for name, text in sorted(_texts(flavours).items()):
        named = text.replace(f'name = "{_TEMPLATE_NAME}"', f'name = "{pack_name}"', name == "pack.toml")
        target = workshop / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(named, encoding="utf-8", newline="\n")
        written.append(name)
    return written


def _put_in_place(workshop: Path, folder: Path) -> None:
    if not folder.exists():
        workshop.rename(folder)
        return
    # An empty folder is filled, not replaced: it may be the working directory of the user's shell.
    entries = sorted(workshop.iterdir())
    try:
        for entry in entries:
            entry.rename(folder / entry.name)
    except OSError:
        for entry in entries:
            _remove(folder / entry.name)
        raise


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

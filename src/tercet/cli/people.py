"""Who speaks at this machine: the user of the operating system, as a pack's `actors.toml` knows them.

Only that file is read, never the code of a pack. What is recorded is the login, and `auth` says `local`: a session believes
a name or a role only if the list of its own pack gives it to that login.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tercet.cli import case
from tercet.contracts.request import Actor
from tercet.packs.people import load_people
from tercet.runtime.state import State

VARIABLE = "TERCET_ACTORS"
FILE = "actors.toml"

ActorsPath: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--actors",
        metavar="PATH",
        envvar=VARIABLE,
        help=f"Who you are, and which roles you hold: a pack's folder or an {FILE}; by default {VARIABLE}, else {FILE} in this folder.",
        show_default=False,
        show_envvar=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """Somebody at this machine."""

    actor: Actor
    path: str = ""
    """Where it is written who they are; empty where nothing says so."""

    def facing(self, state: State) -> Actor:
        """Who they are to a session: whoever started it stays who they were then, whatever file they name now."""
        owner = state.start["actor"]
        if owner.get("os_user") == self.actor.os_user and owner["id"] != self.actor.id:
            return self.actor.model_copy(update={"id": owner["id"]})
        return self.actor

    @property
    def pack(self) -> str:
        """The folder of the pack that they are written down in; empty where there is none."""
        folder = Path(self.path) if Path(self.path).is_dir() else Path(self.path).parent
        return str(folder) if self.path and (folder / "pack.toml").is_file() else ""


def speaker_by(path: Path | None) -> Speaker:
    """The user of this machine, by an actors file or the pack's folder that it lies in."""
    if path is None and Path(FILE).is_file():
        path = Path(FILE)
    actors = () if path is None else load_people(path)
    return Speaker(
        actor=case.recognised(actors, case.local_user()), path="" if path is None else os.fspath(path)
    )


def actors_of(pack: Path) -> str:
    """What another command must be told to know the people of a pack; empty where the pack has none."""
    return os.fspath(pack) if (pack / FILE).is_file() else ""


def actors_words(path: str) -> tuple[str, ...]:
    """The words that make another command know the same people; none where it would anyway."""
    is_usual = path in (FILE, ".") and not os.environ.get(VARIABLE)
    return () if not path or is_usual or path == os.environ.get(VARIABLE) else ("--actors", path)

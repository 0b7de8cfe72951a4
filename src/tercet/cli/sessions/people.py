"""Who speaks at this machine: the user of the operating system, as a session's own list of people knows them.

Where another list is named, only that file is read, never the code of a pack. What is recorded is the login, and `auth`
says `local`: a session believes a name or a role only if the list of its own pack gives it to that login. In a development
session one person may act as any of its people, and `auth` says `simulated`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from tercet.cli.options import flag, option
from tercet.contracts.errors import UsageError
from tercet.contracts.request import SIMULATED, Actor
from tercet.core.state import State
from tercet.packs import Pack
from tercet.packs.people import actor_for, load_people

if sys.platform != "win32":
    import pwd


VARIABLE = "TERCET_ACTORS"
FILE = "actors.toml"

ActorsPath: TypeAlias = Annotated[
    Path | None,
    option(
        "PATH",
        f"Who you are, and which roles you hold: a pack's folder or an {FILE}; by default {VARIABLE}, else {FILE} in this folder, else the session's own list.",
        "--actors",
        envvar=VARIABLE,
        show_default=False,
        show_envvar=False,
    ),
]


ActAs: TypeAlias = Annotated[
    str,
    option(
        "NAME",
        "Act as this actor of the pack: with --dev as any of them, recorded as simulated; else only as one whose login is yours.",
        "--as",
        show_default=False,
    ),
]
Dev: TypeAlias = Annotated[
    bool,
    flag(
        "One person may act as any actor of the pack with --as, in a session that was started with --dev on a journal of this machine.",
        "--dev",
    ),
]


@dataclass(frozen=True, kw_only=True)
class LocalUser:
    """The person at this machine."""

    actor: Actor
    path: str = ""
    """Where it is written who they are; empty where nothing says so."""
    name: str = ""
    """The actor that they act as; empty where they act as themselves."""
    is_dev: bool = False

    def actor_in(self, state: State) -> Actor:
        """Return who they are to a session: the owner keeps the identity that the session recorded, whatever file is named now."""
        people: dict[str, Any] = state.start.people or {}
        if self.name:
            return self._acting(people, state)
        owner = state.start.actor
        if owner.get("os_user") == self.actor.os_user and owner["id"] != self.actor.id:
            return self.actor.model_copy(update={"id": owner["id"]})
        if self.path:
            return self.actor
        mine = next((name for name, each in people.items() if each.get("login") == self.actor.os_user), "")
        return self._listed(people, mine) if mine else self.actor

    def _acting(self, people: dict[str, Any], state: State) -> Actor:
        """Return the actor of the session's list that they act as; raises `UsageError` if it has none of that name."""
        if self.name not in people and self.name != state.start.actor["id"]:
            raise unknown_actor(self.name, people)
        actor = self._listed(people, self.name)
        return actor.model_copy(update={"auth": SIMULATED}) if self.is_dev else actor

    def _listed(self, people: dict[str, Any], name: str) -> Actor:
        person: dict[str, Any] = people.get(name) or {}
        roles = tuple(map(str, person.get("roles", ())))
        return self.actor.model_copy(update={"id": name, "roles": roles})

    @property
    def pack(self) -> str:
        """The folder of the pack that they are written down in; empty where there is none."""
        folder = Path(self.path) if Path(self.path).is_dir() else Path(self.path).parent
        return str(folder) if self.path and (folder / "pack.toml").is_file() else ""


def unknown_actor(name: str, people: Iterable[str]) -> UsageError:
    """Return the refusal of a name that a list of people does not have."""
    known = ", ".join(people)
    return UsageError(
        f"the pack has no actor '{name}'",
        code="unknown_actor",
        remedy=f"choose one of {known}" if known else "list people in the pack's actors.toml",
    )


def starting_actor(pack: Pack, name: str, *, is_dev: bool) -> Actor:
    """Return who starts a run of a pack: the person at this machine, or the actor that they act as.

    Raises `UsageError` for an actor whose login is another, unless they are simulated.
    """
    mine = local_actor(pack)
    if not name or name == mine.id:
        return mine
    actor = next((each for each in pack.actors if each.id == name), None)
    if actor is None:
        raise unknown_actor(name, (each.id for each in pack.actors))
    if not is_dev:
        raise UsageError(
            f"{name} is not the login {mine.os_user}, by the pack's list of people",
            code="wrong_login",
            remedy="start the run from their login; or, to try the pack out alone, with --dev",
        )
    return actor.model_copy(update={"os_user": mine.os_user, "auth": SIMULATED})


def require_local_journal(url: str, *, is_dev: bool) -> None:
    """Raise `UsageError` for simulated people in a journal that other machines may share."""
    if is_dev and not url.startswith(("sqlite:", "memory:")):
        raise UsageError(
            "people are simulated only in a journal on this machine",
            code="simulation_refused",
            remedy="leave --dev out, or name a journal such as sqlite:///tercet.db",
        )


def local_user_as(path: Path | None, name: str, url: str, *, is_dev: bool) -> LocalUser:
    """Return the user of this machine, acting as an actor of the pack where they name one."""
    require_local_journal(url, is_dev=is_dev)
    return replace(local_user_from(path), name=name, is_dev=is_dev)


def local_user_from(path: Path | None) -> LocalUser:
    """The user of this machine, by an actors file or the pack's folder that it lies in."""
    if path is None and Path(FILE).is_file():
        path = Path(FILE)
    actors = () if path is None else load_people(path)
    return LocalUser(actor=find_actor(actors, login_name()), path="" if path is None else os.fspath(path))


def actors_of(pack: Path) -> str:
    """Return the value of --actors that names the people of a pack; empty where the pack has none."""
    return os.fspath(pack) if (pack / FILE).is_file() else ""


def actors_words(path: str) -> tuple[str, ...]:
    """The words that make another command know the same people; none where it would anyway."""
    is_usual = path in (FILE, ".") and not os.environ.get(VARIABLE)
    return () if not path or is_usual or path == os.environ.get(VARIABLE) else ("--actors", path)


def login_name() -> str:
    """Return the login of the person at this machine, by the operating system.

    The environment is not read: LOGNAME would let anyone answer as another person.
    """
    try:
        return os.getlogin() if sys.platform == "win32" else pwd.getpwuid(os.getuid()).pw_name
    except (OSError, KeyError, ImportError):  # a container may have no name for its user
        return "anonymous"


def local_actor(pack: Pack) -> Actor:
    """Who sits at this machine, with the roles that the pack gives them."""
    return find_actor(pack.actors, login_name())


def find_actor(actors: Sequence[Actor], user: str) -> Actor:
    """The actor that a user of this machine is.

    Their login is kept with it: under whatever name they come back, it is the same person.
    """
    return actor_for(actors, user).model_copy(update={"os_user": user, "auth": "local"})

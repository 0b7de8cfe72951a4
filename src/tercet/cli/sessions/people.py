"""The user who types a command: their login, and the actor that a pack or session maps it to.

If --actors names a list, only that file is read, never the code of a pack. The login is recorded with `auth: local`: a
session accepts a name or a role only if its own pack gives it to that login. In a development session one person may
act as any of its actors, recorded as `auth: simulated`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from tercet.cli.journals import DEFAULT, JournalUrl
from tercet.cli.options import AsJson, Note, flag, option
from tercet.cli.remote import refuse_options
from tercet.cli.server_option import is_service
from tercet.contracts.errors import UsageError
from tercet.contracts.request import SIMULATED, Actor
from tercet.core.state import State
from tercet.database.schema import parse_address
from tercet.journal.errors import JOURNAL
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
        f"The list of actors that says who you are: a pack's folder or an {FILE}; by default {VARIABLE}, else {FILE} in this folder, else the session's own list.",
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
        "Act as this actor of the pack: with --dev any of them, recorded as simulated; else only one with your login.",
        "--as",
        show_default=False,
    ),
]
Dev: TypeAlias = Annotated[
    bool,
    flag(
        "Start or answer a development session, in which one person may act as any actor of the pack with --as. Its journal must be on this machine.",
        "--dev",
    ),
]


class OperatorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a command that records who has operated a journal: the reason, the person and the journal."""

    note: Note = ""
    actors: ActorsPath = None
    journal: JournalUrl = DEFAULT
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class LocalUser:
    """The user who types a command."""

    actor: Actor
    path: str = ""
    """The list of actors that maps their login; empty if there is none."""
    name: str = ""
    """The actor that they act as; empty if they act as themselves."""
    is_dev: bool = False

    def actor_in(self, state: State) -> Actor:
        """Return the actor that they are in a session; its owner keeps the recorded id, whichever list is named."""
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
        """Return the actor of the session that they act as; raise `UsageError` if there is none with that name."""
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
        """The folder of the pack whose list of actors is used; empty if there is none."""
        folder = Path(self.path) if Path(self.path).is_dir() else Path(self.path).parent
        return str(folder) if self.path and (folder / "pack.toml").is_file() else ""


def unknown_actor(name: str, people: Iterable[str]) -> UsageError:
    """Return the error for an actor that a pack does not have."""
    known = ", ".join(people)
    return UsageError(
        f"the pack has no actor '{name}'",
        code="unknown_actor",
        remedy=f"choose one of {known}" if known else "list people in the pack's actors.toml",
    )


def starting_actor(pack: Pack, name: str, *, is_dev: bool) -> Actor:
    """Return the actor who starts a run: the user, or the actor that they act as.

    Raises `UsageError` for an actor with another login, unless the run is a development run.
    """
    mine = local_actor(pack)
    if not name or name == mine.id:
        return mine
    actor = next((each for each in pack.actors if each.id == name), None)
    if actor is None:
        raise unknown_actor(name, (each.id for each in pack.actors))
    if not is_dev:
        raise UsageError(
            f"the pack does not map the login {mine.os_user} to {name}",
            code="wrong_login",
            remedy="start the run from their login; or, to try the pack out alone, with --dev",
        )
    return actor.model_copy(update={"os_user": mine.os_user, "auth": SIMULATED})


def require_local_journal(url: str, *, is_dev: bool) -> None:
    """Raise `UsageError` for `--dev` with a journal that other machines may share."""
    if is_dev and not is_service(url) and parse_address(url, JOURNAL).backend == "postgres":
        raise UsageError(
            "--dev needs a journal on this machine",
            code="simulation_refused",
            remedy="leave --dev out, or name a journal such as sqlite:///tercet.db",
        )


def refuse_actors(url: str, path: Path | None) -> None:
    """Raise `UsageError` for `--actors` with a service; the environment variable is for journals of this machine."""
    is_usual = path is not None and os.fspath(path) == os.environ.get(VARIABLE)
    refuse_options(url, {"--actors": path is not None and not is_usual}, "the API key says who you are")


def local_user_as(path: Path | None, name: str, url: str, *, is_dev: bool) -> LocalUser:
    """Return the user, acting as an actor of the pack if they name one."""
    require_local_journal(url, is_dev=is_dev)
    return replace(local_user_from(path), name=name, is_dev=is_dev)


def local_user_from(path: Path | None) -> LocalUser:
    """Return the user, as a list of actors or a pack's folder maps them."""
    if path is None and Path(FILE).is_file():
        path = Path(FILE)
    actors = () if path is None else load_people(path)
    return LocalUser(actor=find_actor(actors, login_name()), path="" if path is None else os.fspath(path))


def actors_of(pack: Path) -> str:
    """Return the value of --actors for a pack; empty if the pack has no list of actors."""
    return os.fspath(pack) if (pack / FILE).is_file() else ""


def actors_words(path: str) -> tuple[str, ...]:
    """Return the option that makes another command use the same list of actors; empty if it is the default."""
    is_usual = path in (FILE, ".") and not os.environ.get(VARIABLE)
    return () if not path or is_usual or path == os.environ.get(VARIABLE) else ("--actors", path)


def login_name() -> str:
    """Return the login of the user, as the operating system reports it.

    The environment is not read: LOGNAME would let anyone answer as another person.
    """
    try:
        return os.getlogin() if sys.platform == "win32" else pwd.getpwuid(os.getuid()).pw_name
    except (OSError, KeyError, ImportError):  # a container may have no name for its user
        return "anonymous"


def local_actor(pack: Pack) -> Actor:
    """Return the user as an actor, with the roles that the pack gives them."""
    return find_actor(pack.actors, login_name())


def find_actor(actors: Sequence[Actor], user: str) -> Actor:
    """Return the actor of a login.

    The login is kept in the actor, so that the same person is recognised under every name.
    """
    return actor_for(actors, user).model_copy(update={"os_user": user, "auth": "local"})

"""The actors of a pack, loaded without its code: approving needs no tools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tercet.contracts.errors import PackError, UsageError
from tercet.contracts.request import Actor
from tercet.contracts.values.plain import storable
from tercet.packs.checks.gates import os_users_are_distinct
from tercet.packs.declarations import ACTORS, PACK_FILE, read_declared
from tercet.packs.folder import Draft
from tercet.packs.parts import Parts


def load_people(path: str | os.PathLike[str]) -> tuple[Actor, ...]:
    """Return the actors of a pack folder, or of an actors file; a pack without that file has none.

    Raises `UsageError` if neither exists, and `PackError` with every problem if the file does not load.
    """
    place = Path(os.path.realpath(path))
    folder, name = (place, ACTORS.file) if place.is_dir() else (place.parent, place.name)
    draft = Draft(folder)
    if not draft.has(name):
        if place.is_dir() and draft.has(PACK_FILE):
            return ()
        raise UsageError(
            f"there is no {ACTORS.file} at {os.fspath(path)}",
            code="actors_not_found",
            remedy=f"name a pack folder, or the {ACTORS.file} of one",
        )
    actors = read_declared(draft, ACTORS._replace(file=name))
    problems = [*draft.problems, *os_users_are_distinct(Parts(actors=actors, spots=draft.spots))]
    if problems:
        raise PackError(problems)
    return actors


def actor_for(actors: Sequence[Actor], os_user: str) -> Actor:
    """Return the actor of an operating system user: mapped, of the same name unless that is mapped to another, or one
    without roles.
    """
    found = next((actor for actor in actors if actor.os_user == os_user), None)
    named = next((actor for actor in actors if actor.id == os_user and actor.os_user is None), None)
    return found or named or Actor(id=os_user)


def people_of(actors: Iterable[Actor]) -> dict[str, Any]:
    """Return logins and roles by name, as a session stores them.

    An actor without a login has the login of the same name, unless that belongs to another actor.
    """
    known = tuple(actors)
    taken = {actor.os_user for actor in known}
    return {
        storable(actor.id): {
            "login": storable(actor.os_user or ("" if actor.id in taken else actor.id)),
            "roles": [storable(role) for role in actor.roles],
        }
        for actor in known
    }

"""Who is who by a pack's list of people: the logins and the roles that it gives, and whom it does not know."""

from __future__ import annotations

from collections.abc import Iterable

from tercet.contracts.plain import storable
from tercet.contracts.request import Actor
from tercet.packs.people import people_of
from tercet.runtime.state import Answer


class Roster:
    """A pack's list of people, and whether the roles of others count that a caller names."""

    def __init__(self, actors: Iterable[Actor]) -> None:
        self.people = people_of(actors)

    def roles(self, actor_id: str) -> tuple[str, ...] | None:
        """The roles that somebody holds; None for somebody who is not on the list."""
        found = self.people.get(storable(actor_id))
        return None if found is None else tuple(found["roles"])

    def known(self, actor: Actor) -> Actor:
        """Somebody with the roles that they hold by the list; whoever is not on it has those that are said."""
        held = self.roles(actor.id)
        return actor if held is None else actor.model_copy(update={"roles": held})

    def objection(self, approval: Answer, wanted: tuple[str, ...]) -> str:
        """Why an approval does not count by now where one of these roles is asked for; empty if it does."""
        held = self.roles(approval.actor)
        if held is None:
            # Whoever was on the list and is not any more holds nothing; of others only their answers are known.
            held = () if approval.listed else approval.roles
        elif approval.login and approval.login != self.people[approval.actor]["login"]:
            return f"is not the login {approval.login}, from which that came, by the list of people"
        return f"no longer holds {' or '.join(wanted)}" if wanted and set(wanted).isdisjoint(held) else ""

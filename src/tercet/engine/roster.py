"""Who is who by a pack's list of people: the logins and the roles that it gives, and whom it does not know."""

from __future__ import annotations

from collections.abc import Iterable

from tercet.contracts.plain import storable
from tercet.contracts.request import Actor
from tercet.core.state import Answer
from tercet.packs.people import people_of


class Roster:
    """A pack's list of people. Where there is one, others hold no role, unless their caller is trusted to say so."""

    def __init__(self, actors: Iterable[Actor], *, trusts_caller: bool = False) -> None:
        self.people = people_of(actors)
        self._is_open = trusts_caller or not self.people

    def roles(self, actor_id: str) -> tuple[str, ...] | None:
        """The roles that somebody holds; None for somebody who is not on the list."""
        found = self.people.get(storable(actor_id))
        return None if found is None else tuple(found["roles"])

    def known(self, actor: Actor) -> Actor:
        """Somebody with the roles that they hold."""
        held = self.roles(actor.id)
        return actor if held is None and self._is_open else actor.model_copy(update={"roles": held or ()})

    def objection(self, approval: Answer, wanted: tuple[str, ...]) -> str:
        """Why an approval does not count by now where one of these roles is asked for; empty if it does."""
        held = self.roles(approval.actor)
        if held is None:
            # Whoever was on the list and is not any more holds nothing; of others only their answers are known.
            held = approval.roles if self._is_open and not approval.listed else ()
        elif approval.login and approval.login != self.people[approval.actor]["login"]:
            return f"is not the login {approval.login}, from which that came, by the list of people"
        if not wanted or not set(wanted).isdisjoint(held):
            return ""
        is_stranger = not approval.listed and approval.actor not in self.people
        lost = "does not hold" if is_stranger else "no longer holds"
        return f"{lost} {' or '.join(wanted)}{' by the list of people' if is_stranger else ''}"

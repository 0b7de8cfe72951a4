"""The commands that people give to a session, and the roles that a pack's list of people gives them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from tercet.contracts.request import Actor
from tercet.contracts.values.plain import storable
from tercet.core import messages
from tercet.core.events.gate import Answered
from tercet.core.messages import Cancel, Extend, Message, Pause
from tercet.core.state import Answer, State
from tercet.engine.result import RunResult
from tercet.packs.people import people_of


class People(ABC):
    """The side of a runtime that people speak to."""

    @abstractmethod
    async def say(self, said: Message) -> RunResult:
        """Say something to a session: how it stands once that has become an event."""

    @abstractmethod
    def roles(self, actor_id: str) -> tuple[str, ...] | None:
        """The roles that a person holds now; None for somebody who is not on the list."""

    @abstractmethod
    def known(self, actor: Actor) -> Actor:
        """Somebody with the roles that they hold."""

    @abstractmethod
    async def state(self, session_id: str) -> State:
        """How a session stands."""

    async def approve(self, gate_id: str, *, actor: Actor, note: str = "", digest: str = "") -> RunResult:
        """Approve the call that a gate shows, or the one with this digest; whoever drives the session goes on."""
        return await self._reply(gate_id, "approve", actor, note=note, digest=digest)

    async def deny(self, gate_id: str, *, actor: Actor, note: str = "") -> RunResult:
        """Deny it: the run ends rejected."""
        return await self._reply(gate_id, "deny", actor, note=note)

    async def modify(
        self, gate_id: str, *, actor: Actor, note: str, changes: Mapping[str, Any] | None = None
    ) -> RunResult:
        """Send it back to the planner with words about what shall be different; earlier approvals are void. Outputs go
        into repair.

        With `changes`, set values in the call instead, by parameter name or JSON Pointer: the plan is reviewed with
        them, and another person approves the changed call.
        """
        return await self._reply(gate_id, "modify", actor, note=note, changes=changes)

    async def withdraw(self, gate_id: str, *, actor: Actor, note: str = "") -> RunResult:
        """Take one's own approval back, as long as the call has not begun."""
        return await self._reply(gate_id, "withdraw", actor, note=note)

    async def settle(
        self, gate_id: str, *, happened: bool, value: Any = None, actor: Actor, note: str = ""
    ) -> RunResult:
        """Say whether a call of unknown outcome happened, and what it brought."""
        answer = "happened" if happened else "did_not_happen"
        return await self._reply(gate_id, answer, actor, note=note, value=value)

    async def decide(
        self, gate_id: str, answer: Answered, *, actor: Actor, note: str = "", value: Any = None
    ) -> RunResult:
        """Answer a gate at which a person takes over (extend, replan, accept_partial, abandon), or one that asks what
        becomes of the effects of a failed run (compensate, keep)."""
        return await self._reply(gate_id, answer, actor, note=note, value=value)

    async def _reply(self, gate_id: str, answer: Answered, actor: Actor, **said: Any) -> RunResult:
        """Say what `messages.reply` makes of an answer, by somebody with the roles that they hold."""
        person = self.known(actor)
        is_listed = self.roles(person.id) is not None
        return await self.say(messages.reply(gate_id, answer, person, listed=is_listed, **said))

    async def pause(self, session_id: str, *, actor: Actor, note: str = "") -> RunResult:
        """Let a session come to rest once the calls under way have ended; `resume` carries it on."""
        return await self.say(
            Pause(session=session_id, note=storable(note), **messages.by(self.known(actor)))
        )

    async def cancel(self, session_id: str, *, actor: Actor, note: str = "") -> RunResult:
        """End a run without success; what it did is taken back, kept or asked about, as its pack says.

        A session that nobody carries comes to its end when it is resumed.
        """
        return await self.say(
            Cancel(session=session_id, note=storable(note), **messages.by(self.known(actor)))
        )

    async def extend(self, session_id: str, more: dict[str, int], *, actor: Actor) -> RunResult:
        """Let a run use more than it was started with; one that was handed over for want of it goes on."""
        amounts = messages.demand_extension(more)
        state = await self.state(session_id)
        for gate in state.gates.values():
            if gate.kind == "escalation":
                return await self._reply(gate.id, "extend", actor, value=amounts)
        return await self.say(Extend(session=session_id, more=amounts, **messages.by(self.known(actor))))


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

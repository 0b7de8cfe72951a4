"""Answers and commands of people to sessions, and the roles that a pack's list of people gives them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from tercet.contracts.request import SIMULATED, Actor
from tercet.contracts.values.plain import storable
from tercet.core import messages
from tercet.core.events.gate import Answered
from tercet.core.messages import Cancel, Extend, Message, Pause
from tercet.core.state import Answer, State
from tercet.engine.result import RunResult
from tercet.packs.people import people_of


class People(ABC):
    """The methods of a runtime by which people answer gates and direct sessions.

    `key` makes a call idempotent: sent again to the session with the same key, it takes effect once.
    """

    @abstractmethod
    async def say(self, said: Message) -> RunResult:
        """Send a message to a session, and return the result once it is recorded."""

    @abstractmethod
    def roles(self, actor_id: str) -> tuple[str, ...] | None:
        """Return the roles that an actor holds now; None if the actor is not listed."""

    @abstractmethod
    def known(self, actor: Actor) -> Actor:
        """Return an actor with the roles that the pack's list gives."""

    @abstractmethod
    async def state(self, session_id: str) -> State:
        """Return the state of a session."""

    async def approve(
        self, gate_id: str, *, actor: Actor, note: str = "", digest: str = "", key: str = ""
    ) -> RunResult:
        """Approve the call that a gate shows, or the one with this digest; `resume` continues a session that no process runs."""
        return await self._reply(gate_id, "approve", actor, note=note, digest=digest, key=key)

    async def deny(self, gate_id: str, *, actor: Actor, note: str = "", key: str = "") -> RunResult:
        """Deny the call: the run ends rejected."""
        return await self._reply(gate_id, "deny", actor, note=note, key=key)

    async def modify(
        self,
        gate_id: str,
        *,
        actor: Actor,
        note: str,
        changes: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> RunResult:
        """Send the call back to the planner with a note on what to change, which voids earlier approvals; outputs are
        repaired.

        With `changes`, set values in the call instead, by parameter name or JSON Pointer: the plan is reviewed with
        them, and another person approves the changed call.
        """
        return await self._reply(gate_id, "modify", actor, note=note, changes=changes, key=key)

    async def withdraw(self, gate_id: str, *, actor: Actor, note: str = "", key: str = "") -> RunResult:
        """Withdraw an approval of your own, as long as the call has not begun."""
        return await self._reply(gate_id, "withdraw", actor, note=note, key=key)

    async def settle(
        self,
        gate_id: str,
        *,
        happened: bool,
        value: Any = None,
        actor: Actor,
        note: str = "",
        key: str = "",
    ) -> RunResult:
        """Settle a call of unknown outcome: whether it happened, and its result."""
        answer = "happened" if happened else "did_not_happen"
        return await self._reply(gate_id, answer, actor, note=note, value=value, key=key)

    async def decide(
        self,
        gate_id: str,
        answer: Answered,
        *,
        actor: Actor,
        note: str = "",
        value: Any = None,
        key: str = "",
    ) -> RunResult:
        """Decide how an escalated run continues (extend, replan, accept_partial, abandon), or whether the effects of a
        failed run are compensated (compensate, keep)."""
        return await self._reply(gate_id, answer, actor, note=note, value=value, key=key)

    async def _reply(self, gate_id: str, answer: Answered, actor: Actor, **said: Any) -> RunResult:
        """Send the reply to a gate, with the roles that the actor holds now."""
        person = self.known(actor)
        is_listed = self.roles(person.id) is not None
        return await self.say(messages.reply(gate_id, answer, person, listed=is_listed, **said))

    async def pause(self, session_id: str, *, actor: Actor, note: str = "", key: str = "") -> RunResult:
        """Pause a session once the calls in progress have ended; `resume` continues it."""
        return await self.say(
            Pause(session=session_id, note=storable(note), nonce=key, **messages.by(self.known(actor)))
        )

    async def cancel(self, session_id: str, *, actor: Actor, note: str = "", key: str = "") -> RunResult:
        """Cancel a run; its effects are compensated, kept or asked about, as its pack says.

        A session that no process runs ends when it is resumed.
        """
        return await self.say(
            Cancel(session=session_id, note=storable(note), nonce=key, **messages.by(self.known(actor)))
        )

    async def extend(
        self, session_id: str, more: dict[str, int], *, actor: Actor, key: str = ""
    ) -> RunResult:
        """Add to the budget of a run; one that was escalated for lack of it continues when it is resumed."""
        amounts = messages.demand_extension(more)
        state = await self.state(session_id)
        for gate in state.gates.values():
            if gate.kind == "escalation":
                return await self._reply(gate.id, "extend", actor, value=amounts, key=key)
        return await self.say(
            Extend(session=session_id, more=amounts, nonce=key, **messages.by(self.known(actor)))
        )


class Roster:
    """A pack's list of people and their roles. If there is one, unlisted actors hold no role unless the caller is trusted."""

    def __init__(self, actors: Iterable[Actor], *, trusts_caller: bool = False) -> None:
        self.people = people_of(actors)
        self._is_open = trusts_caller or not self.people

    def roles(self, actor_id: str) -> tuple[str, ...] | None:
        """Return the roles that an actor holds; None if the actor is not listed."""
        found = self.people.get(storable(actor_id))
        return None if found is None else tuple(found["roles"])

    def known(self, actor: Actor) -> Actor:
        """Return an actor with the roles that the list gives."""
        held = self.roles(actor.id)
        if held is None and self._is_open:
            return actor
        # A credential gives no role that the list does not give, and may give fewer.
        is_credential = actor.auth not in ("local", SIMULATED)
        roles = tuple(role for role in held or () if not is_credential or role in actor.roles)
        return actor.model_copy(update={"roles": roles})

    def objection(self, approval: Answer, wanted: tuple[str, ...]) -> str:
        """Return why an approval no longer counts for one of these roles; empty if it does."""
        held = self.roles(approval.actor)
        if held is None:
            # An approver who was removed from the list holds no role; for unlisted ones, the recorded answer counts.
            held = approval.roles if self._is_open and not approval.listed else ()
        elif approval.login and approval.login != self.people[approval.actor]["login"]:
            return f"is not the login {approval.login}, from which that came, by the list of people"
        if not wanted or not set(wanted).isdisjoint(held):
            return ""
        is_stranger = not approval.listed and approval.actor not in self.people
        lost = "does not hold" if is_stranger else "no longer holds"
        return f"{lost} {' or '.join(wanted)}{' by the list of people' if is_stranger else ''}"

"""Messages of people to a session: answers to its gates, and pause, cancel, extend.

A message is appended to the session's inbox, a stream of its own that needs no lease. The lease holder reads the inbox and
turns each message into an event, in order; see `message_rules`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.request import SIMULATED, Actor
from tercet.contracts.shape import as_object
from tercet.contracts.values.plain import not_plain, storable
from tercet.contracts.values.references import is_text
from tercet.core.budget import EXTENSIBLE, is_extension
from tercet.core.events.gate import Answered
from tercet.core.modifications import place_of

TEMPLATE = "template"
"""The name of the planner that proposes the pack's own plans."""


class _Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """A message of a person to a session."""

    session: str
    actor: str
    roles: tuple[str, ...] = ()
    """The roles that the person holds when sending it."""
    auth: str = "local"
    login: str = ""
    """The login that the message was sent from; empty if the caller vouches for the person."""
    simulated_by: str = ""
    """The login of the person who acts as `actor` in a development session; empty otherwise."""
    note: str = ""
    nonce: str = ""
    """The key of the call that sent it, by which a repeat is recognised; without a key random, so that no two messages in an
    inbox have the same bytes."""


class Reply(_Message, frozen=True, kw_only=True, tag="reply"):
    """An answer to a gate."""

    gate: str
    answer: Answered
    value: Any = None
    digest: str = ""
    """The digest of the call that the person saw; empty for the gate's own."""
    listed: bool = False
    """Whether the roles come from a list of people."""
    changes: dict[str, Any] = {}
    """With `modify`: the values to set in the call, by JSON Pointer into its parameters."""
    via: str = ""
    """The session at which it was given, for the gate of a lane; empty otherwise."""


class Pause(_Message, frozen=True, kw_only=True, tag="pause"):
    """Pause the session once the calls in progress have ended."""


class Cancel(_Message, frozen=True, kw_only=True, tag="cancel"):
    """End the run without success."""


class Extend(_Message, frozen=True, kw_only=True, tag="extend"):
    """Extend the budget of the run."""

    more: dict[str, int]


Message: TypeAlias = Reply | Pause | Cancel | Extend

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


def decode(data: bytes) -> Message:
    """Decode a message; raises `UsageError` for bytes that this version cannot decode."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(
            f"a message cannot be read here: {storable(str(error))}",
            code="unreadable",
            remedy="a newer version of Tercet may have written it: upgrade, and send it again",
        ) from error


def calls_off(data: bytes) -> bool:
    """Return whether a message asks to pause or cancel a run."""
    try:
        return isinstance(decode(data), Pause | Cancel)
    except UsageError:
        return False


def inbox_of(session: str) -> str:
    """Return the name of the stream with the messages to a session."""
    return f"inbox:{session}"


def session_of(gate: str) -> str:
    """Return the session that a gate belongs to."""
    session, _, number = gate.rpartition(".g")
    if not session or not number.isdecimal():
        raise UsageError(
            f"{gate!r} is not a gate id",
            code="unknown_gate",
            remedy="tercet gates list shows the open gates",
        )
    return session


def nameable(actor: Actor) -> Actor:
    """Return an actor with a name that can be stored, the same for starting a run and for messages to it."""
    roles = tuple(storable(role) for role in actor.roles)
    return actor.model_copy(update={"id": storable(actor.id), "roles": roles, "auth": storable(actor.auth)})


def by(actor: Actor) -> dict[str, Any]:
    """Return the sender as fields of a message."""
    named = nameable(actor)
    user, is_simulated = storable(named.os_user or ""), named.auth == SIMULATED
    return {
        "actor": named.id,
        "roles": named.roles,
        "auth": named.auth,
        "login": user if named.auth == "local" else "",
        "simulated_by": (user or "unknown") if is_simulated else "",
    }


def reply(
    gate: str,
    answer: Answered,
    actor: Actor,
    *,
    note: str = "",
    value: Any = None,
    digest: str = "",
    listed: bool = False,
    changes: Mapping[str, Any] | None = None,
    key: str = "",
) -> Reply:
    """Return an answer to a gate; raises `UsageError` for an invalid gate id, values that are not JSON, and a value that
    the answer does not take."""
    if value is not None and answer not in ("happened", "extend"):
        raise UsageError(f"{answer} takes no value", remedy="leave the value out")
    if (fault := not_plain(value)) is not None:
        raise UsageError(
            f"this value is not JSON: {fault}", code="not_json", remedy="give the result of the call as JSON"
        )
    given = as_object({} if changes is None else changes)
    if given is None or not all(map(is_text, given)):
        raise UsageError(
            "changes is not an object of values by parameter", code="not_json", remedy='write {"amount": 5}'
        )
    placed = {place_of(name): changed for name, changed in given.items()}
    if len(placed) < len(given):
        raise UsageError("changes sets a parameter twice", code="wrong_value", remedy="set it once")
    if (fault := not_plain(placed)) is not None:
        raise UsageError(f"these values are not JSON: {fault}", code="not_json", remedy="set JSON values")
    return Reply(
        session=session_of(gate),
        gate=gate,
        answer=answer,
        value=value,
        digest=digest,
        listed=listed,
        changes=placed,
        note=storable(note),
        nonce=key,
        **by(actor),
    )


def demand_extension(more: Any) -> dict[str, int]:
    """Return the amounts of a budget extension; raises `UsageError` if they are invalid."""
    amounts = as_object(more) or {}
    if is_extension(amounts):
        return amounts
    wrong = next((name for name, amount in amounts.items() if not is_extension({name: amount})), None)
    if wrong is None:
        problem = "the extension of the budget names no amount"
    elif wrong in EXTENSIBLE:
        problem = f"{wrong} cannot be extended by {storable(json.dumps(amounts[wrong], default=str)[:100])}"
    else:
        problem = f"unknown budget '{storable(wrong[:100])}' (expected: {', '.join(EXTENSIBLE)})"
    raise UsageError(
        problem,
        code="wrong_extension",
        remedy=f"give a whole number from 1 to 2^50 for one or more of {', '.join(EXTENSIBLE)}",
    )

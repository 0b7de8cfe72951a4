"""The life of a session."""

from __future__ import annotations

from typing import Any

from tercet.journal.events.fact import Fact


class SessionStarted(Fact, frozen=True, kw_only=True, tag="session_started"):
    """Somebody asked for something: the request, the frame of the run, and what it is pinned to."""

    session: str
    run: str
    trace: str
    tenant: str
    actor: dict[str, Any]
    request: dict[str, Any]
    decision: str
    safety_mode: str
    budget: dict[str, Any]
    pack: str
    pack_hash: str
    snapshot: str
    context: str
    """The hash of the compiled context: replay compiles it again and compares."""


class SessionResumed(Fact, frozen=True, kw_only=True, tag="session_resumed"):
    """A process took the session over; what was in flight when the one before stopped is settled from here."""

    owner: str
    epoch: int
    in_flight: tuple[str, ...] = ()


class SessionPaused(Fact, frozen=True, kw_only=True, tag="session_paused"):
    """The process lets go of the session, which can be resumed (HALT)."""

    reason: str


class GivenUp(Fact, frozen=True, kw_only=True, tag="given_up"):
    """The run went through more phases than it may."""

    reason: str
    iterations: int


class SessionEnded(Fact, frozen=True, kw_only=True, tag="session_ended"):
    """Nothing more will happen: completed or failed, with the hash of the record that is left."""

    status: str
    reason: str
    record: str = ""
    """The hash of the decision record."""
    kept: str = ""
    """The digest of the record without its transcript, which is in these events."""
    outputs: dict[str, Any] = {}

"""What somebody asks for, and who asks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tercet.contracts.plain import PlainObject
from tercet.contracts.shape import TEN_YEARS_MS, Authored

SIMULATED = "simulated"
"""The `auth` of an actor whom another person acts as, in a development session."""


class Actor(Authored):
    """A person or a service, with the roles it holds and how it was recognised."""

    id: str
    roles: tuple[str, ...] = ()
    auth: str = "local"
    os_user: str | None = Field(default=None, min_length=1)
    """The user of the operating system who is this actor where nothing else says who acts; for a simulated actor, the one
    who acts as them."""


def anonymous() -> Actor:
    """The actor where nobody says who acts."""
    return Actor(id="anonymous")


class Request(Authored):
    """An intent with its input."""

    intent: str
    input: PlainObject = {}
    request_key: str | None = None
    """Two requests with one key and one body are one session."""


class RequestRuntime(Authored):
    """How long a session may live."""

    max_session_duration_ms: int = Field(default=3_600_000, ge=1, le=TEN_YEARS_MS)


class InvokeRequest(Authored):
    """The envelope at the entry of the loop: a request, for whom, and in which mode."""

    request: Request
    tenant: str = "default"
    actor: Actor = Field(default_factory=anonymous)
    mode: Literal["inline", "long_running"] = "inline"
    runtime: RequestRuntime = Field(default_factory=RequestRuntime)

"""The request and the actor behind it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tercet.contracts.shape import TEN_YEARS_MS, Authored
from tercet.contracts.values.plain import PlainObject

SIMULATED = "simulated"
"""The `auth` of a simulated actor in a development session."""


class Actor(Authored):
    """A person or a service, its roles, and how it was authenticated."""

    id: str
    roles: tuple[str, ...] = ()
    auth: str = "local"
    os_user: str | None = Field(default=None, min_length=1)
    """The operating system user behind this actor, if no other login says who acts; for a simulated actor, the real
    one."""


def anonymous() -> Actor:
    """Return the actor that is used if no one is authenticated."""
    return Actor(id="anonymous")


class Request(Authored):
    """An intent with its input."""

    intent: str
    input: PlainObject = {}
    request_key: str | None = None
    """Two requests with the same key and the same body are one session."""


class RequestRuntime(Authored):
    """The lifetime of a session."""

    max_session_duration_ms: int = Field(default=3_600_000, ge=1, le=TEN_YEARS_MS)


class InvokeRequest(Authored):
    """The envelope at the entry of the loop: a request, its actor and its mode."""

    request: Request
    tenant: str = "default"
    actor: Actor = Field(default_factory=anonymous)
    mode: Literal["inline", "long_running"] = "inline"
    runtime: RequestRuntime = Field(default_factory=RequestRuntime)

"""What calls need of the world, each of it an argument: variables, names, certificates, the time."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tercet.tools.http.resolution import Resolver, ask_system


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class World:
    """The world as it is, unless a test hands in another."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Read at each call."""
    resolve: Resolver = ask_system
    tls: ssl.SSLContext | None = None
    """Whom to trust; None for whom the operating system trusts."""
    now: Callable[[], datetime] = _now

"""How an attempt at a call ended."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class Done(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The call happened. `error` says why its result cannot be used."""

    value: Any = None
    error: str = ""
    latency_ms: int = 0


class NotHappened(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The call did not happen, so trying again is safe."""

    error: str
    code: str = "not_done"
    is_retriable: bool = True
    is_sent: bool = True
    """False where the call never left: then it says nothing about an attempt before it."""
    latency_ms: int = 0


class Unknown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Nobody knows whether the call happened, so trying again blindly is not safe."""

    error: str
    code: str = "unknown"
    latency_ms: int = 0


Ended: TypeAlias = Done | NotHappened | Unknown

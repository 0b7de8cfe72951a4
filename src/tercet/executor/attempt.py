"""How an attempt at a call ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The call happened. `error` says why its result cannot be used."""

    value: Any = None
    error: str = ""
    latency_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NotHappened:
    """The call did not happen, so trying again is safe."""

    error: str
    code: str = "not_done"
    is_retriable: bool = True
    latency_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Nobody knows whether the call happened, so trying again blindly is not safe."""

    error: str
    code: str = "unknown"
    latency_ms: int = 0


Ended: TypeAlias = Done | NotHappened | Unknown

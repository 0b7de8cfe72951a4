"""Answers: what the outside world returns for a command. `resolve` turns a command and its answer into events.

In a live run the engine's `World` makes them; in a replay they are read from the recorded events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from tercet.contracts.evidence import Evidence
from tercet.contracts.runs.invocation import Backoff
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.core.state import OpenGate
from tercet.core.turns import Reflection

# --- how an attempt at a call ended, and the delay before the next ---


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
    retry_after_ms: int = 0
    """The time in ms before a retry could succeed, as far as the tool knows."""
    is_attempt_only: bool = False
    """Whether earlier attempts may still have happened."""
    latency_ms: int = 0


class Unknown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """It is unknown whether the call happened, so a blind retry is not safe."""

    error: str
    code: str = "unknown"
    lane: str = ""
    """The session of a lane that waits for a person."""
    latency_ms: int = 0


Ended: TypeAlias = Done | NotHappened | Unknown


def delay_ms(backoff: Backoff, retry: int, draw: Callable[[], float]) -> int:
    """Return min(maximum, base * 2^retry + random jitter)."""
    jitter = int(draw() * backoff.jitter_ms)
    return min(backoff.maximum_ms, backoff.base_ms * 2 ** min(retry, 30) + jitter)


# --- answers ---


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outside world's answer to a command."""


class Now(Answer, frozen=True, kw_only=True):
    """The current time, which is all that most commands need."""

    at: int


class Draw(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The random part of a delay."""

    fraction: float = 0.0
    """A random number from [0, 1)."""
    not_before: int | None = None
    """In a replay, the recorded time that resulted; the random number itself is not recorded."""


class Drawn(Answer, frozen=True, kw_only=True):
    """The time, and a random draw for the delay of a retry."""

    at: int
    draw: Draw = Draw()


class Planned(Answer, frozen=True, kw_only=True):
    """A plan that was proposed."""

    at: int
    plan: JsonObject
    """The plan in its recorded form, without defaults."""
    origin: str
    planner: str = ""
    """The planner that made it; empty for a caller's plan."""
    decision: JsonObject = {}
    """The decision of a step-by-step agent that the plan represents."""
    by_pack: bool = False
    """Whether the pack's templates or methods made it, so that the pack alone can reproduce it."""


class NotPlanned(Answer, frozen=True, kw_only=True):
    """Why a planner has no plan to propose."""

    at: int
    reason: str
    code: str
    by_pack: bool = False


class Retrieved(Answer, frozen=True, kw_only=True):
    """The evidence that was read or found for a plan."""

    at: int
    facts: tuple[Evidence, ...] = ()
    data: bytes = b""
    """The facts as the bytes of a blob."""
    digest: str = ""
    """The digest of these bytes; empty if there are none."""
    refs: dict[str, tuple[str, ...]] | None = None
    """The ids of the evidence found for each step that declares queries; None if no step does."""
    calls: int = 0
    cost: int = 0


class ToolChanges(Answer, frozen=True, kw_only=True):
    """How external tools of the plan differ from the definitions that a person accepted."""

    at: int
    changes: tuple[str, ...] = ()


class LaneGate(Answer, frozen=True, kw_only=True):
    """The gate that a lane waits at; None if it waits no longer."""

    at: int
    gate: OpenGate | None = None


class Reflected(Answer, frozen=True, kw_only=True):
    """The judgement of an agent and its critics on a turn."""

    at: int
    reflection: Reflection


class RepeatsFound(Answer, frozen=True, kw_only=True):
    """The earlier calls that count against one which may be made once in a period."""

    at: int
    found: tuple[e.EarlierCall, ...] = ()


class Ready(Answer, frozen=True, kw_only=True):
    """The checks just before a call: lease epoch, circuit of the tool, roles of approvers, earlier calls. Before outputs
    are delivered: the roles of the people who accepted them."""

    at: int
    epoch: int = 0
    circuit: str = ""
    role_lost: str = ""
    """Why an approval of the call no longer counts; empty if it does."""
    repeats: tuple[e.EarlierCall, ...] = ()
    """Earlier calls that were found since the last check."""


class CallEnded(Answer, frozen=True, kw_only=True):
    """The outcome of a call, or what its tool found when it reconciled the call."""

    at: int
    ended: Ended | None = None
    """None for a tool that cannot reconcile."""
    data: bytes = b""
    """The result as JSON if it is too large for an event."""
    blob: str = ""
    """The digest of these bytes."""
    draw: Draw = Draw()


class History(Answer, frozen=True, kw_only=True):
    """The events of the run so far, for commands that need all of them."""

    at: int
    events: Sequence[e.Event]
    role_lost: str = ""
    """Why the acceptance of the outputs no longer counts; empty if it does, or no person was asked."""
    exit: JsonObject = {}
    """The decided exit of a run judged by earlier rules for outputs; empty for others."""


class Observed(Answer, frozen=True, kw_only=True):
    """A step of the quality loop, which is judged in `core.outputs` with the answers of models and tools."""

    event: e.Event
    blobs: tuple[bytes, ...] = ()


class ModelReply(Answer, frozen=True, kw_only=True):
    """A language model's answer and its cost, or why it did not answer."""

    at: int
    text: str = ""
    data: bytes = b""
    """The answer as JSON if it is too large for an event."""
    blob: str = ""
    """The digest of these bytes."""
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    cut: bool = False
    logprob: float | None = None
    error: str = ""
    code: str = ""


# --- the result of resolving a command ---


class Made(msgspec.Struct, frozen=True, gc=False):
    """Events, and the bytes that are stored beside them under their digest."""

    events: tuple[e.Event, ...] = ()
    blobs: tuple[bytes, ...] = ()


def made(*events: e.Event, blobs: tuple[bytes, ...] = ()) -> Made:
    """Return these events, with the bytes that are stored beside them."""
    return Made(events, blobs)

"""Answers: what the outside world says to a command. `resolve` turns a command and its answer into events.

In a live run the engine's `World` makes them; in a replay they are read from the recorded events.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tercet.contracts.evidence import Evidence
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.core.attempt import Ended
from tercet.core.turns import Reflection


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the outside world says to a command."""


class Now(Answer, frozen=True, kw_only=True):
    """The time: all that most commands need."""

    at: int


class Draw(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The random part of a delay."""

    fraction: float = 0.0
    """What was drawn from [0, 1)."""
    not_before: int | None = None
    """In a recorded run, the time that came of it; what was drawn is not recorded."""


class Drawn(Answer, frozen=True, kw_only=True):
    """The time, and a random draw for the delay of a retry."""

    at: int
    draw: Draw = Draw()


class Planned(Answer, frozen=True, kw_only=True):
    """A plan that was proposed."""

    at: int
    plan: JsonObject
    """The plan as it is recorded, without defaults."""
    origin: str
    planner: str = ""
    """The planner that made it; empty for a caller's plan."""
    decision: JsonObject = {}
    """The decision of a step-by-step agent that the plan stands for."""
    by_pack: bool = False
    """Whether the pack's own templates or methods made it, so that the pack alone can make it again."""


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
    """The facts as they are stored beside the events."""
    digest: str = ""
    """The digest of these bytes; empty where there are none."""
    refs: dict[str, tuple[str, ...]] | None = None
    """The ids of what was found for each step that declares queries; None where no step does."""
    calls: int = 0
    cost: int = 0


class ToolChanges(Answer, frozen=True, kw_only=True):
    """What the plan's tools reach outside that differs from what a person has accepted."""

    at: int
    changes: tuple[str, ...] = ()


class Reflected(Answer, frozen=True, kw_only=True):
    """What an agent and its critics made of a turn."""

    at: int
    reflection: Reflection


class RepeatsFound(Answer, frozen=True, kw_only=True):
    """The earlier calls that count against one which may be made once in a period."""

    at: int
    found: tuple[e.EarlierCall, ...] = ()


class Ready(Answer, frozen=True, kw_only=True):
    """What was looked at just before a call: the lease, the circuit of its tool, its approvers, and earlier calls. Before
    outputs are delivered, those who accepted them."""

    at: int
    epoch: int = 0
    circuit: str = ""
    role_lost: str = ""
    """Why an approval of the call no longer counts; empty if it does."""
    repeats: tuple[e.EarlierCall, ...] = ()
    """Earlier calls that turned up since they were last looked for."""


class CallEnded(Answer, frozen=True, kw_only=True):
    """How a call ended, or what its tool found when it looked the call up."""

    at: int
    ended: Ended | None = None
    """None for a tool that cannot look a call up."""
    data: bytes = b""
    """The result as JSON, where it is too large for an event."""
    blob: str = ""
    """The digest of these bytes."""
    draw: Draw = Draw()


class History(Answer, frozen=True, kw_only=True):
    """The events of the run so far, for commands that look back at all of it."""

    at: int
    events: Sequence[e.Event]
    role_lost: str = ""
    """Why the acceptance of the outputs no longer counts; empty if it does, or no person was asked."""
    exit: JsonObject = {}
    """How a run that was judged by earlier rules for outputs was to end; empty for any other."""


class Observed(Answer, frozen=True, kw_only=True):
    """A step of the quality loop, which is judged in `core.outputs` with the answers of models and tools."""

    event: e.Event
    blobs: tuple[bytes, ...] = ()


class ModelReply(Answer, frozen=True, kw_only=True):
    """What a language model answered and took, or why it did not answer."""

    at: int
    text: str = ""
    data: bytes = b""
    """The answer as JSON, where it is too large for an event."""
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

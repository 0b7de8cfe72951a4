"""What a driver needs of the world, each of it an argument: nothing is looked up, and anything can be replaced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tercet.contracts.session import ProgressEnvelope
from tercet.core import events as e
from tercet.core.drift import Objection
from tercet.core.state import State
from tercet.engine.evidence.library import Library
from tercet.engine.observing import Observers
from tercet.engine.planning import Planning
from tercet.engine.spectators import Signal, unmeasured
from tercet.engine.streams.stops import EmergencyStops
from tercet.executor.breaker import Breakers
from tercet.executor.clock import Clock
from tercet.executor.gateway import Gateway
from tercet.journal.protocol import Journal
from tercet.models.model import Model
from tercet.tools import Tool
from tercet.tools.outside import Lines


def untold(_: State, __: e.Event) -> None:
    """Nobody wants to hear of events."""


@dataclass(frozen=True, kw_only=True)
class Services:
    """What a driver needs of the world, each of it an argument."""

    journal: Journal
    clock: Clock
    gateway: Gateway
    breakers: Breakers
    tools: dict[str, Tool]
    lines: Lines
    """The ways to what tools reach outside of this process."""
    planning: Planning
    """The planner of the session, or the plan that its caller brought."""
    draw: Callable[[], float]
    """Draws from [0, 1): the jitter of retries."""
    stops: EmergencyStops
    critics: Sequence[Model] = ()
    """The language models that judge outputs: the one to ask, and those that take its place."""
    repairers: Sequence[Model] = ()
    """The language models that mend them."""
    library: Library | None = None
    """Where plans may look for evidence."""
    objection: Objection = lambda _, __: ""
    """Why an approval does not count by now."""
    crash: Callable[[str], Awaitable[None] | None] = lambda _: None
    """Called at every named crash point; does nothing outside of tests."""
    tell: Callable[[State, e.Event], None] = untold
    """Told of every event once it is durable, with the state that it and those written with it came to."""
    observers: Observers | None = None
    """Told of everything that became durable together."""
    progress: Callable[[ProgressEnvelope], None] | None = None
    """Told how far the session is, once for everything that became durable together."""
    signal: Signal = unmeasured
    """Given named measurements: checkpoint_written, action_dispatched, loop_resumed, failed, tool_progress."""

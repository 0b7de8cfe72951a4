"""The dependencies of a driver. All of them are injected, so each can be replaced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tercet.contracts.shape import JsonObject
from tercet.core.approval import Objection
from tercet.core.shared import SharedWork
from tercet.engine.evidence.library import Library
from tercet.engine.personal.vault import Vault
from tercet.engine.planning import Planning
from tercet.engine.streams.stops import EmergencyStops
from tercet.engine.subscription import Subscription
from tercet.executor.breaker import Breakers
from tercet.executor.clock import Clock
from tercet.executor.gateway import Gateway
from tercet.journal.protocol import Journal
from tercet.models.model import Model
from tercet.tools import Tool
from tercet.tools.tool import Lines


@dataclass(frozen=True, kw_only=True)
class Services:
    """The dependencies of a driver."""

    journal: Journal
    clock: Clock
    gateway: Gateway
    breakers: Breakers
    tools: dict[str, Tool]
    lines: Lines
    """The connections of tools to systems outside this process."""
    planning: Planning
    """The planner of the session, or the plan that its caller supplied."""
    draw: Callable[[], float]
    """Returns a random number from [0, 1) for the jitter of retries."""
    stops: EmergencyStops
    critics: Sequence[Model] = ()
    """The language models that judge outputs: the preferred one, then its fallbacks."""
    repairers: Sequence[Model] = ()
    """The language models that repair outputs, in the same order."""
    library: Library | None = None
    """The evidence store that plans may query."""
    objection: Objection = lambda _, __: ""
    """Returns why an approval no longer counts; empty if it does."""
    crash: Callable[[str], Awaitable[None] | None] = lambda _: None
    """Called at every named crash point; does nothing outside of tests."""
    subscription: Subscription
    """Receives the events of every durable append."""
    vault: Vault | None = None
    """Seals and reveals the personal values of the pack; None if it marks none."""
    lanes: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """The lanes of the pack, by the tool names that steps use for them."""
    end_lane: Callable[[str], Awaitable[JsonObject]]
    """Cancels a lane that waits for a person, and returns its envelope."""
    shared: SharedWork
    """Reviews and execution plans that runs of this process share for equal plans."""

"""What a driver needs of the world, each of it an argument: nothing is looked up, and anything can be replaced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tercet.core.approval import Objection
from tercet.core.shared import SharedWork
from tercet.engine.evidence.library import Library
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
    subscription: Subscription
    """Where the driver publishes everything that became durable together."""
    lanes: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """The lanes of the pack, by the names that steps call them by."""
    shared: SharedWork
    """What the runs of this process have worked out of equal plans."""

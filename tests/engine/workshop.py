"""A workshop to run plans in: tools that do as a test says, a journal, a clock that jumps, and a way to die.

Nothing here knows what is expected of a run; the tests say that. One thing is expected of all of them: when a runtime is
closed, the newest runs of its journal are judged again from what was recorded, and must come out the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, fields
from itertools import count
from types import TracebackType
from typing import Any, TypeVar, cast

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan, Step
from tercet.contracts.request import Actor, Request
from tercet.core import codec
from tercet.core import events as e
from tercet.journal.errors import JournalError
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.replay.replay import replay
from tercet.runtime import Runtime, RuntimeOptions
from tercet.testing.clock import VirtualClock
from tercet.tools import Tool, ToolContext

_T = TypeVar("_T")

ADA = Actor(id="ada")
"""Who asks."""
BOB = Actor(id="bob", roles=("boss",))
"""Who answers."""
CLEO = Actor(id="cleo", roles=("boss",))
"""Who may answer as well."""
LEA = Actor(id="lea", roles=("law",))
"""Who may answer for the law."""
DAN = Actor(id="dan")
"""Who holds no role."""

ASK = Request(intent="work", input={"order": "o1", "count": 2})

Behave = Callable[[ToolContext, dict[str, Any]], Awaitable[Any]]


async def echo(_: ToolContext, params: dict[str, Any]) -> Any:
    """A tool that gives back what it was given."""
    return params


@dataclass
class Workshop:
    """What a run happens in. `calls` lists every call that reached a tool, as step and attempt."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    calls: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    keys: list[str] = field(default_factory=list[str])
    tools: list[Tool] = field(default_factory=list[Tool])
    numbers: Callable[[], int] = field(default_factory=lambda: count(1).__next__)

    def tool(self, name: str, behave: Behave = echo, mode: str = "local_write", **declared: Any) -> Tool:
        """A tool that behaves so; it takes anything unless it declares otherwise."""

        async def call(context: ToolContext, **params: Any) -> Any:
            self.calls.append((context.step_id, context.attempt))
            self.keys.append(context.idempotency_key)
            return await behave(context, params)

        made = Tool.model_validate({"name": name, "mode": mode, "call": call, **declared})
        self.tools.append(made)
        return made

    def pack(self, *, decision: dict[str, Any] | None = None, **header: Any) -> Pack:
        """A pack of these tools with one decision, which demands nothing."""
        spec = DecisionSpec.model_validate({"id": "work", "risk_tier": "low", **(decision or {})})
        fields = {"name": "workshop", "version": "1.0.0", "safety_mode": "destructive", **header}
        return Pack.model_validate({**fields, "tools": tuple(self.tools), "decisions": (spec,)})

    is_forged: bool = False
    """Whether the test writes events by hand, which do not follow from anything."""

    def runtime(self, pack: Pack, journal: str | Journal = "memory:", **more: Any) -> Runtime:
        """A runtime in this workshop: its clock, ids that count, and jitter that is always half."""
        given: dict[str, Any] = {
            "clock": self.clock,
            "ids": lambda: f"{self.numbers():04}",
            "draw": lambda: 0.5,
            "watchdog_ms": None,  # time that jumps would bring it to look all the time
        }
        kind = Runtime if self.is_forged else LookingBack
        return kind(pack, journal, **with_options({**given, **more}))

    def run(self, main: Coroutine[Any, Any, _T]) -> _T:
        """Run a test's coroutine in virtual time."""
        return self.clock.run(main)

    @asynccontextmanager
    async def journal(self, url: str) -> AsyncGenerator[Journal, None]:
        """A journal by its address; time stands still while it writes."""
        async with AsyncExitStack() as stack:
            with self.clock.hold():  # a server takes its time to be reached
                opened = await stack.enter_async_context(open_journal(url))
            yield cast("Journal", Held(opened, self.clock))

    @asynccontextmanager
    async def processes(self, pack: Pack, url: str, number: int) -> AsyncGenerator[list[Runtime], None]:
        """So many runtimes, each with a journal of its own on the same file."""
        async with AsyncExitStack() as stack:
            journals = [await stack.enter_async_context(self.journal(url)) for _ in range(number)]
            yield [await stack.enter_async_context(self.runtime(pack, each)) for each in journals]


def with_options(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a runtime with those that are options put together."""
    names = {each.name for each in fields(RuntimeOptions)} & given.keys()
    rest = {name: value for name, value in given.items() if name not in names}
    return {**rest, "options": RuntimeOptions(**{name: given[name] for name in names})}


class LookingBack(Runtime):
    """A runtime that replays before it closes."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self._look_back()
        finally:
            await super().__aexit__(kind, error, trace)

    async def _look_back(self) -> None:
        for row in await self.journal.sessions(self.tenant, limit=NEWEST):
            with suppress(JournalError):  # a test may have damaged its journal, or closed it
                report = await replay(self.journal, row.session_id, tenant=self.tenant)
                assert report.difference is None, report.difference


NEWEST = 3
"""How many runs are judged again when a runtime is closed."""


class Held:
    """A journal whose threads the virtual clock waits for."""

    def __init__(self, journal: Journal, clock: VirtualClock) -> None:
        self._journal = journal
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._journal, name)

        async def held(*args: Any, **named: Any) -> Any:
            with self._clock.hold():
                return await method(*args, **named)

        return held


def step(step_id: str, tool: str | None = "do.it", /, **fields: Any) -> Step:
    """A step that calls a tool with its own name as parameter, or a note where there is no tool."""
    kind = {"kind": "note"} if tool is None else {}
    return Step.model_validate({"id": step_id, "tool": tool, "params": {"n": step_id}, **kind, **fields})


def plan(*steps: Step, **fields: Any) -> Plan:
    """A plan of these steps."""
    return Plan(plan_id="plan_1", intent="work", steps=steps, **fields)


async def events(journal: Journal, session: str, tenant: str = "default") -> list[e.Event]:
    """Everything that the journal holds of a session."""
    return [codec.decode(stored.data) for stored in await journal.read(tenant, session)]


def names(found: list[e.Event]) -> list[str]:
    """The types of events as they are stored."""
    return [str(type(event).__struct_config__.tag) for event in found]


class Death:
    """Kills a process, as far as one task can be one: at the nth time that a crash point is reached, it hangs there."""

    def __init__(self, point: str, nth: int = 1) -> None:
        self._point = point
        self._left = nth
        self._has_come = asyncio.Event()

    async def __call__(self, point: str) -> None:
        """The crash point that a runtime is given."""
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                self._has_come.set()
                await asyncio.Event().wait()

    async def of(self, life: Coroutine[Any, Any, _T]) -> _T | None:
        """What a life comes to; None if it was cut short."""
        living = asyncio.ensure_future(life)
        dying = asyncio.ensure_future(self._has_come.wait())
        await asyncio.wait([living, dying], return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if living.done():
            return living.result()
        living.cancel()
        with suppress(asyncio.CancelledError):
            await living
        return None

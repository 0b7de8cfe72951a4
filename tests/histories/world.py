"""The world of a seeded run: a virtual clock, draws that follow from the seed alone, simulated tools and people who answer.

Nothing here keeps a state that the journal does not have: what a tool does is a function of the seed, the step and the
attempt, so another process can carry a session on and meets the same world.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, TypeVar, cast

from engine.workshop import with_options
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import NotDone, TercetError, Unusable
from tercet.contracts.plan import Plan, Step
from tercet.contracts.request import Actor, Request
from tercet.engine.result import RunResult
from tercet.journal.errors import JournalError
from tercet.journal.protocol import Append, Journal, Lease, Position
from tercet.packs.pack import Pack
from tercet.planner.sources import PlanningError
from tercet.runtime import Runtime
from tercet.testing.clock import EPOCH_MS, VirtualClock
from tercet.tools import Tool, ToolContext

_T = TypeVar("_T")

ADA = Actor(id="ada")
"""Who asks."""
BOB = Actor(id="bob", roles=("boss",))
CLEO = Actor(id="cleo", roles=("boss",))
ANN = Actor(id="ann", roles=("boss", "law"))
LEA = Actor(id="lea", roles=("law",))
DAN = Actor(id="dan")
"""Who holds no role."""
APPROVERS = (BOB, CLEO, ANN, LEA)
EVERYBODY = (*APPROVERS, DAN, ADA)

Behave = Callable[[ToolContext, dict[str, Any]], Awaitable[Any]]
MINUTE_MS = 60_000


@dataclass
class World:
    """Where one seeded run happens. `calls` lists the calls that reached a tool, as step and attempt."""

    seed: int
    act: str = "begin"
    start_ms: int = 0
    clock: VirtualClock = field(init=False)
    tools: list[Tool] = field(default_factory=list[Tool])
    calls: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    journal: Journal = field(init=False)
    tenant: str = ""
    """Each seed has a tenant of its own, so that seeds can share a journal."""

    def __post_init__(self) -> None:
        offset = self.start_ms or self.n("start", 0, 10 * MINUTE_MS)
        self.clock = VirtualClock(EPOCH_MS + offset, patience_s=60)
        self.tenant = self.tenant or f"tenant-{self.seed}"
        self._ids = count(1 if self.act == "begin" else 501)
        self._draws = Random(f"{self.seed} {self.act} draws")  # noqa: S311 - it shall be the same every time
        self._processes = count(1)

    # --- draws: each by a key of its own, so that no draw depends on how many were made before ---

    def _lot(self, *key: object) -> Random:
        return Random(f"{self.seed} {key}")  # noqa: S311 - it shall be the same every time

    def n(self, key: object, low: int, high: int) -> int:
        """A whole number between these two."""
        return self._lot("n", key).randint(low, high)

    def chance(self, key: object, share: float) -> bool:
        """True in this share of the cases."""
        return self._lot("chance", key).random() < share

    def one(self, key: object, options: Sequence[_T]) -> _T:
        """One of these."""
        return options[self._lot("one", key).randrange(len(options))]

    def some(self, key: object, options: Sequence[_T], most: int) -> list[_T]:
        """Up to so many of these, in their order."""
        lot = self._lot("some", key)
        chosen = set(lot.sample(range(len(options)), min(len(options), lot.randint(0, most))))
        return [each for index, each in enumerate(options) if index in chosen]

    # --- parts of a run ---

    def tool(
        self, name: str, behave: Behave | None = None, mode: str = "local_write", **declared: Any
    ) -> Tool:
        """A simulated tool. The hash of a pack knows it by its name, so this file may change without changing any event."""
        does = behave or self.echo()

        async def call(context: ToolContext, **params: Any) -> Any:
            self.calls.append((context.step_id, context.attempt))
            return await does(context, params)

        cast("Any", call).recorded_name = f"seeded:{name}"
        made = Tool.model_validate({"name": name, "mode": mode, "call": call, **declared})
        self.tools.append(made)
        return made

    def pack(self, *, decision: Mapping[str, Any] | None = None, **header: Any) -> Pack:
        """A pack of these tools with one decision."""
        spec = DecisionSpec.model_validate({"id": "work", "risk_tier": "low", **(decision or {})})
        fields = {"name": "seeded", "version": "1.0.0", "safety_mode": "destructive", **header}
        return Pack.model_validate({**fields, "tools": tuple(self.tools), "decisions": (spec,)})

    def runtime(self, pack: Pack, **more: Any) -> Runtime:
        """A runtime, as a process of its own: the only place that knows how one is made."""
        journal = _NamedLeases(self.journal, f"{self.act}-{next(self._processes)}")
        given: dict[str, Any] = {
            "tenant": self.tenant,
            "clock": self.clock,
            "ids": self.new_id,
            "draw": self._draws.random,
            "watchdog_ms": None,
            **more,
        }
        return Runtime(pack, cast("Journal", journal), **with_options(given))

    def shared_journal(self) -> Journal:
        """The journal for an engine, which makes its own runtime."""
        return cast("Journal", _NamedLeases(self.journal, f"{self.act}-{next(self._processes)}"))

    def new_id(self) -> str:
        """An id that no other seed gives."""
        return f"{self.seed:05}{next(self._ids):03}"

    # --- behaviours of tools ---

    def latency(self, context: ToolContext, most: int = 5_000) -> int:
        """How long a call takes; two calls at once hardly ever end in the same millisecond."""
        return self.n(("latency", context.step_id, context.attempt), 1, most)

    def echo(self, most: int = 5_000) -> Behave:
        """A tool that takes its time and gives back what it was given."""

        async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
            await self.clock.sleep(self.latency(context, most))
            return params

        return behave

    def at_once(self) -> Behave:
        """The same without taking any time."""

        async def behave(_: ToolContext, params: dict[str, Any]) -> Any:
            return params

        return behave

    def flaky(self, times: int | None = None, *, wait_ms: int = 0, most: int = 3) -> Behave:
        """A tool that is not done so often before it is; by default each step has a number of its own."""

        async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
            await self.clock.sleep(self.latency(context, 500))
            fails = self.n(("fails", context.step_id), 0, most) if times is None else times
            if context.attempt <= fails:
                raise NotDone("busy", code="busy", retry_after_ms=wait_ms)
            return params

        return behave

    def broken(self, *, is_retriable: bool = False) -> Behave:
        """A tool that never works and says so."""

        async def behave(context: ToolContext, _: dict[str, Any]) -> Any:
            await self.clock.sleep(self.latency(context, 300))
            raise NotDone("out of order", code="broken", is_retriable=is_retriable)

        return behave

    def lost(self, times: int = 99) -> Behave:
        """A tool whose answer is lost at its first attempts, so that the outcome is unknown."""

        async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
            await self.clock.sleep(self.latency(context, 900))
            if context.attempt <= times:
                raise ConnectionError("connection lost")
            return params

        return behave

    def slow(self, ms: int, times: int = 99) -> Behave:
        """A tool that takes so long at its first attempts."""

        async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
            await self.clock.sleep(ms if context.attempt <= times else 5)
            return params

        return behave

    def unusable(self) -> Behave:
        """A tool that did it and has no answer."""

        async def behave(context: ToolContext, _: dict[str, Any]) -> Any:
            await self.clock.sleep(self.latency(context, 300))
            raise Unusable("the answer cannot be read")

        return behave

    def returns(self, *values: Any) -> Behave:
        """A tool that brings these by attempt, and the last one again and again."""

        async def behave(context: ToolContext, _: dict[str, Any]) -> Any:
            await self.clock.sleep(self.latency(context, 300))
            return values[min(context.attempt, len(values)) - 1]

        return behave


class _NamedLeases:
    """A journal whose leases have a name that follows from the seed. The runtime's own begins with host and process."""

    def __init__(self, inner: Journal, process: str) -> None:
        self._inner = inner
        self._process = process
        self._granted: dict[tuple[str, str], int] = {}

    async def acquire(self, tenant: str, stream: str, *, owner: str, **more: Any) -> Lease:
        number = self._granted.get((tenant, stream), 0) + 1
        length = owner.rpartition(":")[2]
        named = f"{self._process}:{number}:{length}"
        lease = await self._inner.acquire(tenant, stream, owner=named, **more)
        self._granted[tenant, stream] = number
        return lease

    async def append(self, unit: Append) -> Position:
        """Count the first lease, which comes with the first append."""
        position = await self._inner.append(unit)
        if unit.lease is not None:
            self._granted[unit.tenant, unit.stream] = 1
        return position

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Script:
    """Proposes one plan after the other; None means that it has no plan."""

    name = "script"

    def __init__(self, *plans: Plan | None) -> None:
        self._plans = list(plans)

    async def propose(self, config: Any, feedback: tuple[str, ...]) -> Plan:
        """The next plan."""
        del config, feedback
        proposed = self._plans.pop(0) if self._plans else None
        if proposed is None:
            raise PlanningError("no plan left in the script")
        return proposed


# --- plans ---


def step(step_id: str, tool: str | None = "do.it", /, **fields: Any) -> Step:
    """A step that calls a tool with its own name as parameter, or a note where there is no tool."""
    kind = {"kind": "note"} if tool is None else {}
    return Step.model_validate({"id": step_id, "tool": tool, "params": {"n": step_id}, **kind, **fields})


def plan(*steps: Step, **fields: Any) -> Plan:
    """A plan of these steps."""
    return Plan(plan_id="plan_1", intent="work", steps=steps, **fields)


def ask(world: World, **fields: Any) -> Request:
    """A request with a few values that follow from the seed."""
    given = {"order": f"o{world.n('order', 1, 99)}", "count": world.n("count", 1, 9)}
    return Request.model_validate({"intent": "work", "input": given, **fields})


def some_plan(world: World, tools: Sequence[str | None], *, most: int = 7, **fields: Any) -> Plan:
    """A plan of several steps that depend on each other in some order; None among the tools means a note."""
    steps: list[Step] = []
    for number in range(world.n("size", 2, most)):
        name, key = f"s{number}", ("step", number)
        before = [each.id for each in steps]
        depends = world.some((key, "after"), before, 2)
        params: dict[str, Any] = {"n": name, "k": world.n((key, "k"), 0, 9)}
        if depends and world.chance((key, "ref"), 0.5):
            params["before"] = {"$from": f"{depends[0]}#/n"}
        more: dict[str, Any] = {}
        if world.chance((key, "when"), 0.2):
            more["when"] = f"request.count > {world.n((key, 'limit'), 0, 9)}"
        if world.chance((key, "optional"), 0.2):
            more["optional"] = True
        if world.chance((key, "priority"), 0.2):
            more["priority"] = world.n((key, "rank"), -3, 3)
        tool = world.one((key, "tool"), tools)
        steps.append(step(name, tool, params=params, depends_on=tuple(depends), **more))
    outputs = {"first": {"$from": "s0#/k"}, "count": {"$from": "request#/count"}}
    return plan(*steps, **{"outputs": outputs, **fields})


# --- people ---


async def walk(
    world: World,
    runtime: Runtime,
    result: RunResult,
    *,
    rounds: int = 6,
    planner: Any = None,
    has_end: bool = True,
) -> RunResult:
    """Let people answer what a session asks, as the seed says, until it is over; after so many rounds it is cancelled,
    where it shall have an end."""
    session = result.session_id
    for number in range(rounds):
        if _is_over(result):
            return result
        await _interfere(world, runtime, session, number)
        for gate in await runtime.gates():
            if gate.session_id == session:
                with suppress(TercetError):
                    await answer(world, runtime, gate, number)
        try:
            result = await runtime.resume(session, planner=planner)
        except JournalError:
            raise
        except TercetError:
            break
    if has_end and not _is_over(result):
        with suppress(TercetError):
            await runtime.cancel(session, actor=BOB)
        result = await runtime.resume(session, planner=planner)
        for gate in await runtime.gates():
            if gate.session_id == session:
                with suppress(TercetError):
                    await answer(world, runtime, gate, rounds)
                result = await runtime.resume(session, planner=planner)
    return result


async def _interfere(world: World, runtime: Runtime, session: str, number: int) -> None:
    """Now and then an operator pauses a session that waits, or lets it use more."""
    with suppress(TercetError):
        if world.chance(("pause", number), 0.08):
            await runtime.pause(session, actor=BOB, note="not today")
        if world.chance(("extend", number), 0.08):
            await runtime.extend(session, {"tool_calls": 2, "max_replans": 1}, actor=BOB)


def _is_over(result: RunResult) -> bool:
    return result.status in ("completed", "failed", "expired", "rejected", "cancelled")


async def answer(world: World, runtime: Runtime, gate: Any, number: int) -> None:
    """One answer to a gate, as the seed says; one that may not be given raises and changes nothing."""
    key = ("answer", gate.id.rpartition(".")[2], number)
    person = world.one((key, "who"), EVERYBODY if world.chance((key, "any"), 0.25) else APPROVERS)
    note = world.one((key, "note"), ("", "as agreed", "please look again"))
    match gate.kind:
        case "approval" | "output":
            await _answer_approval(world, runtime, gate, key, person, note)
        case "reconcile":
            happened = world.chance((key, "happened"), 0.5)
            value = {"n": "typed", "k": 1} if happened else None
            await runtime.settle(gate.id, happened=happened, value=value, actor=person, note=note)
        case "escalation":
            said = world.one((key, "said"), gate.answers)
            more = {
                "tool_calls": 5,
                "tokens": 5_000,
                "max_retries": 3,
                "max_replans": 1,
                "max_iterations": 30,
            }
            names = world.some((key, "more"), tuple(more), 3) or ["tool_calls"]
            value = {name: more[name] for name in names} if said == "extend" else None
            await runtime.decide(gate.id, said, actor=person, note=note, value=value)
        case _:
            said = world.one((key, "said"), gate.answers)
            await runtime.decide(gate.id, said, actor=person, note=note)


async def _answer_approval(
    world: World, runtime: Runtime, gate: Any, key: object, person: Actor, note: str
) -> None:
    said = world.one(
        (key, "said"),
        ("approve",) * 8 + ("deny", "modify", "change", "change", "withdraw", "wait"),
    )
    match said:
        case "deny":
            await runtime.deny(gate.id, actor=person, note=note)
        case "modify":
            await runtime.modify(gate.id, actor=person, note=note or "make it smaller")
        case "change":
            changes = {world.one((key, "field"), tuple(gate.params) or ("n",)): world.n((key, "to"), 1, 50)}
            await runtime.modify(gate.id, actor=person, note=note or "another value", changes=changes)
        case "withdraw":
            await runtime.approve(gate.id, actor=person)
            await runtime.withdraw(gate.id, actor=person, note=note)
        case "wait":
            await world.clock.sleep(world.n((key, "ms"), 1, 90) * MINUTE_MS)
            await runtime.approve(gate.id, actor=person)
        case _:
            for other in (person, BOB, ANN, LEA, CLEO):
                with suppress(TercetError):
                    await runtime.approve(gate.id, actor=other, note=note)

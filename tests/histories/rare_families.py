"""Families of seeded runs that go where runs rarely go. New families are added at the end of the list in this file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tercet.contracts.errors import GatewayError, TercetError
from tercet.contracts.evidence import Evidence
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.question import Question, Reply
from tercet.contracts.request import Request
from tercet.critics import Decision, Engine, critic
from tercet.engine.models.planner import ModelPlanner
from tercet.testing.clock import EPOCH_MS
from tercet.tools import ToolContext
from tercet.tools.tool import Absent, Happened, Unknown

from .families import BOSS, LAW, POINTS, Family, Scene, carry_on, crash, in_two_acts, start
from .model_families import AgentState, Clerk, agent_tools, library_store, model, walk_agent
from .world import ADA, ANN, BOB, CLEO, MINUTE_MS, Script, World, ask, plan, step, walk


def entered_values(world: World) -> Scene:
    """Compensations that read a value which a person entered, with a gate that covers them or without one."""
    gates = world.one("gates", (("BOSS",), (), ("BOSS", "LAW")))
    back = {"tool": "undo.it", "params": {"n": {"$from": "self#/n"}}}
    world.tool("do.it", world.lost(), compensate=back, reversibility="compensable")
    world.tool("more.it", compensate=back, reversibility="compensable")
    world.tool("undo.it", gates=gates, authority=("n",), no_compensation="nothing is left")
    world.tool("no.way", world.broken(), no_compensation="it never works")
    proposed = plan(
        step("a"), step("m", "more.it"), step("x", "no.way", depends_on=("a", "m")), outputs={"n": 1}
    )
    pack = world.pack(gates=(BOSS, LAW), on_failure=world.one("failure", ("compensate", "ask")))
    return Scene(pack=pack, request=ask(world), run={"plan": proposed}, rounds=8)


def approved_compensations(world: World) -> Scene:
    """A gated call together with the gated compensation that the plan proposes for it."""
    world.tool("pay.it", mode="network", gates=("BOSS",), authority=(), no_compensation="paid is paid")
    world.tool("undo.it", mode="network", gates=("BOSS",), authority=(), no_compensation="nothing is left")
    world.tool("no.way", world.broken(), no_compensation="it never works")
    params: dict[str, Any] = world.one(
        "params", ({"n": "x"}, {"n": {"$from": "self#/n"}}, {"n": {"$from": "a#/n"}})
    )
    steps = [
        step("a", "pay.it"),
        step("b", "pay.it", compensate={"tool": "undo.it", "params": params}, depends_on=("a",)),
        step("x", "no.way", depends_on=("b",)),
    ]
    people = (BOB, CLEO, ANN) if world.act == "begin" else world.one("left", ((CLEO, ANN), (BOB, CLEO, ANN)))
    pack = world.pack(gates=(BOSS,), actors=people, on_failure=world.one("failure", ("compensate", "ask")))
    return Scene(pack=pack, request=ask(world), run={"plan": plan(*steps)}, rounds=8)


async def roles_lost(world: World) -> str:
    """A call whose approver loses the role before it is made."""
    made = _approved(world, (BOB, CLEO, ANN))
    async with world.runtime(made.pack) as runtime:
        session = (await runtime.run(made.request, plan=made.run["plan"], actor=ADA)).session_id
        await runtime.approve(f"{session}.g1", actor=BOB)
        return session


def _approved(world: World, people: tuple[Any, ...]) -> Scene:
    ends = datetime.fromtimestamp(EPOCH_MS / 1000 + world.n("ends", 20, 60) * 60, UTC)
    fact = Evidence.model_validate(
        {
            "id": "kg:order:o1#snapshot_s1",
            "content": {"total": 3},
            "source": "test",
            "trust": "trusted",
            "expires_at": ends if world.chance("expires", 0.5) else None,
        }
    )
    world.tool("do.it", no_compensation="none")
    world.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    pack = world.pack(gates=(BOSS,), actors=people, evidence=(fact,), on_failure="keep")
    proposed = plan(step("w", "wipe.it", evidence_refs=(fact.id,)), step("z", depends_on=("w",)))
    return Scene(pack=pack, request=ask(world), run={"plan": proposed}, rounds=4)


async def _roles_lost(world: World, session: str) -> None:
    people = world.one("left", ((CLEO, ANN), (BOB, CLEO, ANN)))
    await carry_on(world, _approved(world, people), session)


def preconditions(world: World) -> Scene:
    """Steps that need what other steps bring about, which are skipped, fail or undo it again."""
    final: dict[str, Any] = {"no_compensation": "it stays"}
    world.tool("shop.open", establishes=("open",), **final)
    world.tool("shop.jam", world.broken(), establishes=("open",), **final)
    world.tool("shop.close", revokes=("open",), **final)
    world.tool("shop.sell", preconditions=("open",), **final)
    first = world.one("first", ("shop.open", "shop.jam", "shop.open"))
    more = {"when": f"request.count > {world.n('limit', 0, 9)}"} if world.chance("when", 0.3) else {}
    steps = [step("open", first, optional=world.chance("optional", 0.4), **more)]
    if world.chance("close", 0.4):
        steps.append(step("close", "shop.close", depends_on=("open",)))
    steps.append(step("sell", "shop.sell", depends_on=(steps[-1].id,), optional=world.chance("sell", 0.2)))
    tier = world.one("tier", ("low", "medium"))
    pack = world.pack(decision={"risk_tier": tier}, budget={"max_step_retries": 0}, on_failure="keep")
    again = plan(step("open2", "shop.open"), step("sell", "shop.sell", depends_on=("open2",)))
    if world.chance("planned", 0.5):
        return Scene(
            pack=pack, request=ask(world), planner=lambda: Script(plan(*steps), again, again), rounds=3
        )
    return Scene(pack=pack, request=ask(world), run={"plan": plan(*steps)}, rounds=3)


class Unreliable(Script):
    """A planner that raises or takes too long before it proposes."""

    def __init__(self, world: World, *plans: Plan | None) -> None:
        super().__init__(*plans)
        self._world = world
        self._asked = 0

    async def propose(self, config: Any, feedback: tuple[str, ...]) -> Plan:
        """The next plan, after some trouble."""
        self._asked += 1
        match self._world.one(("trouble", self._asked), ("raises", "slow", "", "")):
            case "raises":
                raise ValueError("no idea")
            case "slow":
                await self._world.clock.sleep(7_000)
            case _:
                await self._world.clock.sleep(50)
        return await super().propose(config, feedback)


def unreliable_planners(world: World) -> Scene:
    """Planners that raise an exception or take too long."""
    world.tool("do.it", no_compensation="none")
    good = plan(step("a"), outputs={"x": {"$from": "a#/n"}})
    pack = world.pack(budget={"max_replans": world.n("replans", 0, 2)}, on_failure="keep")
    return Scene(pack=pack, request=ask(world), planner=lambda: Unreliable(world, good, good, good), rounds=3)


def looked_up(world: World) -> Scene:
    """Look-ups that find nothing until no retry is left, or bring something that cannot be used."""

    async def look_up(context: ToolContext) -> Any:
        kind = world.one("answer", ("absent", "absent", "bad", "unknown", "raises"))
        match kind:
            case "bad":
                return Happened({"wrong": 1})
            case "unknown":
                return Unknown("later")
            case "raises":
                raise ConnectionError("the ledger is down")
            case _:
                return Absent()

    result = {"type": "object", "required": ["n"]}
    world.tool("do.it", world.lost(), reconcile=look_up, result=result, no_compensation="none")
    world.tool("ok.it", no_compensation="none")
    budget: dict[str, Any] = {"max_step_retries": world.n("retries", 0, 2)}
    if world.chance("poor", 0.3):
        budget["tool_calls"] = 2
    if world.chance("breaker", 0.3):
        budget = {"max_step_retries": 9, "max_retries": 20}
    first = step("a", optional=world.chance("optional", 0.3))
    pack = world.pack(budget=budget, on_failure=world.one("failure", ("ask", "keep", "compensate")))
    return Scene(
        pack=pack,
        request=ask(world),
        run={"plan": plan(first, step("b", "ok.it", depends_on=("a",)))},
        rounds=4,
    )


def nested_changes(world: World) -> Scene:
    """Values inside of lists and objects that approvers set, where they can be set."""
    schema = {
        "type": "object",
        "properties": {
            "account": {"type": "string"},
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"sku": {"type": "string"}, "cents": {"type": "integer", "minimum": 0}},
                },
            },
        },
        "required": ["account"],
    }
    world.tool(
        "bank.pay",
        mode="network",
        parameters=schema,
        authority=("account",),
        gates=("BOSS",),
        no_compensation="paid is paid",
    )
    lines: Any = world.one(
        "lines", ({"$from": "request#/lines"}, [{"sku": "a", "cents": 5}, {"sku": "b", "cents": 6}])
    )
    proposed = plan(
        step("pay", "bank.pay", params={"account": {"$from": "request#/account"}, "lines": lines}),
        outputs={"paid": {"$from": "pay#/account"}},
    )
    request = Request(
        intent="work",
        input={"account": "acc_1", "lines": [{"sku": "x", "cents": 1}, {"sku": "y", "cents": 2}]},
    )
    return Scene(pack=world.pack(gates=(BOSS,), on_failure="keep"), request=request, run={"plan": proposed})


async def set_parts(world: World) -> str:
    """A payment in which an approver sets a part of a list."""
    return await start(world, nested_changes(world))


async def _set_parts(world: World, session: str) -> None:
    made = nested_changes(world)
    async with world.runtime(made.pack) as runtime:
        choices: tuple[dict[str, Any], ...] = (
            {"/lines/0/cents": 9},
            {"/lines/1/sku": "z", "/lines/0/cents": 3},
            {"/lines/1/cents": -1},
            {"lines": [{"sku": "n", "cents": 4}]},
            {"/lines/5/cents": 1},
            {"account": "acc_2"},
        )
        for number in range(2):
            gates = [gate for gate in await runtime.gates() if gate.session_id == session]
            with suppress(TercetError):
                changes = world.one(("change", number), choices)
                await runtime.modify(gates[0].id, actor=BOB, note="as agreed", changes=changes)
            await runtime.resume(session)
        await walk(world, runtime, await runtime.resume(session), rounds=4)


async def hesitant(world: World) -> str:
    """A process that hangs for a while around a call: its deadline passes, or an emergency stop comes first."""
    world.tool("do.it", world.echo(500), timeout_ms=4_000, idempotent=True, no_compensation="none")
    pack = world.pack(on_failure="keep")
    seen = iter(range(999))
    late = world.n("at", 0, 4)
    point = world.one("point", ("after_append", "before_append", "before_call"))
    operator = world.runtime(pack)

    async def hesitate(reached: str) -> None:
        if reached == point and next(seen) == late:
            if world.chance("stop", 0.4):
                await operator.halt("tool", "do.it", actor=BOB)
            else:
                await world.clock.sleep(world.n("ms", 3_000, 9_000))

    proposed = plan(step("a"), step("b", depends_on=("a",)), step("c", depends_on=("b",)))
    async with operator, world.runtime(pack, crash=hesitate) as runtime:
        return (await runtime.run(ask(world), plan=proposed, actor=ADA)).session_id


async def _hesitant(world: World, session: str) -> None:
    world.tool("do.it", world.echo(500), timeout_ms=4_000, idempotent=True, no_compensation="none")
    async with world.runtime(world.pack(on_failure="keep")) as runtime:
        with suppress(TercetError):
            await runtime.lift("tool", "do.it", actor=BOB)
        await walk(world, runtime, await runtime.resume(session), rounds=2)


def long_sessions(world: World) -> Scene:
    """Runs with so many bytes of events that the journal keeps folded states of them."""
    size = world.n("bytes", 10_000, 30_000)

    async def behave(context: Any, params: dict[str, Any]) -> Any:
        await world.clock.sleep(world.latency(context, 200))
        return {"n": context.step_id, "text": str(world.n(context.step_id, 0, 9)) * size}

    world.tool("do.it", behave, no_compensation="none")
    world.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    steps = [step(f"s{n}", depends_on=(f"s{n - 1}",) if n else ()) for n in range(world.n("size", 12, 24))]
    steps.append(step("w", "wipe.it", depends_on=(steps[-1].id,)))
    pack = world.pack(gates=(BOSS,), budget={"max_steps": 40}, on_failure="keep")
    proposed = plan(*steps, outputs={"n": {"$from": "s3#/n"}})
    return Scene(pack=pack, request=ask(world), run={"plan": proposed}, rounds=3)


async def crashed_long(world: World) -> str:
    """A long run whose process dies in the middle."""
    return await crash(world, long_sessions(world), world.one("point", POINTS), world.n("nth", 8, 12))


async def _crashed_long(world: World, session: str) -> None:
    await carry_on(world, long_sessions(world), session)


async def moved_late(world: World) -> str:
    """A session that is moved to another pack when it is paused, ending, or does not know what happened."""
    made = _movable(world, "1.0.0")
    async with world.runtime(made.pack) as runtime:
        session = (await runtime.run(made.request, plan=made.run["plan"], actor=ADA)).session_id
        with suppress(TercetError):
            match world.one("how", ("cancel", "deny", "pause", "approve", "settle")):
                case "cancel":
                    await runtime.cancel(session, actor=BOB)
                case "deny":
                    await runtime.deny(f"{session}.g1", actor=BOB)
                    if world.chance("asked", 0.5):
                        await runtime.resume(session)
                case "pause":
                    await runtime.pause(session, actor=BOB)
                case "approve":
                    await runtime.approve(f"{session}.g1", actor=BOB)
                case _:
                    await runtime.settle(f"{session}.g1", happened=True, value={"n": "l"}, actor=BOB)
        return session


def _movable(world: World, version: str) -> Scene:
    back = {"tool": "undo.it", "params": {"n": {"$from": "self#/n"}}}
    world.tool("do.it", compensate=back, reversibility="compensable")
    if version == "1.0.0" or world.chance("kept", 0.7):
        world.tool("undo.it", no_compensation="nothing is left")
    else:
        world.tools.clear()
        world.tool("do.it", no_compensation="it stays")
    world.tool("lose.it", world.lost(), no_compensation="none")
    world.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    steps = [step("a"), step("w", "wipe.it", depends_on=("a",))]
    if world.chance("lost", 0.4):
        steps.insert(1, step("l", "lose.it", depends_on=("a",)))
    pack = world.pack(
        gates=(BOSS,), version=version, on_failure=world.one("failure", ("compensate", "ask", "keep"))
    )
    return Scene(pack=pack, request=ask(world), run={"plan": plan(*steps)}, rounds=4)


async def _moved_late(world: World, session: str) -> None:
    made = _movable(world, "1.1.0")
    async with world.runtime(made.pack) as runtime:
        with suppress(TercetError):
            result = await runtime.migrate(session, actor=BOB)
            await walk(world, runtime, result, rounds=4)


@dataclass
class Careless(Clerk):
    """An agent whose decisions and reducer raise now and then."""

    world: World | None = None

    def decide(self, state: AgentState) -> Any:
        """The next line, or an exception."""
        assert self.world is not None
        if self.world.chance(("decide", state.at), 0.2):
            raise ValueError("no idea")
        return super().decide(state)

    def reduce(self, state: AgentState, decision: Any, results: Any) -> None:
        """The next state, or an exception."""
        assert self.world is not None
        if self.world.chance(("reduce", state.at), 0.15):
            raise KeyError("results")
        super().reduce(state, decision, results)


def _careless(world: World) -> Engine:
    tools = agent_tools(world)
    acts = [
        Decision.act(world.one(n, ("desk.say", "desk.note", "desk.send")), word=f"w{n}") for n in range(3)
    ]

    @critic
    async def slow(state: Any, decision: Any, results: Any) -> Any:
        await world.clock.sleep(world.one(("critic", state.at), (1, 1, 100_000)))
        return "continue"

    return Engine(
        Careless([*acts, Decision.final({"said": "done"})], tools, world=world),
        [slow] if world.chance("slow", 0.5) else [],
        journal=world.shared_journal(),
        tenant=world.tenant,
        clock=world.clock,
        ids=world.new_id,
        actor=ADA,
    )


async def careless_agents(world: World) -> str:
    """Agents that raise, and critics that take too long."""
    return (await _careless(world).run("a task")).session_id


async def _careless_agents(world: World, session: str) -> None:
    await walk_agent(world, _careless(world), session)


class Trouble:
    """A model that raises, takes too long, or answers nothing."""

    def __init__(self, world: World, name: str = "trouble:one") -> None:
        self.name = name
        self._world = world
        self._asked = 0

    def price(self, question: Question) -> int:
        """A little."""
        del question
        return 5

    async def ask(self, question: Question) -> Reply:
        """No answer of any use."""
        self._asked += 1
        match self._world.one((self.name, self._asked), ("raises", "slow", "empty", "odd")):
            case "raises":
                raise RuntimeError("a bug in the client")
            case "slow":
                await self._world.clock.sleep(200_000)
            case "empty":
                return Reply(text=" ", model=self.name, tokens_in=3, tokens_out=1, cost_microcents=2)
            case _:
                pass
        return Reply(
            text='{"steps": []}', model=self.name, tokens_in=9, tokens_out=9_999, cost_microcents=9_999
        )


def troubled_models(world: World) -> Scene:
    """Models that plan and raise, take too long or answer nothing; another one may take over."""
    world.tool(
        "do.it",
        parameters={"type": "object", "properties": {"n": {"type": "string"}}},
        no_compensation="none",
    )
    good = {"steps": [{"tool": "do.it", "params": {"n": "x"}}]}

    def planner() -> ModelPlanner:
        models: list[Any] = [Trouble(world)]
        if world.chance("second", 0.6):
            models.append(model(good, good, good, name="scripted:two"))
        return ModelPlanner(models, max_tokens=400)

    pack = world.pack(on_failure="keep", budget={"max_replans": 1})
    return Scene(pack=pack, request=ask(world), planner=planner, rounds=3)


async def let_go(world: World) -> str:
    """A process that is asked to stop while a call, a planner or a model is at work."""
    kind = world.one("kind", ("call", "planner", "model"))
    made = _slow_scene(world, kind)
    runtime = world.runtime(made.pack)
    given: dict[str, Any] = dict(made.run)
    if made.planner is not None:
        given["planner"] = made.planner()
    async with runtime:
        running = asyncio.ensure_future(runtime.run(made.request, actor=ADA, **given))
        await world.clock.sleep(world.n("when", 200, 3_000))
        session = (await runtime.sessions())[0].session_id
        with suppress(TercetError):
            match world.one("how", ("stop", "pause", "cancel")):
                case "stop":
                    runtime.stop()
                case "pause":
                    await runtime.pause(session, actor=BOB)
                case _:
                    await runtime.cancel(session, actor=BOB)
        await running
        return session


def _slow_scene(world: World, kind: str) -> Scene:
    world.tool("do.it", world.slow(20_000), no_compensation="none")
    proposed = plan(step("a"), step("b", depends_on=("a",)))
    pack = world.pack(on_failure="keep", limits={"planner": {"timeout_ms": 60_000}})
    makers: dict[str, Callable[[], Any]] = {
        "planner": lambda: _Slow(world, proposed, proposed),
        "model": lambda: ModelPlanner(
            [_SlowModel(world)]
            if world.act == "begin"
            else [model({"steps": [{"tool": "do.it", "params": {}}]})],
            max_tokens=400,
        ),
    }
    if kind == "call":
        return Scene(pack=pack, request=ask(world), run={"plan": proposed}, rounds=3)
    return Scene(pack=pack, request=ask(world), planner=makers[kind], rounds=3)


class _Slow(Script):
    def __init__(self, world: World, *plans: Plan | None) -> None:
        super().__init__(*plans)
        self._world = world

    async def propose(self, config: Any, feedback: tuple[str, ...]) -> Plan:
        await self._world.clock.sleep(10_000)
        return await super().propose(config, feedback)


class _SlowModel(Trouble):
    async def ask(self, question: Question) -> Reply:
        await self._world.clock.sleep(30_000)
        return await super().ask(question)


async def _let_go(world: World, session: str) -> None:
    await carry_on(world, _slow_scene(world, world.one("kind", ("call", "planner", "model"))), session)


def odd_conditions(world: World) -> Scene:
    """Conditions that are no booleans or cannot be decided, notes, and outputs that nothing brings."""
    world.tool("list.it", world.returns({"rows": [1, 2], "name": "list"}), mode="read_only", trust="trusted")
    world.tool("do.it", no_compensation="none")
    when = world.one(
        "when", ("a.rows[0] == 1", "a.rows[5] == 1", "a.name", "a.missing == 1", "size(a.rows) > 1")
    )
    proposed = plan(
        step("a", "list.it", params={}),
        step("b", when=when, optional=world.chance("optional", 0.4), depends_on=("a",)),
        step("n", None, params={"text": {"$from": "a#/name"}, "all": {"$from": "a#/rows"}}),
        step("c", params={"n": {"$from": "n#/text"}}),
        declared_outputs=world.one("declared", (("name",), ("nothing",), ())),
        outputs={"n": {"$from": "n#/text"}},
    )
    return Scene(pack=world.pack(on_failure="keep"), request=ask(world), run={"plan": proposed}, rounds=3)


async def old_sessions(world: World) -> str:
    """Sessions that run long in real time: retries over hours, and a watchdog that looks all the while."""
    world.tool("try.it", world.flaky(2, wait_ms=30 * MINUTE_MS), idempotent=True, no_compensation="none")
    world.tool("do.it", no_compensation="none")
    pack = world.pack(
        session={"heartbeat_interval_ms": 60_000, "ttl_ms": world.one("ttl", (45, 600)) * MINUTE_MS},
        on_failure="keep",
    )
    proposed = plan(step("a", "try.it"), step("b"), step("c", depends_on=("a",)))
    async with world.runtime(pack) as runtime, world.runtime(pack, watchdog_ms=7 * MINUTE_MS) as _:
        result = await runtime.run(ask(world), plan=proposed, actor=ADA)
        await walk(world, runtime, result, rounds=2)
        return result.session_id


async def owner_entered(world: World) -> str:
    """A value that the owner of a run enters, which a compensation reads later."""
    return await start(world, entered_values(world))


async def _owner_entered(world: World, session: str) -> None:
    made = entered_values(world)
    async with world.runtime(made.pack) as runtime:
        with suppress(TercetError):
            await runtime.settle(f"{session}.g1", happened=True, value={"n": "typed"}, actor=ADA)
        result = await runtime.resume(session)
        if result.gate is not None:
            with suppress(TercetError):
                await runtime.decide(result.gate.id, "abandon", actor=BOB)
            result = await runtime.resume(session)
        if result.gate is not None and result.gate.kind == "compensation":
            with suppress(TercetError):
                await runtime.decide(result.gate.id, "compensate", actor=BOB)
            result = await runtime.resume(session)
        await walk(world, runtime, result, rounds=4)


def scarce_calls(world: World) -> Scene:
    """Parallel calls, retries and compensations that share a budget which is not enough for all of them."""
    back = {"tool": "undo.it", "params": {"n": {"$from": "self#/n"}}}
    world.tool("do.it", world.flaky(most=2), compensate=back, reversibility="compensable", idempotent=True)
    world.tool("lose.it", world.lost(2), idempotent=True, no_compensation="none")
    world.tool("undo.it", world.flaky(2), idempotent=True, no_compensation="nothing is left")
    world.tool("no.way", world.broken(), no_compensation="it never works")
    names = [f"s{n}" for n in range(world.n("size", 2, 4))]
    steps = [step(name, world.one(name, ("do.it", "do.it", "lose.it"))) for name in names]
    if world.chance("fails", 0.5):
        steps.append(step("x", "no.way", depends_on=tuple(names)))
    budget = {"tool_calls": 2 * len(names) + world.n("spare", 1, 3)}
    pack = world.pack(budget=budget, on_failure=world.one("failure", ("compensate", "ask")))
    return Scene(pack=pack, request=ask(world), run={"plan": plan(*steps)}, rounds=4)


class Closed:
    """A retriever that cannot be reached."""

    async def find(self, tenant: str, snapshot: str, query: str, *, classes: Any, limit: int) -> Any:
        """Fails."""
        raise GatewayError("the library is closed", code="closed")


async def closed_library(world: World) -> str:
    """A library that cannot be reached when a plan asks it, and can be later."""
    world.tool("do.it", no_compensation="none")
    pack = world.pack(on_failure="keep", decision={"untrusted_evidence": ("customer",)})
    query = {"classification": "customer", "query": "who is it?", "limit": world.n("limit", 1, 2)}
    asks = plan(
        step("a", evidence_queries=(query,)),
        step("b", requires_evidence=("customer",), evidence_queries=(query,)),
    )
    store = await library_store(world)
    async with world.runtime(pack, evidence=store, retriever=Closed()) as runtime:
        session = (await runtime.run(ask(world), planner=Script(asks), actor=ADA)).session_id
        if world.chance("again", 0.5):
            await runtime.resume(session, planner=Script(asks))
    later = None if world.chance("gone", 0.3) else store
    async with world.runtime(pack, evidence=later) as runtime:
        planner = Script(asks, asks)
        result = await runtime.resume(session, planner=planner)
        await walk(world, runtime, result, rounds=2, planner=planner)
    return session


async def claimed_twice(world: World) -> str:
    """Two runs at once that want to make the same call, which may be made once: the second finds the claim of the first."""
    schema = {
        "type": "object",
        "properties": {"payment": {"type": "string"}, "cents": {"type": "integer"}},
        "required": ["payment", "cents"],
    }
    then: dict[str, Any] = world.one("then", ({}, {"then": "ask"}, {"then": "ask", "gate": "BOSS"}))
    once = {"identity": ["payment", "cents"], "days": 9, **then}
    behave = world.one("behave", (world.slow(4_000), world.lost(1), world.flaky(1)))
    world.tool("pay.back", behave, parameters=schema, once_per=once, no_compensation="final")
    pack = world.pack(gates=(BOSS,), on_failure="keep", budget={"max_step_retries": 1})
    proposed = plan(step("r", "pay.back", params={"payment": "pay_1", "cents": 100}))
    async with world.runtime(pack) as one, world.runtime(pack) as two:
        first = asyncio.ensure_future(one.run(ask(world), plan=proposed, actor=ADA))
        await world.clock.sleep(world.n("apart", 1, 3_000))
        second = await two.run(ask(world), plan=proposed, actor=ADA)
        begun = await first
        await walk(world, one, begun, rounds=2)
        await walk(world, two, second, rounds=2)
        return begun.session_id


def grants(world: World) -> Scene:
    """Calls that a policy grants, in plans of the caller and of a planner, after trusted and untrusted results."""
    world.tool("pay.it", mode="network", authority=(), no_compensation="paid is paid")
    world.tool("tell.it", mode="delegated", authority=(), no_compensation="it only tells")
    world.tool("read.it", mode="read_only", untrusted=("/n",))
    small = Policy(
        name="small",
        scope="step",
        effect="grant",
        expression=f"int(step.params.k) <= {world.n('most', 3, 7)}",
    )
    calls = [
        step(
            f"s{n}", world.one(n, ("pay.it", "tell.it")), params={"n": f"s{n}", "k": world.n(("k", n), 0, 9)}
        )
        for n in range(world.n("size", 1, 3))
    ]
    reads = [step("r", "read.it")] if world.chance("reads", 0.4) else []
    later = [step("z", "pay.it", params={"n": {"$from": "r#/n"}, "k": 1})] if reads else []
    proposed = plan(*reads, *calls, *later)
    pack = world.pack(policies=(small,), on_failure="keep")
    if world.chance("planned", 0.4):
        return Scene(pack=pack, request=ask(world), planner=lambda: Script(proposed, proposed), rounds=4)
    return Scene(pack=pack, request=ask(world), run={"plan": proposed}, rounds=4)


RARE_FAMILIES: tuple[Family, ...] = (
    in_two_acts(entered_values),
    in_two_acts(approved_compensations),
    Family(name="roles_lost", begin=roles_lost, finish=_roles_lost),
    in_two_acts(preconditions),
    in_two_acts(unreliable_planners),
    in_two_acts(looked_up),
    Family(name="set_parts", begin=set_parts, finish=_set_parts),
    Family(name="hesitant", begin=hesitant, finish=_hesitant),
    in_two_acts(long_sessions),
    Family(name="crashed_long", begin=crashed_long, finish=_crashed_long),
    Family(name="moved_late", begin=moved_late, finish=_moved_late),
    Family(name="careless_agents", begin=careless_agents, finish=_careless_agents),
    in_two_acts(troubled_models),
    Family(name="let_go", begin=let_go, finish=_let_go),
    in_two_acts(odd_conditions),
    Family(name="old_sessions", begin=old_sessions),
    Family(name="owner_entered", begin=owner_entered, finish=_owner_entered),
    in_two_acts(scarce_calls),
    Family(name="closed_library", begin=closed_library),
    Family(name="claimed_twice", begin=claimed_twice),
    in_two_acts(grants),
)

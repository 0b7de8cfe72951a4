"""Families of seeded runs: each is one kind of run, which the number of a seed varies.

The place of a family in the list is part of its seeds, so none is ever moved. Most are scenes in two acts. `begin` starts a
session, `finish` lets another process carry it on while people answer; a session that waits between the two is what an
old journal holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from engine.workshop import Death
from tercet.contracts.errors import NotDone, TercetError
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.request import Request
from tercet.contracts.tasks import TaskLibrary
from tercet.packs.pack import Pack
from tercet.runtime import Runtime
from tercet.tools import ToolContext
from tercet.tools.tool import Absent, Happened, Unknown

from .world import (
    ADA,
    ANN,
    BOB,
    CLEO,
    MINUTE_MS,
    Behave,
    Script,
    World,
    ask,
    plan,
    some_plan,
    step,
    walk,
)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What a run of a family is started with."""

    pack: Pack
    request: Request
    run: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More arguments of `Runtime.run`."""
    around: Callable[[], Mapping[str, Any]] = dict
    """More arguments of the runtime; models follow a script, so each process gets its own."""
    planner: Callable[[], Any] | None = None
    """The planner of the caller's own, where the run has one."""
    rounds: int = 6


Setup = Callable[[World], Scene]
Begin = Callable[[World], Coroutine[Any, Any, str]]
Finish = Callable[[World, str], Coroutine[Any, Any, None]]


@dataclass(frozen=True, kw_only=True)
class Family:
    """A kind of run."""

    name: str
    begin: Begin
    finish: Finish | None = None
    """None where the family comes to its end in one act."""


def in_two_acts(setup: Setup) -> Family:
    """A family whose run starts, and which people then bring to its end."""
    return Family(name=setup.__name__, begin=_begin(setup), finish=_finish(setup))


def _begin(setup: Setup) -> Begin:
    async def begin(world: World) -> str:
        return await start(world, setup(world))

    return begin


def _finish(setup: Setup) -> Finish:
    async def finish(world: World, session: str) -> None:
        await carry_on(world, setup(world), session)

    return finish


async def start(world: World, made: Scene, **more: Any) -> str:
    """Start the run of a scene."""
    async with world.runtime(made.pack, **{**made.around(), **more}) as runtime:
        return await _run(runtime, made)


async def _run(runtime: Runtime, made: Scene) -> str:
    given: dict[str, Any] = {"actor": ADA, **made.run}
    if made.planner is not None:
        given["planner"] = made.planner()
    return (await runtime.run(made.request, **given)).session_id


async def carry_on(world: World, made: Scene, session: str) -> None:
    """Resume the run of a scene in another process, and answer what it asks."""
    planner = None if made.planner is None else made.planner()
    async with world.runtime(made.pack, **made.around()) as runtime:
        result = await runtime.resume(session, planner=planner)
        await walk(world, runtime, result, rounds=made.rounds, planner=planner)


async def crash(world: World, made: Scene, point: str, nth: int) -> str:
    """Start the run of a scene in a process that ends at a crash point."""
    crash_at = Death(point, nth)
    runtime = world.runtime(made.pack, **{**made.around(), "crash": crash_at})
    async with runtime:
        await crash_at.of(_run(runtime, made))
        rows = await runtime.sessions()
        return rows[-1].session_id if rows else ""


POINTS = ("before_append", "after_append", "before_call", "after_answer")

# --- plans of the caller, and how calls end ---

FACT = Evidence.model_validate(
    {
        "id": "kg:order:o1#snapshot_s1",
        "content": {"total": 3, "name": "first"},
        "source": "test",
        "trust": "trusted",
    }
)


def graph(world: World) -> Scene:
    """Steps in some order: in parallel, notes, conditions, optional ones, evidence, retries."""
    world.tool("do.it", no_compensation="none")
    world.tool("try.it", world.flaky(), idempotent=True, no_compensation="none")
    world.tool("look.up", mode="read_only")
    proposed = some_plan(world, ("do.it", "try.it", "look.up", "look.up", None))
    budget: dict[str, Any] = {"max_step_retries": world.n("retries", 0, 3)}
    if world.chance("narrow", 0.4):
        budget["max_parallel"] = world.n("parallel", 1, 2)
    pack = world.pack(evidence=(FACT,), budget=budget, on_failure=world.one("failure", ("ask", "keep")))
    return Scene(pack=pack, request=ask(world), run={"plan": proposed})


def ties(world: World) -> Scene:
    """Many calls that begin and end at the same moments."""
    world.tool("do.it", world.at_once(), no_compensation="none")
    world.tool("slow.it", world.slow(100), no_compensation="none")
    steps = [step(f"s{n}", world.one(n, ("do.it", "slow.it"))) for n in range(world.n("size", 3, 12))]
    last = step("z", depends_on=tuple(each.id for each in steps))
    pack = world.pack(budget={"max_steps": 20})
    return Scene(pack=pack, request=ask(world), run={"plan": plan(*steps, last)})


def retries(world: World) -> Scene:
    """Calls that fail for a while or for ever: backoff, waits that the tool asks for, and a person who takes over."""
    world.tool("do.it", no_compensation="none")
    wait = world.one("wait", (0, 0, 2_500, 70_000))
    world.tool("try.it", world.flaky(wait_ms=wait, most=6), idempotent=True, no_compensation="none")
    world.tool(
        "no.way", world.broken(is_retriable=world.chance("retriable", 0.5)), no_compensation="never works"
    )
    steps = [step("a"), step("b", "try.it", depends_on=("a",)), step("c", "try.it")]
    if world.chance("broken", 0.4):
        steps.append(step("d", "no.way", depends_on=("a",), optional=world.chance("optional", 0.4)))
    budget = {"max_step_retries": world.n("retries", 0, 5), "max_retries": world.n("all", 2, 9)}
    pack = world.pack(budget=budget, on_failure=world.one("failure", ("ask", "keep", "compensate")))
    return Scene(pack=pack, request=ask(world), run={"plan": plan(*steps, outputs={"x": {"$from": "a#/n"}})})


async def breaker(world: World) -> str:
    """A tool that fails so often that its circuit opens, for other runs too, and closes again."""
    down_until = world.clock.now() + world.n("down", 20, 80) * 1_000

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        await world.clock.sleep(world.latency(context, 400))
        if world.clock.now() < down_until:
            raise ConnectionError("no line")
        return params

    world.tool("do.it", behave, idempotent=True, no_compensation="none")
    pack = world.pack(budget={"max_step_retries": 7, "max_retries": 20}, on_failure="keep")
    async with world.runtime(pack) as runtime:
        first = await runtime.run(ask(world), plan=plan(step("a"), step("b")), actor=ADA)
        await walk(world, runtime, first, rounds=2)
        await world.clock.sleep(world.n("pause", 1, 40_000))
        second = await runtime.run(ask(world), plan=plan(step("c")), actor=ADA)
        await walk(world, runtime, second, rounds=2)
    return first.session_id


def timeouts(world: World) -> Scene:
    """Calls that take longer than they may: called again, looked up, or settled by a person."""
    kind = world.one("kind", ("idempotent", "look-up", "person", "read_only"))
    slow = world.slow(40_000, world.n("times", 1, 3))
    declared: dict[str, Any] = {"timeout_ms": world.n("timeout", 5, 30) * 1_000, "no_compensation": "none"}
    if kind == "idempotent":
        declared["idempotent"] = True
    if kind == "look-up":
        declared["reconcile"] = _look_up(world)
        declared["settle_after_ms"] = world.one("settle", (0, 3_000))
    world.tool("do.it", slow, "read_only" if kind == "read_only" else "local_write", **declared)
    proposed = plan(step("a"), step("b", depends_on=("a",), when="request.count > 2"))
    return Scene(pack=world.pack(), request=ask(world), run={"plan": proposed})


def _look_up(world: World) -> Callable[..., Awaitable[Any]]:
    async def look_up(context: ToolContext) -> Any:
        answers = (
            Happened({"n": context.step_id, "k": 2}),
            Absent(),
            Unknown("the ledger is not up to date"),
            Unknown(),
            None,
        )
        # The time decides too: who asks again later may hear something else.
        return world.one(("look up", context.step_id, context.attempt, world.clock.now()), answers)

    return look_up


def unknown(world: World) -> Scene:
    """Calls of unknown outcome: looked up, called again, or settled by a person; each may fail again."""
    times = world.n("times", 1, 4)
    world.tool("do.it", no_compensation="none")
    world.tool("ask.it", world.lost(times), reconcile=_look_up(world), no_compensation="none")
    world.tool("again.it", world.lost(times), idempotent=True, no_compensation="none")
    world.tool("gone.it", world.lost(times), no_compensation="none")
    tools = ("ask.it", "again.it", "gone.it")
    steps = [step(f"s{n}", world.one(n, tools)) for n in range(world.n("size", 1, 3))]
    after = step("z", depends_on=("s0",), params={"n": {"$from": "s0#/n"}})
    pack = world.pack(
        on_failure=world.one("failure", ("ask", "keep")),
        budget={"max_step_retries": world.n("retries", 1, 3)},
    )
    return Scene(pack=pack, request=ask(world), run={"plan": plan(*steps, after)}, rounds=5)


def bad_results(world: World) -> Scene:
    """Results that break their schema, are unusable, or lack what a later step reads."""
    result = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}
    world.tool("do.it", no_compensation="none")
    world.tool(
        "odd.it",
        world.returns({"m": 1}, {"n": 7}, {"n": "fine"}),
        result=result,
        idempotent=world.chance("idempotent", 0.5),
        no_compensation="none",
    )
    world.tool("dumb.it", world.unusable(), no_compensation="none")
    tool = world.one("tool", ("odd.it", "dumb.it", "do.it"))
    first = step("a", tool, optional=world.chance("optional", 0.3))
    reads = world.one("reads", ("a#/n", "a#/missing"))
    last = step("b", params={"n": {"$from": reads}})
    pack = world.pack(on_failure=world.one("failure", ("ask", "keep")), budget={"max_replans": 1})
    return Scene(pack=pack, request=ask(world), run={"plan": plan(first, last)}, rounds=4)


def large_values(world: World) -> Scene:
    """Results and parameters that are too large to stand in an event."""
    size = world.one("size", (70_000, 130_000, 65_000))

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        await world.clock.sleep(world.latency(context, 200))
        return {"n": context.step_id, "text": "x" * size, "letter": "short"}

    world.tool("do.it", behave, mode=world.one("mode", ("read_only", "local_write")), no_compensation="none")
    world.tool("take.it", world.returns({"ok": True}), no_compensation="none")
    second = step("b", "take.it", params={"text": {"$from": "a#/text"}})
    steps = (step("a"), second, step("c", params={"n": {"$from": "a#/n"}}))
    declared = ("letter",) if world.chance("declared", 0.5) else ()
    pack = world.pack(on_failure="keep")
    given = plan(*steps, declared_outputs=declared, outputs={"name": {"$from": "a#/n"}})
    return Scene(pack=pack, request=ask(world), run={"plan": given})


def loop_guard(world: World) -> Scene:
    """Plans that make the same call again and again, and get the same result."""
    world.tool("do.it", world.returns({"n": "same"}), mode="read_only")
    world.tool("no.way", world.broken(), mode="read_only")
    number = world.n("plans", 3, 6)

    def proposed(index: int) -> Plan:
        return plan(
            step(f"a{index}", params={"n": 1}),
            step(f"b{index}", "no.way", params={"n": index}, depends_on=(f"a{index}",)),
        )

    budget = {"max_replans": number, "replans_rationale": "to see a loop"}
    return Scene(
        pack=world.pack(budget=budget),
        request=ask(world),
        planner=lambda: Script(*(proposed(each) for each in range(number + 2))),
        rounds=3,
    )


# --- gates, policies and grants ---

BOSS = Gate(name="BOSS", roles=("boss",), ttl_ms=60 * MINUTE_MS)
HASTY = Gate(name="HASTY", roles=("boss",), ttl_ms=15 * MINUTE_MS)
LAW = Gate(name="LAW", roles=("law",))
BOTH = Gate(name="BOTH", roles=("boss",), quorum=2)
ROW = Gate(name="ROW", roles=("boss",), covers="sequence")
DEAR = Gate(name="DEAR", roles=("boss",), when="int(args.k) > 4")
SUM = {
    "type": "object",
    "properties": {
        "n": {"type": "string"},
        "k": {"type": "integer", "minimum": 0},
        "before": {"type": "string"},
    },
    "required": ["n", "k"],
}


def _gated(world: World) -> None:
    """Tools with gates of every kind."""
    world.tool("do.it", no_compensation="none")
    world.tool(
        "pay.it",
        mode="network",
        parameters=SUM,
        authority=(),
        gates=world.one("pay", (("BOSS",), ("BOTH",), ("BOSS", "LAW"), ("DEAR",))),
        no_compensation="paid is paid",
    )
    world.tool("tell.it", mode="network", parameters=SUM, authority=(), no_compensation="it only tells")
    world.tool(
        "wipe.it",
        mode="destructive",
        parameters=SUM,
        authority=(),
        gates=world.one("wipe", (("BOSS",), ("ROW",), ("BOTH",))),
        no_compensation="gone is gone",
    )


def gates(world: World) -> Scene:
    """Calls that people approve, deny, change, send back, withdraw their approval of, or let expire."""
    _gated(world)
    proposed = some_plan(world, ("do.it", "pay.it", "wipe.it", "tell.it"), most=4)
    again = some_plan(World(world.seed + 50), ("do.it", "tell.it"), most=3)
    pack = world.pack(gates=(BOSS, LAW, BOTH, ROW, DEAR), on_failure=world.one("failure", ("ask", "keep")))
    if world.chance("planned", 0.4):
        return Scene(
            pack=pack, request=ask(world), planner=lambda: Script(proposed, again, proposed), rounds=5
        )
    return Scene(pack=pack, request=ask(world), run={"plan": proposed}, rounds=5)


def sequences(world: World) -> Scene:
    """One gate for all calls that wait for it at the same time."""
    gates = ("ROW",)
    world.tool("do.it", no_compensation="none")
    world.tool("wipe.it", mode="destructive", authority=(), gates=gates, no_compensation="gone")
    world.tool("send.it", mode="network", authority=(), gates=gates, no_compensation="sent")
    proposed = some_plan(world, ("wipe.it", "send.it", "do.it"), most=5)
    quorum = world.n("quorum", 1, 2)
    row = Gate(name="ROW", roles=("boss",), covers="sequence", quorum=quorum)
    pack = world.pack(gates=(row,), on_failure="keep")
    return Scene(pack=pack, request=ask(world), run={"plan": proposed}, rounds=5)


def changed_calls(world: World) -> Scene:
    """Values that approvers set in a call, which another person approves."""
    schema = {
        "type": "object",
        "properties": {
            "account": {"type": "string"},
            "cents": {"type": "integer", "minimum": 0, "maximum": 9_000},
            "memo": {"type": "string", "default": "thanks"},
        },
        "required": ["account", "cents"],
        "additionalProperties": False,
    }
    world.tool(
        "bank.pay",
        mode="network",
        parameters=schema,
        authority=("account", "cents"),
        gates=("BOSS",),
        no_compensation="paid is paid",
    )
    taken = {"account": {"$from": "request#/account"}, "cents": {"$from": "request#/cents"}}
    proposed = plan(step("pay", "bank.pay", params=taken), outputs={"paid": {"$from": "pay#/cents"}})
    cents = world.n("cents", 1, 800)
    request = Request(intent="work", input={"account": "acc_1", "cents": cents})
    boss = Gate(name="BOSS", roles=("boss",), quorum=world.n("quorum", 1, 2))
    return Scene(pack=world.pack(gates=(boss,), on_failure="keep"), request=request, run={"plan": proposed})


async def set_values(world: World) -> str:
    """The same, with a change for sure."""
    return await start(world, changed_calls(world))


async def _set_values(world: World, session: str) -> None:
    made = changed_calls(world)
    async with world.runtime(made.pack) as runtime:
        result = await runtime.resume(session)
        assert result.gate is not None
        name = world.one("field", ("cents", "memo", "/cents"))
        value = "with a memo" if name == "memo" else world.n("to", 1, 9_500)
        with suppress(TercetError):
            await runtime.modify(result.gate.id, actor=BOB, note="less", changes={name: value})
        result = await runtime.resume(session)
        await walk(world, runtime, result)


def policies(world: World) -> Scene:
    """Grants, gates and refusals of policies."""
    world.tool("do.it", no_compensation="none")
    world.tool("pay.it", mode="network", parameters=SUM, authority=(), no_compensation="paid is paid")
    made = (
        Policy(name="small", scope="step", effect="grant", expression="int(step.params.k) <= 4"),
        Policy(name="large", scope="step", effect="gate", gate="BOSS", expression="int(step.params.k) <= 7"),
        Policy(name="few", effect="deny", expression=f"size(plan.steps) <= {world.n('few', 3, 6)}"),
    )
    proposed = some_plan(world, ("pay.it", "pay.it", "do.it"), most=6)
    pack = world.pack(gates=(BOSS,), policies=made, on_failure="keep")
    return Scene(pack=pack, request=ask(world), run={"plan": proposed}, rounds=4)


def outputs_accepted(world: World) -> Scene:
    """Outputs that people accept, refuse or want changed; approvals of people who lost the role do not count."""
    world.tool("do.it")
    editor = Gate(name="EDITOR", roles=("boss",), quorum=world.n("quorum", 1, 2))
    decision = {"requires_human_approval": True, "output_gate": "EDITOR"}
    people = (BOB, CLEO, ANN) if world.act == "begin" else world.one("left", ((CLEO, ANN), (BOB, CLEO, ANN)))
    pack = world.pack(gates=(editor,), actors=people, decision=decision, on_failure="keep")
    proposed = plan(step("a"), outputs={"x": {"$from": "a#/n"}})
    return Scene(pack=pack, request=ask(world), run={"plan": proposed}, rounds=4)


async def acceptance_lapses(world: World) -> str:
    """Outputs whose approver loses the role afterwards."""
    made = outputs_accepted(world)
    async with world.runtime(made.pack) as runtime:
        session = await _run(runtime, made)
        await runtime.approve(f"{session}.g1", actor=BOB)
        return session


async def _acceptance_lapses(world: World, session: str) -> None:
    world.tool("do.it")
    editor = Gate(name="EDITOR", roles=("boss",), quorum=world.n("quorum", 1, 2))
    decision = {"requires_human_approval": True, "output_gate": "EDITOR"}
    pack = world.pack(gates=(editor,), actors=(CLEO, ANN), decision=decision, on_failure="keep")
    async with world.runtime(pack) as runtime:
        with suppress(TercetError):
            await runtime.approve(f"{session}.g1", actor=CLEO)
        await walk(world, runtime, await runtime.resume(session))


# --- planners ---


def scripted_plans(world: World) -> Scene:
    """A planner whose plans are refused, fail and are replaced, or who runs out of plans."""
    world.tool("do.it", no_compensation="none")
    world.tool("no.way", world.broken(), mode="read_only")
    kept = step("a")
    choices: list[Plan | None] = [
        plan(kept, step("x", "no.such")),
        plan(kept, step("b", "no.way", depends_on=("a",))),
        plan(kept, step("c", depends_on=("a",)), outputs={"x": {"$from": "c#/n"}}),
        plan(kept, step("d", params={"n": {"$from": "e#/n"}})),
        None,
    ]
    script = [world.one(("plan", number), choices) for number in range(world.n("plans", 1, 5))]
    if world.chance("good end", 0.5):
        script.append(choices[2])
    pack = world.pack(budget={"max_replans": world.n("replans", 1, 4), "max_step_retries": 0})
    return Scene(pack=pack, request=ask(world), planner=lambda: Script(*script), rounds=3)


def templates(world: World) -> Scene:
    """Plans that the pack's template proposes."""
    world.tool("do.it", world.flaky(most=2), idempotent=True, no_compensation="none")
    world.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    steps = [step("a", params={"order": "${input.order}", "n": "${input.count}"})]
    if world.chance("second", 0.6):
        steps.append(step("b", world.one("tool", ("do.it", "wipe.it", "no.such")), depends_on=("a",)))
    pack = world.pack(
        templates=(plan(*steps),), gates=(BOSS,), budget={"max_step_retries": world.n("retries", 0, 2)}
    )
    return Scene(pack=pack, request=ask(world), rounds=4)


def methods(world: World) -> Scene:
    """Tasks and methods: the next alternative is taken where one fails."""
    failing = world.some("failing", ("one", "two", "three"), 3)

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        await world.clock.sleep(world.latency(context, 700))
        if params["n"] in failing:
            raise NotDone(str(params["n"]) + " is broken")
        return params

    world.tool("do.it", behave, idempotent=True, no_compensation="none")
    library = {
        "tasks": [
            {"name": "work"},
            {"name": "mend"},
            *(
                {"name": name, "tool": "do.it", "args": ["n"], "params": {"n": {"$arg": "n"}}}
                for name in ("look", "one", "two", "three", "tell")
            ),
        ],
        "methods": [
            {
                "name": "all",
                "task": "work",
                "subtasks": [
                    {"task": "look", "args": {"n": {"$from": "request#/order"}}},
                    {"task": "mend"},
                    {"task": "tell", "args": {"n": {"$cel": "look.n + '!'"}}},
                ],
            },
            *(
                {
                    "name": f"by_{name}",
                    "task": "mend",
                    "cost": world.n(("cost", name), 1, 5),
                    "subtasks": [{"task": name, "args": {"n": name}}],
                }
                for name in ("one", "two", "three")
            ),
        ],
        "goals": [{"intent": "work", "task": "work"}],
    }
    pack = world.pack(
        library=TaskLibrary.model_validate(library),
        budget={"max_step_retries": world.n("retries", 0, 1), "max_replans": world.n("replans", 1, 2)},
    )
    return Scene(pack=pack, request=ask(world), rounds=3)


# --- budgets ---


def budgets(world: World) -> Scene:
    """Budgets that are enough for the plan and not for its retries: a person extends them, or ends the run."""
    world.tool("do.it", cost_microcents=10, no_compensation="none")
    world.tool("try.it", world.flaky(2), idempotent=True, cost_microcents=10, no_compensation="none")
    size = world.n("size", 2, 5)
    spare = world.n("spare", -1, 3)
    limits = {
        "tool_calls": max(1, size + spare),
        "cost_microcents": 10 * (size + spare),
        "tokens": 100 * (size + spare),
        "wall_clock_ms": world.n("time", 500, 15_000),
        "max_retries": world.n("retries", 0, 2),
    }
    scarce = world.one("scarce", tuple(limits))
    steps = [
        step(
            f"s{n}",
            world.one(n, ("do.it", "try.it")),
            depends_on=(f"s{n - 1}",) if n else (),
            estimated_tokens=100,
        )
        for n in range(size)
    ]
    pack = world.pack(budget={scarce: limits[scarce]}, on_failure=world.one("failure", ("ask", "keep")))
    return Scene(pack=pack, request=ask(world), run={"plan": plan(*steps)}, rounds=4)


def iterations(world: World) -> Scene:
    """Runs that go through more phases than they may."""
    world.tool("no.way", world.broken(), mode="read_only")
    plans = [plan(step(f"s{n}", "no.way")) for n in range(9)]
    budget = {
        "max_iterations": world.n("most", 1, 20),
        "max_replans": 8,
        "replans_rationale": "to see the end",
    }
    return Scene(
        pack=world.pack(budget=budget, on_failure="keep"),
        request=ask(world),
        planner=lambda: Script(*plans),
        rounds=2,
    )


async def extended(world: World) -> str:
    """A run whose budget an operator extends while it waits."""
    return await start(world, budgets(world))


async def _extended(world: World, session: str) -> None:
    made = budgets(world)
    async with world.runtime(made.pack) as runtime:
        more = {"tool_calls": 10, "cost_microcents": 1_000, "tokens": 5_000, "wall_clock_ms": 600_000}
        with suppress(TercetError):
            await runtime.extend(session, more, actor=BOB)
        await walk(world, runtime, await runtime.resume(session), rounds=3)


# --- compensation ---


def _saga(world: World, undo: Behave | None = None) -> None:
    back = {"tool": "undo.it", "params": {"n": {"$from": "self#/n"}}}
    world.tool("do.it", compensate=back, reversibility="compensable")
    world.tool("undo.it", undo, idempotent=world.chance("undo again", 0.5), no_compensation="nothing is left")
    world.tool("keep.it", no_compensation="it stays")
    world.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    world.tool("no.way", world.broken(), no_compensation="it never works")


def compensations(world: World) -> Scene:
    """Runs that fail, are denied or cancelled after effects: compensated, kept or asked about."""
    undo = world.one(
        "undo",
        (
            world.echo(900),
            world.flaky(1),
            world.lost(1),
            world.broken(),
            world.lost(9),
            world.slow(50_000, 1),
        ),
    )
    _saga(world, undo)
    last = world.one("end", ("wipe.it", "no.way", "wipe.it"))
    effects = [
        step(f"s{n}", world.one(n, ("do.it", "do.it", "keep.it"))) for n in range(world.n("size", 1, 3))
    ]
    proposed = plan(
        *effects, step("w", last, depends_on=tuple(each.id for each in effects)), outputs={"x": 1}
    )
    on_failure = world.one("failure", ("compensate", "ask", "ask", "keep"))
    return Scene(
        pack=world.pack(gates=(BOSS,), on_failure=on_failure), request=ask(world), run={"plan": proposed}
    )


def proposed_compensations(world: World) -> Scene:
    """Compensations that the plan proposes: bound with the step, or with a gate of their own."""
    _saga(world)
    world.tool("pay.it", mode="network", gates=("BOSS",), authority=(), no_compensation="paid is paid")
    back = world.one(
        "back",
        (
            {"tool": "undo.it", "params": {"n": "x"}},
            {"tool": "undo.it", "params": {"n": {"$from": "a#/n"}}},
            {"tool": "pay.it", "params": {"n": "x"}},
            {"tool": "undo.it", "params": {"n": {"$from": "self#/missing"}}},
        ),
    )
    proposed = plan(
        step("a"),
        step("b", "keep.it", compensate=back, depends_on=("a",)),
        step("w", world.one("end", ("wipe.it", "no.way")), depends_on=("b",)),
    )
    on_failure = world.one("failure", ("compensate", "ask"))
    return Scene(
        pack=world.pack(gates=(BOSS,), on_failure=on_failure), request=ask(world), run={"plan": proposed}
    )


async def denied(world: World) -> str:
    """A run that is denied after effects, or cancelled, while no process carries it."""
    made = compensations(world)
    async with world.runtime(made.pack) as runtime:
        session = await _run(runtime, made)
        with suppress(TercetError):
            if world.chance("cancel", 0.4):
                await runtime.cancel(session, actor=BOB, note="not wanted any more")
            else:
                await runtime.deny(f"{session}.g1", actor=BOB, note="no")
        return session


async def _denied(world: World, session: str) -> None:
    await carry_on(world, compensations(world), session)


# --- messages to a run that is under way ---


def _long(world: World) -> Scene:
    world.tool(
        "do.it",
        world.echo(9_000),
        compensate={"tool": "undo.it", "params": {"n": {"$from": "self#/n"}}},
        reversibility="compensable",
    )
    world.tool("undo.it", no_compensation="nothing is left")
    steps = [step("s0"), step("s1"), *(step(f"s{n}", depends_on=(f"s{n - 1}",)) for n in range(2, 5))]
    proposed = plan(*steps, outputs={"x": {"$from": "s0#/n"}})
    on_failure = world.one("failure", ("compensate", "ask", "keep"))
    return Scene(pack=world.pack(on_failure=on_failure), request=ask(world), run={"plan": proposed})


async def interrupted(world: World) -> str:
    """A run that is paused, cancelled, extended or stopped while calls are under way, from here or from elsewhere."""
    made = _long(world)
    async with world.runtime(made.pack) as runtime, world.runtime(made.pack) as other:
        running = asyncio.ensure_future(_run(runtime, made))
        await world.clock.sleep(world.n("when", 100, 9_000))
        rows = await other.sessions()
        session = rows[0].session_id
        speaker = world.one("speaker", (runtime, other))
        with suppress(TercetError):
            match world.one("said", ("pause", "cancel", "extend", "stop", "halt", "twice")):
                case "pause":
                    await speaker.pause(session, actor=BOB, note="wait a moment")
                case "cancel":
                    await speaker.cancel(session, actor=BOB, note="not wanted")
                case "extend":
                    await speaker.extend(session, {"tool_calls": 3}, actor=BOB)
                case "stop":
                    runtime.stop()
                case "halt":
                    kind = world.one("kind", ("tool", "pack", "tenant"))
                    name = {"tool": "do.it", "pack": "seeded", "tenant": world.tenant}[kind]
                    await other.halt(kind, name, actor=BOB, note="too many complaints")
                case _:
                    await asyncio.gather(
                        other.pause(session, actor=BOB),
                        runtime.cancel(session, actor=ANN),
                        other.cancel(session, actor=BOB),
                        return_exceptions=True,
                    )
        await running
        return session


async def _interrupted(world: World, session: str) -> None:
    made = _long(world)
    async with world.runtime(made.pack) as runtime:
        result = await runtime.resume(session)
        await lift_stops(world, runtime)
        await walk(world, runtime, result, rounds=3)


async def lift_stops(world: World, runtime: Runtime) -> None:
    """Lift every emergency stop that there may be."""
    stops: dict[Any, str] = {"tool": "do.it", "pack": "seeded", "tenant": world.tenant}
    for kind, name in stops.items():
        with suppress(TercetError):
            await runtime.lift(kind, name, actor=BOB)


async def late_messages(world: World) -> str:
    """People who answer at the same moment, of whom one is too late, while another call is under way."""
    world.tool("do.it", world.slow(world.n("ms", 5, 25) * 1_000), no_compensation="none")
    world.tool("wipe.it", mode="destructive", authority=(), gates=("BOSS",), no_compensation="gone is gone")
    pack = world.pack(gates=(BOSS,), on_failure="keep")
    proposed = plan(step("a"), step("w", "wipe.it"), step("z", depends_on=("a", "w")))
    async with world.runtime(pack) as runtime, world.runtime(pack) as other, world.runtime(pack) as third:
        running = asyncio.ensure_future(runtime.run(ask(world), plan=proposed, actor=ADA))
        await world.clock.sleep(world.n("when", 100, 4_000))
        session = (await other.sessions())[0].session_id
        said = [
            getattr(world.one(("by", number), (other, third)), word)(f"{session}.g1", actor=person)
            for number, (word, person) in enumerate(
                world.one(
                    "said",
                    (
                        (("approve", BOB), ("deny", CLEO)),
                        (("deny", BOB), ("approve", CLEO)),
                        (("deny", BOB), ("deny", CLEO), ("approve", ANN)),
                        (("approve", BOB), ("approve", CLEO), ("withdraw", BOB)),
                    ),
                )
            )
        ]
        if world.chance("cancel", 0.3):
            said += [other.cancel(session, actor=BOB), third.cancel(session, actor=ANN)]
        await asyncio.gather(*said, return_exceptions=True)
        await walk(world, runtime, await running, rounds=3)
        return session


# --- processes that die ---


async def crashed(world: World) -> str:
    """A process that dies somewhere in a run of some plan."""
    return await crash(world, graph(world), world.one("point", POINTS), world.n("nth", 1, 9))


async def _crashed(world: World, session: str) -> None:
    if session:
        await carry_on(world, graph(world), session)


async def crashed_call(world: World) -> str:
    """A process that dies around a call whose tool may not be called again."""
    point = world.one("point", ("before_call", "after_answer", "after_append"))
    return await crash(world, unknown(world), point, world.n("nth", 1, 4))


async def _crashed_call(world: World, session: str) -> None:
    if session:
        await carry_on(world, unknown(world), session)


async def crashed_saga(world: World) -> str:
    """A process that dies while it compensates."""
    made = compensations(world)
    async with world.runtime(made.pack) as runtime:
        session = await _run(runtime, made)
        with suppress(TercetError):
            await runtime.deny(f"{session}.g1", actor=BOB)
    crash_at = Death(world.one("point", POINTS), world.n("nth", 1, 4))
    async with world.runtime(made.pack, crash=crash_at) as runtime:
        with suppress(TercetError):
            await crash_at.of(runtime.resume(session))
    return session


async def crashed_twice(world: World) -> str:
    """A process that dies, and another one that dies while it carries the session on."""
    made = gates(world)
    session = await crash(world, made, world.one("point", POINTS), world.n("nth", 1, 5))
    if session:
        crash_at = Death(world.one("point 2", POINTS), world.n("nth 2", 1, 3))
        planner = None if made.planner is None else made.planner()
        async with world.runtime(made.pack, crash=crash_at) as runtime:
            with suppress(TercetError):
                await crash_at.of(runtime.resume(session, planner=planner))
    return session


async def _crashed_twice(world: World, session: str) -> None:
    if session:
        await carry_on(world, gates(world), session)


async def watched(world: World) -> str:
    """Sessions that no process carries: paused, resumed or expired by the watchdog."""
    world.tool("do.it", idempotent=True, no_compensation="none")
    world.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    loss = world.one("loss", ("pause", "resume"))
    pack = world.pack(
        gates=(BOSS,),
        session={"on_heartbeat_loss": loss, "ttl_ms": world.one("ttl", (3, 10, 300)) * MINUTE_MS},
        on_failure=world.one("failure", ("keep", "compensate")),
    )
    steps = [step("a"), step("b", depends_on=("a",))]
    if world.chance("gated", 0.5):
        steps.append(step("w", "wipe.it", depends_on=("b",)))
    made = Scene(pack=pack, request=ask(world), run={"plan": plan(*steps)})
    session = await crash(world, made, world.one("point", POINTS), world.n("nth", 2, 5))
    async with world.runtime(pack) as runtime:
        for number in range(4):
            await world.clock.sleep(world.n(("wait", number), 1, 4) * MINUTE_MS)
            await runtime.sweep()
        if session:
            await walk(world, runtime, await runtime.resume(session), rounds=2)
    return session


# --- moves to another pack ---


async def migrated(world: World) -> str:
    """A session that waits, and is moved to another version of its pack, or of its evidence."""
    return await start(world, _movable(world, "1.0.0"))


def _movable(world: World, version: str) -> Scene:
    _saga(world)
    total = 1 if version == "1.0.0" else world.n("total", 1, 2)
    fact = FACT.model_copy(update={"content": {"total": total}})
    pack = world.pack(
        gates=(BOSS,),
        evidence=(fact,),
        version=version,
        on_failure=world.one("failure", ("compensate", "keep")),
    )
    proposed = plan(
        step("a", evidence_refs=(FACT.id,)),
        step("w", world.one("end", ("wipe.it", "no.way")), depends_on=("a",)),
        outputs={"total": {"$evidence": f"{FACT.id}#/total"}},
    )
    return Scene(pack=pack, request=ask(world), run={"plan": proposed})


async def _migrated(world: World, session: str) -> None:
    made = _movable(world, "1.1.0")
    async with world.runtime(made.pack) as runtime:
        if world.chance("answered", 0.3):
            with suppress(TercetError):
                await runtime.approve(f"{session}.g1", actor=BOB)
        result = await runtime.migrate(session, actor=BOB)
        await walk(world, runtime, result, rounds=4)


# --- several sessions ---


async def once_per(world: World) -> str:
    """Calls that the runs of a tenant may make once in a period: refused, asked about, or of another tenant."""
    schema = {
        "type": "object",
        "properties": {"payment": {"type": "string"}, "cents": {"type": "integer"}},
        "required": ["payment", "cents"],
    }
    then = world.one("then", ("refuse", "ask"))
    once = {"identity": ["payment", "cents"], "days": world.n("days", 1, 30), "then": then}
    behave = world.one("behave", (world.echo(), world.echo(), world.lost(1), world.flaky(1)))
    world.tool("pay.back", behave, parameters=schema, once_per=once, no_compensation="final")
    pack = world.pack(gates=(BOSS,), on_failure="keep", budget={"max_step_retries": 1})
    session = ""
    for number in range(3):
        cents = world.one(("cents", number), (100, 100, 200))
        params = {"payment": "pay_1", "cents": cents}
        tenant = world.tenant if world.chance(("tenant", number), 0.8) else f"{world.tenant}-b"
        async with world.runtime(pack, tenant=tenant) as runtime:
            result = await runtime.run(
                ask(world), plan=plan(step(f"r{number}", "pay.back", params=params)), actor=ADA
            )
            result = await walk(world, runtime, result, rounds=2)
        session = session or result.session_id
        if world.chance(("later", number), 0.3):
            await world.clock.sleep(world.n(("days", number), 1, 20) * 24 * 60 * MINUTE_MS)
    return session


async def nested(world: World) -> str:
    """Runs that start runs, until they are too deep or have used up what they share."""
    runtimes: list[Runtime] = []

    async def dig(context: ToolContext, params: dict[str, Any]) -> Any:
        await world.clock.sleep(world.latency(context, 300))
        proposed = plan(step("a", "dig.it", params={"n": str(params.get("n", "")) + "x"}), step("b"))
        try:
            child = await runtimes[0].run(ask(world), plan=proposed, parent=context)
        except TercetError as error:
            return {"stopped": error.code}
        return {"child": child.status}

    world.tool("dig.it", dig, idempotent=True, no_compensation="none")
    world.tool("do.it", no_compensation="none")
    limits = {
        "max_depth": world.n("depth", 1, 3),
        "max_iterations": world.n("iterations", 8, 30),
        "max_global_iterations": world.n("all", 30, 90),
    }
    async with world.runtime(world.pack(budget=limits, on_failure="keep")) as runtime:
        runtimes.append(runtime)
        return (await runtime.run(ask(world), plan=plan(step("a", "dig.it")), actor=ADA)).session_id


async def asked_again(world: World) -> str:
    """Requests with a key that are sent again, rehearsals, development sessions and callers' traces."""
    _gated(world)
    pack = world.pack(gates=(BOSS, LAW, BOTH, ROW, DEAR), on_failure="keep", actors=(ADA, BOB, CLEO, ANN))
    proposed = some_plan(world, ("do.it", "tell.it"), most=4)
    request = ask(world, request_key=f"key-{world.seed}")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    more: dict[str, Any] = world.one(
        "more", ({"dev": True}, {"traceparent": trace}, {"folder": "shop"}, {"ttl_ms": 50 * MINUTE_MS}, {})
    )
    async with world.runtime(pack) as runtime:
        await runtime.run(request, plan=proposed, actor=ADA, shadow=True)
        with suppress(TercetError):
            result = await runtime.run(request, plan=proposed, actor=ADA, **more)
            result = await runtime.run(request, plan=proposed, actor=ADA, **more)
            await walk(world, runtime, result, rounds=3)
            again = await runtime.run(request, plan=proposed, actor=ADA)
            return again.session_id
    return ""


FAMILIES: tuple[Family, ...] = (
    in_two_acts(graph),
    in_two_acts(ties),
    in_two_acts(retries),
    Family(name="breaker", begin=breaker),
    in_two_acts(timeouts),
    in_two_acts(unknown),
    in_two_acts(bad_results),
    in_two_acts(large_values),
    in_two_acts(loop_guard),
    in_two_acts(gates),
    in_two_acts(sequences),
    in_two_acts(changed_calls),
    Family(name="set_values", begin=set_values, finish=_set_values),
    in_two_acts(policies),
    in_two_acts(outputs_accepted),
    Family(name="acceptance_lapses", begin=acceptance_lapses, finish=_acceptance_lapses),
    in_two_acts(scripted_plans),
    in_two_acts(templates),
    in_two_acts(methods),
    in_two_acts(budgets),
    in_two_acts(iterations),
    Family(name="extended", begin=extended, finish=_extended),
    in_two_acts(compensations),
    in_two_acts(proposed_compensations),
    Family(name="denied", begin=denied, finish=_denied),
    Family(name="interrupted", begin=interrupted, finish=_interrupted),
    Family(name="late_messages", begin=late_messages),
    Family(name="crashed", begin=crashed, finish=_crashed),
    Family(name="crashed_call", begin=crashed_call, finish=_crashed_call),
    Family(name="crashed_saga", begin=crashed_saga, finish=_denied),
    Family(name="crashed_twice", begin=crashed_twice, finish=_crashed_twice),
    Family(name="watched", begin=watched),
    Family(name="migrated", begin=migrated, finish=_migrated),
    Family(name="once_per", begin=once_per),
    Family(name="nested", begin=nested),
    Family(name="asked_again", begin=asked_again),
)

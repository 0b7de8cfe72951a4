"""More families of seeded runs. New ones are added at the end of the list in this file."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from engine.workshop import Death
from tercet.contracts.errors import TercetError
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Compensation

from .families import BOSS, HASTY, POINTS, Family, Scene, carry_on, crash, in_two_acts, lift_stops
from .world import ADA, BOB, MINUTE_MS, Script, World, ask, plan, some_plan, step, walk


def expiries(world: World) -> Scene:
    """Gates and sessions that have expired when they are resumed."""
    world.tool(
        "do.it",
        compensate=Compensation.model_validate({"tool": "undo.it", "params": {"n": {"$from": "self#/n"}}}),
    )
    world.tool("undo.it", no_compensation="nothing is left")
    world.tool("wipe.it", mode="destructive", gates=("HASTY",), authority=(), no_compensation="gone")
    ttl = world.one("ttl", (20, 20, 600)) * MINUTE_MS
    pack = world.pack(
        gates=(HASTY,),
        session={"ttl_ms": ttl},
        on_failure=world.one("failure", ("compensate", "ask", "keep")),
    )
    proposed = plan(step("a"), step("w", "wipe.it", depends_on=("a",)), outputs={"x": {"$from": "a#/n"}})
    return Scene(pack=pack, request=ask(world), run={"plan": proposed}, rounds=3)


async def prolonged(world: World) -> str:
    """Runs that an operator extends, pauses and resumes while calls are under way or a gate waits."""
    world.tool("do.it", world.echo(9_000), no_compensation="none")
    world.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    steps = [step("s0"), *(step(f"s{n}", depends_on=(f"s{n - 1}",)) for n in range(1, 4))]
    if world.chance("gated", 0.5):
        steps.append(step("w", "wipe.it"))
    pack = world.pack(gates=(BOSS,), budget={"tool_calls": 6}, on_failure="keep")
    async with world.runtime(pack) as runtime, world.runtime(pack) as other:
        running = asyncio.ensure_future(runtime.run(ask(world), plan=plan(*steps), actor=ADA))
        await world.clock.sleep(world.n("first", 100, 6_000))
        session = (await other.sessions())[0].session_id
        for number in range(3):
            speaker = world.one(("by", number), (runtime, other))
            with suppress(TercetError):
                match world.one(("said", number), ("extend", "extend", "pause", "approve")):
                    case "extend":
                        await speaker.extend(session, {"tool_calls": number + 1}, actor=BOB)
                    case "pause":
                        await speaker.pause(session, actor=BOB, note="a moment")
                    case _:
                        await speaker.approve(f"{session}.g1", actor=BOB)
            await world.clock.sleep(world.n(("then", number), 1, 4_000))
        await walk(world, runtime, await running, rounds=3)
        return session


async def stopped(world: World) -> str:
    """Emergency stops before a call, between two and while one is under way; lifted or not."""
    world.tool("do.it", world.echo(4_000), no_compensation="none")
    world.tool("tell.it", world.echo(2_000), no_compensation="none")
    proposed = some_plan(world, ("do.it", "tell.it"), most=6)
    pack = world.pack(on_failure="keep")
    kind = world.one("kind", ("tool", "pack", "tenant"))
    name = {"tool": "do.it", "pack": "seeded", "tenant": world.tenant}[kind]
    async with world.runtime(pack) as runtime, world.runtime(pack) as operator:
        is_first = world.chance("first", 0.3)
        if is_first:
            await operator.halt(kind, name, actor=BOB, note="too many complaints")
        running = asyncio.ensure_future(runtime.run(ask(world), plan=proposed, actor=ADA))
        await world.clock.sleep(world.n("when", 1, 5_000))
        if not is_first:
            await operator.halt(kind, name, actor=BOB)
        return (await running).session_id


async def _stopped(world: World, session: str) -> None:
    world.tool("do.it", world.echo(4_000), no_compensation="none")
    world.tool("tell.it", world.echo(2_000), no_compensation="none")
    pack = world.pack(on_failure="keep")
    async with world.runtime(pack) as runtime:
        result = await runtime.resume(session)
        await lift_stops(world, runtime)
        await walk(world, runtime, result, rounds=3)


def _waiting_for_retry(world: World) -> Scene:
    world.tool(
        "try.it",
        world.flaky(world.n("times", 1, 3), wait_ms=world.n("wait", 1, 30) * 1_000),
        idempotent=True,
        no_compensation="none",
    )
    world.tool("do.it", no_compensation="none")
    proposed = plan(step("a", "try.it"), step("b"), step("c", depends_on=("a", "b")))
    return Scene(pack=world.pack(on_failure="keep"), request=ask(world), run={"plan": proposed})


async def delayed_retry(world: World) -> str:
    """A process that stops, or dies, while a retry waits for its time."""
    made = _waiting_for_retry(world)
    crash_at = Death("after_append", world.n("nth", 2, 7))
    runtime = world.runtime(made.pack, **({"crash": crash_at} if world.chance("dies", 0.5) else {}))
    async with runtime:
        running = asyncio.ensure_future(
            crash_at.of(runtime.run(made.request, plan=made.run["plan"], actor=ADA))
        )
        await world.clock.sleep(world.n("stop", 200, 6_000))
        runtime.stop()
        await running
        return (await runtime.sessions())[0].session_id


async def _delayed_retry(world: World, session: str) -> None:
    await carry_on(world, _waiting_for_retry(world), session)


def values(world: World) -> Scene:
    """Parameters and outputs that are computed, selected, or cannot be resolved when their turn comes."""
    rows = [{"id": f"r{n}", "cents": world.n(("row", n), 1, 99)} for n in range(world.n("rows", 1, 4))]
    world.tool("list.it", world.returns({"rows": rows, "name": "list"}), mode="read_only")
    world.tool("do.it", no_compensation="none")
    chosen: dict[str, Any] = world.one(
        "value",
        (
            {"$cel": "a.rows[0].cents + 1"},
            {"$cel": f"a.rows[{world.n('at', 0, 4)}].cents"},
            {"$select": {"from": "a#/rows", "order": "first"}},
            {"$select": {"from": "a#/rows", "order": "largest", "by": "/cents"}},
            {"$from": f"a#/rows/{world.n('at', 0, 4)}/cents"},
            {"$from": "request#/missing"},
        ),
    )
    # Some of these forms are refused when the plan is reviewed, some when the step is due.
    proposed = plan(
        step("a", "list.it"),
        step("b", params={"n": chosen}, optional=world.chance("optional", 0.3)),
        step("c", None, params={"note": {"$from": "a#/name"}}),
        outputs={"name": {"$from": "c#/note"}, "late": world.one("late", ({"$from": "b#/n"}, 1))},
    )
    return Scene(pack=world.pack(on_failure="keep"), request=ask(world), run={"plan": proposed}, rounds=3)


def handed_over(world: World) -> Scene:
    """Plans that fail until a person takes over, asks for another plan, accepts a part or gives up."""
    world.tool("do.it", no_compensation="none")
    world.tool("no.way", world.broken(), mode="read_only")
    number = world.n("plans", 1, 3)
    bad = [plan(step("a"), step(f"x{n}", "no.way", depends_on=("a",))) for n in range(number)]
    good = plan(step("a"), step("c", depends_on=("a",)), outputs={"x": {"$from": "c#/n"}})
    script = (*bad, good) if world.act == "begin" else (good, *bad)
    budget = {"max_replans": world.n("replans", 0, number), "max_step_retries": 0}
    return Scene(
        pack=world.pack(budget=budget, on_failure="keep"),
        request=ask(world),
        planner=lambda: Script(*script),
        rounds=4,
    )


def quorums(world: World) -> Scene:
    """Several gates with several people each, in one run."""
    world.tool("do.it", no_compensation="none")
    gates = (
        Gate(name="TWO", roles=("boss",), quorum=2),
        Gate(name="THREE", roles=("boss", "law"), quorum=3),
        Gate(name="SEQ", roles=("boss",), quorum=world.n("quorum", 1, 2), covers="sequence"),
    )
    for name in ("two", "three", "seq"):
        declared: dict[str, Any] = {
            "mode": "network",
            "authority": (),
            "gates": (name.upper(),),
            "no_compensation": "sent",
        }
        world.tool(f"send.{name}", **declared)
    tools = ("do.it", "send.two", "send.three", "send.seq")
    proposed = some_plan(world, tools, most=5)
    return Scene(
        pack=world.pack(gates=gates, on_failure="keep"), request=ask(world), run={"plan": proposed}, rounds=6
    )


async def crashed_answers(world: World) -> str:
    """A process that dies right after people have answered, once or more."""
    made = quorums(world)
    session = await crash(world, made, "after_append", world.n("nth", 2, 8))
    if session:
        async with world.runtime(made.pack) as runtime:
            with suppress(TercetError):
                result = await runtime.resume(session)
                await walk(world, runtime, result, rounds=1, has_end=False)
        crash_at = Death(world.one("point", POINTS), world.n("again", 1, 3))
        async with world.runtime(made.pack, crash=crash_at) as runtime:
            with suppress(TercetError):
                await crash_at.of(runtime.resume(session))
    return session


async def _crashed_answers(world: World, session: str) -> None:
    if session:
        await carry_on(world, quorums(world), session)


LATE_FAMILIES: tuple[Family, ...] = (
    in_two_acts(expiries),
    Family(name="prolonged", begin=prolonged),
    Family(name="stopped", begin=stopped, finish=_stopped),
    Family(name="delayed_retry", begin=delayed_retry, finish=_delayed_retry),
    in_two_acts(values),
    in_two_acts(handed_over),
    in_two_acts(quorums),
    Family(name="crashed_answers", begin=crashed_answers, finish=_crashed_answers),
)

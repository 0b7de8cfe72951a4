"""Permissions: what a run may not see, it cannot call, whoever wrote its plan."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.request import Actor, Request
from tercet.core.config import RunConfig

from .workshop import ADA, ASK, BOB, CLEO, Workshop, plan, step

PAY = plan(step("a", "pay.out"))


@pytest.mark.parametrize(
    ("declared", "tenant", "status"),
    [
        ({"roles": ("clerk",)}, "default", "failed"),
        ({"roles": ("clerk", "boss")}, "default", "completed"),
        ({"tenants": ("north", "east")}, "south", "failed"),
        ({"tenants": ("north", "east")}, "east", "completed"),
        ({"tenants": ("north",), "roles": ("clerk",)}, "north", "failed"),
    ],
)
def test_a_plan_that_calls_a_tool_out_of_sight_is_refused(
    declared: dict[str, Any], tenant: str, status: str
) -> None:
    """A caller's own plan too: the tool is not on the surface, and is never called."""
    shop = Workshop()
    shop.tool("pay.out", **declared)
    shop.tool("do.it")

    async def main() -> None:
        async with shop.runtime(shop.pack(), tenant=tenant) as runtime:
            result = await runtime.run(ASK, plan=PAY, actor=BOB)
            assert result.status == status
            state = await runtime.state(result.session_id)
            if status == "failed":
                assert state.verdict["code"] == "tool_not_surfaced"
                assert "pay.out is none, since " in state.verdict["remedy"]

    shop.run(main())
    assert len(shop.calls) == (status == "completed")


def test_a_compensation_out_of_sight_is_refused() -> None:
    """A plan cannot call by its way back what it may not call itself."""
    shop = Workshop()
    shop.tool("pay.out", roles=("clerk",))
    shop.tool("do.it", reversibility="compensable")
    way: dict[str, Any] = {"tool": "pay.out", "params": {}}

    async def main() -> None:
        async with shop.runtime(shop.pack(decision={"risk_tier": "high"})) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a", compensate=way)), actor=ADA)
            state = await runtime.state(result.session_id)
            assert (result.status, state.verdict["code"]) == ("failed", "compensation_missing")

    shop.run(main())
    assert shop.calls == []


@pytest.mark.req("R28", "R57", "R58")
def test_a_planner_sees_the_whole_context_and_nothing_out_of_sight() -> None:
    """It is handed the frame, the decision and what was compiled for this owner: tools with their modes, and no code."""
    shop = Workshop()
    shop.tool("pay.out", roles=("clerk",))
    shop.tool("pay.big", mode="destructive")
    shop.tool("do.it")
    seen: list[RunConfig] = []

    class Looking:
        name = "looking"

        async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Any:
            del feedback
            seen.append(config)
            assert shop.calls == []
            return plan(step("a"))

    async def main() -> None:
        async with shop.runtime(shop.pack(safety_mode="local_write")) as runtime:
            result = await runtime.run(ASK, planner=Looking(), actor=Actor(id="eve", roles=("cook",)))
            assert result.status == "completed"
            start = (await runtime.state(result.session_id)).start
            assert start.context == seen[0].compiled.hash

    shop.run(main())
    compiled = seen[0].compiled
    assert (seen[0].ctx.actor.id, seen[0].spec.id) == ("eve", "work")
    assert {name: str(tool.mode) for name, tool in compiled.surface.items()} == {
        "do.it": "local_write",
        "pay.big": "destructive",
    }
    assert not any(hasattr(tool, "call") for tool in compiled.surface.values())
    assert (list(compiled.surface), list(compiled.offered)) == (["do.it", "pay.big"], ["do.it"])
    assert (compiled.request, [spec.id for spec in compiled.decisions]) == (ASK, ["work"])
    assert {entry.name: entry.admitted for entry in compiled.ledger if entry.kind == "tool"} == {
        "do.it": True,
        "pay.big": True,
        "pay.out": False,
    }


def test_a_session_is_resumed_with_the_context_that_it_had() -> None:
    """The owner's roles are those of the start and what was left out stays so, also where another process goes on."""
    shop = Workshop()
    shop.tool("pay.out", roles=("boss",), mode="network", authority=(), no_compensation="it is paid")
    shop.tool("do.it", description="long " * 100)
    pack = shop.pack(context={"tokens": {"tools": 40}})

    async def main() -> None:
        async with (
            shop.journal("memory:") as journal,
            shop.runtime(pack, journal) as first,
            shop.runtime(pack.model_copy(), journal) as second,
        ):
            refused = await first.run(ASK, plan=plan(step("a")), actor=BOB)
            waiting = await first.run(ASK, plan=PAY, actor=BOB)
            assert (refused.status, waiting.status) == ("failed", "awaiting_gate")
            assert waiting.gate is not None
            await second.approve(waiting.gate.id, actor=CLEO)
            assert (await second.resume(waiting.session_id)).status == "completed"

    shop.run(main())
    assert shop.calls == [("a", 1)]


def test_a_request_that_does_not_fit_starts_no_session() -> None:
    """The limit is asked for before anything is written."""
    shop = Workshop()
    shop.tool("do.it")
    pack = shop.pack(context={"tokens": {"request": 20}})

    async def main() -> None:
        async with shop.runtime(pack) as runtime:
            with pytest.raises(UsageError) as caught:
                await runtime.run(Request(intent="work", input={"text": "x" * 100}), plan=plan(step("a")))
            assert caught.value.code == "context_overflow"
            assert await runtime.sessions() == []
            assert (await runtime.run(ASK, plan=plan(step("a")))).status == "completed"

    shop.run(main())


def test_a_way_back_out_of_sight_is_paid_for_beforehand() -> None:
    """What a tool's own compensation costs is kept back also where the owner could not call it by a plan."""
    shop = Workshop()
    way = {"tool": "undo.it", "params": {"n": {"$from": "params#/n"}}}
    shop.tool("do.it", compensate=way, cost_microcents=10)
    shop.tool("undo.it", roles=("clerk",), cost_microcents=5, no_compensation="it is one")
    pack = shop.pack(budget={"cost_microcents": 12})

    async def main() -> None:
        async with shop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            assert result.status == "paused"
            assert "15" in result.reason

    shop.run(main())
    assert shop.calls == []


def test_whoever_is_on_the_list_has_the_roles_of_the_list() -> None:
    """A role that somebody claims is none where the pack says who holds which; only a caller who is trusted names others."""
    shop = Workshop()
    shop.tool("pay.out", roles=("boss",))
    pack = shop.pack(actors=(Actor(id="bob", roles=("cook",)), Actor(id="dan", roles=("boss",))))

    async def main() -> None:
        for trusts_caller, expected in ((False, "failed"), (True, "completed")):
            async with shop.runtime(pack, trusts_caller=trusts_caller) as runtime:
                ended = [
                    (await runtime.run(ASK, plan=PAY, actor=actor)).status
                    for actor in (BOB, Actor(id="dan"), CLEO)
                ]
                assert ended == ["failed", "completed", expected]

    shop.run(main())

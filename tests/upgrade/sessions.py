"""The unfinished sessions: waiting at a gate, approved, paused, died during a call, and stopped in a rollback."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from engine.workshop import ADA, ASK, BOB, Behave, Death, Workshop, echo, plan, step
from tercet.contracts.errors import NotDone
from tercet.contracts.gate import Gate
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.tools import ToolContext

BOSS = Gate(name="BOSS", roles=("boss",))
WAITS = plan(step("a"), step("b", depends_on=("a",)), step("w", "wipe.it", depends_on=("b",)))
BYPASS = plan(
    step("a", compensate={"tool": "pay.it", "params": {"n": "x"}}),
    step("b", "break.it", depends_on=("a",)),
)
"""A harmless step whose proposed compensation is a gated call."""


async def broken(_: ToolContext, __: dict[str, Any]) -> Any:
    """A tool that never works, and says so."""
    raise NotDone("out of order", code="broken", is_retriable=False)


def make_pack(workshop: Workshop, *, do: Behave = echo, undo: Behave = echo) -> Pack:
    """The pack that every session here was started with."""
    back = {"tool": "undo.it", "params": {"n": {"$from": "self#/n"}}}
    workshop.tool("do.it", do, compensate=back, reversibility="compensable")
    workshop.tool("undo.it", undo, idempotent=True, no_compensation="nothing is left")
    workshop.tool("break.it", broken, no_compensation="it never works")
    workshop.tool("pay.it", mode="network", gates=("BOSS",), authority=(), no_compensation="paid is paid")
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    return workshop.pack(gates=(BOSS,), on_failure="ask")


async def waiting(workshop: Workshop, journal: Journal) -> str:
    """One step is done and the next one waits at its gate."""
    async with workshop.runtime(make_pack(workshop), journal) as runtime:
        return (await runtime.run(ASK, plan=WAITS, actor=ADA)).session_id


async def approved(workshop: Workshop, journal: Journal) -> str:
    """The gate was approved, and no worker has gone on."""
    async with workshop.runtime(make_pack(workshop), journal) as runtime:
        session = (await runtime.run(ASK, plan=WAITS, actor=ADA)).session_id
        await runtime.approve(f"{session}.g1", actor=BOB)
        return session


async def paused(workshop: Workshop, journal: Journal) -> str:
    """The worker was stopped between two steps."""

    async def stopping(_: ToolContext, params: dict[str, Any]) -> Any:
        runtime.stop()
        return params

    runtime = workshop.runtime(make_pack(workshop, do=stopping), journal)
    async with runtime:
        return (await runtime.run(ASK, plan=WAITS, actor=ADA)).session_id


async def died(workshop: Workshop, journal: Journal) -> str:
    """The process died after a call and before its result was recorded."""
    death = Death("after_answer")
    runtime = workshop.runtime(make_pack(workshop), journal, crash=death)
    async with runtime:
        await death.of(runtime.run(ASK, plan=WAITS, actor=ADA))
        return (await runtime.sessions())[0].session_id


async def bypassing(workshop: Workshop, journal: Journal) -> str:
    """The run failed, and asks whether to compensate by a call that has a gate of its own."""
    async with workshop.runtime(make_pack(workshop), journal) as runtime:
        result = await runtime.run(ASK, plan=BYPASS, actor=ADA)
        assert result.gate is not None
        await runtime.decide(result.gate.id, "abandon", actor=ADA)
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        await runtime.decide(result.gate.id, "compensate", actor=ADA)
        return result.session_id


async def rolling_back(workshop: Workshop, journal: Journal) -> str:
    """The process died while it compensated."""

    async def stuck(_: ToolContext, __: dict[str, Any]) -> Any:
        await asyncio.Event().wait()

    death = Death("before_call")
    pack = make_pack(workshop, undo=stuck)
    async with workshop.runtime(pack, journal) as runtime:
        session = (await runtime.run(ASK, plan=WAITS, actor=ADA)).session_id
        await runtime.deny(f"{session}.g1", actor=BOB)
        result = await runtime.resume(session)
        assert result.gate is not None
        await runtime.decide(result.gate.id, "compensate", actor=BOB)
    dying = workshop.runtime(pack, journal, crash=death)
    async with dying:
        await death.of(dying.resume(session))
    return session


SESSIONS: dict[str, Callable[[Workshop, Journal], Awaitable[str]]] = {
    each.__name__: each for each in (waiting, approved, paused, died, bypassing, rolling_back)
}

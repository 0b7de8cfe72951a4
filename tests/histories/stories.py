"""The stories that are recorded of each version: small runs that between them go everywhere a run can go."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from critics.bench import Scripted, act, counted
from engine.quality_desk import BAD_TONE, FINE_TONE, GOOD, LEAKY, TONE, WRITE, desk, model, run_accepted
from engine.quality_desk import mended as rewriting
from engine.test_runs import Script
from engine.workshop import ADA, ASK, BOB, Workshop, plan, step
from tercet.contracts.errors import NotDone
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate, Policy
from tercet.contracts.plan import Compensation
from tercet.critics import CriticResult, Decision, Engine, critic
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.tools import ToolContext

FACT = Evidence.model_validate(
    {"id": "kg:order:o1#snapshot_s1", "content": {"total": 3}, "source": "test", "trust": "trusted"}
)
BOSS = Gate(name="BOSS", roles=("boss",))
SMALL = Policy(name="small", scope="step", effect="grant", expression="int(step.params.sum) <= 100")


class Named(Runtime):
    """A runtime whose process has the same name every time."""

    async def __aenter__(self) -> Named:
        await super().__aenter__()
        self._desk = dataclasses.replace(self._desk, _name="worker")
        return self


def runtime(workshop: Workshop, pack: Pack, journal: Journal, **more: Any) -> Named:
    """A runtime in a workshop: its clock, ids that count, jitter that is always half, and a name that stays."""
    return Named(
        pack,
        journal,
        watchdog_ms=None,
        options=RuntimeOptions(
            clock=workshop.clock, ids=lambda: f"{workshop.numbers():04}", draw=lambda: 0.5
        ),
        **more,
    )


def flaky(times: int) -> Callable[[ToolContext, dict[str, Any]], Awaitable[Any]]:
    """A tool that is not done so often before it is."""

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        if context.attempt <= times:
            raise NotDone("busy")
        return params

    return behave


async def lost(_: ToolContext, __: dict[str, Any]) -> Any:
    """A tool of whose call nobody knows whether it happened."""
    raise RuntimeError("connection lost")


async def completed(workshop: Workshop, journal: Journal) -> str:
    """Steps in parallel, a note, a condition, evidence, a retry and outputs."""
    workshop.tool("do.it", no_compensation="none")
    workshop.tool("try.it", flaky(2), idempotent=True, no_compensation="none")
    course = plan(
        step("a", evidence_refs=(FACT.id,)),
        step("b", "try.it"),
        step("n", None, params={"from": {"$from": "a#/n"}}),
        step("c", when="request.count > 5"),
        outputs={"x": {"$from": "b#/n"}, "total": {"$evidence": f"{FACT.id}#/total"}},
    )
    async with runtime(workshop, workshop.pack(evidence=(FACT,)), journal) as running:
        return (await running.run(ASK, plan=course, actor=ADA)).session_id


async def approved(workshop: Workshop, journal: Journal) -> str:
    """A gate that is approved, a grant of a policy, and a session that another process carries on."""
    workshop.tool("pay.it", mode="network", authority=(), no_compensation="paid is paid")
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    course = plan(
        step("p", "pay.it", params={"sum": 5}), step("w", "wipe.it", depends_on=("p",)), outputs={"x": 1}
    )
    pack = workshop.pack(gates=(BOSS,), policies=(SMALL,))
    async with runtime(workshop, pack, journal) as running:
        session = (await running.run(ASK, plan=course, actor=ADA)).session_id
    async with runtime(workshop, pack, journal) as running:
        await running.approve(f"{session}.g1", actor=BOB)
        return (await running.resume(session)).session_id


async def denied(workshop: Workshop, journal: Journal) -> str:
    """An effect that is taken back because the gate behind it was denied."""
    back = Compensation(tool="undo.it", params={"n": {"$from": "self#/n"}})
    workshop.tool("do.it", compensate=back)
    workshop.tool("undo.it", no_compensation="nothing is left")
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    course = plan(step("a"), step("w", "wipe.it", depends_on=("a",)))
    async with runtime(workshop, workshop.pack(gates=(BOSS,), on_failure="compensate"), journal) as running:
        session = (await running.run(ASK, plan=course, actor=ADA)).session_id
        await running.deny(f"{session}.g1", actor=BOB)
        return (await running.resume(session)).session_id


async def refused(workshop: Workshop, journal: Journal) -> str:
    """A plan that the critic refuses, and the planner mends."""
    workshop.tool("do.it")
    planner = Script(plan(step("a", "no.such")), plan(step("a")))
    async with runtime(workshop, workshop.pack(), journal) as running:
        return (await running.run(ASK, planner=planner, actor=ADA)).session_id


async def escalated(workshop: Workshop, journal: Journal) -> str:
    """A step that fails for good; a person takes over and accepts what there is."""
    workshop.tool("do.it")
    workshop.tool("try.it", flaky(99), no_compensation="none")
    course = plan(step("a"), step("b", "try.it", depends_on=("a",)), outputs={"x": {"$from": "a#/n"}})
    async with runtime(workshop, workshop.pack(), journal) as running:
        result = await running.run(ASK, plan=course, actor=ADA)
        assert result.gate is not None
        await running.decide(result.gate.id, "accept_partial", actor=BOB)
        return (await running.resume(result.session_id)).session_id


async def unsettled(workshop: Workshop, journal: Journal) -> str:
    """A call of unknown outcome that a person settles."""
    workshop.tool("do.it", lost, no_compensation="none")
    async with runtime(workshop, workshop.pack(), journal) as running:
        result = await running.run(ASK, plan=plan(step("a")), actor=ADA)
        assert result.gate is not None
        await running.settle(result.gate.id, happened=True, value={"n": "a"}, actor=BOB)
        return (await running.resume(result.session_id)).session_id


async def agent(workshop: Workshop, journal: Journal) -> str:
    """An agent that decides step by step; its critics send one turn back."""
    told: list[str] = []

    @critic
    def doubtful(_: object, __: object, ___: object) -> CriticResult:
        told.append("asked")
        return CriticResult(action="retry" if len(told) == 1 else "continue", reason="say it louder")

    say, _ = counted("desk.say")
    script = (act("hello"), act("HELLO"), Decision.final({"said": "HELLO"}))
    engine = Engine(
        Scripted(script, tools=[say]),
        [doubtful],
        journal=journal,
        clock=workshop.clock,
        ids=lambda: f"{workshop.numbers():04}",
    )
    return (await engine.run("greet")).session_id


async def mended(workshop: Workshop, journal: Journal) -> str:
    """A draft that rules mend, steered by a controller; a person asks for a change, a model makes it, and they accept."""
    pack = desk(
        workshop, {"letter": LEAKY}, control={"letter": {}}, decision={"requires_human_approval": True}
    )
    hand = model(rewriting(f"Thank you. {GOOD}"))
    async with runtime(workshop, pack, journal, repairers=[hand]) as running:
        session = (await running.run(ASK, plan=WRITE, actor=ADA)).session_id
        await running.modify(f"{session}.g1", actor=BOB, note="thank them first")
        await running.resume(session)
        await running.approve(f"{session}.g2", actor=BOB)
        return (await running.resume(session)).session_id


async def criticised(workshop: Workshop, journal: Journal) -> str:
    """A draft whose tone a model does not like, and another one mends."""
    pack = desk(workshop, {"letter": GOOD}, quality={"rubric": TONE, "judge": "model"})
    unsure: dict[str, Any] = {"says": "unsure", "reason": "", "quotes": []}
    critic_model = model(unsure, BAD_TONE, unsure, FINE_TONE, name="scripted:critic")
    hand = model(rewriting(f"Thank you. {GOOD}"), name="scripted:hand")
    async with runtime(workshop, pack, journal, critics=[critic_model], repairers=[hand]) as running:
        return (await run_accepted(running)).session_id


STORIES: dict[str, Callable[[Workshop, Journal], Awaitable[str]]] = {
    each.__name__: each
    for each in (completed, approved, denied, refused, escalated, unsettled, agent, mended, criticised)
}

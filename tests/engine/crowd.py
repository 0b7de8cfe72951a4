"""Runs made up at random, with a crowd of people who say anything to them at any time, and processes that die.

Nothing here knows what is right; it only lets things happen, in virtual time, and hands back what was recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tercet.contracts.errors import NotDone, UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.request import Actor
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.state import OpenGate, State
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.planner.sources import PlanningError
from tercet.runtime import Runtime
from tercet.tools import ToolContext

from .workshop import ADA, ASK, BOB, CLEO, DAN, LEA, Death, Workshop, events, plan, step

GATES = {
    "BOSS": Gate(name="BOSS", roles=("boss",), quorum=2, ttl_ms=60_000),
    "LAW": Gate(name="LAW", roles=("law",)),
    "ALL": Gate(name="ALL", roles=("boss",), covers="sequence"),
}
GRANT = Policy(name="little", scope="step", effect="grant", expression="int(step.params.n) <= 1")
UNDO: dict[str, Any] = {"compensate": {"tool": "undo.it", "params": {"id": {"$from": "params#/id"}}}}
STAYS: dict[str, Any] = {"no_compensation": "it stays"}
TOOLS: dict[str, dict[str, Any]] = {
    "read.it": {"mode": "read_only"},
    "write.it": {"mode": "local_write", "cost_microcents": 2, **UNDO},
    "net.it": {"mode": "network", "authority": (), "idempotent": True, "cost_microcents": 3, **UNDO},
    "lend.it": {"mode": "delegated", "authority": (), **STAYS},
    "wipe.it": {"mode": "destructive", "authority": (), "gates": ("BOSS",), "cost_microcents": 5, **STAYS},
    "burn.it": {"mode": "local_write", "reversibility": "irreversible", "gates": ("LAW",), **STAYS},
    "both.it": {"mode": "destructive", "authority": (), "gates": ("BOSS", "LAW"), **UNDO},
    "many.it": {"mode": "destructive", "authority": (), "gates": ("ALL",), "cost_microcents": 1, **STAYS},
    "undo.it": {"mode": "local_write", "idempotent": True, "cost_microcents": 4, **STAYS},
}
PLANNED = tuple(name for name in TOOLS if name != "undo.it")
PEOPLE = (ADA, BOB, CLEO, LEA, DAN, Actor(id="ada", roles=("boss", "law")))
MOODS = ("good", "good", "good", "slow", "refuses", "lost")
DEEDS = ("approve", "approve", "approve", "deny", "modify", "modify", "withdraw", "withdraw", "settle", "take over", "resume",
         "resume", "cancel", "pause", "extend", "wait")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What is made up."""

    plans: tuple[Plan, ...]
    is_callers: bool
    moods: tuple[str, ...]
    deeds: tuple[tuple[str, int, int, int], ...]
    """What is done, by whom, to which gate, and how much later than the deed before."""
    budget: dict[str, int]
    on_failure: str
    death: tuple[str, int] | None
    """The crash point at which the first process dies, and the how-manieth time that it gets there."""


@dataclass(kw_only=True)
class Played:
    """What came of it."""

    pack: Pack
    history: list[e.Event]
    told: dict[int, State] = field(default_factory=dict[int, State])
    """The state of the living process at each position that it made durable."""
    refusals: list[str] = field(default_factory=list[str])
    calls: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])


@st.composite
def _steps(draw: st.DrawFn, size: int) -> Plan:
    made: list[Any] = []
    for number in range(size):
        before = [each.id for each in made]
        source = draw(st.sampled_from([None, *before])) if before else None
        value: Any = draw(st.integers(0, 3)) if source is None else {"$from": f"{source}#/n"}
        waits = draw(st.lists(st.sampled_from(before), max_size=2, unique=True)) if before else []
        fields = {"depends_on": tuple(waits), "optional": draw(st.sampled_from([False, False, True]))}
        name = draw(st.sampled_from(PLANNED))
        made.append(
            step(
                f"s{number}",
                name,
                params={"id": f"i{number}", "n": value},
                estimated_tokens=draw(st.sampled_from([0, 5])),
                **fields,
            )
        )
    return plan(*made)


SCENES: st.SearchStrategy[Scene] = st.builds(
    Scene,
    plans=st.lists(st.integers(2, 4).flatmap(_steps), min_size=1, max_size=3).map(tuple),
    is_callers=st.booleans(),
    moods=st.lists(st.sampled_from(MOODS), min_size=1, max_size=7).map(tuple),
    deeds=st.lists(
        st.tuples(
            st.sampled_from(DEEDS), st.integers(0, 5), st.integers(0, 3), st.sampled_from([0, 0, 200, 3_000, 70_000])
        ),
        min_size=4,
        max_size=16,
    ).map(tuple),
    budget=st.fixed_dictionaries(
        {"max_step_retries": st.integers(0, 2)},
        optional={
            "tool_calls": st.integers(3, 12),
            "cost_microcents": st.integers(10, 40),
            "tokens": st.integers(10, 30),
            "max_parallel": st.integers(1, 3),
        },
    ),
    on_failure=st.sampled_from(["ask", "compensate", "keep"]),
    death=st.none()
    | st.tuples(
        st.sampled_from(["before_append", "after_append", "before_call", "after_answer"]), st.integers(1, 12)
    ),
)  # fmt: skip


class Ideas:
    """A planner that has these plans and then no more, in whatever process it lives."""

    name = "ideas"

    def __init__(self, plans: tuple[Plan, ...]) -> None:
        self._plans = list(plans)

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """The next plan."""
        if not self._plans:
            raise PlanningError("no ideas are left")
        return self._plans.pop(0)


def packed(workshop: Workshop, scene: Scene) -> Pack:
    """The pack of all tools, each of which behaves as the scene's moods say."""
    number = 0

    async def behave(_: ToolContext, params: dict[str, Any]) -> Any:
        nonlocal number
        mood = scene.moods[number % len(scene.moods)]
        number += 1
        if mood == "slow":
            await workshop.clock.sleep(2_000)
        elif mood == "refuses":
            raise NotDone("not now")
        elif mood == "lost":
            raise ConnectionError("lost")
        return params

    for name, declared in TOOLS.items():
        workshop.tool(name, behave, **declared)
    return workshop.pack(
        gates=tuple(GATES.values()),
        policies=(GRANT,),
        budget={"max_replans": 2, **scene.budget},
        on_failure=scene.on_failure,
    )


def play(scene: Scene) -> Played:
    """Let a scene happen."""
    workshop = Workshop()
    pack = packed(workshop, scene)

    async def main() -> Played:
        async with workshop.journal("memory:") as journal:
            return await _Play(workshop, scene, pack, journal).whole()

    return workshop.run(main())


class _Play:
    """One session and all that is done to it."""

    def __init__(self, workshop: Workshop, scene: Scene, pack: Pack, journal: Journal) -> None:
        self.workshop = workshop
        self.scene = scene
        self.journal = journal
        self.planner = None if scene.is_callers else Ideas(scene.plans)
        self.played = Played(pack=pack, history=[], calls=workshop.calls)
        self.session = ""
        self.driving: asyncio.Future[Any] | None = None

    def tell(self, state: State, _: e.Event) -> None:
        self.session = state.start.session
        self.played.told[state.position] = state

    async def whole(self) -> Played:
        death = Death(*self.scene.death) if self.scene.death else None
        hook = {"crash": death} if death else {}
        deeds = list(self.scene.deeds)
        async with self.workshop.runtime(self.played.pack, self.journal, tell=self.tell, **hook) as runtime:
            given: dict[str, Any] = (
                {"plan": self.scene.plans[0]} if self.planner is None else {"planner": self.planner}
            )
            living: Coroutine[Any, Any, None] = self._live(
                runtime, runtime.run(ASK, actor=ADA, **given), deeds
            )
            await (death.of(living) if death else living)
        async with self.workshop.runtime(self.played.pack, self.journal, tell=self.tell) as runtime:
            if self.session:
                await self._live(runtime, runtime.resume(self.session, planner=self.planner), deeds)
                await self._finish(runtime)
                self.played.history = await events(self.journal, self.session)
        return self.played

    async def _live(
        self, runtime: Runtime, first: Awaitable[Any], deeds: list[tuple[str, int, int, int]]
    ) -> None:
        """One process: it drives, and people say things meanwhile."""
        self.driving = asyncio.ensure_future(self._drive(first))
        try:
            while deeds:
                kind, who, which, later = deeds.pop(0)
                await self.workshop.clock.sleep(later)
                if self.session:
                    await self._do(runtime, kind, PEOPLE[who], which)
            await self.driving
        finally:
            self.driving.cancel()
            with suppress(asyncio.CancelledError):
                await self.driving

    async def _drive(self, life: Awaitable[Any]) -> None:
        try:
            await life
        except UsageError as error:
            self.played.refusals.append(error.code)

    async def _do(self, runtime: Runtime, kind: str, actor: Actor, which: int) -> None:
        try:
            state = await runtime.state(self.session)
            if kind == "resume":
                if self.driving is not None and self.driving.done():
                    life = runtime.resume(self.session, planner=self.planner)
                    self.driving = asyncio.ensure_future(self._drive(life))
            elif kind == "wait":
                await self.workshop.clock.sleep(1_000)
            elif kind in ("cancel", "pause"):
                await getattr(runtime, kind)(self.session, actor=actor)
            elif kind == "extend":
                await runtime.extend(self.session, {"tool_calls": 2, "cost_microcents": 3}, actor=actor)
            elif gates := [*state.gates.values(), *state.approved.values()]:
                await self._answer(runtime, kind, actor, gates[which % len(gates)])
        except UsageError as error:
            self.played.refusals.append(error.code)

    async def _answer(self, runtime: Runtime, kind: str, actor: Actor, gate: OpenGate) -> None:
        options = ("extend", "replan", "accept_partial", "abandon", "compensate", "keep")
        if kind == "settle":
            happened = len(gate.id) % 2 == 0
            value = {"id": "told", "n": 1} if happened else None
            await runtime.settle(gate.id, happened=happened, value=value, actor=actor)
        elif kind == "take over":
            answer = options[(len(actor.roles) + gate.at) % len(options)]
            value = {"tool_calls": 1} if answer == "extend" else None
            await runtime.decide(gate.id, answer, actor=actor, value=value)
        elif kind == "withdraw" and gate.approvals:
            theirs = {each.id: each for each in PEOPLE[:5]}[gate.approvals[-1].actor]
            await runtime.withdraw(gate.id, actor=theirs)
        elif kind == "modify":
            await runtime.modify(gate.id, actor=actor, note="something else")
        else:
            await getattr(runtime, kind)(gate.id, actor=actor)

    async def _finish(self, runtime: Runtime) -> None:
        """Kind people help the run to its end, one of them at a time."""
        for turn in range(60):
            state = await runtime.state(self.session)
            if state.is_over:
                return
            for gate in state.gates.values():
                with suppress(UsageError):
                    await self._help(runtime, gate, (BOB, CLEO, LEA)[turn % 3])
            with suppress(UsageError):
                await runtime.resume(self.session, planner=self.planner)
        raise AssertionError("a run that does not end")

    async def _help(self, runtime: Runtime, gate: OpenGate, actor: Actor) -> None:
        match gate.kind:
            case "approval" | "output":
                await runtime.approve(gate.id, actor=actor)
            case "reconcile":
                await runtime.settle(gate.id, happened=True, value={"id": "told", "n": 1}, actor=actor)
            case "escalation":
                await runtime.decide(gate.id, "abandon", actor=BOB)
            case "compensation":
                await runtime.decide(gate.id, "compensate", actor=actor)

"""Planner, critic and executor: nothing is called before the critic has agreed, and no run is completed unless all do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from tercet.contracts.errors import NotDone
from tercet.contracts.gate import Policy
from tercet.contracts.plan import Plan
from tercet.contracts.question import ModelFault
from tercet.contracts.runs.record import DecisionRecord
from tercet.core import events as e
from tercet.packs.pack import Pack
from tercet.replay.bundle.exporting import PackContent, export_run
from tercet.replay.bundle.reading import open_bundle
from tercet.tools import ToolContext

from .oracle import planner, scripted
from .test_limits import failing
from .test_resume import nothing
from .test_runs import Script
from .workshop import ADA, ASK, BOB, Death, Workshop, events, names, plan, step

REFUSED: dict[str, Plan] = {
    "output_not_declared": plan(step("a"), outputs={}),
    "tool_not_surfaced": plan(step("a"), step("b", "no.such"), outputs={"x": "1"}),
    "evidence_unresolved": plan(step("a", evidence_refs=("kg:order:none#snapshot_s1",)), outputs={"x": "1"}),
    "too_many_steps": plan(*[step(f"s{n}") for n in range(9)], outputs={"x": "1"}),
    "cyclic_dependency": plan(step("a", depends_on=("b",)), step("b", depends_on=("a",)), outputs={"x": "1"}),
    "unresolved_reference": plan(step("a"), step("b", params={"n": {"$from": "c#/n"}}), outputs={"x": "1"}),
    "argument_invalid": plan(step("a"), step("b", "count.it", params={"n": "many"}), outputs={"x": "1"}),
    "gate_unknown": plan(step("a"), step("b", gates=("GATE_NONE",)), outputs={"x": "1"}),
    "policy_invariant": plan(step("a"), step("b", params={"n": "forbidden"}), outputs={"x": "1"}),
    "duplicate_action": plan(step("a", params={"n": 1}), step("b", params={"n": 1}), outputs={"x": "1"}),
}
"""Plans whose first step alone would be fine."""


def house(workshop: Workshop) -> Pack:
    """A pack that demands one output, and forbids something."""
    workshop.tool("do.it")
    workshop.tool("count.it", parameters={"type": "object", "properties": {"n": {"type": "integer"}}})
    rule = Policy(name="forbidden", expression='plan.steps.all(s, s.params.n != "forbidden")')
    return workshop.pack(
        decision={"required_outputs": ("x",)}, policies=(rule,), budget={"max_steps": 8, "max_replans": 0}
    )


@pytest.mark.req("R80")
@pytest.mark.parametrize("is_planned", [True, False])
@pytest.mark.parametrize("code", REFUSED)
def test_the_critic_refuses_before_anything_is_called(
    workshop: Workshop, code: str, is_planned: bool
) -> None:
    """Whoever made the plan, and whatever is wrong with it, its first step is not called, and no call is intended."""
    pack = house(workshop)
    given: dict[str, Any] = {"planner": Script(REFUSED[code])} if is_planned else {"plan": REFUSED[code]}

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, actor=ADA, **given)
            assert (result.status, result.verdict["code"]) == ("failed", code)
            found = await events(runtime.journal, result.session_id)
            assert not any(isinstance(event, e.Intent) for event in found)

    workshop.run(main())
    assert workshop.calls == []


Role = Literal["planner", "critic", "executor", "critic at the end"]


@pytest.mark.req("R196")
@pytest.mark.parametrize(
    ("against", "status", "called"),
    [
        (None, "completed", ["a", "b"]),
        ("planner", "failed", []),
        ("critic", "failed", []),
        ("executor", "paused", ["a", "b"]),
        ("critic at the end", "paused", ["a", "b"]),
    ],
)
def test_a_run_is_completed_only_if_all_three_agree(
    workshop: Workshop, against: Role | None, status: str, called: list[str]
) -> None:
    """A planner without a plan, a critic that refuses it, an executor that fails and a critic that misses an output:
    each alone keeps a run from its end."""
    workshop.tool("do.it", no_compensation="done is done")
    workshop.tool("try.it", failing(9 if against == "executor" else 0), no_compensation="done is done")
    second = step("b", "no.such" if against == "critic" else "try.it", depends_on=("a",))
    taken = "b#/nothing" if against == "critic at the end" else "b#/n"
    course = plan(step("a"), second, outputs={"x": {"$from": taken}})
    pack = workshop.pack(
        decision={"required_outputs": ("x",)}, budget={"max_replans": 0, "max_step_retries": 0}
    )

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            script = Script() if against == "planner" else Script(course)
            result = await runtime.run(ASK, planner=script, actor=ADA)
            assert (result.status, result.outputs) == (status, {"x": "b"} if against is None else {})

    workshop.run(main())
    assert [name for name, _ in workshop.calls] == called


@pytest.mark.req("R21")
def test_a_run_leaves_plan_transcripts_record_memories_and_a_bundle(
    workshop: Workshop, tmp_path: Path
) -> None:
    """All that the three roles bring about is typed, and one file holds it."""
    workshop.tool("do.it", no_compensation="done is done")
    course = plan(
        step("a"),
        step("b", depends_on=("a",)),
        outputs={"x": {"$from": "b#/n"}},
        memory={"habit": "mornings"},
    )
    pack, path = workshop.pack(), tmp_path / "run.tercet"

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=course, actor=ADA)
            await export_run(
                runtime.journal, "default", result.session_id, path, packs=(PackContent(pack=pack),)
            )
        with open_bundle(path) as bundle:
            journal = bundle.journal()
            found = await events(journal, result.session_id)
            [proposed] = [event for event in found if isinstance(event, e.PlanProposed)]
            assert Plan.model_validate(proposed.plan) == course
            async with workshop.runtime(pack, journal) as reader:
                record = DecisionRecord.model_validate(await reader.record(result.session_id))
            assert [(each.call.step_id, each.result.outcome) for each in record.transcript] == [
                ("a", "done"),
                ("b", "done"),
            ]
            assert [each.content for each in record.memory_proposals] == ["mornings"]
            assert (record.plan_hash, record.outputs) == (course.hash, {"x": "b"})

    workshop.run(main())


Trouble = Literal["crash", "timeout", "exhaustion", "model", "tool", "interrupt"]
TOLD: dict[Trouble, tuple[str | None, str]] = {
    "crash": (None, "INTENT"),  # and no answer to it
    "timeout": ("completed", "ABORT"),
    "exhaustion": ("paused", "gate_opened"),
    "model": ("paused", "session_paused"),
    "tool": ("paused", "ABORT"),
    "interrupt": ("paused", "session_paused"),
}
"""What the run comes to at first, and the event that tells why."""
ROW: dict[str, Any] = {"steps": [{"tool": "pay.it", "params": {"n": n}} for n in "abc"]}


@pytest.mark.req("R329")
@pytest.mark.parametrize("trouble", TOLD)
def test_what_can_go_wrong_is_recorded_and_gone_on_from(
    workshop: Workshop, file: str, trouble: Trouble
) -> None:
    """A process that dies, a call that hangs, a budget that is used up, a model and a tool that fail, and a person who
    says stop: each is in the journal, and the run ends with every effect once when it is over."""
    keys: set[str] = set()
    paid: list[str] = []
    left = [trouble]

    async def pay(context: ToolContext, params: dict[str, Any]) -> Any:
        is_now = params["n"] == "b" and bool(left)
        if is_now and left.pop() in ("tool", "exhaustion"):
            raise NotDone("the till is closed")
        if context.idempotency_key not in keys:
            keys.add(context.idempotency_key)
            paid.append(params["n"])
        if is_now and trouble in ("timeout", "interrupt"):
            await workshop.clock.sleep(2_000 if trouble == "timeout" else 500)
        return params

    workshop.tool("pay.it", pay, idempotent=True, timeout_ms=1_000, no_compensation="paid is paid")
    retries = 1 if trouble in ("timeout", "exhaustion") else 0
    pack = workshop.pack(
        budget={"max_step_retries": retries, "max_replans": 0, "tool_calls": 3 + (trouble != "exhaustion")}
    )

    async def first() -> str:
        death = Death("after_answer", 2)
        model = scripted(ModelFault("connection refused") if trouble == "model" else ROW)
        async with (
            workshop.journal(file) as journal,
            workshop.runtime(pack, journal, crash=death if trouble == "crash" else nothing) as runtime,
        ):
            running = asyncio.ensure_future(death.of(runtime.run(ASK, planner=planner(model), actor=ADA)))
            await workshop.clock.sleep(100)
            [row] = await runtime.sessions()
            if trouble == "interrupt":
                await runtime.pause(row.session_id, actor=BOB)
            result = await running
            status, event = TOLD[trouble]
            assert (result and result.status) == status
            assert event in names(await events(journal, row.session_id))
            return row.session_id

    async def then(session: str) -> None:
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal) as runtime:
            if trouble == "exhaustion":
                await runtime.extend(session, {"tool_calls": 1}, actor=BOB)
            result = await runtime.resume(session, planner=planner(scripted(ROW)))
            assert (result.status, paid) == ("completed", ["a", "b", "c"])

    session = workshop.run(first())
    workshop.run(then(session))

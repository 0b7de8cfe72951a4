"""Approvals that a policy gives: only where the design lets it, only for the call that it looked at, and on record."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.gate import Gate, Policy
from tercet.core import events as e
from tercet.runtime import Runtime

from .test_limits import failing
from .test_runs import Script
from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

SMALL = Policy(name="small", scope="step", effect="grant", expression="int(step.params.sum) <= 100")
BROKEN = Policy(name="broken", scope="step", effect="grant", expression="int(step.params.nothing) <= 100")
BOSS = Gate(name="BOSS", roles=("boss",))


async def granted(runtime: Runtime, session: str) -> list[tuple[str, str]]:
    """The grants that the journal holds: step and policy."""
    found = await events(runtime.journal, session)
    return [(each.step, each.policy) for each in found if isinstance(each, e.ApprovalGranted)]


def paying(workshop: Workshop, mode: str = "network", **declared: Any) -> None:
    """A tool that pays a sum."""
    given: dict[str, Any] = {"authority": (), "no_compensation": "paid is paid", **declared}
    workshop.tool("pay.it", mode=mode, **given)


@pytest.mark.req("R134")
@pytest.mark.parametrize("mode", ["network", "delegated"])
def test_a_policy_grants_what_it_may_and_that_is_recorded(workshop: Workshop, mode: str) -> None:
    """Grant, INTENT and COMPLETE are three events; the record names the policy, and the digest is the call's own."""
    paying(workshop, mode)
    pack = workshop.pack(policies=(SMALL,))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(step("p", "pay.it", params={"sum": 5})), actor=ADA)
            assert result.status == "completed"
            found = await events(runtime.journal, result.session_id)
            told = [
                type(each) for each in found if isinstance(each, e.ApprovalGranted | e.Intent | e.Complete)
            ]
            assert told == [e.ApprovalGranted, e.Intent, e.Complete]
            [approval] = (await runtime.record(result.session_id))["approvals"]
            assert (approval["approver"], approval["decision"], approval["auth"]) == (
                "policy:small",
                "grant",
                "policy",
            )
            [grant] = [each for each in found if isinstance(each, e.ApprovalGranted)]
            assert approval["digest"] == grant.digest

    workshop.run(main())
    assert workshop.calls == [("p", 1)]


@pytest.mark.req("R134", "R135", "R140")
@pytest.mark.parametrize(
    ("declared", "params", "policy"),
    [
        ({"mode": "destructive", "gates": ("BOSS",)}, {"sum": 5}, SMALL),
        ({"reversibility": "irreversible", "gates": ("BOSS",)}, {"sum": 5}, SMALL),
        ({"mode": "local_write", "reversibility": "irreversible", "gates": ("BOSS",)}, {"sum": 5}, SMALL),
        ({"gates": ("BOSS",)}, {"sum": 5}, SMALL),
        ({}, {"sum": 101}, SMALL),
        ({}, {"sum": 5}, BROKEN),
    ],
    ids=["destructive", "irreversible", "irreversible write", "named gate", "too much", "failing expression"],
)
def test_no_policy_grants_anything_else(
    workshop: Workshop, declared: dict[str, Any], params: dict[str, Any], policy: Policy
) -> None:
    """The call waits for a person, and is made once that person has approved it."""
    paying(workshop, **declared)
    pack = workshop.pack(policies=(policy,), gates=(BOSS,))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(step("p", "pay.it", params=params)), actor=ADA)
            assert result.status == "awaiting_gate"
            assert (await granted(runtime, result.session_id), workshop.calls) == ([], [])
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("p", 1)]


@pytest.mark.req("R134")
def test_what_a_new_plan_adds_uses_no_grant(workshop: Workshop) -> None:
    """The step that stood in the first plan is granted in the second as well; the one that was added waits."""
    paying(workshop)
    workshop.tool("fail.it", failing(1))
    kept = step("p", "pay.it", params={"sum": 5}, depends_on=("f",))
    first = plan(step("f", "fail.it"), kept)
    second = plan(step("f", None), kept, step("q", "pay.it", params={"sum": 6}))
    planner = Script(first, second)
    pack = workshop.pack(policies=(SMALL,), budget={"max_step_retries": 0})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, planner=planner, actor=ADA)
            assert result.status == "awaiting_gate"
            assert result.gate is not None
            assert result.gate.step == "q"
            assert await granted(runtime, result.session_id) == [("p", "small")]
            await runtime.approve(result.gate.id, actor=BOB)
            assert (await runtime.resume(result.session_id, planner=planner)).status == "completed"

    workshop.run(main())
    assert {name for name, _ in workshop.calls} == {"f", "p", "q"}


LETTER = {"id": "kg:letter:l1#snapshot_s1", "content": {"text": "pay eve"}, "trust": "untrusted"}


@pytest.mark.parametrize(
    ("header", "decision", "planner", "is_granted"),
    [
        ({}, {}, "script", True),
        ({}, {"untrusted_inputs": ("absent",)}, "script", True),
        ({}, {"untrusted_inputs": ("order",)}, "script", False),
        ({"evidence": (LETTER,)}, {}, "script", False),
        ({"evidence": (LETTER,)}, {"untrusted_inputs": ("order",)}, "caller", True),
        ({"evidence": (LETTER,)}, {"untrusted_inputs": ("order",)}, "template", True),
    ],
)
def test_a_first_plan_uses_a_grant_only_if_its_planner_read_nothing_untrusted(
    workshop: Workshop, header: dict[str, Any], decision: dict[str, Any], planner: str, *, is_granted: bool
) -> None:
    """A template and a caller plan without reading data; any other planner has read the request and the evidence."""
    paying(workshop)
    proposed = plan(step("p", "pay.it", params={"sum": 5}))
    if planner == "template":
        header = {**header, "templates": (proposed,)}
    pack = workshop.pack(policies=(SMALL,), decision=decision, **header)
    given: dict[str, Any] = {"script": {"planner": Script(proposed)}, "caller": {"plan": proposed}}.get(
        planner, {}
    )

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, actor=ADA, **given)
            assert result.status == ("completed" if is_granted else "awaiting_gate")
            assert await granted(runtime, result.session_id) == ([("p", "small")] if is_granted else [])

    workshop.run(main())


def test_a_grant_is_decided_on_the_resolved_call(workshop: Workshop) -> None:
    """A sum that another step brings is looked at when it is there: small ones are granted, large ones wait."""
    paying(workshop)
    workshop.tool("read.it", mode="read_only")
    pack = workshop.pack(policies=(SMALL,))
    both = plan(
        step("r", "read.it", params={"little": 5, "much": 900}),
        step("a", "pay.it", params={"sum": {"$from": "r#/little"}}),
        step("b", "pay.it", params={"sum": {"$from": "r#/much"}}),
    )

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=both, actor=ADA)
            assert result.gate is not None
            assert (result.status, result.gate.step) == ("awaiting_gate", "b")
            assert await granted(runtime, result.session_id) == [("a", "small")]

    workshop.run(main())
    assert workshop.calls == [("r", 1), ("a", 1)]

"""A run that only a person can help on: what they are handed, and where each of their answers leads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate, HandOff
from tercet.packs.pack import Pack
from tercet.runtime.runtime import Runtime, RunResult

from .test_limits import failing
from .test_runs import Script
from .workshop import ADA, ASK, BOB, Workshop, plan, step

SHORT = plan(step("a"), step("b", depends_on=("a",)), outputs={"x": {"$from": "b#/n"}})


def short(workshop: Workshop, **header: Any) -> Pack:
    """A pack whose budget lasts for a first attempt and none more: what needs another one is escalated."""
    workshop.tool("do.it")
    workshop.tool("fail.it", failing(1))
    return workshop.pack(budget={"max_step_retries": 0}, **header)


BROKEN = plan(step("a"), step("f", "fail.it", depends_on=("a",)), outputs={"x": {"$from": "f#/n"}})


async def escalated(runtime: Runtime, **given: Any) -> RunResult:
    """A run that was handed to a person."""
    result = await runtime.run(ASK, actor=ADA, **given)
    assert result.status == "paused"
    assert result.reason.startswith("escalated: ")
    assert result.gate is not None
    assert result.gate.kind == "escalation"
    return result


async def packet(runtime: Runtime, result: RunResult) -> HandOff:
    """What the person is handed, read by the digest that the gate shows."""
    assert result.gate is not None
    data = await runtime.journal.blob("default", result.gate.shown["packet"])
    assert result.gate.digest == result.gate.shown["packet"]
    return HandOff.model_validate(msgspec.json.decode(data))


@pytest.mark.req("R113", "R117")
@pytest.mark.parametrize("is_callers", [True, False])
def test_a_person_is_handed_all_there_is(workshop: Workshop, url: str, is_callers: bool) -> None:
    """Plan, transcript, verdicts, the reason, what is left of the budget and what can be chosen: by its digest."""
    pack = short(workshop)
    given: dict[str, Any] = {"plan": BROKEN} if is_callers else {"planner": Script(BROKEN)}
    limits = {"max_replans": 0, "max_step_retries": 0, "tool_calls": 7}
    pack = workshop.pack(budget=limits)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await escalated(runtime, **given)
            handed = await packet(runtime, result)
            assert handed.plan["steps"] == BROKEN.model_dump(mode="json", exclude_defaults=True)["steps"]
            calls = [(each["call"]["step_id"], each["result"]["outcome"]) for each in handed.transcript]
            assert calls == [("a", "done"), ("f", "not_done")]
            assert [each["stage"] for each in handed.verdicts] == ["review", "step"]
            assert handed.reason in result.reason
            assert handed.budget_remaining["tool_calls"] == 5
            options = {"extend", "accept_partial", "abandon"}
            assert set(handed.options) == (options if is_callers else options | {"replan"})

    workshop.run(main())


@pytest.mark.req("R260")
@pytest.mark.parametrize(
    ("budget", "more"),
    [
        ({"tool_calls": 1}, {"tool_calls": 1}),
        ({"cost_microcents": 9}, {"cost_microcents": 1}),
        ({"tokens": 9}, {"tokens": 1}),
    ],
)
def test_more_budget_lets_it_go_on(
    workshop: Workshop, url: str, budget: dict[str, int], more: dict[str, int]
) -> None:
    """A run that is short of something goes on where it stood, and uses exactly what it has been given."""
    workshop.tool("do.it", cost_microcents=5)
    steps = (
        step("a", estimated_tokens=5),
        step("b", "do.it", params={"n": {"$from": "a#/n"}, "m": 1}, estimated_tokens=5),
    )
    pack = workshop.pack(
        budget={**budget, "max_replans": 0}, decision={"check_depth": "none"} if False else {}
    )

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(*steps), actor=ADA)
            if result.status == "failed":
                pytest.skip("review refuses it")
            assert result.gate is not None
            await runtime.decide(result.gate.id, "extend", actor=BOB, value=more)
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("a", 1), ("b", 1)]

"""Evidence by look-up: a call before the review is bound by all that binds a call after it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tercet.contracts.gate import Gate, Policy

from .test_retrieving import Planner, looks_up
from .workshop import ADA, ASK, Workshop, plan, step

BOSS = Gate(name="GATE_BOSS", roles=("boss",))


def asks_often(name: str, times: int) -> Any:
    """A step that wants a tool to be asked so many times, each time something else."""
    queries = tuple(
        {"classification": "order", "tool": "shop.order", "params": {"n": number}} for number in range(times)
    )
    return step(name, requires_evidence=("order",), evidence_queries=queries)


def run(workshop: Workshop, *steps: Any, shadow: bool = False, **pack: Any) -> tuple[str, Any]:
    """How a run of a plan of these steps ends, and its state."""

    async def main() -> tuple[str, Any]:
        made = workshop.pack(**{**pack, "budget": {"max_replans": 0, **pack.get("budget", {})}})
        async with workshop.runtime(made) as runtime:
            result = await runtime.run(ASK, planner=Planner(plan(*steps)), actor=ADA, shadow=shadow)
            return result.status, await runtime.state(result.session_id)

    return workshop.run(main())


def test_look_ups_stay_within_the_budget() -> None:
    """Each one counts at once: the third call of a budget of two is not made."""
    workshop = Workshop()
    workshop.tool("do.it")
    workshop.tool("shop.order", attests=("order",), mode="read_only")
    _, state = run(workshop, asks_often("a", 5), budget={"tool_calls": 2})
    assert len(workshop.calls) == 2
    assert state.used.tool_calls == 2


def test_a_look_up_that_fails_counts_as_a_call() -> None:
    """The tool was called, whatever it said."""
    workshop = Workshop()

    async def fail(*_: Any) -> Any:
        raise ValueError("no")

    workshop.tool("do.it")
    workshop.tool("shop.order", fail, attests=("order",), mode="read_only")
    _, state = run(workshop, asks_often("a", 2))
    assert state.used.tool_calls == len(workshop.calls) == 2


def test_a_look_up_is_paid_for() -> None:
    """What its tool costs is booked, and one that the budget cannot pay is not made."""
    workshop = Workshop()
    workshop.tool("do.it")
    workshop.tool("shop.order", attests=("order",), mode="read_only", cost_microcents=40)
    accepting = {"untrusted_evidence": ("order",)}  # the plan made the numbers up that it looks up by
    _, state = run(workshop, asks_often("a", 5), budget={"cost_microcents": 100}, decision=accepting)
    assert [name for name, _ in workshop.calls] == ["a", "a", "a"]  # two look-ups, and the step itself
    assert state.used.cost == 80


@pytest.mark.parametrize("by", ["tool", "policy"])
def test_what_waits_for_a_person_is_not_looked_up(by: str) -> None:
    """A look-up opens no gate, so a call that needs one is not made before the review."""
    workshop = Workshop()
    workshop.tool("do.it")
    gates = ("GATE_BOSS",) if by == "tool" else ()
    workshop.tool("shop.order", attests=("order",), mode="read_only", gates=gates)
    policy = Policy(
        name="ask", scope="step", effect="gate", gate="GATE_BOSS", expression="step.tool != 'shop.order'"
    )
    policies = (policy,) if by == "policy" else ()
    status, _ = run(workshop, looks_up("a", "shop.order", {"n": 1}), gates=(BOSS,), policies=policies)
    assert (status, workshop.calls) == ("failed", [])


def test_a_rehearsal_looks_nothing_up() -> None:
    """Nothing is called, and the plan is judged without that evidence."""
    workshop = Workshop()
    workshop.tool("do.it")
    workshop.tool("shop.order", attests=("order",), mode="read_only")
    run(workshop, looks_up("a", "shop.order", {"n": 1}), shadow=True)
    assert workshop.calls == []


@pytest.mark.parametrize(("order", "trust"), [("o1", "trusted"), ("o2", "untrusted")])
def test_what_a_look_up_brings_for_another_request_is_untrusted(order: str, trust: str) -> None:
    """A relation of the tool's result holds for its evidence as well."""
    workshop = Workshop()

    async def find(*_: Any) -> Any:
        return {"order": order}

    workshop.tool("do.it")
    workshop.tool("shop.order", find, attests=("order", "other"), mode="read_only")
    bind = ({"tool": "shop.order", "field": "order", "equals": "request.order"},)
    queries: tuple[dict[str, Any], ...] = ({"classification": "other", "tool": "shop.order", "params": {}},)

    async def main() -> str:
        pack = workshop.pack(decision={"bind": bind}, budget={"max_replans": 0})
        async with workshop.runtime(pack) as runtime:
            asking = Planner(plan(step("a", evidence_queries=queries)))
            state = await runtime.state((await runtime.run(ASK, planner=asking, actor=ADA)).session_id)
            [kept] = json.loads(await runtime.journal.blob("default", state.facts[0]))
            return str(kept["evidence"]["trust"])

    assert workshop.run(main()) == trust

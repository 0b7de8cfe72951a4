"""Planning anew in the middle of a run: what was done on results that no longer hold is done again, and nothing else."""

from __future__ import annotations

from typing import Any

from tercet.contracts.errors import NotDone
from tercet.contracts.plan import Plan, Step
from tercet.tools import ToolContext

from .test_runs import Script
from .workshop import ADA, ASK, Workshop, plan, step

ONCE = {"max_step_retries": 0}


def carried_out(workshop: Workshop, *plans: Plan, mode: str = "local_write") -> list[tuple[str, Any]]:
    """What is called, in order, when these plans are proposed; a step named `bad` is never done."""
    called: list[tuple[str, Any]] = []

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        called.append((context.step_id, params["n"]))
        if context.step_id == "bad":
            raise NotDone("no")
        return {"v": params["n"]}

    workshop.tool("do.it", behave, mode=mode)

    async def main() -> None:
        async with workshop.runtime(workshop.pack(budget=ONCE)) as runtime:
            result = await runtime.run(ASK, planner=Script(*plans), actor=ADA)
            assert result.status == "completed", result.reason

    workshop.run(main())
    return called


def chain(first: Step, last: str) -> Plan:
    """A first step, one that uses its result, one that uses that, and a last one."""
    return plan(
        first,
        step("b", params={"n": {"$from": f"{first.id}#/v"}, "by": "b"}),
        step("c", params={"n": {"$from": "b#/v"}, "by": "c"}),
        step(last, depends_on=("c",)),
    )


def test_a_step_whose_predecessor_changed_is_carried_out_again(workshop: Workshop) -> None:
    """The same words after another predecessor are another step, and so is all that follows from it."""
    called = carried_out(
        workshop,
        chain(step("a", params={"n": "one"}), "bad"),
        chain(step("a", params={"n": "two"}), "good"),
    )
    assert called == [
        *(("a", "one"), ("b", "one"), ("c", "one"), ("bad", "bad")),
        *(("a", "two"), ("b", "two"), ("c", "two"), ("good", "good")),
    ]


def test_a_step_that_only_waits_for_a_changed_one_is_carried_out_again(workshop: Workshop) -> None:
    """An order without a reference is a reason too: what was read before the change is read again."""

    def waiting(first: str, last: str) -> Plan:
        return plan(
            step("a", params={"n": first}), step("b", depends_on=("a",)), step(last, depends_on=("b",))
        )

    called = carried_out(workshop, waiting("one", "bad"), waiting("two", "good"), mode="read_only")
    assert called == [("a", "one"), ("b", "b"), ("bad", "bad"), ("a", "two"), ("b", "b"), ("good", "good")]


def test_a_step_whose_predecessors_are_kept_is_not_carried_out_again(workshop: Workshop) -> None:
    """Where nothing before it has changed, a step keeps its result, and the new plan goes on from there."""
    first = step("a", params={"n": "one"})
    called = carried_out(workshop, chain(first, "bad"), chain(first, "good"))
    assert called == [("a", "one"), ("b", "one"), ("c", "one"), ("bad", "bad"), ("good", "good")]


def test_a_change_beside_a_step_does_not_touch_it(workshop: Workshop) -> None:
    """Only the branch behind a changed step is carried out again."""

    def two_branches(number: str, last: str) -> Plan:
        return plan(
            step("a", params={"n": "same"}),
            step("b", params={"n": number}),
            step("after_a", params={"n": {"$from": "a#/v"}, "by": "a"}),
            step("after_b", params={"n": {"$from": "b#/v"}, "by": "b"}),
            step(last, depends_on=("after_a", "after_b")),
        )

    called = carried_out(workshop, two_branches("one", "bad"), two_branches("two", "good"))
    again = called[called.index(("bad", "bad")) + 1 :]
    assert again == [("b", "two"), ("after_b", "two"), ("good", "good")]

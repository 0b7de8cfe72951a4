"""What became of a plan from one revision to the next, as the events of a run tell."""

from __future__ import annotations

from typing import Any

import pytest

from engine.test_runs import Script
from engine.workshop import ADA, ASK, Workshop, events, plan, step
from tercet.contracts.errors import NotDone
from tercet.contracts.plan import Plan
from tercet.tools import ToolContext
from tercet.view.diff import Revision, revisions

ONCE = {"max_step_retries": 0}


def told(workshop: Workshop, *plans: Plan) -> tuple[Revision, ...]:
    """The revisions of a run in which these plans are proposed; a step named `bad` is never done."""

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        if context.step_id == "bad":
            raise NotDone("the oven is cold")
        return {"v": params["n"]}

    workshop.tool("do.it", behave)

    async def main() -> tuple[Revision, ...]:
        async with workshop.runtime(workshop.pack(budget=ONCE)) as runtime:
            result = await runtime.run(ASK, planner=Script(*plans), actor=ADA)
            return revisions(await events(runtime.journal, result.session_id))

    return workshop.run(main())


def names(steps: tuple[Any, ...]) -> list[str]:
    """The names of steps."""
    return [each.id for each in steps]


@pytest.mark.req("R75")
def test_what_was_kept_has_the_same_hash_and_what_failed_its_reason(workshop: Workshop) -> None:
    """Kept, changed, new and given up are told apart, each with the hash that it was published with."""
    first = plan(step("a"), step("b", depends_on=("a",)), step("bad", depends_on=("b",)), step("beside"))
    other = plan(
        step("a"),
        step("b", depends_on=("a",)),
        step("good", depends_on=("b",)),
        step("beside", params={"n": "other"}),
    )
    one, two = told(workshop, first, other)
    assert (one.number, one.why, names(one.new)) == (1, (), ["a", "b", "bad", "beside"])
    assert one.kept == one.changed == one.given_up == ()
    assert [(each.id, each.hash, each.is_done) for each in two.kept] == [
        ("a", first.steps[0].hash, True),
        ("b", first.steps[1].hash, True),
    ]
    assert names(two.new) == ["good"]
    (changed,) = two.changed
    assert (changed.before, changed.hash) == (first.steps[3].hash, other.steps[3].hash)
    assert changed.fields == ("params",)
    (given_up,) = two.given_up
    assert (given_up.id, given_up.status, given_up.hash) == ("bad", "failed", first.steps[2].hash)
    assert "the oven is cold" in given_up.why
    assert two.why == (given_up.why,)
    assert two.hash == other.hash


def test_a_step_on_results_that_no_longer_hold_is_kept_and_not_done(workshop: Workshop) -> None:
    """The same words behind a changed step are kept as words; the step itself is carried out again."""

    def chain(value: str, last: str) -> Plan:
        return plan(
            step("a", params={"n": value}),
            step("b", params={"n": {"$from": "a#/v"}}),
            step(last, depends_on=("b",)),
        )

    _, two = told(workshop, chain("one", "bad"), chain("two", "good"))
    assert [(each.id, each.is_done) for each in two.kept] == [("b", False)]
    assert names(two.changed) == ["a"]


def test_a_plan_that_review_refused_says_why_and_what_went_with_it(workshop: Workshop) -> None:
    """A step that the critic refused is given up for its reason, and one beside it because of the first."""
    refused = plan(step("ghost", tool="no.body"), step("with_it"))
    _, two = told(workshop, refused, plan(step("a")))
    assert two.why == ("plan step 0 calls no.body which is not in the surface",)
    assert [(each.id, each.status, each.why) for each in two.given_up] == [
        ("ghost", "pending", two.why[0]),
        ("with_it", "pending", "it was planned together with ghost"),
    ]

"""Preconditions while a plan runs: a step begins only if completed steps have brought about what it needs."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import NotDone
from tercet.contracts.plan import Plan, Step
from tercet.core import events as e
from tercet.engine.result import RunResult
from tercet.tools import ToolContext

from .test_runs import Script
from .workshop import ADA, ASK, Workshop, events, plan, step


class Shop:
    """Tools that open, close and sell; selling needs an open shop."""

    def __init__(self, workshop: Workshop, *, tier: str = "medium", **decision: Any) -> None:
        async def fail(_: ToolContext, __: dict[str, Any]) -> Any:
            raise NotDone("no")

        final: dict[str, Any] = {"no_compensation": "it stays"}
        workshop.tool("shop.open", establishes=("open",), **final)
        workshop.tool("shop.jam", fail, establishes=("open",), **final)
        workshop.tool("shop.close", revokes=("open",), **final)
        workshop.tool("shop.sell", preconditions=("open",), **final)
        workshop.tool("shop.fail", fail, **final)
        self.workshop = workshop
        self.pack = workshop.pack(decision={"risk_tier": tier, **decision}, budget={"max_step_retries": 0})
        self.found: list[e.Event] = []

    def run(self, *plans: Plan) -> RunResult:
        """Run a caller's plan, or a planner that proposes several."""

        async def main() -> RunResult:
            async with self.workshop.runtime(self.pack) as runtime:
                one: dict[str, Any] = {"plan": plans[0]} if len(plans) == 1 else {"planner": Script(*plans)}
                result = await runtime.run(ASK, actor=ADA, **one)
                self.found = await events(runtime.journal, result.session_id)
                return result

        return self.workshop.run(main())

    @property
    def called(self) -> list[str]:
        """The steps that were called, in order."""
        return [name for name, _ in self.workshop.calls]

    @property
    def refusals(self) -> list[tuple[str, str, str]]:
        """The steps that were refused at dispatch, with code and reason."""
        return [(each.step, each.code, each.reason) for each in self.found if isinstance(each, e.StepRefused)]


SELL = step("sell", "shop.sell", depends_on=("open",))
CLOSED: list[Step] = [
    step("open", "shop.jam", optional=True),
    step("open", "shop.open", when="request.count == 7"),
]


@pytest.mark.parametrize("closed", CLOSED, ids=["failed", "skipped"])
def test_a_precondition_is_not_met_by_a_step_that_did_not_complete(workshop: Workshop, closed: Step) -> None:
    """The step that would have opened the shop failed, or was skipped: nothing is sold."""
    shop = Shop(workshop)
    result = shop.run(plan(closed, SELL))
    assert result.status != "completed"
    assert "sell" not in shop.called
    reason = "step sell needs open, which no completed step has established"
    assert shop.refusals == [("sell", "unmet_precondition", reason)]
    assert result.verdict is not None
    assert result.verdict.deferred == ("precondition open at step 1",)


@pytest.mark.parametrize("closed", CLOSED, ids=["failed", "skipped"])
def test_an_optional_step_whose_precondition_is_not_met_is_skipped(workshop: Workshop, closed: Step) -> None:
    """The plan can do without it, and goes on."""
    shop = Shop(workshop)
    sell = SELL.model_copy(update={"optional": True})
    assert shop.run(plan(closed, sell)).status == "completed"
    assert "sell" not in shop.called


def test_a_note_waits_for_its_preconditions_too(workshop: Workshop) -> None:
    """A note that says something holds is not written where it does not."""
    shop = Shop(workshop)
    note = step("note", None, preconditions=("open",), depends_on=("open",))
    assert shop.run(plan(CLOSED[0], note)).status != "completed"
    assert [refusal[:2] for refusal in shop.refusals] == [("note", "unmet_precondition")]


def test_a_precondition_is_met_by_a_completed_optional_step(workshop: Workshop) -> None:
    """What an optional step has brought about holds."""
    shop = Shop(workshop)
    opened = step("open", "shop.open", optional=True)
    assert shop.run(plan(opened, SELL)).status == "completed"
    assert shop.called == ["open", "sell"]


def test_an_unmet_precondition_leads_to_another_plan(workshop: Workshop) -> None:
    """A step that cannot begin is a failed step: the planner may try again."""
    shop = Shop(workshop)
    assert shop.run(plan(CLOSED[0], SELL), plan(step("open", "shop.open"), SELL)).status == "completed"
    assert shop.called == ["open", "open", "sell"]


BAD = step("bad", "shop.fail", depends_on=("open",))


def test_a_condition_that_an_earlier_plan_brought_about_holds(workshop: Workshop) -> None:
    """The shop was opened under the first plan, and the second need not open it again."""
    shop = Shop(workshop)
    result = shop.run(plan(step("open", "shop.open"), BAD), plan(step("sell", "shop.sell")))
    assert (result.status, shop.called) == ("completed", ["open", "bad", "sell"])


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not kept"])
def test_a_condition_that_was_revoked_since_does_not_hold(workshop: Workshop, kept: bool) -> None:
    """The first plan opened the shop and closed it; that the opening is part of the second plan changes nothing."""
    shop = Shop(workshop)
    opened, closed = step("open", "shop.open"), step("close", "shop.close", depends_on=("open",))
    first = plan(opened, closed, step("bad", "shop.fail", depends_on=("close",)))
    shop.run(first, plan(opened, SELL) if kept else plan(step("sell", "shop.sell")))
    assert shop.called == ["open", "close", "bad"]


def test_a_condition_of_the_decision_is_lost_when_an_earlier_plan_revoked_it(workshop: Workshop) -> None:
    """What holds at the start of the run need not hold at the start of its second plan."""
    shop = Shop(workshop, conditions=("open",))
    first = plan(step("close", "shop.close"), step("bad", "shop.fail", depends_on=("close",)))
    shop.run(first, plan(step("sell", "shop.sell")))
    assert shop.called == ["close", "bad"]


def test_a_risk_tier_without_preconditions_does_not_ask_for_them(workshop: Workshop) -> None:
    """The check belongs to the tiers that list it, at dispatch as at review."""
    shop = Shop(workshop, tier="low")
    assert shop.run(plan(CLOSED[1], SELL)).status == "completed"
    assert shop.called == ["sell"]

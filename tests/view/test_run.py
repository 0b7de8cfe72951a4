"""The view of a whole run, and the page that is made of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from critics.bench import Scripted
from engine.oracle import GOOD, ORDER, planner, scripted, shop
from engine.test_runs import Script
from engine.workshop import ADA, ASK, Workshop, plan, step
from tercet.contracts.errors import NotDone, ReplayError
from tercet.contracts.gate import Gate
from tercet.core import events as e
from tercet.critics import Decision, Engine
from tercet.journal.opening import open_journal
from tercet.replay.run_data import read_run
from tercet.tools import ToolContext, tool
from tercet.view.events import RunData
from tercet.view.gate import GateView
from tercet.view.html.graph import draw_plan
from tercet.view.html.page import draw_timeline, render
from tercet.view.html.safe_text import SafeText
from tercet.view.run import run_view

from .runs import FACT, eventful


def test_a_run_with_a_retry_a_gate_and_a_lost_process(workshop: Workshop) -> None:
    """The head says how it ended, each step its verdict and every attempt, and what a crash cut off is told as such."""
    page = run_view(eventful(workshop))
    assert (page.session.standing, page.session.tone, page.session.intent) == ("completed", "good", "work")
    assert page.session.counts.lost_processes == 1
    (part,) = page.plans
    look, pay = part.steps
    assert [(attempt.number, attempt.tone) for attempt in look.attempts] == [(1, "bad"), (2, "good")]
    assert "the shop is closed" in look.attempts[0].note
    assert [attempt.outcome.partition(" ")[0] for attempt in pay.attempts] == ["cut", "done"]
    assert "under the same key" in pay.attempts[0].note
    assert [chip.text for chip in pay.verdicts] == ["accepted by the critic"]
    assert pay.people == ("approved by bob",)
    assert page.session.outputs == {"paid": "pay"}


def test_a_gate_is_told_with_what_was_seen_and_what_it_bound(workshop: Workshop) -> None:
    """Who, when, as what, with which note, the call as it was shown, and the digest under the question and the answer."""
    case = eventful(workshop)
    (gate,) = run_view(case).gates
    assert isinstance(gate, GateView)
    (seen,) = gate.calls
    (reply,) = gate.answers
    assert (gate.state, seen.tool, seen.nature) == (
        "approved by bob",
        "shop.pay",
        "destructive, irreversible",
    )
    assert [(each.name, each.value, each.is_authority) for each in seen.parameters] == [("n", "pay", True)]
    assert FACT in seen.parameters[0].source
    assert seen.compensation is not None
    assert seen.compensation.text == "it cannot be compensated: it is gone"
    assert (reply.who, reply.word) == ("bob", "approved")
    assert (reply.roles, reply.note, reply.digest, reply.is_bound) == (("boss",), "go on", seen.digest, True)
    assert seen.digest == case.state.answers[0].digest


def test_the_timeline_has_phases_calls_waiting_and_the_crash_in_order(workshop: Workshop) -> None:
    """Bars stand on the rows of their steps, from left to right, within the drawing; the crash is marked where it began."""
    found = run_view(eventful(workshop)).timeline
    assert found is not None
    line = draw_timeline(found, SafeText())
    rows = {row.label: row.bars for row in line.rows}
    assert [bar.kind for bar in rows["pay"]] == ["gate", "call", "call"]
    assert [bar.tone for bar in rows["look"]] == ["bad", "good"]
    assert [bar.title.partition(",")[0] for bar in rows["phases"]][:2] == ["PLAN", "DECOMPOSE"]
    (lost,) = rows["processes"]
    (crash,) = line.crashes
    assert (lost.kind, crash.x) == ("lost", lost.x)
    for bars in rows.values():
        assert [bar.x for bar in bars] == sorted(bar.x for bar in bars)
        assert all(bar.x >= line.left and bar.x + bar.width <= line.width for bar in bars)


def test_what_has_not_ended_reaches_to_the_edge(workshop: Workshop) -> None:
    """A gate that still waits is drawn up to the end of the drawing, beyond the last event, and says that it waits."""
    workshop.tool("do.it", mode="destructive", gates=["BOSS"], no_compensation="it is gone")
    pack = workshop.pack(gates=(Gate(name="BOSS", roles=("boss",)),))

    async def main() -> RunData:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a", params={})), actor=ADA)
            return await read_run(runtime.journal, "default", result.session_id)

    page = run_view(workshop.run(main()))
    assert page.timeline is not None
    line = draw_timeline(page.timeline, SafeText())
    (bar,) = next(row.bars for row in line.rows if row.label == "a")
    assert bar.title.endswith(", still")
    assert bar.x + bar.width > max(tick.x for tick in line.ticks)
    (gate,) = page.gates
    assert isinstance(gate, GateView)
    assert (page.session.standing, gate.state) == ("waiting", "waits for an answer")


def test_evidence_budgets_scores_and_hashes_are_those_of_the_run(workshop: Workshop) -> None:
    """Each pinned fact names its source and its steps; meters show use and limit; hashes are the journal's own."""
    case = eventful(workshop)
    page = run_view(case)
    (fact,) = page.evidence.facts
    assert (fact.id, fact.source, fact.trust) == (FACT, "the order book", "trusted")
    assert fact.pinned_by == ("pay",)
    budget = {use.name: (use.used, use.limit) for use in page.session.budget}
    assert budget["steps"] == (2, 12)
    assert budget["retries"] == (case.state.used.retries, 10)
    assert {score.name for score in page.session.scores} == {"policy", "utility", "latency", "safety", "cost"}
    assert [score.name for score in page.session.scores if score.is_floor] == ["policy", "safety"]
    hashes = {each.label: each.value for each in page.session.hashes}
    assert hashes["plan"] == case.state.plan_hash
    assert hashes["decision record"] == case.state.record
    assert hashes["chain head"] == f"sha256:{case.chain}"
    assert hashes["pack"] == case.state.start.pack_hash


def test_the_same_run_gives_the_same_bytes(workshop: Workshop) -> None:
    """A report reads no clock and draws no lots."""
    case = eventful(workshop)
    assert render(run_view(case)) == render(run_view(case))


def replanned(workshop: Workshop) -> RunData:
    """A run whose first plan fails at its second step, and whose second plan does without it."""

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        if context.step_id == "bad":
            raise NotDone("the oven is cold")
        return {"v": params["n"]}

    workshop.tool("do.it", behave)
    first = plan(step("a"), step("bad", depends_on=("a",)))
    second = plan(step("a"), step("good", depends_on=("a",)))

    async def main() -> RunData:
        async with workshop.runtime(workshop.pack(budget={"max_step_retries": 0})) as runtime:
            result = await runtime.run(ASK, planner=Script(first, second), actor=ADA)
            return await read_run(runtime.journal, "default", result.session_id)

    return workshop.run(main())


def test_plans_that_were_given_up_are_shown_with_their_reasons(workshop: Workshop) -> None:
    """The last plan stands first; it says why it took the place of the other, what it kept, and what was done before it."""
    last, first = run_view(replanned(workshop)).plans
    assert (last.number, last.is_last, first.number, first.is_last) == (2, True, 1, False)
    assert "the oven is cold" in last.why[0]
    assert last.kept == ("a (done)",)
    assert [(card.id, card.tone) for card in first.steps] == [("a", "good"), ("bad", "bad")]
    assert (last.steps[0].id, last.steps[0].progress[:28]) == ("a", "done · under an earlier plan")
    assert last.steps[0].attempts


def test_a_refused_plan_carries_the_refusal_at_its_step(workshop: Workshop) -> None:
    """What the critic refused stands at the step in the drawing, and in a table with the remedy; nothing was called."""
    workshop.tool("do.it")

    async def main() -> RunData:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a"), step("b", "do.other")), actor=ADA)
            return await read_run(runtime.journal, "default", result.session_id)

    page = run_view(workshop.run(main()))
    (part,) = page.plans
    assert (page.session.standing, page.session.meaning[-19:]) == ("refused", "No tool was called.")
    drawing = draw_plan(part, SafeText())
    assert drawing is not None
    assert [(node.tone, node.how) for node in drawing.nodes][1] == ("bad", "refused: tool_not_surfaced")
    assert part.steps[0].progress == "never called"
    assert (part.refusals[0].code, part.refusals[0].step) == ("tool_not_surfaced", "b")
    assert part.refusals[0].remedy
    assert page.timeline is not None


def test_questions_to_models_stand_with_their_answers(workshop: Workshop) -> None:
    """What a model was asked is read by its hash, and stands beside what it answered."""
    model = scripted(GOOD)
    pack = shop(workshop)

    async def main() -> RunData:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ORDER, planner=planner(model), actor=ADA)
            return await read_run(runtime.journal, "default", result.session_id)

    (exchange,) = run_view(workshop.run(main())).exchanges
    assert exchange.title.startswith(f"1. {model.name} is asked for a plan")
    assert exchange.system[:200] == model.questions[0].system[:200]
    assert '"tool"' in exchange.answer
    assert "tokens" in exchange.outcome


@pytest.mark.parametrize("steps", [0, 1, 300])
def test_plans_of_any_size_have_a_page(workshop: Workshop, steps: int) -> None:
    """An empty plan has no drawing; of a huge one the first steps are drawn and listed, and it says so."""
    workshop.tool("do.it")

    async def main() -> RunData:
        async with workshop.runtime(workshop.pack()) as runtime:
            many = plan(*(step(f"s{number}") for number in range(steps)))
            result = await runtime.run(ASK, plan=many, actor=ADA)
            return await read_run(runtime.journal, "default", result.session_id)

    page = run_view(workshop.run(main()))
    (part,) = page.plans
    drawing, html = draw_plan(part, SafeText()), render(page)
    assert (drawing is None) == (steps == 0)
    assert len(part.steps) == steps
    assert html.count('<details id="plan-1-step-') == min(steps, 200)
    assert ("100 more steps are left out." in html) == (steps == 300)
    if drawing is not None and steps == 300:
        assert drawing.left_out == "The first 60 of 300 steps are drawn."


def test_what_was_made_up_is_told_as_unreadable(workshop: Workshop) -> None:
    """A record whose parts do not have their shapes, as a forger may write it, is an error that says so, and no crash."""
    case = eventful(workshop)
    started = msgspec.structs.replace(
        case.state, start=msgspec.structs.replace(case.state.start, request="<b>")
    )
    verdicts = [
        msgspec.structs.replace(each, verdict={"outcome": "ok", "refusals": [7]})
        if isinstance(each, e.PlanReviewed)
        else each
        for each in case.events
    ]
    for made_up in (
        replace(case, state=started),
        replace(case, events=tuple(verdicts)),
    ):
        with pytest.raises(ReplayError, match="in another shape"):
            run_view(made_up)


def test_turns_of_an_agent_are_told_as_turns() -> None:
    """An agent that decides step by step has turns in place of plans, each with what its critics made of it."""

    @tool("shop.look", mode="read_only")
    def look(order: str) -> str:
        """Look an order up."""
        return order

    agent = Scripted([Decision.act("shop.look", order="o1"), Decision.final("shipped")], tools=[look])

    async def main() -> RunData:
        journal = await open_journal("memory:")
        result = await Engine(agent, journal=journal, actor=ADA).run({"order": "o1"})
        return await read_run(journal, "default", result.session_id)

    last, first = run_view(asyncio.run(main())).plans
    assert (last.is_turn, last.title[:6], first.title[:6]) == (True, "Turn 2", "Turn 1")
    assert first.steps[0].tool == "shop.look"
    assert any(reason.startswith("turn 1 goes on") for reason in first.reasons)
    assert (first.kept, last.new) == ((), ())

"""Tools that failed in a plan and are called again before the outputs are repaired, and evidence that is fetched for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.errors import NotDone
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.fold.base import IllegalEvent
from tercet.core.state import State
from tercet.evidence.store import NewFact
from tercet.packs.pack import Pack
from tercet.replay.replay import replay
from tercet.runtime import Runtime
from tercet.tools import ToolContext

from .quality_desk import (
    FACT,
    FINE_TONE,
    GOOD,
    THRESHOLDS,
    VALUES,
    carry,
    demand_within_bounds,
    desk,
    last,
    mended,
    model,
    of,
    told,
    whole,
)
from .test_retrieving import Planner, shelved
from .test_runs import Script
from .workshop import ADA, ASK, BOB, Behave, Death, Workshop, events, plan, step

BROUGHT: JsonObject = {"fee": 7}
FEE: JsonObject = {
    "name": "fee",
    "from": "lookup#/fee",
    "type": "money",
    "currency": "EUR",
    "labels": {"en": ["fee"]},
}
TEMPLATE = "Order {{ order_id }} was shipped on {{ shipped_on }}. The fee is {{ fee }}."
LETTER = "Order ord_881 was shipped on May 4, 2026. The fee is €7.00."
RENDERED: JsonObject = {"documents": [{"output": "letter", "template": TEMPLATE}]}
"""A letter in the author's words that states the fee."""
ADDED: JsonObject = {
    "required_values": ["fee"],
    "repair": {"sections": [{"heading": "Delivery", "text": "The fee is {{ fee }}."}]},
}
"""A letter that must state the fee, and the section that a rule adds for it."""
ORDER: JsonObject = {"order": {"$from": "request#/order"}}
LOOK_UP = step("lookup", "shop.fee", optional=True, params=ORDER)
WRITE: Plan = plan(LOOK_UP, step("draft"), outputs={"letter": {"$from": "draft#/letter"}})


def failing(times: int, brought: Any = BROUGHT) -> Behave:
    """A tool that fails so often, and then brings something."""
    left = [times]

    async def look_up(_: Any, __: dict[str, Any]) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise NotDone("the price list is closed", is_retriable=False)
        return brought

    return look_up


def shop(
    workshop: Workshop,
    quality: JsonObject,
    *,
    times: int = 1,
    behave: Behave | None = None,
    tool: JsonObject | None = None,
    **header: Any,
) -> Pack:
    """A desk whose letters state a fee, which a tool brings that fails at first."""
    declared: dict[str, Any] = {"mode": "read_only", "cost_microcents": 5, **(tool or {})}
    workshop.tool("shop.fee", behave or failing(times), **declared)
    return desk(workshop, {"letter": GOOD}, quality={"values": (*VALUES, FEE), **quality}, **header)


def looked_up(workshop: Workshop) -> list[str]:
    """The calls of the tool that fails, by their steps."""
    return [name for name, _ in workshop.calls if name.startswith("lookup")]


@pytest.mark.req("R209")
def test_what_a_failed_tool_did_not_bring_is_rendered_once_it_does(workshop: Workshop, url: str) -> None:
    """The look-up fails, its slot stays empty; in REPAIR it is called once more, and the letter goes out by itself."""
    done = carry(workshop, shop(workshop, RENDERED), url, plan=WRITE, accepts=False)
    assert done.way == [
        "outputs_produced",
        "outputs_verified: critique",
        "outputs_critiqued: repair",
        "evidence_fetched",
        "outputs_repaired: repaired",
        "outputs_verified: critique",
        "outputs_critiqued: exit",
        "run_reported: accept",
    ]
    assert (done.result.status, done.result.outputs) == ("completed", {"letter": LETTER})
    (fetched,) = of(e.EvidenceFetched, done.found)
    assert fetched.results == (e.ToolRetry(step="lookup", tool="shop.fee", result=BROUGHT),)
    assert (fetched.calls, fetched.cost) == (1, 5)
    assert looked_up(workshop) == ["lookup", "lookup:repair1"]
    assert len(set(workshop.keys)) == len(workshop.keys) == 3
    assert (done.state.used.tool_calls, done.state.used.cost) == (2 + 1, 5)


@pytest.mark.req("R209")
def test_a_rule_states_what_a_failed_tool_brings(workshop: Workshop, url: str) -> None:
    """The section that the author wrote for the value is added, and its slot filled from what the second call brought."""
    done = carry(workshop, shop(workshop, ADDED), url, plan=WRITE)
    assert done.result.status == "completed"
    assert done.result.outputs["letter"] == f"{GOOD}\n\n## Delivery\n\nThe fee is €7.00.\n"
    assert looked_up(workshop) == ["lookup", "lookup:repair1"]
    bound = [piece for text in last(e.OutputsRead, done.found).texts for piece in text["pieces"]]
    assert "kg:result:lookup#snapshot_run#/fee" in [piece.get("pointer") for piece in bound]


@pytest.mark.req("R209")
def test_a_model_is_shown_what_a_failed_tool_brings(workshop: Workshop) -> None:
    """Without a section for it, the value that was missing is among the evidence that the letter is written again from."""
    writer = model(mended(f"{GOOD} The fee is 7 EUR."))
    pack = shop(workshop, {"required_values": ["fee"]})
    done = carry(workshop, pack, plan=WRITE, repairers=[writer])
    assert '"fee":7' in told(writer.questions[0]).replace(" ", "")
    assert (done.result.status, writer.calls) == ("completed", 1)
    tokens = last(e.OutputsVerified, done.found).verdict["tokens"]
    assert {each["status"] for each in tokens} == {"found"}


TOOL: JsonObject = {
    "dimensions": [
        {"name": "tool", "weight": 0.6, "minimum": 0.8, "scorer": "model", "question": "Is all there?"},
        {"name": "safety", "weight": 0.4, "minimum": 0.95, "scorer": "safe"},
    ]
}
NOT_THERE: JsonObject = {
    "score": 0.2,
    "defects": [{"quote": "", "problem": "the price list was closed", "hint": "say the fee"}],
}


@pytest.mark.req("R209")
@pytest.mark.parametrize("times", [1, 2])
def test_a_failure_of_a_tool_is_written_about_only_with_new_results(workshop: Workshop, times: int) -> None:
    """What a critic calls a failed tool is repaired by a model once the tool has brought something, and else by nobody."""
    pack = shop(workshop, {"rubric": TOOL}, times=times, decision={"thresholds": THRESHOLDS})
    writer = model(whole(f"{GOOD} The fee is 7 EUR."))
    critic = model(NOT_THERE, FINE_TONE if times == 1 else NOT_THERE)
    done = carry(workshop, pack, plan=WRITE, critics=[critic], repairers=[writer])
    assert writer.calls == (1 if times == 1 else 0)
    assert done.result.status == ("completed" if times == 1 else "paused")
    assert len(looked_up(workshop)) == 2


@pytest.mark.req("R209")
@pytest.mark.parametrize("rules", [RENDERED, ADDED], ids=["rendered", "added"])
def test_another_plan_does_without_a_tool_that_fails_again(
    workshop: Workshop, url: str, rules: JsonObject
) -> None:
    """What the tool should have brought is a failure of it, for which a planner is asked: that is its substitution."""
    workshop.tool("other.fee", failing(0), mode="read_only")
    pack = shop(workshop, rules, times=9)
    other = plan(
        step("lookup", "other.fee", params=ORDER),
        step("draft"),
        outputs={"letter": {"$from": "draft#/letter"}},
    )
    done = carry(workshop, pack, url, planner=Script(WRITE, other))
    (fetched, *_), first = of(e.EvidenceFetched, done.found), of(e.OutputsRepaired, done.found)[0]
    assert fetched.results == (e.ToolRetry(step="lookup", tool="shop.fee", error="the price list is closed"),)
    assert first.escalation["kind"] == "TASK_REDECOMPOSE"
    assert {each["root_cause"] for each in first.escalation["left"]} == {"TOOL_FAILURE"}
    assert (done.result.status, done.state.used.replans) == ("completed", 1)
    assert "€7.00" in done.result.outputs["letter"]
    assert looked_up(workshop) == ["lookup", "lookup:repair1", "lookup"]


@pytest.mark.req("R209")
def test_a_tool_that_fails_again_is_left_to_a_person_where_nobody_plans(workshop: Workshop, url: str) -> None:
    """No planner made the plan: one REPAIR phase, one further call, and a person gets the diagnosis."""
    done = carry(workshop, shop(workshop, ADDED, times=9), url, plan=WRITE)
    assert (done.result.status, done.result.reason[:11]) == ("paused", "escalated: ")
    assert looked_up(workshop) == ["lookup", "lookup:repair1"]
    assert done.state.outputs == {"letter": GOOD}
    (repaired,) = of(e.OutputsRepaired, done.found)
    assert [each["root_cause"] for each in repaired.escalation["left"]] == ["TOOL_FAILURE"]
    assert repaired.log == ()


@pytest.mark.req("R209")
async def test_what_a_tool_brought_counts_in_later_rounds_and_processes(
    workshop: Workshop, tmp_path: Path
) -> None:
    """A person sends the letter back: another process repairs it, knows the fee, and does not look it up again."""
    pack = shop(workshop, RENDERED, decision={"requires_human_approval": True})
    thanks = f"{LETTER} Thank you."

    async def main() -> list[e.Event]:
        async with workshop.journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
            async with workshop.runtime(pack, journal) as first:
                result = await first.run(ASK, plan=WRITE, actor=ADA)
                assert result.gate is not None
                await first.modify(result.gate.id, actor=BOB, note="say thanks")
            async with workshop.runtime(pack, journal, repairers=[model(whole(thanks))]) as second:
                result = await second.resume(result.session_id)
                assert (result.status, result.outputs) == ("awaiting_gate", {"letter": thanks})
            return await events(journal, result.session_id)

    found = await main()
    assert looked_up(workshop) == ["lookup", "lookup:repair1"]
    assert len(of(e.EvidenceFetched, found)) == 1
    tokens = last(e.OutputsVerified, found).verdict["tokens"]
    assert [each["status"] for each in tokens if "7" in each["token"]["text"]] == ["bound"]


@pytest.mark.slow
@pytest.mark.req("R116", "R209")
@pytest.mark.parametrize("point", ["before_append", "after_append"])
def test_a_process_that_dies_around_the_call_makes_it_again_or_goes_on_with_it(
    tmp_path: Path, point: str
) -> None:
    """It is read_only: what was not recorded is called again, what was recorded is not, and the letter is the same."""

    async def look_up(context: ToolContext, _: dict[str, Any]) -> Any:
        if context.step_id == "lookup":
            raise NotDone("the price list is closed", is_retriable=False)
        return BROUGHT

    async def live(workshop: Workshop, url: str, nth: int) -> tuple[bool, bool, list[e.Event]]:
        pack, death = shop(workshop, RENDERED, behave=look_up), Death(point, nth)
        async with workshop.journal(url) as journal:
            async with workshop.runtime(pack, journal, crash=death) as mortal:
                ended = await death.of(mortal.run(ASK, plan=WRITE, actor=ADA))
            rows = await journal.sessions("default", limit=9)
            if not rows:
                return False, False, []
            was_called = "lookup:repair1" in looked_up(workshop)
            before = of(e.EvidenceFetched, await events(journal, rows[0].session_id))
            async with workshop.runtime(pack, journal) as runtime:
                result = ended or await runtime.resume(rows[0].session_id)
                assert (result.status, result.outputs) == ("completed", {"letter": LETTER})
                assert (await replay(journal, result.session_id)).difference is None
            _, found = await demand_within_bounds(journal, result.session_id)
            return ended is not None, was_called and not before, found

    lost, has_lived = 0, False
    for nth in range(1, 60):
        workshop = Workshop()
        has_lived, is_lost, found = workshop.run(live(workshop, f"sqlite:///{tmp_path / f'{nth}.db'}", nth))
        if not found:
            continue
        assert [event.calls for event in of(e.EvidenceFetched, found)] == [1]
        assert looked_up(workshop).count("lookup:repair1") == 1 + is_lost
        lost += is_lost
        if has_lived:
            break
    assert has_lived
    assert lost == (1 if point == "before_append" else 0)


@pytest.mark.parametrize(
    ("tool", "header", "why"),
    [
        ({"mode": "local_write"}, {}, None),
        ({}, {"budget": {"tool_calls": 2}}, "1 tool call is needed, 0 are left"),
    ],
    ids=["it writes", "no calls are left"],
)
def test_what_may_not_be_called_again_is_not(
    workshop: Workshop, tool: JsonObject, header: JsonObject, why: str | None
) -> None:
    """A tool that changes something is never called again; a budget that is used up is the reason why another is not."""
    done = carry(workshop, shop(workshop, ADDED, tool=tool, **header), plan=WRITE)
    fetched = of(e.EvidenceFetched, done.found)
    assert "lookup:repair1" not in looked_up(workshop)
    assert len(of(e.OutputsRepaired, done.found)) == 1
    if why is None:
        assert fetched == []
    else:
        assert (fetched[0].calls, fetched[0].cost) == (0, 0)
        assert why in fetched[0].results[0].error


async def test_a_tool_that_waits_for_a_person_is_not_called_again(workshop: Workshop) -> None:
    """Somebody approved one call, and nobody is asked in REPAIR for another."""
    gates = ({"name": "boss", "roles": ("boss",)},)
    pack = shop(workshop, ADDED, tool={"gates": ("boss",)}, gates=gates)

    async def main() -> list[e.Event]:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            return await events(runtime.journal, result.session_id)

    found = await main()
    assert looked_up(workshop) == ["lookup"]
    assert len(of(e.OutputsRepaired, found)) == 1
    assert of(e.EvidenceFetched, found) == []


async def test_a_tool_that_an_operator_stopped_is_not_called_again(workshop: Workshop) -> None:
    """A stop holds for calls before a repair as for any other."""
    running: list[Runtime] = []

    async def stop(_: Any, __: dict[str, Any]) -> Any:
        await running[0].halt("tool", "shop.fee", actor=BOB)
        raise NotDone("the prices are wrong", is_retriable=False)

    pack = shop(workshop, ADDED, behave=stop)

    async def main() -> list[e.Event]:
        async with workshop.runtime(pack) as runtime:
            running.append(runtime)
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            return await events(runtime.journal, result.session_id)

    (fetched,) = of(e.EvidenceFetched, (await main()))
    assert (fetched.calls, fetched.results[0].error) == (0, "an operator stopped shop.fee")
    assert looked_up(workshop) == ["lookup"]


def test_a_result_that_is_too_large_is_not_kept(workshop: Workshop) -> None:
    """The event holds what was brought, so it is bounded; the call counts all the same."""
    pack = shop(workshop, ADDED, behave=failing(1, {"fee": 7, "list": "x" * 300_000}))
    done = carry(workshop, pack, plan=WRITE)
    fetched = last(e.EvidenceFetched, done.found)
    assert (fetched.calls, fetched.results[0].result) == (1, None)
    assert "its result has 300," in fetched.results[0].error


def test_a_result_is_worth_what_its_step_would_have_been(workshop: Workshop) -> None:
    """An untrusted tool does not become trusted by being called again: its number fills no slot."""
    done = carry(workshop, shop(workshop, RENDERED, tool={"trust": "untrusted"}), plan=WRITE)
    faults = [fault for text in last(e.OutputsRead, done.found).texts for fault in text["faults"]]
    assert [fault["code"] for fault in faults] == ["untrusted_value"]
    assert done.result.status == "paused"


def test_a_run_by_earlier_rules_calls_nothing_again(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the number of the rule, REPAIR goes on with what there is, and a replay finds nothing else due."""
    framed = Pack.run_context
    before = tuple(set(CURRENT) - {Behaviour.FAILED_TOOLS_RETRIED})

    def old_frame(self: Pack, **given: Any) -> Any:
        return framed(self, **given).model_copy(update={"behaviour": before})

    monkeypatch.setattr(Pack, "run_context", old_frame)
    done = carry(workshop, shop(workshop, ADDED), planner=Script(WRITE))
    assert looked_up(workshop) == ["lookup"]
    assert of(e.EvidenceFetched, done.found) == []
    assert done.state.used.replans == 0


def test_a_result_of_a_step_that_did_not_fail_is_refused(workshop: Workshop) -> None:
    """An event that slips in a result for another step does not fold."""
    found = carry(workshop, shop(workshop, RENDERED), plan=WRITE).found
    at = next(at for at, event in enumerate(found) if isinstance(event, e.EvidenceFetched))
    state = State()
    for event in found[:at]:
        state = fold_event(state, event)
    forged = e.EvidenceFetched(at=state.at, results=(e.ToolRetry(step="draft", tool="do.it", result=1),))
    with pytest.raises(IllegalEvent, match="no call of step draft has failed"):
        fold_event(state, forged)


# --- evidence that is fetched ---

RETRIEVAL: JsonObject = {
    "dimensions": [
        {"name": "retrieval", "weight": 0.6, "minimum": 0.8, "scorer": "model", "question": "Is all there?"},
        {"name": "safety", "weight": 0.4, "minimum": 0.95, "scorer": "safe"},
    ]
}


@pytest.mark.req("R332")
async def test_outputs_stand_on_evidence_that_was_fetched_for_their_repair(workshop: Workshop) -> None:
    """The model is shown the fact that was found, and what it states of it is known, although the plan pins another one."""
    fee = {**FEE, "from": "tariff#/fee"}
    pack = desk(
        workshop,
        {"letter": GOOD},
        quality={"values": (*VALUES, fee), "rubric": RETRIEVAL},
        decision={"thresholds": THRESHOLDS},
    )
    asked = ({"classification": "tariff", "query": "xylophone"},)
    write = plan(
        step("read", evidence_refs=(FACT.id,)),
        step("draft", evidence_queries=asked),
        outputs={"letter": {"$from": "draft#/letter"}},
    )
    tariff = NewFact(
        classification="tariff",
        key="parcel",
        content={"what": "tariff for parcels: the fee for delivery", "fee": 7, "currency": "EUR"},
        trust=Trust.TRUSTED,
    )
    missing = {"score": 0.2, "defects": [{"quote": "", "problem": "the fee for delivery", "hint": "say it"}]}
    writer = model(whole(f"{GOOD} The fee is 7 EUR."))

    async def main() -> list[e.Event]:
        given: dict[str, Any] = {"critics": [model(missing, FINE_TONE)], "repairers": [writer]}
        async with workshop.runtime(pack, evidence=await shelved(tariff), **given) as runtime:
            result = await runtime.run(ASK, planner=Planner(write), actor=ADA)
            return await events(runtime.journal, result.session_id)

    found = await main()
    assert len(last(e.EvidenceFetched, found).refs) == 1
    assert "tariff for parcels" in told(writer.questions[0])
    tokens = last(e.OutputsVerified, found).verdict["tokens"]
    assert [each["status"] for each in tokens if each["token"]["text"].startswith("7")] == ["found"]


def test_a_failed_call_that_no_defect_is_due_to_is_not_made_again(workshop: Workshop) -> None:
    """The letter lacks a section, and states nothing that the look-up should have brought."""
    section = {
        "required_sections": ["Terms"],
        "repair": {"sections": [{"heading": "Terms", "text": "See above."}]},
    }
    done = carry(workshop, shop(workshop, section), plan=WRITE)
    assert done.result.outputs["letter"].endswith("## Terms\n\nSee above.\n")
    assert looked_up(workshop) == ["lookup"]
    assert of(e.EvidenceFetched, done.found) == []


def test_a_call_that_fails_again_is_made_once_in_a_run(workshop: Workshop) -> None:
    """Two REPAIR phases: a section is added in the first, and the fee is missing in both."""
    section = {"sections": [{"heading": "Terms", "text": "See above."}]}
    quality = {"required_values": ["fee"], "required_sections": ["Terms"], "repair": section}
    writer = model(
        mended(f"{GOOD} It was shipped on May 5, 2026."), mended(f"{GOOD} It was shipped on May 6, 2026.")
    )
    carry(workshop, shop(workshop, quality, times=9), plan=WRITE, repairers=[writer])
    assert looked_up(workshop) == ["lookup", "lookup:repair1"]

"""The page of a session: every tab, the state at an event, and who may do what to it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from console.desk import ConsoleDesk, open_console
from console.example_runs import PACKS, SUPPLIERS, start
from console.shop import HeldShop, chain
from tercet.console.run_parts import part_of, read_run_at
from tercet.console.session import TABS
from tercet.core import events as e
from tercet.engine.session_reader import load_history

OPERATOR = ("read", "run", "operate")


async def _refund(desk: ConsoleDesk) -> tuple[str, str]:
    """Start a refund, and return its session and the gate that it waits at."""
    gate = await desk.waiting_gate()
    return gate.rpartition(".g")[0], gate


async def _approve(desk: ConsoleDesk, session: str, gate: str) -> None:
    finance = await desk.key("user_finance_lead", roles=("finance_lead",))
    await desk.rpc(finance, "approveGate", gate_id=gate)
    await desk.until(await desk.key("agt_support"), session)


async def test_every_tab_shows_a_run_that_waits_and_one_that_is_over(shop: Path) -> None:
    async with open_console() as desk:
        session, gate = await _refund(desk)
        olga = await desk.person("olga", scopes=OPERATOR)
        waiting = {tab: await olga.get(f"/console/sessions/{session}?tab={tab}") for tab in TABS}
        assert {page.status_code for page in waiting.values()} == {200}
        assert f"/console/gates/{gate}" in waiting["plan"].text
        assert 'id="run-part" data-live' in waiting["plan"].text
        assert "Cancel this run" in waiting["plan"].text
        await _approve(desk, session, gate)
        ended = {tab: (await olga.get(f"/console/sessions/{session}?tab={tab}")).text for tab in TABS}
        assert "completed" in ended["plan"]
        assert "data-live" not in ended["plan"]
        assert "issue_refund" in ended["transcript"]
        assert "approved by user_finance_lead" in ended["people"]
        assert "Scorecard" in ended["quality"]
        assert "kg:" in ended["evidence"]
        assert "chain head" in ended["record"]
        replayed = await olga.get(f"/console/sessions/{session}/replay")
        assert "replay_equal" in replayed.text
        bundle = await olga.get(f"/console/sessions/{session}/export")
        assert f'filename="{session}.tercet"' in bundle.headers["content-disposition"]
        assert len(bundle.content) > 1_000


async def test_the_state_at_an_event_is_the_fold_up_to_it(shop: Path) -> None:
    async with open_console() as desk:
        session, gate = await _refund(desk)
        await _approve(desk, session, gate)
        states = (await load_history(desk.journal, "default", session)).states
        for at in range(1, len(states)):
            run = await read_run_at(desk.journal, "default", session, at)
            assert (run.at, run.last, len(run.data.events)) == (at, len(states) - 1, at)
            assert run.data.state == states[at]
        olga = await desk.person("olga", scopes=OPERATOR)
        early = await olga.get(f"/console/sessions/{session}?at=1")
        assert "There is no plan yet" in early.text
        assert "folded from 1 event" in early.text
        assert "data-live" not in early.text
        assert f"/console/sessions/{session}?at=2" in early.text
        assert "Cancel this run" not in early.text


async def test_a_number_beyond_the_run_means_its_end(shop: Path) -> None:
    async with open_console() as desk:
        session, _ = await _refund(desk)
        olga = await desk.person("olga", scopes=OPERATOR)
        for at in ("99999", "x", "-4", ""):
            page = await olga.get(f"/console/sessions/{session}?at={at}&page=77&tab=timeline")
            assert (page.status_code, "<b>Now.</b>" in page.text) == (200, True)
        assert "Graph of the plan" in (await olga.get(f"/console/sessions/{session}?tab=nothing")).text


async def test_an_operator_pauses_resumes_extends_and_cancels() -> None:
    held = HeldShop()
    async with open_console(None, held.pack) as desk:
        agent = await desk.key("agt_support")
        session = (await desk.rpc(agent, "invokeAgent", **chain("s1", "s2")))["session"]["session_id"]
        olga = await desk.person("olga", scopes=OPERATOR)
        path = f"/console/sessions/{session}"
        page = await olga.get(path)
        pausing = asyncio.ensure_future(olga.send(page, f"{path}/act/pause"))
        while True:
            if (await desk.journal.head("default", f"inbox:{session}")).seq:
                break
            await asyncio.sleep(0.001)
        held.let_go()  # the call in progress ends, and no other begins
        await pausing
        await desk.until(agent, session, "paused")
        page = await olga.get(path)
        assert "/act/pause" not in page.text
        extended = await olga.send(page, f"{path}/extend", more_tool_calls="3", note="one more refund")
        assert "extended by 3" in extended.text
        again = await olga.send(page, f"{path}/extend", more_tool_calls="3", note="one more refund")
        assert "extended by 3" in again.text, "a form that is sent twice counts once"
        for field, amount in (
            ("tool_calls", "many"),
            ("tool_calls", "1.5"),
            ("wall_clock_ms", "0"),
            ("tokens", "²"),
        ):
            wrong = await olga.send(again, f"{path}/extend", **{f"more_{field}": amount})
            assert (wrong.status_code, "wrong_amount" in wrong.text) == (422, True), field
        assert "Time at work, in seconds" in again.text
        await olga.send(again, f"{path}/extend", more_cost_microcents="2.5", more_wall_clock_ms="90")
        extensions = [
            each
            for each in (await load_history(desk.journal, "default", session)).events
            if isinstance(each, e.BudgetExtended)
        ]
        assert extensions[-1].more == {"cost_microcents": 2_500_000, "wall_clock_ms": 90_000}
        await olga.send(again, f"{path}/act/resume")
        await desk.until(agent, session, "in_progress")
        await olga.send(again, f"{path}/act/cancel", note="<i>not needed</i>")
        held.let_go(2)
        await desk.until(agent, session, "cancelled")
        assert "cancelled" in (await olga.get(path)).text
        assert "&lt;i&gt;not needed" in (await olga.get(f"{path}?tab=timeline")).text


async def test_an_agent_may_neither_extend_nor_steer_the_run_of_another(shop: Path) -> None:
    async with open_console() as desk:
        session, _ = await _refund(desk)
        path = f"/console/sessions/{session}"
        owner = await desk.person("agt_support", scopes=("read", "run"))
        page = await owner.get(path)
        assert "Cancel this run" in page.text
        assert "Extend the budget" not in page.text
        refused = await owner.send(page, f"{path}/act/cancel", csrf="")
        assert refused.status_code == 403
        olga = await desk.person("olga", scopes=OPERATOR)
        form = await olga.get(path)
        stolen = {"csrf": _token(page.text)}
        assert (await owner.send(form, f"{path}/extend", more_tool_calls="1", **stolen)).status_code == 403
        other = await desk.person("agt_other", scopes=("read", "run"))
        page = await other.get(path)
        assert "Cancel this run" not in page.text
        mine = {"csrf": _token(page.text)}
        refused = await other.send(form, f"{path}/act/cancel", **mine)
        assert (refused.status_code, "scope_missing" in refused.text) == (403, True)
        assert (await desk.rpc(await desk.key("agt_support"), "getSession", session_id=session))["session"][
            "status"
        ] == "awaiting_gate"


def _token(page: str) -> str:
    return page.partition('name="csrf" value="')[2].partition('"')[0]


@pytest.mark.parametrize("rest", ["", "?tab=timeline", "/export", "/replay"])
async def test_another_tenants_session_is_not_found(shop: Path, rest: str) -> None:
    async with open_console() as desk:
        session, _ = await _refund(desk)
        eve = await desk.person("eve", tenant="other", scopes=OPERATOR)
        for name in (session, "ses_nothing"):
            page = await eve.get(f"/console/sessions/{name}{rest}")
            assert (page.status_code, "not found" in page.text) == (404, True)
            assert "issue_refund" not in page.text


def test_pages_of_a_list_cover_it_once() -> None:
    items = list(range(101))
    parts = [part_of(items, number, 25) for number in range(1, 6)]
    assert [each for part in parts for each in part.items] == items
    assert {part.pages for part in parts} == {5}
    assert (part_of(items, 99, 25).number, part_of([], 3, 25).pages) == (5, 1)


async def test_an_earlier_state_of_an_ended_run_does_not_say_that_it_is_not_over(shop: Path) -> None:
    async with open_console() as desk:
        session, gate = await _refund(desk)
        await _approve(desk, session, gate)
        reader = await desk.person("reader", scopes=("read",))
        page = (await reader.get(f"/console/sessions/{session}?at=3")).text
        assert "The run was not over at this event." in page
        assert "The run is not over" not in page


async def test_a_refused_run_says_its_reason_in_the_head_and_in_the_table_alone(shop: Path) -> None:
    async with open_console() as desk:
        session, _ = await start(desk, "support.refund", "plan_a", order_id="ord_881")
        reader = await desk.person("reader", scopes=("read",))
        page = (await reader.get(f"/console/sessions/{session}")).text
        reason = "tep 1 requires evidence class refund_window_evidence"
        assert page.count(reason) == 2
        assert page.count('<span class="chip bad">refused: unbound_argument</span>') == 1
        assert "<summary>The request</summary>" in page


async def test_what_is_not_there_is_not_found_and_not_refused(shop: Path) -> None:
    async with open_console() as desk:
        reader = await desk.person("reader", scopes=("read",))
        for path, remedy in (
            ("sessions/ses_none", "look in the inbox"),
            ("packs/none", "look among the packs"),
        ):
            page = (await reader.get(f"/console/{path}")).text
            assert "<title>Not found" in page
            assert "refused" not in page
            assert remedy in page


async def test_the_graph_shows_lanes_and_the_critical_path(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERCET_SUPPLIERS_DB", str(shop / "suppliers.db"))
    async with open_console(None, *PACKS) as desk:
        session, _ = await start(desk, "suppliers.buy", item="desk", suppliers=SUPPLIERS)
        reader = await desk.person("reader", scopes=("read",))
        page = (await reader.get(f"/console/sessions/{session}")).text
        graph = page.partition('<svg class="graph')[2].partition("</svg>")[0]
        assert len(re.findall(r'class="node good lane( critical)?"', graph)) == 3
        assert graph.count('class="behind"') == 3
        assert graph.count('class="edge critical"') == graph.count('class="arrow critical"') == 2
        assert graph.count(", on the critical path</title>") == 3
        edges = re.findall(r'class="(edge[^"]*)"', graph)
        assert edges == ["edge"] * 2 + ["edge critical"] * 2, "the critical path is drawn over the others"
        assert ">waits for people<" not in graph
        assert ">waits for GATE_BUYER<" in graph

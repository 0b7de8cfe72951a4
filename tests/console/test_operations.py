"""Metrics, packs and emergency stops: what they show, and who may use them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from console.desk import open_console
from console.shop import HeldShop, chain
from tercet.console.charts import bar_chart, line_chart
from tercet.console.metrics import draw_charts
from tercet.console.packs import count_versions
from tercet.console.tallies import TallyCache, figures_for, read_window
from tercet.contracts.request import Actor, Request
from tercet.engine.session_reader import load_history
from tercet.journal.memory import MemoryJournal
from tercet.observe.tally import Recorded, figures
from tercet.runtime import Runtime
from tercet.service.boundary import Limits

OPERATOR = ("read", "run", "operate")


async def test_a_stop_is_confirmed_shown_on_every_page_and_lifted(shop: Path) -> None:
    async with open_console() as desk:
        await desk.waiting_gate()
        olga = await desk.person("olga", scopes=OPERATOR)
        assert "Emergency stop:" not in (await olga.get("/console")).text
        tool = "adp_payments.issue_refund"
        asked = await olga.get(f"/console/stops/confirm?kind=tool&name={tool}")
        assert tool in asked.text
        assert "1 session that waits at a gate is paused once it is answered" in asked.text
        assert "Runs of the pack refunds pause before their next such call." in asked.text
        assert "0 sessions" not in asked.text
        assert (await desk.rpc(await desk.key("olga"), "listStops"))["stops"] == []
        page = await olga.send(asked, "/console/stops", note="<b>wrong amounts</b>")
        assert page.url.path == "/console/stops"
        reader = await desk.person("reader", scopes=("read",))
        for path in ("/console", "/console/sessions", "/console/packs", "/console/metrics"):
            shown = (await reader.get(path)).text
            assert "Emergency stop:" in shown
            assert "(&lt;b&gt;wrong amounts&lt;/b&gt;)" in shown
            assert "<b>wrong" not in shown
        other = await desk.person("eve", tenant="other", scopes=OPERATOR)
        assert "Emergency stop:" not in (await other.get("/console")).text
        lifted = await olga.send(page, "/console/stops/lift", note="checked")
        assert "Nothing is stopped" in lifted.text
        assert "Emergency stop:" not in (await reader.get("/console")).text


async def test_the_widest_stop_is_named_first_and_a_gate_says_that_its_call_is_stopped(shop: Path) -> None:
    async with open_console() as desk:
        gate = await desk.waiting_gate()
        key = await desk.key("olga", scopes=OPERATOR)
        tools = ("adp_orders.lookup", "adp_policy.eval", "adp_payments.issue_refund")
        for kind, name in (*(("tool", tool) for tool in tools), ("tenant", "default")):
            await desk.rpc(key, "emergencyStop", kind=kind, name=name, note="all wrong")
        page = (await (await desk.person("olga", scopes=OPERATOR)).get("/console/stops")).text
        banner = page.partition("Emergency stop:")[2].partition("</p>")[0]
        assert banner.index("tenant <b>default") < banner.index("tool <b>adp_orders.lookup")
        assert "and 1 more. Nothing that they name is called" in banner
        lead = await desk.person("user_finance_lead", roles=("finance_lead",))
        said = "An emergency stop of tenant default is active: the run pauses"
        assert said in (await lead.get(f"/console/gates/{gate}")).text
        await desk.rpc(key, "liftStop", kind="tenant", name="default", note="checked")
        said = "An emergency stop of tool adp_payments.issue_refund is active"
        assert said in (await lead.get(f"/console/gates/{gate}")).text
        await desk.rpc(key, "liftStop", kind="tool", name=tools[-1], note="checked")
        assert "An emergency stop of" not in (await lead.get(f"/console/gates/{gate}")).text


async def test_an_agents_key_may_not_stop_anything(shop: Path) -> None:
    async with open_console() as desk:
        agent = await desk.person("agt_support", scopes=("read", "run"))
        page = await agent.get("/console/stops")
        assert "scope <code>operate" in page.text
        assert (await agent.get("/console/stops/confirm?kind=tenant")).status_code == 403
        csrf = page.text.partition('name="csrf" value="')[2].partition('"')[0]
        for path in ("/console/stops", "/console/stops/lift"):
            answer = await agent.client.post(path, data={"csrf": csrf, "kind": "tenant"})
            assert (answer.status_code, "scope_missing" in answer.text) == (403, True)
        assert (await desk.rpc(await desk.key("olga"), "listStops"))["stops"] == []


async def test_a_stop_that_names_nothing_is_refused(shop: Path) -> None:
    async with open_console() as desk:
        olga = await desk.person("olga", scopes=OPERATOR)
        for query in ("", "kind=pack", "kind=world&name=x"):
            assert (await olga.get(f"/console/stops/confirm?{query}")).status_code == 422
        unknown = await olga.get("/console/stops/confirm?kind=tool&name=no.such%3Cb%3E")
        assert "No pack that is served here" in unknown.text
        assert "no.such&lt;b&gt;" in unknown.text


async def test_packs_show_tools_gates_policies_checks_and_versions(shop: Path) -> None:
    old, new = HeldShop(version="1.0.0"), HeldShop(version="2.0.0")
    async with open_console(None, old.pack, new.pack) as desk:
        runtime = await desk.running.http.service.hub.runtime("default", "shop")
        assert runtime.pack.version == "2.0.0"
        session = await desk.rpc(await desk.key("ada"), "invokeAgent", **chain("s1"))
        used = await count_versions(desk.journal, "default")
        assert used[new.pack.ref, new.pack.hash][:2] == (1, 0)
        reader = await desk.person("reader", scopes=("read",))
        listed = (await reader.get("/console/packs")).text
        assert "shop@2.0.0" in listed
        assert "served for older runs" in listed
        page = (await reader.get("/console/packs/shop?version=1.0.0")).text
        assert "shop@1.0.0" in page
        assert "shop.work" in page
        assert (await reader.get("/console/packs/nothing")).status_code == 404
        new.let_go()
        await desk.until(await desk.key("ada"), session["session"]["session_id"])
    async with open_console() as desk:
        reader = await desk.person("reader", scopes=("read",))
        page = (await reader.get("/console/packs/refunds")).text
        for words in ("adp_payments.issue_refund", "amount_inr", "destructive", "GATE_FINANCE_APPROVAL"):
            assert words in page


async def test_metrics_are_the_figures_of_stats_and_are_read_once() -> None:
    held, journal = HeldShop(), MemoryJournal()
    held.let_go(20)
    async with Runtime(held.pack, journal, watchdog_ms=None) as runtime:
        for number in range(4):
            request = Request(intent="work", input={"number": number})
            steps = [{"id": "s1", "tool": "shop.work", "params": {"n": number}}]
            assert (await runtime.run(request, plan={"steps": steps}, actor=Actor(id="ada"))).status
    cache = TallyCache()
    window = await read_window(journal, "default", cache, after=0, most=100)
    rows = await journal.sessions("default")
    histories = [await load_history(journal, "default", row.session_id, has_checkpoints=True) for row in rows]
    wanted = figures(
        Recorded(events=each.events, checkpoints=[(c.kind, len(c.data)) for c in each.checkpoints])
        for each in histories
    )
    assert figures_for(window.sessions) == wanted
    assert wanted.runs == 4
    again = await read_window(journal, "default", cache, after=0, most=100)
    assert [new is old for new, old in zip(again.sessions, window.sessions, strict=True)] == [True] * 4
    cut = await read_window(journal, "default", cache, after=0, most=2)
    assert (len(cut.sessions), cut.is_cut) == (2, True)
    assert await read_window(journal, "default", cache, after=2**50, most=9) == type(cut)(
        sessions=(), damaged=0, is_cut=False
    )
    now = rows[0].started_at + 1
    runs, *rates = draw_charts(window.sessions, now - 86_400_000, now, 1)
    assert sum(int(row[1]) for row in runs.rows) == 4
    assert [each.title for each in rates] == [
        "Plans that pass the critic (%)",
        "Steps that complete (%)",
        "Calls that are retries (%)",
        "Escalations per run",
        "Minutes to a safe completion",
    ]


async def test_the_metrics_page_names_its_window_and_escapes_intents(shop: Path) -> None:
    async with open_console() as desk:
        await desk.waiting_gate()
        reader = await desk.person("reader", scopes=("read",))
        page = (await reader.get("/console/metrics?days=30&most=100")).text
        assert "newest 1 session of the last 30 days" in page
        assert "support.refund" in page
        by_tier = {tier: (await reader.get(f"/console/metrics?risk={tier}")).text for tier in ("high", "low")}
        assert "newest 1 session" in by_tier["high"]
        assert "No such run began" in by_tier["low"]
        assert '<option value="high">' in by_tier["low"], "the others can be chosen from any of them"
        empty = (await reader.get('/console/metrics?days=x&intent="><script>alert(1)</script>')).text
        assert "No such run began in this time" in empty
        assert "<script>alert" not in empty
        other = await desk.person("eve", tenant="other", scopes=("read",))
        assert "support.refund" not in (await other.get("/console/metrics")).text


def test_charts_leave_gaps_and_hold_their_values_as_a_table() -> None:
    drawn = line_chart("Rate", ["a", "b", "c", "d"], [0.5, 1.0, None, 0.25], ["50 %", "100 %", "–", "25 %"])
    assert len(drawn.paths) == 1
    assert len(drawn.dots) == 3
    assert drawn.rows[2] == ("c", "–")
    bars = bar_chart("Runs", ["a", "b"], [("good", "good", [3, 0]), ("bad", "bad", [1, 2])])
    assert bars.rows == (("a", "3", "1"), ("b", "0", "2"))
    assert len(bars.blocks) == 3
    low = max(block.y + block.height for block in bars.blocks)
    assert low == bars.base


async def test_pages_take_places_of_their_tenant_as_calls_do(shop: Path) -> None:
    async with open_console(limits=Limits(requests_at_once=4, tenant_requests=2)) as desk:
        session = (await desk.waiting_gate()).rpartition(".")[0]
        agent = await desk.key("agt_support")
        reader = await desk.person("reader", scopes=("read",))
        stranger = await desk.person("eve", tenant="other", scopes=("read",))
        path, sent = f"/v1/sessions/{session}/progress", {"authorization": f"Bearer {agent}"}
        following = [asyncio.create_task(desk.client.get(path, headers=sent)) for _ in range(2)]
        async with asyncio.timeout(300):
            while (await desk.rpc(agent, "listGates")).get("code") != "overloaded":  # noqa: ASYNC110 - the streams have no event
                await asyncio.sleep(0.01)
        refused = await reader.get("/console/sessions")
        assert (refused.status_code, "requests of this tenant at once" in refused.text) == (
            503,
            True,
        )
        assert (await stranger.get("/console/sessions")).status_code == 200
        for each in following:
            each.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        assert (await reader.get("/console/sessions")).status_code == 200


@pytest.mark.parametrize("name", ["\x00", "a\x1bb", " ", "\u202e"])
async def test_a_stop_has_a_name_that_can_be_read(shop: Path, name: str) -> None:
    async with open_console() as desk:
        key = await desk.key("olga", scopes=OPERATOR)
        refused = await desk.rpc(key, "emergencyStop", kind="tool", name=name)
        assert refused["code"] == "usage", refused
        assert (await desk.rpc(key, "listStops"))["stops"] == []


async def test_the_banner_alone_is_sent_once_for_the_same_stops(shop: Path) -> None:
    async with open_console() as desk:
        reader = await desk.person("reader", scopes=("read",))
        first = await reader.get("/console/banner")
        known = {"if-none-match": first.headers["etag"]}
        assert "<main" not in first.text
        assert (await reader.client.get("/console/banner", headers=known)).status_code == 304
        key = await desk.key("olga", scopes=OPERATOR)
        await desk.rpc(key, "emergencyStop", kind="tool", name="adp_orders.lookup")
        assert "adp_orders.lookup" in (await reader.client.get("/console/banner", headers=known)).text
        assert (await desk.browser().client.get("/console/banner")).status_code == 303

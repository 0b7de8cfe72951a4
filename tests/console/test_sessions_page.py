"""The list of sessions: filters, search, pages, and what another tenant sees."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from console.desk import open_console
from console.example_runs import PACKS, start
from tercet.console import sessions
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Append, SessionRow
from tercet.service import journal_reads

ROW = SessionRow(
    session_id="", tenant="default", status="completed", pack="refunds@1.0.0", pack_hash="sha256:00", snapshot="snap_1",
    intent="support.refund", owner="agt_support", started_at=1, updated_at=2,
)  # fmt: skip


async def seed(journal: MemoryJournal, number: int) -> None:
    for place in range(number):
        more = {"status": "failed", "owner": "rosa", "intent": "invented.intent"} if place % 10 == 0 else {}
        row = msgspec.structs.replace(ROW, session_id=f"ses_{place:04}", started_at=place, **more)
        await journal.append(
            Append(tenant="default", stream=row.session_id, expected=0, events=(b"{}",), row=row)
        )


def listed(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/console/sessions/(ses_\d+)"', page)


async def test_sessions_are_listed_in_pages_and_filtered(shop: Path) -> None:
    journal = MemoryJournal()
    await seed(journal, 120)
    async with open_console(journal) as desk:
        browser = await desk.person("olga")
        first = await browser.get("/console/sessions")
        assert listed(first.text) == [f"ses_{place:04}" for place in range(119, 69, -1)]
        older = re.findall(r'href="([^"]+)" rel="next"', first.text)[0]
        second = await browser.get(older.replace("&amp;", "&"))
        assert listed(second.text)[0] == "ses_0069"
        for query in ("status=failed", "owner=rosa", "intent=invented.intent", "text=VENTED", "text=ros"):
            found = await browser.get(f"/console/sessions?{query}")
            assert listed(found.text) == [f"ses_{place:04}" for place in range(110, -1, -10)], query
        by_id = await browser.get("/console/sessions?text=ses_011")
        assert listed(by_id.text) == [f"ses_{place:04}" for place in range(110, 120)]
        assert listed((await browser.get("/console/sessions?text=ses_9")).text) == []
        assert listed((await browser.get("/console/sessions?text=ses_0110&status=completed")).text) == []
        assert len(listed((await browser.get("/console/sessions?status=failed&owner=agt_support")).text)) == 0
        tier = (await browser.get("/console/sessions?risk=critical")).text
        assert "No session fits" in tier
        assert "invented" not in (await browser.get("/console/sessions?risk=high")).text
        wrong = await browser.get("/console/sessions?status=nonsense")
        assert (wrong.status_code, "invalid_params" in wrong.text) == (422, True)
        assert "choose one of the values that the form offers" in wrong.text
        assert "/v1/methods" not in wrong.text
        stranger = await desk.person("olga", tenant="other")
        assert listed((await stranger.get("/console/sessions")).text) == []
        assert listed((await stranger.get("/console/sessions?text=ses_01")).text) == []
        assert (await stranger.get("/console/sessions?cursor=ses_0003")).status_code == 404


async def test_a_search_looks_at_some_sessions_and_goes_on_if_asked(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_reads, "SEARCHED_FIRST", 15)
    monkeypatch.setattr(journal_reads, "SEARCHED_NEXT", 100)
    journal = MemoryJournal()
    await seed(journal, 120)
    async with open_console(journal) as desk:
        browser = await desk.person("olga")
        for query in ("text=rosa", "owner=rosa&status=failed", "intent=invented.intent&owner=rosa"):
            first = await browser.get(f"/console/sessions?{query}")
            assert (listed(first.text), "all among the newest" in first.text) == (["ses_0110"], True), query
            older = re.findall(r'href="([^"]+)" rel="next"', first.text)[0].replace("&amp;", "&")
            second = await browser.get(older)
            assert listed(second.text) == [f"ses_{place:04}" for place in range(100, 0, -10)], query
            last = await browser.get(
                re.findall(r'href="([^"]+)" rel="next"', second.text)[0].replace("&amp;", "&")
            )
            assert (listed(last.text), 'rel="next"' in last.text) == (["ses_0000"], False), query
        nothing = await browser.get("/console/sessions?text=nowhere")
        assert "No session fits among the newest" in nothing.text
        assert "No session fits." in (await browser.get("/console/sessions?owner=nowhere")).text


async def test_a_refused_run_is_called_refused_in_the_list_and_on_its_page(shop: Path) -> None:
    async with open_console() as desk:
        refused, _ = await start(desk, "support.refund", "plan_a", order_id="ord_881")
        browser = await desk.person("olga")
        for path in ("", "?status=failed", f"?text={refused}", f"/{refused}"):
            page = (await browser.get(f"/console/sessions{path}")).text
            assert ("refused</span>" in page, "failed</span>" in page) == (True, False), path


async def test_waiting_for_people_are_all_sessions_with_an_open_gate(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERCET_LETTERS_DB", str(shop / "letters.db"))
    monkeypatch.setattr(sessions, "PER_PAGE", 2)
    async with open_console(None, *PACKS) as desk:
        faults = ["total", "claim", "key", "section"]
        escalated, _ = await start(desk, "letters.write", order_id="ord_4471", faults=faults)
        refund = {"order_id": "ord_881", "window_id": "rw_881"}
        waiting = [(await start(desk, "support.refund", **refund))[0] for _ in range(2)]
        await start(desk, "letters.confirm", order_id="ord_4471")
        browser = await desk.person("olga")
        first = (await browser.get("/console/sessions")).text
        (link,) = re.findall(r'href="(/console/sessions[^"]*)">Waiting for people', first)
        page = (await browser.get(link)).text
        found = re.findall(r'id="row-([^"]+)"', page)
        older = re.findall(r'href="([^"]+)" rel="next"', page)[0].replace("&amp;", "&")
        last = (await browser.get(older)).text
        assert [*found, *re.findall(r'id="row-([^"]+)"', last)] == [escalated, *waiting]
        assert 'rel="next"' not in last
        assert 'aria-current="true">Waiting for people' in page

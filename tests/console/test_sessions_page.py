"""The list of sessions: filters, search, pages, and what another tenant sees."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from console.desk import open_console
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Append, SessionRow
from tercet.service import methods

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
        stranger = await desk.person("olga", tenant="other")
        assert listed((await stranger.get("/console/sessions")).text) == []
        assert listed((await stranger.get("/console/sessions?text=ses_01")).text) == []
        assert (await stranger.get("/console/sessions?cursor=ses_0003")).status_code == 404


async def test_a_search_looks_at_some_sessions_and_goes_on_if_asked(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "SEARCHED_FIRST", 15)
    monkeypatch.setattr(methods, "SEARCHED_NEXT", 100)
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

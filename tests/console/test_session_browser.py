"""The page of a session in Chromium: it follows a run, and its slider works with and without script."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from console.browser import Served, chromium, log_in, needs_chromium, served
from console.shop import HeldShop, chain

pytestmark = [pytest.mark.slow, needs_chromium]
OPERATOR = ("read", "run", "operate")


def _start(desk: Served, *names: str) -> str:
    async def start() -> str:
        answer = await desk.desk.rpc(await desk.desk.key("ada"), "invokeAgent", **chain(*names))
        return answer["session"]["session_id"]

    return desk.run(start())


async def _let_go(held: HeldShop, calls: int) -> None:
    held.let_go(calls)


def test_the_page_follows_a_run_and_shows_any_state_of_it() -> None:
    held = HeldShop()
    with served(held.pack) as desk, chromium() as browser:
        session = _start(desk, "s1", "s2")
        said: list[str] = []
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        log_in(page, desk.login_link("olga", f"/console/sessions/{session}", scopes=OPERATOR))
        expect(page.locator(".stamp")).to_contain_text("in progress")
        page.route("**/console/sessions/*", lambda route: route.abort())
        expect(page.locator("#offline")).to_be_visible(timeout=20_000)
        page.unroute_all()
        expect(page.locator("#offline")).to_be_hidden(timeout=20_000)
        said.clear()  # browsers write a line about each request that fails
        last = int(page.locator("#at-range").get_attribute("max") or 0)
        desk.run(_let_go(held, 2))
        expect(page.locator(".stamp")).to_contain_text("completed", timeout=20_000)
        expect(page.locator("#run-part .graph .node.good")).to_have_count(2)
        assert int(page.locator("#at-range").get_attribute("max") or 0) > last
        page.locator("#at-range").fill("1")
        expect(page.locator("#when-event")).to_contain_text("folded from 1 event")
        expect(page.locator("#run-part")).to_contain_text("There is no plan yet")
        assert "at=1" in page.url
        page.locator("#at-next").click()
        expect(page.locator("#when-event")).to_contain_text("folded from 2 events")
        assert said == []
        _look_without_script(browser, desk, session)


def _look_without_script(browser: Browser, desk: Served, session: str) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    log_in(page, desk.login_link("olga", f"/console/sessions/{session}", scopes=OPERATOR))
    expect(page.locator("#at-range")).to_be_hidden()
    page.locator("#at").fill("3")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#when-event")).to_contain_text("folded from 3 events")
    page.locator("#at-prev").click()
    expect(page.locator("#when-event")).to_contain_text("folded from 2 events")

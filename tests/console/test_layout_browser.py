"""How pages are laid out in Chromium: buttons on one line, long names and values cut in lists, marks beside their rows."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from console.browser import Served, chromium, log_in, needs_chromium, served
from console.example_runs import OPERATOR
from console.hostile import HostileRuns, fill_hostile, hostile_pack

pytestmark = [pytest.mark.slow, needs_chromium]
WIDTHS = (2560, 1280, 1000, 768, 360)
LINES = """each => each.map(one => {
    const range = document.createRange();
    range.selectNodeContents(one);
    const bottoms = [...range.getClientRects()].map(box => Math.round(box.bottom / 4));
    const shown = one.getBoundingClientRect().bottom / 4 + 1;
    return new Set(bottoms.filter(bottom => bottom <= shown)).size;
})"""
"""The number of lines that each element shows."""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """One browser for all pages."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def hostile() -> Generator[tuple[Served, HostileRuns]]:
    """Runs with long names and values everywhere."""
    with served(hostile_pack()) as desk:
        yield desk, desk.run(fill_hostile(desk.desk))


@pytest.fixture
def page(browser: Browser, hostile: tuple[Served, HostileRuns]) -> Generator[Page]:
    """A page of an operator who approves."""
    desk, _ = hostile
    context = browser.new_context(base_url=desk.url)
    page = context.new_page()
    log_in(page, desk.login_link("lead", roles=("lead",), scopes=OPERATOR))
    yield page
    context.close()


@pytest.mark.parametrize("path", ["/sessions?text=nothing", "/metrics"])
def test_the_buttons_of_filters_have_one_line_and_fit(page: Page, path: str) -> None:
    page.goto(f"/console{path}")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        buttons = page.locator(".filters .actions > *")
        assert buttons.evaluate_all(LINES) == [1] * buttons.count(), width
        ends = buttons.evaluate_all(
            "each => each.map(one => one.getBoundingClientRect().right - "
            "document.querySelector('.filters').getBoundingClientRect().right)"
        )
        assert max(ends) <= 1, width


@pytest.mark.parametrize("width", [1280, 360])
def test_long_values_take_two_lines_of_the_inbox_and_leave_their_names_whole(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/console")
    assert max(page.locator(".item .amount").evaluate_all(LINES)) == 2
    names = page.locator(".item .pair .soft", has_text="list")
    assert names.evaluate_all(LINES) == [1] * names.count() != []


@pytest.mark.parametrize("width", [1280, 360])
def test_short_names_and_values_of_the_inbox_are_not_broken(browser: Browser, shop: Path, width: int) -> None:
    with served() as desk:
        desk.run(desk.desk.waiting_gate())
        page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
        log_in(page, desk.login_link("user_finance_lead", roles=("finance_lead",)))
        for part in (".soft", ".amount"):
            assert page.locator(f".item .pair {part}").evaluate_all(LINES) == [1, 1], part
        page.context.close()


@pytest.mark.parametrize("width", [1280, 768, 360])
def test_a_long_owner_takes_two_lines_of_the_list(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/console/sessions")
    assert set(page.locator(".list .owner > *").evaluate_all(LINES)) == {2}


def test_on_a_narrow_page_a_link_leads_to_the_budgets_and_actions(
    page: Page, hostile: tuple[Served, HostileRuns]
) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"/console/sessions/{hostile[1].sessions['waiting']}")
    link = page.get_by_role("link", name="Budgets and actions")
    expect(link).to_be_hidden()
    page.set_viewport_size({"width": 360, "height": 740})
    expect(page.locator("#run-budgets")).not_to_be_in_viewport()
    link.press("Enter")
    expect(page.locator("#run-budgets")).to_be_in_viewport()


@pytest.mark.parametrize("width", [1280, 360])
def test_the_mark_of_an_untrusted_row_is_beside_its_words(
    page: Page, hostile: tuple[Served, HostileRuns], width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"/console/gates/{hostile[1].gate}")
    row = page.locator("tr.untrusted").first
    begin = row.locator("code").first.evaluate("each => each.getBoundingClientRect().left")
    assert begin - row.evaluate("each => each.getBoundingClientRect().left") >= 6
    assert row.locator("th").evaluate("each => getComputedStyle(each).boxShadow !== 'none'") == (width > 620)

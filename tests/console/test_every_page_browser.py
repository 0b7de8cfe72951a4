"""Every page in Chromium: accessible in light and dark, as narrow as a phone and as wide as a wall; and words of others stay words."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from axe_playwright_python.sync_playwright import Axe  # pyright: ignore[reportMissingTypeStubs] - it has none
from playwright.sync_api import Browser, Page

from console.browser import Served, Watched, chromium, log_in, needs_chromium, served
from console.example_runs import OPERATOR, PACKS, MovableClock, fill_desk
from console.hostile import HOSTILE, fill_hostile, hostile_pack
from tercet.console import session
from tercet.console.session import TABS
from tercet.runtime import RuntimeOptions

pytestmark = [pytest.mark.slow, needs_chromium]
WIDTHS = (2560, 1280, 360)
LOOKS: tuple[tuple[Literal["light", "dark"], int, dict[str, Any]], ...] = (
    ("light", 1280, {}),
    ("dark", 360, {"runOnly": ["color-contrast", "scrollable-region-focusable", "target-size"]}),
)
"""Each look, and the rules that are checked in it: the others depend on neither colours nor width."""
UNSTYLED = """() => [...document.querySelectorAll("main svg :is(rect, circle, ellipse, polygon, path, text)")].some(
    (each) => getComputedStyle(each).fill === "rgb(0, 0, 0)",
)"""
"""Whether a shape has the colour that browsers give to shapes without a style."""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """One browser for all pages."""
    with chromium() as found:
        yield found


def find_faults(page: Page, desk: Served, paths: list[str]) -> list[str]:
    """Return what is wrong with pages: serious violations of the rules of axe, those too wide, and drawings without a style."""
    axe = cast("Any", Axe())
    found: list[str] = []
    for path in paths:
        page.goto(f"{desk.url}/console{path}")
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(f"{path} is wider than {width} pixels")
        if page.evaluate(UNSTYLED):
            found.append(f"{path} has a drawing without a style")
        for scheme, width, rules in LOOKS:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            violations: list[dict[str, Any]] = axe.run(
                page, options={"resultTypes": ["violations"], **rules}
            ).response["violations"]
            grave = [each for each in violations if each["impact"] in ("serious", "critical")]
            found += [f"{path}, {scheme}: {each['id']} {each['nodes'][0]['html'][:200]}" for each in grave]
    return found


def test_no_page_has_a_serious_violation_or_is_wider_than_its_window(
    browser: Browser, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERCET_SUPPLIERS_DB", str(shop / "suppliers.db"))
    monkeypatch.setattr(session, "EVENTS", 5)  # so that a short run has several pages of events
    clock = MovableClock()
    with served(*PACKS, options=RuntimeOptions(clock=clock)) as desk:
        runs = desk.run(fill_desk(desk.desk, clock, days=0))
        desk.run(_stop(desk))
        context = browser.new_context(bypass_csp=True)
        page = context.new_page()
        log_in(page, desk.login_link("user_finance_lead", roles=("finance_lead",), scopes=OPERATOR))
        gates = (runs.refund_gate, runs.large_gate, f"{runs.letter}.g1", f"{runs.paid}.g1")
        paths = [
            "", "/sessions", "/sessions?status=expired", "/metrics", "/packs", "/packs/refunds", "/stops",
            "/stops/confirm?kind=tool&name=adp_payments.issue_refund", "/compare", "/nothing", "/login", "/login/link",
            f"/compare?a={runs.paid}&b={runs.denied}", f"/compare?a={runs.paid}&pack=refunds@1.0.0",
            f"/sessions/{runs.refused}", f"/sessions/{runs.purchase}", f"/sessions/{runs.paid}?at=9",
            f"/sessions/{runs.paid}/replay", f"/sessions/{runs.letter}?tab=quality",
            *(f"/gates/{gate}" for gate in gates), *(f"/sessions/{runs.paid}?tab={tab}" for tab in TABS),
        ]  # fmt: skip
        found = find_faults(page, desk, paths)
        context.close()
    assert not found, "\n".join(found)


async def _stop(desk: Served) -> None:
    key = await desk.desk.key("olga", scopes=OPERATOR)
    assert "code" not in await desk.desk.rpc(
        key, "emergencyStop", kind="tool", name="orders.place", note="prices"
    )


def test_pages_of_hostile_runs_have_no_serious_violation_either(browser: Browser) -> None:
    with served(hostile_pack()) as desk:
        runs = desk.run(fill_hostile(desk.desk))
        context = browser.new_context(bypass_csp=True)
        page = context.new_page()
        log_in(page, desk.login_link("lead", roles=("lead",), scopes=OPERATOR))
        named = [
            "",
            "/sessions",
            "/stops",
            "/packs/shop",
            f"/gates/{runs.gate}",
            f"/gates/{runs.sessions['denied']}.g1",
        ]
        found = find_faults(page, desk, [*named, *(f"/sessions/{each}" for each in runs.sessions.values())])
        context.close()
    assert not found, "\n".join(found)


def test_markup_in_every_field_that_others_write_is_inert_on_every_page(browser: Browser) -> None:
    with served(hostile_pack()) as desk:
        runs = desk.run(fill_hostile(desk.desk))
        watched = Watched(desk.url, is_refusal_expected=True)
        context = browser.new_context()
        context.add_init_script("window.wasHit = 0")
        page = watched.watch(context.new_page())
        log_in(page, desk.login_link("lead", roles=("lead",), scopes=OPERATOR))
        paths = runs.paths()
        for path in paths:
            page.goto(f"{desk.url}/console{path}")
            page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            assert page.evaluate("window.wasHit") == 0, path
            markup = "img, iframe, object, embed, base, script:not([src]), [onerror], [onclick], [onload], [style], b > i > u"
            assert page.locator(markup).count() == 0, path
            links: list[str] = page.eval_on_selector_all(
                "a", "each => each.map(link => link.getAttribute('href'))"
            )
            assert [link for link in links if not link.startswith(("/console", "#"))] == [], path
        for path, words in runs.shown().items():
            page.goto(f"{desk.url}/console{path}")
            assert HOSTILE[:20] in page.locator("main").inner_text(), f"{words} is not shown on {path}"
        page.goto(f"{desk.url}/console/gates/{runs.gate}")
        page.locator("#approve").click()
        assert page.locator("main").inner_text().count(HOSTILE[:20]) > 0, "the confirmation names the values"
        assert page.evaluate("window.wasHit") == 0
        context.close()
    assert watched.errors == []

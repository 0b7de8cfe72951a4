"""Open pages in Chromium: lists stay where they are, banners and decisions reach them, and telephones show whole tables."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from console.browser import Served, chromium, log_in, needs_chromium, served
from console.many_gates import pack_of_two_roles, wait_for
from tercet.core.messages import session_of

pytestmark = [pytest.mark.slow, needs_chromium]
OPERATOR = ("read", "run", "answer", "operate")
PLACE = "selector => { const box = document.querySelector(selector).getBoundingClientRect(); return [box.x, box.y, box.height]; }"
SOON_MS = 20_000


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """One browser for all pages."""
    with chromium() as found:
        yield found


@pytest.fixture
def desk() -> Generator[Served]:
    """The service of a pack with gates for two roles."""
    with served(pack_of_two_roles()) as found:
        yield found


def open_page(
    browser: Browser, desk: Served, role: str, path: str, width: int = 1280, **options: Any
) -> Page:
    """Return the page of a person with a role."""
    page = browser.new_context(viewport={"width": width, "height": 800}, **options).new_page()
    log_in(page, desk.login_link(role, roles=(role,), scopes=OPERATOR))
    page.goto(f"{desk.url}/console{path}")
    return page


def rpc(desk: Served, role: str, method: str, **params: Any) -> Any:
    """Call a method of the API as a person with a role."""

    async def call() -> Any:
        found = await desk.desk.rpc(
            await desk.desk.key(role, roles=(role,), scopes=OPERATOR), method, **params
        )
        assert "remedy" not in found, found
        return found

    return desk.run(call())


@pytest.mark.parametrize("width", [1280, 360])
def test_rows_of_the_live_list_stay_while_new_sessions_are_counted(
    browser: Browser, desk: Served, width: int
) -> None:
    gates = [desk.run(wait_for(desk.desk, "lead")) for _ in range(3)]
    page = open_page(browser, desk, "lead", "/sessions", width)
    row = f"#row-{session_of(gates[0])}"
    before = page.evaluate(PLACE, row)
    expect(page.locator("#new-rows")).to_be_hidden()
    for _ in range(2):
        desk.run(wait_for(desk.desk, "clerk"))
    rpc(desk, "lead", "denyGate", gate_id=gates[1])
    expect(page.locator(f"#row-{session_of(gates[1])}")).to_contain_text("rejected", timeout=SOON_MS)
    expect(page.locator("#new-rows")).to_have_text("2 new sessions", timeout=SOON_MS)
    assert page.evaluate(PLACE, row) == before
    assert page.locator("tbody tr").count() == 3
    page.locator("#new-rows").click()
    expect(page.locator("tbody tr")).to_have_count(5)
    page.context.close()


def test_a_row_that_leaves_a_filtered_list_stays_and_says_so(browser: Browser, desk: Served) -> None:
    gates = [desk.run(wait_for(desk.desk, "lead")) for _ in range(3)]
    page = open_page(browser, desk, "lead", "/sessions?status=awaiting_gate")
    row = f"#row-{session_of(gates[0])}"
    before = page.evaluate(PLACE, row)
    rpc(desk, "lead", "denyGate", gate_id=gates[1])
    expect(page.get_by_text("no longer in this list").locator("visible=true")).to_have_count(
        1, timeout=SOON_MS
    )
    assert page.evaluate(PLACE, row) == before
    expect(page.locator("#new-rows")).to_be_hidden()
    page.context.close()


@pytest.mark.parametrize("path", ["/metrics", "/packs", "/compare", "/sessions/{ended}", "/nothing"])
def test_the_banner_of_a_stop_reaches_every_open_page(browser: Browser, desk: Served, path: str) -> None:
    gate = desk.run(wait_for(desk.desk, "lead"))
    rpc(desk, "lead", "denyGate", gate_id=gate)
    page = open_page(browser, desk, "lead", path.format(ended=session_of(gate)))
    expect(page.locator("#stops-banner")).to_be_empty()
    rpc(desk, "lead", "emergencyStop", kind="tool", name="post.for_clerk")
    expect(page.locator("#stops-banner")).to_contain_text("Emergency stop:", timeout=SOON_MS)
    rpc(desk, "lead", "liftStop", kind="tool", name="post.for_clerk")
    expect(page.locator("#stops-banner")).to_be_empty(timeout=SOON_MS)
    page.context.close()


def test_a_decision_closes_once_another_person_has_answered(browser: Browser, desk: Served) -> None:
    gate = desk.run(wait_for(desk.desk, "lead"))
    page = open_page(browser, desk, "lead", f"/gates/{gate}")
    page.locator("#approve-note").fill("half written")
    rpc(desk, "lead", "denyGate", gate_id=gate)
    expect(page.locator("#decision")).to_contain_text("Nothing can be answered here", timeout=SOON_MS)
    expect(page.locator("#approve")).to_have_count(0)
    page.context.close()


@pytest.mark.parametrize("width", [360, 620, 1280])
def test_each_run_is_named_above_its_own_column(browser: Browser, desk: Served, width: int) -> None:
    sessions = [session_of(desk.run(wait_for(desk.desk, role))) for role in ("lead", "clerk")]
    page = open_page(browser, desk, "lead", f"/compare?a={sessions[0]}&b={sessions[1]}", width)
    for region in ("Table of the runs", "Steps"):
        table = page.locator(f'.wide[aria-label="{region}"]')
        heads = [table.locator("thead :is(td, th)", has_text=session).bounding_box() for session in sessions]
        cells = table.locator("tbody tr").first.locator("td")
        places = [head and head["x"] for head in heads]
        assert places == [(cells.nth(n).bounding_box() or {}).get("x") for n in (0, 1)], region
    page.context.close()


async def _refused(desk: Served) -> str:
    """Return a run whose plan the critic refused for steps with long names."""
    steps: list[dict[str, Any]] = [
        {"id": f"a_step_with_a_long_name_{n}", "tool": "post.no_such_tool", "params": {}} for n in (1, 2)
    ]
    request: dict[str, Any] = {"intent": "send", "input": {}}
    key = await desk.desk.key("agt")
    found = await desk.desk.rpc(key, "invokeAgent", request=request, plan={"steps": steps})
    return found["session"]["session_id"]


async def _over(desk: Served, session: str) -> None:
    await desk.desk.until(await desk.desk.key("agt"), session)


def test_nothing_of_a_table_is_cut_off_on_a_telephone(browser: Browser, desk: Served) -> None:
    gate = desk.run(wait_for(desk.desk, "lead"))
    session, refused = session_of(gate), desk.run(_refused(desk))
    rpc(desk, "lead", "approveGate", gate_id=gate)
    desk.run(_over(desk, session))
    page = open_page(browser, desk, "lead", "", 360)
    for path, region in (
        (f"/sessions/{session}?tab=timeline", "Events"),
        ("/packs/post", "Tools"),
        ("/packs/post", "Versions in use"),
        (f"/sessions/{refused}", "Problems of the plan"),
        (f"/sessions/{session}?tab=record", "Checkpoints"),
        (f"/sessions/{session}", "Attempts of"),
        ("/metrics", "Runs as a table"),
        ("/metrics", "Figures by intent and risk tier"),
    ):
        page.goto(f"{desk.url}/console{path}")
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        wide = page.locator(f'.wide[aria-label^="{region}"]').evaluate(
            "each => each.scrollWidth - each.clientWidth"
        )
        assert wide == 0, path
    page.context.close()


def test_every_button_of_a_tall_decision_is_reached_by_scrolling_the_page(
    browser: Browser, desk: Served
) -> None:
    gate = desk.run(wait_for(desk.desk, "lead"))
    page = browser.new_context(viewport={"width": 1280, "height": 480}).new_page()
    log_in(page, desk.login_link("lead", f"/console/gates/{gate}", roles=("lead",)))
    column = page.locator(".decision")
    assert column.evaluate("each => each.scrollHeight - each.clientHeight") == 0
    assert column.evaluate("each => getComputedStyle(each).position") == "static"
    page.set_viewport_size({"width": 1280, "height": 1600})
    expect(column).to_have_css("position", "sticky")
    page.context.close()

"""What operators do, in Chromium: find, read and approve with the keyboard, be refused, need a second person, and do without script."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from console.browser import Served, Watched, chromium, log_in, needs_chromium, served
from console.example_runs import OPERATOR
from console.works import run_works, works_pack
from service.desk import refunds

pytestmark = [pytest.mark.slow, needs_chromium]
PATIENCE_MS = 30_000
MOST_SHIFT = 0.1
"""The cumulative layout shift up to which browsers call a page stable."""
WATCH_SHIFTS = """() => {
    window.shifts = 0;
    new PerformanceObserver((list) => {
        for (const each of list.getEntries()) window.shifts += each.value;
    }).observe({ type: "layout-shift" });
}"""
LEAD, DIRECTOR = ("user_finance_lead", ("finance_lead",)), ("user_finance_director", ("finance_director",))
DEPUTY, SUPPORT = ("user_finance_deputy", ("finance_lead",)), ("user_support_lead", ("support_lead",))


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """One browser for all stories."""
    expect.set_options(timeout=PATIENCE_MS)
    with chromium() as found:
        yield found


class Office:
    """A served desk, a page for each person, and what the pages must not do."""

    def __init__(self, desk: Served, browser: Browser, shop: Path) -> None:
        self.desk = desk
        self.watched = Watched(desk.url)
        self.shop = shop
        self._browser = browser

    def gate(self, order: str = "881") -> str:
        """Start a refund, and return the gate that it waits at."""
        given = {"order_id": f"ord_{order}", "window_id": f"rw_{order}"}
        return self.desk.run(self.desk.desk.waiting_gate(input=given))

    def page(self, person: tuple[str, tuple[str, ...]], then: str = "/console", **more: Any) -> Page:
        """Return a page of a person who has followed a login link, in a browser profile of their own."""
        scopes = more.pop("scopes", ("read", "run", "answer"))
        context = self._browser.new_context(viewport={"width": 1280, "height": 900}, **more)
        context.set_default_timeout(PATIENCE_MS)
        page = self.watched.watch(context.new_page())
        log_in(page, self.desk.login_link(person[0], then, roles=person[1], scopes=scopes))
        return page

    def rpc(self, person: tuple[str, tuple[str, ...]], method: str, **params: Any) -> Any:
        """Call a method of the API as a person."""

        async def call() -> Any:
            key = await self.desk.desk.key(person[0], roles=person[1])
            return await self.desk.desk.rpc(key, method, **params)

        return self.desk.run(call())


@pytest.fixture
def office(browser: Browser, shop: Path) -> Generator[Office]:
    """The refund desk; no story may end with an error in the browser's console, or with a request to another host."""
    with served() as desk:
        found = Office(desk, browser, shop)
        yield found
        for context in browser.contexts:
            context.close()
    assert found.watched.errors == []


def press_until_focused(page: Page, key: str, selector: str) -> None:
    """Press a key until an element has the focus."""
    for _ in range(60):
        page.keyboard.press(key)
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reached with {key}")


def test_a_refund_is_found_read_and_approved_with_the_keyboard_alone_and_seen_to_commit_live(
    office: Office,
) -> None:
    gate = office.gate()
    session = gate.rpartition(".")[0]
    observer = office.page(SUPPORT, f"/console/sessions/{session}")
    observer.evaluate(WATCH_SHIFTS)
    expect(observer.locator(".stamp")).to_contain_text("waiting")
    page = office.page(LEAD)
    expect(page.locator("#inbox")).to_contain_text("Waiting for you")
    expect(page.locator(".item.mine")).to_contain_text("ends in 23 h")
    press_until_focused(page, "Tab", f'a[href="/console/gates/{gate}"]')
    assert page.evaluate("getComputedStyle(document.activeElement, '::after').outlineStyle") == "solid"
    page.keyboard.press("Enter")
    call = page.get_by_role("region", name="The call", exact=True)
    for words in ("pay_8861", "24500", "rules#/payment_id, trusted"):
        expect(call).to_contain_text(words)
    expect(page.get_by_role("region", name="The evidence, frozen as it was read")).to_contain_text("rw_881")
    expect(page.locator("#decision")).to_contain_text("adp_payments.cancel_refund")
    page.keyboard.press("a")
    expect(page.locator("#approve")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Approve: adp_payments.issue_refund")
    assert refunds(office.shop) == []
    expect(page.get_by_role("button", name="Approve this call")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#gate-state")).to_contain_text("completed")
    expect(observer.locator(".stamp")).to_contain_text("completed")
    shifts = observer.evaluate("window.shifts")
    assert shifts is not None, "the page was loaded again"
    assert shifts < MOST_SHIFT, f"what a reader reads stays where it is: {shifts}"
    assert refunds(office.shop) == [("pay_8861", 24500)]


def test_the_keys_d_and_m_move_to_denying_and_to_other_values_and_a_further_key_sends(office: Office) -> None:
    page = office.page(LEAD, f"/console/gates/{office.gate()}")
    expect(page.locator("footer")).to_contain_text("a approve · d deny · m other values")
    page.keyboard.press("m")
    expect(page.locator("#set-values")).to_have_attribute("open", "")
    expect(page.locator("#set-values summary")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    page.keyboard.press("d")
    expect(page.locator("#set-values input[type=text]")).to_have_value("pay_8861d")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("d")
    expect(page.locator("#deny")).to_be_focused()
    expect(page.locator("#gate-state")).to_contain_text("open")
    page.keyboard.press("Enter")
    expect(page.locator("#gate-state")).to_contain_text("denied by user_finance_lead")


@pytest.mark.parametrize(
    ("key", "said"), [("h", "reported as done by user_editor"), ("n", "reported as not done by user_editor")]
)
def test_the_keys_h_and_n_move_to_what_became_of_a_call(browser: Browser, key: str, said: str) -> None:
    with served(works_pack()) as desk:
        gate = desk.run(run_works(desk.desk, "works.lost"))
        context = browser.new_context()
        page = context.new_page()
        log_in(page, desk.login_link("user_editor", f"/console/gates/{gate}", scopes=OPERATOR))
        expect(page.locator("footer")).to_contain_text("h it happened · n it did not")
        page.keyboard.press(key)
        expect(page.locator(f'[data-key="{key}"]')).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#gate-state")).to_contain_text(said)
        context.close()


def test_on_a_phone_the_way_to_the_decision_stays_in_view_until_it_is_there(office: Office) -> None:
    page = office.page(LEAD, f"/console/gates/{office.gate()}")
    link = page.get_by_role("link", name="Go to the decision")
    expect(link).to_be_hidden()
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator("#evidence").scroll_into_view_if_needed()
    page.mouse.wheel(0, 300)
    expect(link).to_be_in_viewport()
    link.click()
    expect(page.locator("#decision h2")).to_be_in_viewport()
    expect(link).not_to_be_in_viewport()


def test_without_the_role_the_answer_is_a_clear_refusal(office: Office) -> None:
    gate = office.gate()
    page = office.page(SUPPORT)
    expect(page.locator("section", has=page.locator("#others"))).to_contain_text(
        "It takes the role finance_lead"
    )
    page.goto(f"{office.desk.url}/console/gates/{gate}")
    expect(page.locator("#decision")).to_contain_text("This does not wait for you")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    theirs = office.page(LEAD, f"/console/gates/{gate}")
    digest = theirs.locator('input[name="digest"]').first.input_value()
    office.watched.is_refusal_expected = True
    page.evaluate(
        """([action, digest]) => {
            const form = document.querySelector('form[action$="/logout"]');
            form.action = action;
            for (const [name, value] of [["answer", "approve"], ["digest", digest], ["confirmed", "yes"]]) {
                const field = document.createElement("input");
                Object.assign(field, { name, value });
                form.append(field);
            }
            form.submit();
        }""",
        [f"/console/gates/{gate}/answer", digest],
    )
    refusal = page.locator(".refusal")
    for words in ("role_missing", "finance_lead", "What to do:", "Nothing was changed"):
        expect(refusal).to_contain_text(words)
    assert refunds(office.shop) == []


def test_a_gate_that_has_changed_since_it_was_read_is_refused_with_the_reason(office: Office) -> None:
    gate = office.gate()
    page = office.page(LEAD, f"/console/gates/{gate}", java_script_enabled=False)
    changed = {"gate_id": gate, "changes": {"amount_inr": 12_000}, "note": "half of it"}
    assert "session" in office.rpc(DEPUTY, "modifyGate", **changed)
    office.desk.run(_until_asked_again(office, gate))
    office.watched.is_refusal_expected = True
    page.locator("#approve").click()
    for words in ("This gate is closed: changed by user_finance_deputy", "What to do:"):
        expect(page.locator(".refusal")).to_contain_text(words)
    assert refunds(office.shop) == []


def test_a_two_person_gate_needs_two_logins_and_works_without_script(office: Office) -> None:
    gate = office.gate("882")
    lead = office.page(LEAD, java_script_enabled=False)
    expect(lead.locator(".item.mine")).to_contain_text("0 of 2 approvals")
    lead.locator(f'a[href="/console/gates/{gate}"]').click()
    expect(lead.locator("#decision")).to_contain_text("have all their approvals")
    lead.locator("#approve-note").fill("the table was the wrong one")
    lead.locator("#approve").click()
    lead.get_by_role("button", name="Approve this call").click()
    expect(lead.locator("#gate-state")).to_contain_text("open")
    expect(lead.locator("#decision")).to_contain_text("you have approved it already")
    expect(lead.locator("#approve")).to_have_count(0)
    assert refunds(office.shop) == []
    director = office.page(DIRECTOR, f"/console/gates/{gate}", java_script_enabled=False)
    expect(director.locator("#gate-people")).to_contain_text("the table was the wrong one")
    director.locator("#approve").click()
    director.get_by_role("button", name="Approve this call").click()
    office.desk.run(_until_over(office, gate))
    director.reload()
    expect(director.locator("#gate-state")).to_contain_text("completed")
    assert refunds(office.shop) == [("pay_8862", 64000)]


async def _until_asked_again(office: Office, gate: str) -> None:
    desk, session = office.desk.desk, gate.rpartition(".")[0]
    await desk.next_gate(await desk.key("olga"), session, gate)


async def _until_over(office: Office, gate: str) -> None:
    desk = office.desk.desk
    await desk.until(await desk.key("olga"), gate.rpartition(".")[0])


def test_everything_else_that_changes_state_works_without_script(office: Office) -> None:
    first, second = office.gate(), office.gate()
    operator = ("read", "run", "answer", "operate")
    page = office.page(LEAD, f"/console/gates/{first}", java_script_enabled=False, scopes=operator)
    page.locator("#deny-note").fill("the carrier pays")
    page.locator("#deny").click()
    expect(page.locator("#gate-state")).to_contain_text("denied by user_finance_lead")
    page.goto(f"{office.desk.url}/console/gates/{second}")
    page.get_by_text("Set other values").click()
    page.get_by_label("amount_inr").fill("12000")
    page.locator("#set-note").fill("half of it")
    page.get_by_role("button", name="Set these values").click()
    expect(page.locator("#gate-state")).to_contain_text("closed")
    session = f"{office.desk.url}/console/sessions/{second.rpartition('.')[0]}"
    page.goto(session)
    page.get_by_text("Extend the budget").click()
    page.get_by_role("spinbutton", name="Tool calls").fill("3")
    page.get_by_role("button", name="Add to the budget").click()
    expect(page.locator("#run-budgets")).to_contain_text("extended by 3")
    page.get_by_text("Cancel the run").click()
    page.get_by_role("button", name="Cancel this run").click()
    office.desk.run(_until_over(office, second))
    page.goto(session)
    expect(page.locator(".stamp")).to_contain_text("cancelled")
    page.goto(f"{office.desk.url}/console/stops")
    page.get_by_role("button", name="Stop the tenant…").click()
    page.get_by_role("button", name="Stop the tenant now").click()
    expect(page.locator("#stops-banner")).to_contain_text("Emergency stop:")
    page.get_by_text("Lift this stop").click()
    page.get_by_role("button", name="Lift the stop").click()
    expect(page.locator("#stops-banner")).not_to_contain_text("Emergency stop:")
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("API key").fill(office.desk.desk.running.local_key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")
    assert refunds(office.shop) == []

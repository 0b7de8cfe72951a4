"""Gates in the console without script: what a page shows, answers, confirmations and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from console.desk import Browser, ConsoleDesk, open_console
from console.example_runs import OPERATOR
from service.desk import REFUNDS, refunds
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.gate import Gate
from tercet.packs.pack import Pack
from tercet.tools import Tool


def answer_path(gate: str) -> str:
    return f"/console/gates/{gate}/answer"


async def lead(desk: ConsoleDesk) -> Browser:
    return await desk.person("user_finance_lead", roles=("finance_lead",))


async def test_an_approver_finds_reads_confirms_and_approves_a_refund(shop: Path) -> None:
    async with open_console() as desk:
        gate = await desk.waiting_gate()
        browser = await lead(desk)
        inbox = await browser.get("/console")
        assert inbox.text.index("Waiting for you") < inbox.text.index(gate)
        page = await browser.get(f"/console/gates/{gate}")
        for text in ("adp_payments.issue_refund", "24500", "rules#/refundable_inr, trusted", "the shop&#39;s order book", "cancel_refund"):  # fmt: skip
            assert text in page.text
        asked = await browser.send(page, answer_path(gate), answer="approve", note="fine")
        assert "please confirm" in asked.text
        assert not refunds(shop)
        done = await browser.send(asked, answer_path(gate))
        twice = await browser.send(asked, answer_path(gate))
        assert {each.url.path for each in (done, twice)} == {f"/console/gates/{gate}"}
        assert "approved by user_finance_lead" in done.text
        await desk.until(await desk.key("user_finance_lead"), gate.rpartition(".")[0], "completed")
        assert refunds(shop) == [("pay_8861", 24500)]
        again = await browser.get(f"/console/gates/{gate}")
        assert "completed" in again.text
        assert "no approval yet" not in again.text
        assert "Nothing can be answered here any more" in again.text


async def test_a_person_without_the_role_gets_the_reason_and_no_form_and_a_forced_form_is_refused(
    shop: Path,
) -> None:
    async with open_console() as desk:
        gate = await desk.waiting_gate()
        browser = await desk.person("user_support_lead", roles=("support_lead",))
        inbox = await browser.get("/console")
        assert inbox.text.index("Waiting for others") < inbox.text.index(gate)
        assert "It takes the role finance_lead" in inbox.text
        page = await browser.get(f"/console/gates/{gate}")
        assert "This does not wait for you" in page.text
        assert answer_path(gate) not in page.text
        finance = await lead(desk)
        theirs = await finance.get(f"/console/gates/{gate}")
        digest = theirs.text.partition('name="digest" value="')[2].partition('"')[0]
        forced = await browser.client.post(
            answer_path(gate),
            data={"csrf": await token(browser), "answer": "approve", "digest": digest, "confirmed": "yes"},
        )
        assert forced.status_code == 409
        assert "role_missing" in forced.text
        assert "What to do" in forced.text
        assert not refunds(shop)


async def token(browser: Browser) -> str:
    page = await browser.get("/console")
    return page.text.partition('name="csrf" value="')[2].partition('"')[0]


async def test_a_form_without_a_reason_is_asked_about_like_one_with_it(shop: Path) -> None:
    """A script may leave the field out."""
    async with open_console() as desk:
        gate = await desk.waiting_gate()
        browser = await lead(desk)
        page = await browser.get(f"/console/gates/{gate}")
        digest = page.text.partition('name="digest" value="')[2].partition('"')[0]
        sent = {"csrf": await token(browser), "answer": "approve", "digest": digest}
        asked = await browser.client.post(answer_path(gate), data=sent)
        assert (asked.status_code, "Approve this call" in asked.text) == (200, True)


async def test_what_changed_since_it_was_looked_at_is_refused(shop: Path) -> None:
    async with open_console() as desk:
        gate = await desk.waiting_gate()
        browser = await lead(desk)
        page = await browser.get(f"/console/gates/{gate}")
        old = "sha256:" + "0" * 64
        for more in ({}, {"confirmed": "yes"}):
            drifted = await browser.send(page, answer_path(gate), answer="approve", digest=old, **more)
            assert (drifted.status_code, "wrong_digest" in drifted.text) == (409, True)
        denied = await browser.send(page, answer_path(gate), answer="deny", digest=old)
        assert (denied.status_code, "wrong_digest" in denied.text) == (409, True)
        missing = await browser.send(page, answer_path(gate), answer="approve", digest="", confirmed="yes")
        assert (missing.status_code, "wrong_digest" in missing.text) == (409, True)
        assert not refunds(shop)


async def test_denying_ends_the_run_and_a_second_answer_is_refused(shop: Path) -> None:
    async with open_console() as desk:
        gate = await desk.waiting_gate()
        browser = await lead(desk)
        page = await browser.get(f"/console/gates/{gate}")
        denied = await browser.send(page, answer_path(gate), answer="deny", note="not now")
        assert "denied by user_finance_lead" in denied.text
        late = await browser.send(page, answer_path(gate), answer="approve", confirmed="yes")
        assert late.status_code == 409
        assert "session" in late.text
        assert not refunds(shop)


async def test_set_values_come_from_typed_fields_and_need_another_approver(shop: Path) -> None:
    async with open_console() as desk:
        gate = await desk.waiting_gate()
        browser = await lead(desk)
        page = await browser.get(f"/console/gates/{gate}")
        assert (
            '<input type="number" id="s2" name="set:amount_inr" value="24500" step="1" min="1"' in page.text
        )
        values = {"set:payment_id": "pay_8861"}
        same = await browser.send(
            page, answer_path(gate), answer="set_values", note="x", **values, **{"set:amount_inr": "24500"}
        )
        assert "nothing_changed" in same.text
        wrong = await browser.send(
            page, answer_path(gate), answer="set_values", note="x", **values, **{"set:amount_inr": "many"}
        )
        assert (wrong.status_code, "wrong_value" in wrong.text) == (422, True)
        changed = await browser.send(
            page, answer_path(gate), answer="set_values", note="half", **values, **{"set:amount_inr": "12000"}
        )
        assert changed.status_code == 200, changed.text
        session = gate.rpartition(".")[0]
        key = await desk.key("user_finance_deputy", roles=("finance_lead",))
        second = await desk.next_gate(key, session, gate)
        closed = await browser.get(f"/console/gates/{gate}")
        assert f'<a href="/console/gates/{second}">Open its gate g2</a>' in closed.text
        step = (await browser.get(f"/console/sessions/{session}")).text
        assert "changed by user_finance_lead" in step
        assert "sent back" not in step
        own = await browser.get(f"/console/gates/{second}")
        assert "you set values in this call" in own.text
        deputy = await desk.person("user_finance_deputy", roles=("finance_lead",))
        page = await deputy.get(f"/console/gates/{second}")
        assert "12000" in page.text
        approvals = page.text.partition('aria-labelledby="people"')[2].partition("</section>")[0]
        for words in ("Values were set by user_finance_lead", "&#34;/amount_inr&#34;: 12000", "“half”"):
            assert words in approvals
        asked = await deputy.send(page, answer_path(second), answer="approve")
        await deputy.send(asked, answer_path(second))
        await desk.until(key, session, "completed")
        assert refunds(shop) == [("pay_8861", 12000)]


async def test_each_gate_of_a_call_is_explained_also_one_that_a_policy_asks_for_at_the_call(
    shop: Path,
) -> None:
    async with open_console() as desk:
        gate = await desk.waiting_gate(input={"order_id": "ord_882", "window_id": "rw_882"})
        page = (await (await lead(desk)).get(f"/console/gates/{gate}")).text
        why = page.partition("Why people are asked")[2].partition("</section>")[0]
        director, finance = why.split("<b>")[1:]
        for words in ("GATE_DIRECTOR_APPROVAL", "A refund above INR 50,000 needs a second pair of eyes.", "A refund above INR 50,000 waits for a director"):  # fmt: skip
            assert words in director
        for words in ("GATE_FINANCE_APPROVAL", "Money leaves the company", "adp_payments.issue_refund is destructive"):  # fmt: skip
            assert words in finance
        assert "waits for a director" not in finance


async def test_the_budget_is_shown_once_among_everything_else(shop: Path) -> None:
    async with open_console() as desk:
        page = (await (await lead(desk)).get(f"/console/gates/{await desk.waiting_gate()}")).text
        assert page.partition("Everything else that was shown")[2].count("tool_calls") == 1


async def test_the_same_payment_of_another_run_is_shown(shop: Path) -> None:
    async with open_console() as desk:
        first, second = await desk.waiting_gate(), await desk.waiting_gate()
        browser = await lead(desk)
        asked = await browser.send(
            await browser.get(f"/console/gates/{first}"), answer_path(first), answer="approve"
        )
        await browser.send(asked, answer_path(first))
        await desk.until(await desk.key("user_finance_lead"), first.rpartition(".")[0], "completed")
        page = await browser.get(f"/console/gates/{second}")
        asked = await browser.send(page, answer_path(second), answer="approve", note="the other was lost")
        for shown in (page.text, asked.text):
            warning = shown.partition("The same call was made before")[2].partition("</section>")[0]
            assert ">done</span>, <time" in warning
            assert first.rpartition(".")[0] in warning
            assert "The same call" not in warning
        question = asked.text.partition("please confirm")[2]
        for words in (second.rpartition(".")[0], "support.refund", "agt_support", "the other was lost"):
            assert words in question.partition("<form")[0]


async def test_another_tenant_sees_no_gate_and_the_answer_is_that_of_an_unknown_one(shop: Path) -> None:
    async with open_console() as desk:
        gate = await desk.waiting_gate()
        stranger = await desk.person("user_finance_lead", roles=("finance_lead",), tenant="other")
        assert gate not in (await stranger.get("/console")).text
        page = await stranger.get(f"/console/gates/{gate}")
        unknown = await stranger.get("/console/gates/ses_0000000000000000.g1")
        assert (page.status_code, unknown.status_code) == (404, 404)
        assert page.text.replace(gate, "") == unknown.text.replace("ses_0000000000000000.g1", "")


async def test_in_development_one_person_acts_as_others_and_the_page_says_simulated(shop: Path) -> None:
    async with open_console(is_dev=True) as desk:
        browser = desk.browser()
        await browser.log_in(desk.running.local_key)
        gate = await desk.waiting_gate(desk.running.local_key)
        page = await browser.get(f"/console/gates/{gate}")
        assert "Development mode" in page.text
        page = await browser.send(page, "/console/act-as", actor="user_finance_lead")
        assert "Simulated:" in page.text
        page = await browser.get(f"/console/gates/{gate}")
        asked = await browser.send(page, answer_path(gate), answer="approve")
        done = await browser.send(asked, answer_path(gate))
        assert "approved by user_finance_lead" in done.text
        assert "simulated: login olga acted as user_finance_lead" in done.text


async def _escalated(desk: ConsoleDesk) -> str:
    """Return the gate of an escalated run."""
    asked = {"order_id": "ord_4471", "faults": ["total", "claim"]}
    found = await desk.rpc(
        await desk.key("agt_desk"), "invokeAgent", request={"intent": "letters.write", "input": asked}
    )
    return found["gates"][0]


async def test_a_person_without_the_role_is_told_what_they_may_still_do_and_what_abandoning_means() -> None:
    async with open_console(None, Pack.load(REFUNDS.parent / "letters")) as desk:
        gate = await _escalated(desk)
        page = (await (await lead(desk)).get(f"/console/gates/{gate}")).text
        decision = page.partition('id="decision"')[2]
        assert "it takes the role editor. You may still:" in decision
        assert decision.index("You may still:") < decision.index("Add to the budget")
        abandon = decision.partition('value="abandon"')[2].partition("</form>")[0]
        assert (
            "Nothing more is called, and the run ends failed. If its earlier calls had effects, a person decides"
            in abandon
        )
        editor = await desk.person("user_editor", roles=("editor",))
        assert "You may still:" not in (await editor.get(f"/console/gates/{gate}")).text


async def test_causes_and_logins_are_shown_in_words() -> None:
    async with open_console(None, Pack.load(REFUNDS.parent / "letters")) as desk:
        gate = await _escalated(desk)
        editor = await desk.person("user_editor", roles=("editor",), scopes=OPERATOR)
        session = f"/sessions/{gate.rpartition('.')[0]}"
        for path in ("", f"/gates/{gate}", "/sessions", session, f"{session}?tab=quality"):
            page = (await editor.get(f"/console{path}")).text
            assert "HALLUCINATION" not in page.partition("Everything else that was shown")[0], path
        page = await editor.get(f"/console/gates/{gate}")
        assert "(hallucination; " in page.text
        assert "After 1 round of repair." in page.text
        asked = await editor.send(page, answer_path(gate), answer="abandon")
        done = await editor.send(asked, answer_path(gate))
        assert "signed in with an API key" in done.text


async def test_an_escalated_run_waits_for_the_role_that_its_gate_names() -> None:
    async with open_console(None, Pack.load(REFUNDS.parent / "letters")) as desk:
        await _escalated(desk)
        editor = await desk.person("user_editor", roles=("editor",))
        assert "Correctness has a grave defect" in (await editor.get("/console")).text
        for actor, roles, where in (("user_editor", ("editor",), "you"), ("rosa", ("sales",), "others")):
            page = (await (await desk.person(actor, roles=roles)).get("/console")).text
            assert page.index(f"Waiting for {where}") < page.index("How should this run continue?"), actor
            assert ("It takes the role editor" in page) == (where == "others")


async def test_an_escalated_run_leads_to_its_gate_and_not_past_it() -> None:
    async with open_console(None, Pack.load(REFUNDS.parent / "letters")) as desk:
        gate = await _escalated(desk)
        operator = await desk.person("olga", scopes=("read", "run", "operate"))
        page = (await operator.get(f"/console/sessions/{gate.rpartition('.')[0]}")).text
        assert f'<a class="button primary wide" href="/console/gates/{gate}">Answer at its gate</a>' in page
        assert "/act/resume" not in page
        listed = (await operator.get("/console/sessions")).text
        assert "escalated</span>" in listed
        assert '<td class="risk">low</td>' in listed


def _send(**_: Any) -> dict[str, str]:
    return {}


def _long_pack() -> Pack:
    tool = Tool.model_validate(
        {"name": "post.send", "mode": "network", "call": _send, "gates": ["LEAD"], "authority": [],
         "no_compensation": "mail cannot be called back", "reversibility": "irreversible",
         "parameters": {"type": "object", "additionalProperties": True}}
    )  # fmt: skip
    return Pack.model_validate(
        {"name": "post", "version": "1.0.0", "safety_mode": "network", "tools": [tool],
         "decisions": [DecisionSpec(id="send")], "gates": [Gate(name="LEAD", roles=("lead",))]}
    )  # fmt: skip


async def test_values_are_shown_whole_however_long_they_are() -> None:
    text, more = (f"{'a word ' * 1_500}{name}{' and another' * 1_500}" for name in ("MIDDLE", "DEEPER"))
    params = {"text": text, "list": [*("x" * 99 for _ in range(200)), more, *("y" * 99 for _ in range(200))]}
    async with open_console(None, _long_pack()) as desk:
        plan = {"intent": "send", "steps": [{"id": "a", "tool": "post.send", "params": params}]}
        found = await desk.rpc(
            await desk.key("agt"), "invokeAgent", request={"intent": "send", "input": {}}, plan=plan
        )
        gate = found["gates"][0]
        browser = await desk.person("lead", roles=("lead",))
        page = await browser.get(f"/console/gates/{gate}")
        asked = await browser.send(page, answer_path(gate), answer="approve")
        for shown in (page, asked):
            assert all(name in shown.text.partition("<aside")[0] for name in ("MIDDLE", "DEEPER"))

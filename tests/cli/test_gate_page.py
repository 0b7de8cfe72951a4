"""`tercet gates show`: all that an approver must see, and nothing that other people's words can do to it."""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec
import pytest

from tercet.cli.screen import Screen
from tercet.core.events import Need
from tercet.core.events.gate import GateKind
from tercet.core.same_calls import RecentCall
from tercet.core.state import NOT_STARTED, Answer, OpenGate, State, StepState
from tercet.view.terminal.gate import GatePage, show_gate, show_page

from .harness import REFUNDS, Tercet
from .office import FACT, POST, READ, SEND, Office
from .runs import BAKERY, LOOK, ORDER, ORDER_881, REFUND, Kitchen

HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]x[/]\u202egnp\u200b\r\n  by        anybody\x9b31m\ud800"
FORGED = "  by        anybody"


def is_inert(text: str) -> bool:
    """Whether a text can neither steer a terminal nor reorder or hide what is on it."""
    letters = text.replace("\n", "")
    return not any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in letters)


@pytest.mark.req("R136")
def test_an_approver_sees_the_call_and_all_around_it(tercet: Tercet, kitchen: Kitchen) -> None:
    """Parameters, authority, money, sources, evidence, the way back, people, expiry, budget, plan and digest."""
    gate = tercet(*REFUND, ORDER_881, "--json").json["gates"][0]
    page = tercet("gates", "show", gate["id"], "--actors", REFUNDS)
    lines = [line.strip() for line in page.out.splitlines()]
    fact = "kg:refund_window:rw_881#snapshot_kg_2026_05_09_T0930"
    for line in (
        "because   GATE_FINANCE_APPROVAL: Money leaves the company, or a refund that was promised is",
        "GATE_FINANCE_APPROVAL: adp_payments.issue_refund is destructive",
        "call      adp_payments.issue_refund, destructive, compensable",
        'with      payment_id = "pay_8861"  authority',
        "amount_inr = 24500  (INR 24,500)  authority",
        f"evidence  {fact}, from the shop's order book",
        "refundable_inr = 24500  (INR 24,500)",
        gate["shown"]["evidence"][0]["hash"],
        "by        GATE_FINANCE_APPROVAL: 1 person with the role finance_lead",
        "a person other than agt_support, who started the run",
        "plan      ✓ order  adp_orders.lookup",
        "? refund  adp_payments.issue_refund  this call",
        f"digest    {gate['digest']}",
        f"tercet gates approve {gate['id']}",
    ):
        assert line in lines
    assert (
        "undo      adp_payments.cancel_refund with refund_id ← self#/refund_id; approved together" in page.out
    )
    assert "expires   in 24 h, 20" in page.out
    found = tercet("gates", "show", gate["id"], "--json").json
    assert [each["name"] for each in found["asked"]] == ["GATE_FINANCE_APPROVAL"]
    assert found["asked"][0]["description"].startswith("Money leaves the company")
    assert "answers approve: adp_payments.issue_refund is called once, with exactly these values" in page.text
    assert "deny: adp_payments.issue_refund is not called, and the run ends rejected" in page.text
    assert [each["answer"] for each in found["leads_to"]] == ["approve", "deny", "set_values"]
    assert found["leads_to"] == gate["leads_to"]


def test_a_run_that_waits_says_why_and_what_each_answer_leads_to(tercet: Tercet, kitchen: Kitchen) -> None:
    """In the few rows that `run` prints, as on the page of the gate."""
    out = tercet(*REFUND, ORDER_881).text
    assert "because GATE_FINANCE_APPROVAL: Money leaves the company" in out
    assert "GATE_FINANCE_APPROVAL: adp_payments.issue_refund is destructive" in out
    assert "answers approve: adp_payments.issue_refund is called once, with exactly these values" in out


def test_an_approver_sees_recent_calls_like_this_one(office: Office) -> None:
    """The same letter and one to the same person, each with its session; programs get the same."""
    letter: dict[str, Any] = dict(SEND)
    other = {**letter, "params": {**letter["params"], "price_eur_cents": 5}}
    sessions = [office.run(READ, send) for send in (letter, other)]
    for session in sessions:
        for clerk in ("clerk_1", "bruno"):
            assert office.say(clerk, "gates", "approve", f"{session}.g1").code == 0
        assert office.tercet("sessions", "resume", session, "--pack", POST).code == 0
    gate = f"{office.run(READ, SEND)}.g1"
    page = office.tercet("gates", "show", gate).out
    rows = page[page.index("  recent") : page.index("  evidence")]
    assert f"the same, just now in session {sessions[0]}, step send" in rows
    assert f"similar, just now in session {sessions[1]}, step send" in rows
    assert "to = " in rows
    found = office.tercet("gates", "show", gate, "--json").json["recent"]
    assert [(each["session"], each["identical"], each["outcome"]) for each in found] == [
        (sessions[0], True, "done"),
        (sessions[1], False, "done"),
    ]


def test_attempts_of_one_step_are_one_recent_call(capsys: pytest.CaptureFixture[str]) -> None:
    """They do not push older calls off the page, which says how many it leaves out."""
    calls = tuple(
        RecentCall(
            session=f"ses_{n}", step="send", at=n, identical=False, outcome="done", attempts=4 - n, params={}
        )
        for n in range(7)
    )
    gate = OpenGate(id="ses_9.g1", kind="approval", step="send", shown={"tool": "post.send"})
    state = State(start=msgspec.structs.replace(NOT_STARTED, actor={"id": "ann"}))
    show_page(Screen(), GatePage(gate=gate, state=state, is_open=True, recent=calls), now=9)
    out = capsys.readouterr().out
    assert "session ses_0, step send: done; 4 attempts\n" in out
    assert "session ses_4, step send: done\n" in out
    assert "… and 2 more" in out
    assert "ses_5" not in out


def test_a_narrow_terminal_keeps_hashes_whole(
    tercet: Tercet, kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At eighty columns nothing is wider, and what is to be compared stands on one line."""
    monkeypatch.setenv("COLUMNS", "80")
    gate = tercet(*REFUND, ORDER_881, "--json").json["gates"][0]
    lines = tercet("gates", "show", gate["id"]).out.splitlines()
    assert f"    {gate['digest']}" in lines
    assert max(map(len, lines)) <= 80


def test_words_of_others_are_inert_on_every_page(office: Office) -> None:
    """What a customer wrote, in a result, in evidence and in names, is spelt out and stays in its place."""
    session = office.run(READ, SEND)
    gate = f"{session}.g1"
    assert (
        office.say(
            "clerk_1", "gates", "approve", gate, "--note", HOSTILE.encode("utf-8", "ignore").decode()
        ).code
        == 0
    )
    for words in (("gates", "show", gate), ("gates", "list"), ("sessions", "show", session)):
        shown = office.tercet(*words)
        assert is_inert(shown.out)
        assert FORGED not in shown.out.splitlines()
        as_json = office.tercet(*words, "--json")
        assert is_inert(as_json.out)
    page = office.tercet("gates", "show", gate).out
    assert "\\x1b[2J" in page or "\\u001b[2J" in page
    assert "[bold]x[/bold]" in page
    assert "price_eur_cents = 1250000  (EUR 12,500.00)" in page
    assert f"evidence  {FACT}" in page


@pytest.mark.parametrize("kind", ["approval", "reconcile", "escalation", "compensation"])
def test_every_field_of_a_gate_may_be_hostile(kind: GateKind, capsys: pytest.CaptureFixture[str]) -> None:
    """A gate whose every text is an attack prints no control code, and no row that is not its own."""
    call = {
        "tool": HOSTILE,
        "description": HOSTILE,
        "params": {HOSTILE: HOSTILE, "nested": {HOSTILE: [HOSTILE]}},
        "authority": [HOSTILE],
        "sources": {HOSTILE: HOSTILE, "nested": HOSTILE},
        "mode": HOSTILE,
        "reversibility": HOSTILE,
        "compensation": {"tool": HOSTILE, "params": {HOSTILE: HOSTILE}},
        "evidence": [{"id": HOSTILE, "hash": HOSTILE, "content": {HOSTILE: HOSTILE}, "source": HOSTILE}],
    }
    shown = {
        **call,
        "sequence": [{**call, "step": HOSTILE, "no_compensation": HOSTILE}],
        "changed": HOSTILE,
        "why": HOSTILE,
        "key": HOSTILE,
        "attempt": HOSTILE,
        "reason": HOSTILE,
        "budget": {"tokens": 5},
        "plan": [{"step": HOSTILE, "tool": HOSTILE, "status": HOSTILE}],
        "undo": [
            {"step": HOSTILE, "tool": HOSTILE, "params": {HOSTILE: HOSTILE}},
            {"step": HOSTILE, "note": HOSTILE},
        ],
        "options": ["extend"],
        "judgement": {"outputs": HOSTILE, "accepted_by": [HOSTILE], "status": HOSTILE, "rationale": HOSTILE},
        "repeats": [{"session": HOSTILE, "step": HOSTILE, "key": HOSTILE, "at": 1}],
        "result_schema": {"type": "object", "properties": {HOSTILE[:-1]: {"const": HOSTILE[:-1]}}},
    }
    answer = Answer(
        gate="ses_1.g1", names=(HOSTILE,), step=HOSTILE, actor=HOSTILE, auth="local", answer="approve",
        digest="d", at=1, note=HOSTILE, roles=(HOSTILE,),
    )  # fmt: skip
    gate = OpenGate(
        id="ses_1.g1", kind=kind, step=HOSTILE, names=(HOSTILE,), needs={HOSTILE: Need(roles=(HOSTILE,), quorum=2)},
        digest=HOSTILE, covers={HOSTILE: HOSTILE}, shown=shown, at=1, expires=10**13, approvals=(answer,),
    )  # fmt: skip
    start = msgspec.structs.replace(
        NOT_STARTED, actor={"id": HOSTILE}, request={"intent": HOSTILE, "input": {HOSTILE: HOSTILE}}
    )
    recent = RecentCall(
        session=HOSTILE, step=HOSTILE, at=1, identical=False, outcome="unknown", params={HOSTILE: HOSTILE}
    )
    steps = {HOSTILE: StepState(status="gated")}
    screen, state = Screen(), State(start=start, answers=(answer,), steps=steps)
    show_page(screen, GatePage(gate=gate, state=state, is_open=True, recent=(recent,)), now=2)
    show_gate(screen, gate, state, now=2)
    printed = capsys.readouterr().out
    assert "gnp" in printed
    assert is_inert(printed)
    assert FORGED not in printed.splitlines()


def test_letters_that_look_like_others_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A Cyrillic letter in a value that carries authority is pointed out."""
    shown = {"tool": "pay.out", "params": {"to": "p\u0430y_1", "text": "\u00e4"}, "authority": ["to"]}
    gate = OpenGate(id="ses_1.g1", kind="approval", step="s", needs={"": Need()}, shown=shown)
    show_gate(Screen(), gate, State(start=msgspec.structs.replace(NOT_STARTED, actor={"id": "rosa"})), now=1)
    printed = capsys.readouterr().out
    assert "! not plain letters: CYRILLIC SMALL LETTER A" in printed
    assert "DIAERESIS" not in printed


def test_a_question_suggests_a_value_that_fits(tercet: Tercet, kitchen: Kitchen) -> None:
    """The suggested command is accepted as it stands: its value has the shape that the tool's results have."""
    answer = tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, ORDER))
    gate = answer.out.split()[1] + ".g1"
    page = tercet("gates", "show", gate)
    assert "? did order happen?" in page.out
    assert f"    tercet gates settle {gate} --happened --value '\"…\"'\n" in page.out
    assert tercet("gates", "settle", gate, "--happened", "--value", '"…"').code == 0
    closed = tercet("gates", "show", gate)
    assert "· closed: did order happen?" in closed.out
    assert "reported as done by agt_support" in closed.out
    assert "Answer with" not in closed.out
    shown = tercet("gates", "show", gate, "--json").json
    assert (shown["is_open"], shown["next"]) == (False, [])
    assert [each["answer"] for each in shown["answers"]] == ["happened"]


def test_the_page_says_who_has_approved(office: Office) -> None:
    """The second clerk sees the first one's name."""
    gate = f"{office.run(READ, SEND)}.g1"
    office.say("clerk_1", "gates", "approve", gate, "--note", "read it twice")
    office.be("bruno")
    page = office.tercet("gates", "show", gate, "--actors", POST).out
    assert "GATE_CLERKS: 2 people with the role clerk; so far clerk_1" in page
    assert 'approved by clerk_1 (clerk) from login clerk_1, just now: "read it twice"' in page

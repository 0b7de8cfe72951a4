"""`tercet gates`: answers to the questions that runs wait with."""

from __future__ import annotations

import os
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tercet.cli.sessions import gates, people

from .harness import REFUNDS, Tercet
from .runs import BAKERY, LOOK, ORDER, ORDER_881, REFUND, Kitchen


@pytest.fixture
def gate(tercet: Tercet, kitchen: Kitchen) -> str:
    """The gate of a refund that agt_support started."""
    return tercet(*REFUND, ORDER_881, "--json").json["gates"][0]["id"]


@pytest.fixture
def question(tercet: Tercet, kitchen: Kitchen) -> str:
    """The gate of an order of which nobody knows whether it went through."""
    answer = tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, ORDER))
    return answer.out.split()[1] + ".g1"


def session_of(gate: str) -> str:
    """The session that a gate belongs to."""
    return gate.rpartition(".")[0]


def test_the_commands_that_a_run_prints_lead_to_its_end(
    tercet: Tercet, kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run, approve and resume, each typed as the one before printed it: the customer is paid once, and it is recorded who agreed."""
    told = tercet(*REFUND, ORDER_881)
    show, approve, _, resume = (
        shlex.split(line)[1:] for line in told.out.splitlines() if line.startswith("    tercet")
    )
    monkeypatch.setattr(people, "login_name", lambda: "user_finance_lead")
    assert tercet(*show).code == 0
    approved = tercet(*approve, "--note", "the lamp is broken")
    assert approved.code == 0
    assert "is approved by user_finance_lead" in approved.out
    assert "tercet sessions resume" in approved.out
    done = tercet(*resume)
    assert done.code == 0
    assert "refund_amount_inr    24500" in done.out
    with closing(sqlite3.connect(kitchen.folder / "refunds.db")) as db:
        assert db.execute("SELECT payment_id, amount_inr FROM refunds").fetchall() == [("pay_8861", 24500)]
    shown = tercet("sessions", "show", session_of(approve[2]), "--json").json
    (approval,) = shown["decision_record"]["approvals"]
    assert (approval["approver"], approval["auth"], approval["note"]) == (
        "user_finance_lead",
        "local",
        "the lamp is broken",
    )


def test_gates_are_listed_with_what_they_ask(tercet: Tercet, gate: str, question: str) -> None:
    """The list says what each gate asks, whom, until when and for whom, and how to look at one."""
    listed = tercet("gates", "list")
    assert f"? {gate}  may refund be called? (GATE_FINANCE_APPROVAL)" in listed.out
    assert "adp_payments.issue_refund, for finance_lead, opened" in listed.text
    assert "expires in 24 h, run of agt_support" in listed.text
    assert f"? {question}  did order happen?" in listed.out
    assert "    tercet gates show ses_" in listed.out
    found = tercet("gates", "list", "--json").json["gates"]
    assert {each["id"]: each["kind"] for each in found} == {gate: "approval", question: "reconcile"}
    assert {each["session_id"] for each in found} == {session_of(gate), session_of(question)}


def test_the_gates_that_have_waited_longest_are_listed_first(
    tercet: Tercet, gate: str, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that is cut holds the oldest ones, and says that there may be more."""
    third = tercet(*REFUND, ORDER_881, "--json").json["gates"][0]["id"]
    assert [each["id"] for each in tercet("gates", "list", "--json").json["gates"]] == [gate, question, third]
    monkeypatch.setattr(gates, "MOST", 2)
    listed = tercet("gates", "list").out
    assert (
        listed.index(gate)
        < listed.index(question)
        < listed.index("Only the 2 gates that have waited longest")
    )
    assert third not in listed


def test_a_denied_call_is_never_made(tercet: Tercet, kitchen: Kitchen, gate: str) -> None:
    """After a deny the session ends rejected, and nothing is paid."""
    assert tercet("gates", "deny", gate, "--note", "kept the lamp").code == 0
    done = tercet("sessions", "resume", session_of(gate), "--pack", REFUNDS)
    assert done.code == 5
    assert "✗ rejected: agt_support denied refund: kept the lamp" in done.out
    with closing(sqlite3.connect(kitchen.folder / "refunds.db")) as db:
        assert db.execute("SELECT count(*) FROM refunds").fetchone() == (0,)


def test_the_owner_of_a_run_does_not_approve_it(tercet: Tercet, gate: str) -> None:
    """An approval that the critic would not count is refused before the call is made, and the gate stays open."""
    answer = tercet("gates", "approve", gate, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "own_gate")
    assert [each["id"] for each in tercet("gates", "list", "--json").json["gates"]] == [gate]


@pytest.mark.skipif(os.name != "posix", reason="other systems keep the user's name in the environment")
def test_the_environment_does_not_say_who_somebody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that name another user do not make one: the name is the operating system's."""
    before = people.login_name()
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "user_finance_lead")
    assert people.login_name() == before != "user_finance_lead"


def test_a_settled_call_that_did_not_happen_is_made(tercet: Tercet, kitchen: Kitchen, question: str) -> None:
    """When a person says that it did not happen, resuming makes the call."""
    answer = tercet("gates", "settle", question, "--did-not-happen", "--json")
    assert (answer.json["answer"], answer.json["status"]) == ("did_not_happen", "in_progress")
    assert tercet("sessions", "resume", session_of(question), "--pack", BAKERY).code == 0
    assert kitchen.count("calls") == 2


def test_a_settled_call_that_happened_is_not_repeated(
    tercet: Tercet, kitchen: Kitchen, question: str
) -> None:
    """When a person says that it happened, the run goes on with what they say it brought."""
    assert tercet("gates", "settle", question, "--happened", "--value", '"order 7"').code == 0
    assert tercet("sessions", "resume", session_of(question), "--pack", BAKERY).code == 0
    assert kitchen.count("calls") == 1


BAD = [
    (("settle", "Q"), "usage"),
    (("settle", "Q", "--did-not-happen", "--value", "1"), "usage"),
    (("settle", "Q", "--happened", "--did-not-happen"), "usage"),
    (("settle", "Q", "--did-not-happen", "--happened"), "usage"),
    (("settle", "Q", "--happened", "--value", "{"), "value_invalid"),
    (("approve", "Q"), "wrong_answer"),
    (("deny", "nonsense"), "unknown_gate"),
    (("deny", "ses_nowhere.g1"), "unknown_session"),
    (("deny", "Q0"), "gate_not_open"),
]


@pytest.mark.parametrize(("words", "code"), BAD, ids=[code for _, code in BAD])
def test_a_wrong_answer_changes_nothing(
    tercet: Tercet, question: str, words: tuple[str, ...], code: str
) -> None:
    """An answer that the gate does not ask for, and a gate that is not there, are wrong use."""
    answer = tercet("gates", *(word.replace("Q", question) for word in words), "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, code)
    assert answer.json["error"]["remedy"]
    assert [each["id"] for each in tercet("gates", "list", "--json").json["gates"]] == [question]


def test_a_gate_that_was_never_opened_is_said_not_to_exist(tercet: Tercet, question: str) -> None:
    """With the gates that are open; it was not answered before."""
    session = question.rpartition(".")[0]
    error = tercet("gates", "deny", f"{session}.g77", "--json").json["error"]
    assert error["message"] == f"there is no gate g77 in session {session}"
    assert error["remedy"] == f"did you mean {question}?"


@pytest.mark.parametrize("length", [4, 9, 16])
def test_a_gate_is_named_by_its_session_if_no_other_is_open(
    tercet: Tercet, question: str, length: int
) -> None:
    """By the whole id of the session or the first letters, with or without `ses_`; closed gates are listed."""
    session = question.rpartition(".")[0]
    letters = session.removeprefix("ses_")[:length]
    for name in (letters, f"ses_{letters}"):
        assert tercet("gates", "show", name, "--json").json["id"] == question
    done = tercet("gates", "settle", letters, "--did-not-happen", "--json")
    assert (done.code, done.json["gate"]) == (0, question)
    error = tercet("gates", "settle", letters, "--did-not-happen", "--json").json["error"]
    assert (error["code"], error["message"]) == ("gate_not_open", f"session {session} has no open gate")
    assert error["remedy"] == f"its closed gates are {question}"


def test_the_number_of_a_gate_alone_names_no_session(tercet: Tercet, question: str) -> None:
    """It is what a run's last line says, so the answer shows the whole form."""
    error = tercet("gates", "show", "g1", "--json").json["error"]
    assert (error["code"], error["message"]) == ("unknown_gate", "'g1' names no session")
    assert "ses_0123456789abcdef.g1" in error["remedy"]


def test_a_refused_answer_names_the_command_and_who_answered_before(tercet: Tercet, question: str) -> None:
    """An answer that the gate does not take, and one to a gate that is closed."""
    remedy = tercet("gates", "approve", question, "--json").json["error"]["remedy"]
    assert remedy.startswith("answer it with tercet gates settle;")
    who = tercet("gates", "settle", question, "--did-not-happen", "--json").json["actor"]
    remedy = tercet("gates", "settle", question, "--did-not-happen", "--json").json["error"]["remedy"]
    assert remedy.startswith(f"{who} answered it with did-not-happen at 20")


def test_a_gate_is_answered_once(tercet: Tercet, question: str) -> None:
    """A second answer is refused."""
    assert tercet("gates", "settle", question, "--happened", "--value", '"order 7"').code == 0
    answer = tercet("gates", "settle", question, "--did-not-happen", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "gate_not_open")


@pytest.mark.parametrize("told", [(), ("--actors", REFUNDS)], ids=["no list named", "a list named"])
def test_the_commands_that_are_printed_run_as_they_are(
    tercet: Tercet, gate: str, told: tuple[str | Path, ...]
) -> None:
    """Shown by itself or with its session, a gate is answered in the same words: the session knows its people and pack."""
    for page in (
        tercet("gates", "show", gate, *told),
        tercet("sessions", "show", session_of(gate), *told),
    ):
        assert f"tercet gates approve {gate}" in [line.strip() for line in page.out.splitlines()]
        assert "PACK" not in page.out
    shown = tercet("sessions", "show", session_of(gate), *told)
    assert f"tercet sessions resume {session_of(gate)} --pack {shlex.quote(str(REFUNDS))}" in shown.out


def test_an_answer_that_needs_no_role_needs_no_actors(tercet: Tercet, question: str) -> None:
    """Whether a call happened may be said by anybody: the printed command is whole as it stands."""
    assert "--actors" not in tercet("gates", "show", question).out


def test_a_cancelled_session_says_which_gate_it_still_waits_at(tercet: Tercet, question: str) -> None:
    """When it is cancelled, shown and resumed: whether the call happened has to be known before it ends."""
    session = session_of(question)
    told = tercet("sessions", "cancel", session)
    assert f"It ends once {question} is answered; then resume it:" in told.text
    assert f"tercet gates settle {question} --did-not-happen\n" in told.out
    ending = f"· ending cancelled: agt_support cancelled it; it ends once {question} is answered"
    assert ending in tercet("sessions", "show", session).text
    assert ending in tercet("sessions", "resume", session, "--pack", BAKERY).text
    assert tercet("gates", "settle", question, "--did-not-happen").code == 0
    done = tercet("sessions", "resume", session, "--pack", BAKERY)
    assert "✗ cancelled: agt_support cancelled it" in done.out

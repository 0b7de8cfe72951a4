"""`--dev` and `--as`: one person tries a pack out alone, and everything that they do as others is recorded as simulated."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from .harness import REFUNDS, Tercet
from .office import POST, READ, RUSH, SEND, Office, code_of
from .runs import ORDER_881, REFUND, Kitchen


def test_one_person_finishes_a_run_with_the_commands_that_it_prints(tercet: Tercet, kitchen: Kitchen) -> None:
    """Every command that is printed runs as it is: the run waits, is approved by a simulated finance lead, and pays."""
    waiting = tercet(*REFUND, ORDER_881, "--dev")
    assert waiting.code == 4
    lines = [line.strip() for line in waiting.out.splitlines()]
    [approve] = [line for line in lines if line.startswith("tercet gates approve")]
    [resume] = [line for line in lines if line.startswith("tercet sessions resume")]
    approved = tercet(*shlex.split(approve)[1:])
    assert approved.code == 0
    assert "is approved by user_finance_lead (finance_lead), simulated" in approved.out
    assert tercet(*shlex.split(resume)[1:]).code == 0
    session = lines[0].split()[1]
    shown = tercet("sessions", "show", session)
    assert "people    simulated: a development session, started by agt_support" in shown.out
    told = tercet("sessions", "show", session, "--json").json
    assert told["dev"] is True
    [answer] = told["answers"]
    assert (answer["auth"], answer["simulated_by"], "login" in answer) == ("simulated", "agt_support", False)
    [approval] = told["decision_record"]["approvals"]
    assert (approval["approver"], approval["auth"]) == ("user_finance_lead", "simulated")
    tercet("report", session, "--out", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "simulated: a development session" in page
    assert "simulated: login agt_support acted as user_finance_lead" in page
    assert tercet("replay", session).code == 0


@pytest.fixture
def gate(office: Office) -> str:
    """A letter that waits for two clerks, in a development session of rosa's."""
    return f"{office.run(READ, SEND, words=('--dev',))}.g1"


def test_one_person_is_a_quorum_in_a_development_session_only(office: Office, gate: str) -> None:
    """There the owner acts as both clerks; in any other session the same words are refused."""
    for clerk in ("clerk_1", "clerk_2"):
        told = office.tercet("gates", "approve", gate, "--dev", "--as", clerk, "--json").json
        assert (told["actor"], told["auth"], told["login"]) == (clerk, "simulated", "rosa")
    assert told["missing"] == {}
    real = f"{office.run(READ, SEND)}.g1"
    answer = office.tercet("gates", "approve", real, "--dev", "--as", "clerk_1", "--json")
    assert code_of(answer) == (2, "simulation_refused")
    for words in (("pause",), ("cancel",), ("extend", "tokens=5")):
        order = ("sessions", words[0], real.rpartition(".")[0], *words[1:])
        assert code_of(office.tercet(*order, "--dev", "--as", "clerk_1", "--json")) == (
            2,
            "simulation_refused",
        )
    assert office.tercet("sessions", "show", real.rpartition(".")[0], "--json").json["answers"] == []


def test_the_rules_of_gates_apply_to_simulated_people(office: Office, gate: str) -> None:
    """Roles, quorum and the owner count as for anybody; the refusal names whom one can act as."""
    for name, code in (("asker", "own_gate"), ("mallory", "unknown_actor")):
        answer = office.tercet("gates", "approve", gate, "--dev", "--as", name, "--json")
        assert code_of(answer) == (2, code)
        assert "clerk_1" in answer.json["error"]["remedy"]
    assert office.tercet("gates", "approve", gate, "--dev", "--as", "clerk_1").code == 0
    again = office.tercet("gates", "approve", gate, "--dev", "--as", "clerk_1", "--json")
    assert code_of(again) == (2, "already_approved")
    assert office.tercet("gates", "withdraw", gate, "--dev", "--as", "clerk_1").code == 0
    assert office.tercet("gates", "deny", gate, "--dev", "--as", "clerk_2", "--note", "no").code == 0


def test_without_dev_one_acts_only_as_the_actor_whose_login_is_ones_own(office: Office, gate: str) -> None:
    """`--as` alone takes nobody's place, not even in a development session."""
    answer = office.tercet("gates", "approve", gate, "--as", "clerk_1", "--json")
    assert code_of(answer) == (2, "wrong_login")
    office.be("bruno")
    assert office.tercet("gates", "approve", gate, "--as", "clerk_2", "--json").json["auth"] == "local"
    started = office.tercet(
        "run", POST, "--plan", office.kitchen.folder / "plan.json", "--as", "asker", "--json"
    )
    assert code_of(started) == (2, "wrong_login")


def test_orders_of_simulated_people_are_recorded_as_such(office: Office, gate: str) -> None:
    """Who cancelled as whom is shown with the session's events."""
    session = gate.rpartition(".")[0]
    assert office.tercet("sessions", "extend", session, "tokens=5", "--dev", "--as", "clerk_1").code == 0
    cancelled = office.tercet("sessions", "cancel", session, "--dev", "--as", "clerk_2")
    assert "by clerk_2, simulated" in cancelled.out
    office.tercet("sessions", "resume", session, "--pack", POST)
    watched = office.tercet("sessions", "watch", session).out
    assert "cancelled by clerk_2 (simulated by login rosa)" in watched
    assert "by clerk_1 (simulated by login rosa)" in watched
    assert office.tercet("replay", session).code == 0


def test_a_run_is_started_as_another_actor(office: Office) -> None:
    """Its owner is simulated, so the person who started it may then approve it as another."""
    session = office.run(READ, SEND, words=("--dev", "--as", "clerk_1"))
    told = office.tercet("sessions", "show", session).out
    assert "started by clerk_1 (simulated by login rosa)" in told
    own = office.tercet("gates", "approve", f"{session}.g1", "--dev", "--as", "clerk_1", "--json")
    assert code_of(own) == (2, "own_gate")
    assert own.json["error"]["remedy"] == "act as another actor with --dev --as clerk_2"
    assert office.tercet("gates", "approve", f"{session}.g1", "--dev", "--as", "clerk_2").code == 0


def test_a_pack_can_forbid_simulated_people(office: Office, tmp_path: Path) -> None:
    """No development session is started with it."""
    pack = Path(shutil.copytree(POST, tmp_path / "post"))
    header = pack / "pack.toml"
    header.write_text(header.read_text() + "\n[session]\nsimulated_people = false\n")
    plan = office.kitchen.plan(READ, SEND)
    plan.write_text(plan.read_text().replace('"bake"', '"post"'))
    office.be("rosa")
    refused = office.tercet("run", pack, "--plan", plan, "--dev", "--json")
    assert code_of(refused) == (2, "simulation_refused")
    assert "simulated_people" in refused.json["error"]["message"]


def test_nobody_is_simulated_in_a_journal_that_others_share(tercet: Tercet) -> None:
    """The server is not even reached."""
    shared = ("--dev", "--journal", "postgresql://db.invalid/runs", "--json")
    assert code_of(tercet("run", REFUNDS, *shared)) == (2, "simulation_refused")
    assert code_of(tercet("gates", "approve", "ses_0123456789abcdef.g1", "--as", "x", *shared)) == (
        2,
        "simulation_refused",
    )


# --- values that are set at a gate ---


def test_a_value_is_set_by_one_and_approved_by_another(tercet: Tercet, kitchen: Kitchen) -> None:
    """The gate shows who changed it, the critic lets it through, and the changed amount is paid."""
    session = tercet(*REFUND, ORDER_881, "--dev", "--json").json["session_id"]
    lead, deputy = (("--dev", "--as", f"user_finance_{name}") for name in ("lead", "deputy"))
    words = ("--set", "amount_inr=12000", "--reason", "half of it was used")
    changed = tercet("gates", "modify", f"{session}.g1", *words, *lead)
    assert "is changed by user_finance_lead (finance_lead), simulated" in changed.out
    resumed = tercet("sessions", "resume", session, "--pack", REFUNDS)
    assert "user_finance_lead sets amount_inr (half of it was used): reviewed again" in resumed.out
    page = tercet("gates", "show", f"{session}.g2").out
    assert "← changed by user_finance_lead" in page
    assert "and other than user_finance_lead, who set values in the call" in page
    assert f"tercet gates approve {session}.g2 --dev --as user_finance_deputy\n" in page
    own = tercet("gates", "approve", f"{session}.g2", *lead, "--json")
    assert code_of(own) == (2, "own_change")
    assert tercet("gates", "approve", f"{session}.g2", *deputy).code == 0
    assert tercet("sessions", "resume", session, "--pack", REFUNDS).code == 0
    told = tercet("sessions", "show", session, "--json").json
    assert told["outputs"]["refund_amount_inr"] == 12_000
    assert told["answers"][0]["changes"] == {"/amount_inr": 12_000}
    assert "amount_inr = 12000" in tercet("gates", "show", f"{session}.g1").out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--set", "amount_inr=twelve"), "wrong_value"),
        (("--set", "amount_inr"), "usage"),
        (("--set", "=5"), "usage"),
        (("--set", "amount_inr=5", "--set", "/amount_inr=6"), "usage"),
        (("--set", "amount=5"), "unknown_parameter"),
        (("--set", "/payment_id/x=5"), "unknown_parameter"),
        (("--set", "amount_inr=24500"), "nothing_changed"),
    ],
)
def test_a_value_that_cannot_be_set_is_wrong_use(
    tercet: Tercet, kitchen: Kitchen, words: tuple[str, ...], code: str
) -> None:
    """Each mistake names what can be set, and the gate waits as before."""
    session = tercet(*REFUND, ORDER_881, "--dev", "--json").json["session_id"]
    gate = f"{session}.g1"
    answer = tercet(
        "gates", "modify", gate, *words, "--reason", "x", "--dev", "--as", "user_finance_lead", "--json"
    )
    assert code_of(answer) == (2, code)
    if code in ("unknown_parameter", "wrong_value"):
        assert "payment_id, amount_inr" in answer.json["error"]["remedy"]
    assert tercet("gates", "list", "--json").json["gates"][0]["id"] == gate


def test_a_change_that_too_few_others_could_approve_is_refused(office: Office, gate: str) -> None:
    """Of two clerks both must approve, and the one who sets a value cannot: the run would wait for ever."""
    too_few = office.tercet(
        "gates", "modify", gate, "--set", "text=5", "--reason", "x", "--dev", "--as", "clerk_1", "--json"
    )
    assert code_of(too_few) == (2, "no_other_approver")


@pytest.mark.parametrize("text", ["5", "true", "null", "[1]", "plain words"])
def test_values_are_read_by_the_schema_of_their_parameter(office: Office, tmp_path: Path, text: str) -> None:
    """Where the tool wants a text, a number is one too."""
    pack = Path(shutil.copytree(POST, tmp_path / "post"))
    with (pack / "actors.toml").open("a") as people:
        people.write('\n[[actor]]\nid = "clerk_3"\nroles = ["clerk"]\n')
    house = Office(office.tercet, office.kitchen, office.monkeypatch, pack)
    gate = f"{house.run(READ, SEND, words=('--dev',))}.g1"
    words = (
        "--set",
        f"text={text}",
        "--set",
        "price_eur_cents=7",
        "--reason",
        "x",
        "--dev",
        "--as",
        "clerk_1",
    )
    assert house.tercet("gates", "modify", gate, *words).code == 0
    house.tercet("sessions", "resume", gate.rpartition(".")[0], "--pack", pack)
    shown = house.tercet("gates", "list", "--json").json["gates"][0]["shown"]["params"]
    assert (shown["text"], shown["price_eur_cents"]) == (text, 7)


# --- effects that are left ---


def test_one_person_settles_what_a_development_run_left(office: Office, tmp_path: Path) -> None:
    """The printed command works as it is, and whoever started the run is told whom to act as."""
    pack = Path(shutil.copytree(POST, tmp_path / "post"))
    code = (pack / "tools.py").read_text(encoding="utf-8")
    way = 'compensate={"tool": "post.recall", "params": {"to": {"$from": "params#/to"}}},\n    reversibility="compensable"'
    assert way in code
    (pack / "tools.py").write_text(code.replace(way, 'no_compensation="it is gone"'), encoding="utf-8")
    office = Office(office.tercet, office.kitchen, office.monkeypatch, pack)
    session = office.run(READ, SEND, {**RUSH, "depends_on": ["send"]}, words=("--dev",))
    for clerk in ("clerk_1", "clerk_2"):
        office.tercet("gates", "approve", f"{session}.g1", "--dev", "--as", clerk)
    office.tercet("sessions", "resume", session, "--pack", pack)
    gates = office.tercet("gates", "list", "--json").json["gates"]
    assert [each["step"] for each in gates] == ["rush"]
    office.tercet("sessions", "cancel", session)
    office.tercet("sessions", "resume", session, "--pack", pack)
    for gate in office.tercet("gates", "list", "--json").json["gates"]:
        office.tercet("gates", "decide", gate["id"], "compensate", "--dev", "--as", "clerk_1")
    office.tercet("sessions", "resume", session, "--pack", pack)
    lines = [line.strip() for line in office.tercet("sessions", "show", session).out.splitlines()]
    [settle] = [line for line in lines if line.startswith("tercet sessions settle")]
    assert settle.endswith("--dev --as clerk_1")
    own = office.tercet("sessions", "settle", session, "send", "--json")
    assert code_of(own) == (2, "own_gate")
    assert own.json["error"]["message"].startswith("asker started this run")
    assert own.json["error"]["remedy"] == "act as another actor with --dev --as clerk_1"
    alone = office.tercet("sessions", "settle", session, "send", "--as", "clerk_1", "--json")
    assert code_of(alone) == (2, "wrong_login")
    assert "is settled by clerk_1, simulated" in office.tercet(*shlex.split(settle)[1:]).out

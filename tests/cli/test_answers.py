"""`tercet gates approve`, `deny`, `modify`, `withdraw` and `decide`: who may say what, and what is refused."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tercet.journal.opening import open_journal

from .harness import Tercet
from .office import FACT, POST, READ, RUSH, SEND, Office, code_of
from .runs import BAKERY, LOOK, Kitchen, bake, knead


@pytest.fixture
def gate(office: Office) -> str:
    """A letter of rosa's that waits for two clerks."""
    return f"{office.run(READ, SEND)}.g1"


def session_of(gate: str) -> str:
    """The session that a gate belongs to."""
    return gate.rpartition(".")[0]


@pytest.mark.req("R137")
def test_two_clerks_let_a_letter_go(office: Office, gate: str) -> None:
    """The first approval says who is still missing, the second one leads to the call, and both are in the record."""
    first = office.say("clerk_1", "gates", "approve", gate, "--note", "fine").json
    assert first["missing"] == {"GATE_CLERKS": "1 more approval by clerk"}
    assert (first["actor"], first["roles"], first["auth"]) == ("clerk_1", ["clerk"], "local")
    assert first["next"] == [f"tercet gates show {gate}"]
    second = office.say("bruno", "gates", "approve", gate).json
    assert (second["actor"], second["missing"]) == ("clerk_2", {})
    assert second["next"] == [f"tercet sessions resume {session_of(gate)} --pack {shlex.quote(str(POST))}"]
    assert office.sent() == []
    assert office.tercet("sessions", "resume", session_of(gate), "--pack", POST).code == 0
    assert office.sent() == ["sent box 7"]
    record = office.tercet("sessions", "show", session_of(gate), "--json").json["decision_record"]
    assert [each["approver"] for each in record["approvals"]] == ["clerk_1", "clerk_2"]


@pytest.mark.parametrize("is_taken_off", [True, False], ids=["taken off the list", "another role"])
def test_an_approval_counts_only_while_its_role_is_held(
    office: Office, tmp_path: Path, is_taken_off: bool
) -> None:
    """A clerk who leaves between approval and call takes the approval along, and nothing is sent."""
    house = replace(office, pack=Path(shutil.copytree(POST, tmp_path / "post")))
    gate = f"{house.run(READ, SEND)}.g1"
    for clerk in ("clerk_1", "bruno"):
        assert house.say(clerk, "gates", "approve", gate).code == 0
    people = house.pack / "actors.toml"
    stay, word, leaves = people.read_text().rpartition("[[actor]]")
    demoted = leaves.replace('["clerk"]', '["guest"]')
    people.write_text(stay if is_taken_off else f"{stay}{word}{demoted}")
    house.be("rosa")
    resumed = house.tercet("sessions", "resume", session_of(gate), "--pack", house.pack)
    assert "clerk_2 approved GATE_CLERKS, and no longer holds clerk" in resumed.out
    assert house.sent() == []


BAD: list[tuple[str, tuple[str, ...], str]] = [
    ("rosa", ("approve", "G"), "own_gate"),
    ("passer_by", ("approve", "G"), "role_missing"),
    ("passer_by", ("deny", "G"), "role_missing"),
    ("clerk_1", ("approve", "G", "--digest", "sha256:0000"), "wrong_digest"),
    ("clerk_1", ("modify", "G", "--note", "shorter"), "callers_plan"),
    ("clerk_1", ("withdraw", "G"), "not_approved"),
    ("clerk_1", ("settle", "G", "--did-not-happen"), "wrong_answer"),
    ("clerk_1", ("decide", "G", "abandon"), "wrong_answer"),
    ("clerk_1", ("decide", "G", "dance"), "unknown_choice"),
    ("clerk_1", ("decide", "G", "extend"), "wrong_extension"),
    ("clerk_1", ("decide", "G", "extend", "--tokens", "-5"), "wrong_extension"),
    ("clerk_1", ("decide", "G", "abandon", "--tokens", "5"), "usage"),
    ("clerk_1", ("approve", "ses_elsewhere.g1"), "unknown_session"),
    ("clerk_1", ("approve", "G9"), "gate_not_open"),
    ("clerk_1", ("show", "G9"), "gate_not_open"),
    ("clerk_1", ("show", "nonsense"), "unknown_gate"),
]


@pytest.mark.parametrize(("user", "words", "code"), BAD, ids=[f"{w[0]}-{code}-{n}" for n, (_, w, code) in enumerate(BAD)])  # fmt: skip
def test_a_wrong_answer_is_typed_and_changes_nothing(
    office: Office, gate: str, user: str, words: tuple[str, ...], code: str
) -> None:
    """Each mistake is wrong use with a word for it and what to do, and the gate waits as before."""
    answer = office.say(
        user, "gates", *(word.replace("G", gate) if word[0] == "G" else word for word in words)
    )
    assert code_of(answer) == (2, code)
    (left,) = office.tercet("gates", "list", "--json").json["gates"]
    assert (left["id"], left["approvals"]) == (gate, [])


def test_a_session_with_two_open_gates_lists_them(office: Office) -> None:
    """Its id alone does not say which of them is answered."""
    to = {"$evidence": f"{FACT}#/to"}
    letters = [{**SEND, "id": text, "params": {"to": to, "text": text}} for text in ("one", "two")]
    session = office.run(*letters)
    error = office.say("clerk_1", "gates", "approve", session[4:12]).json["error"]
    assert (error["code"], error["message"]) == (
        "ambiguous_gate",
        f"session {session} waits at several gates",
    )
    assert error["remedy"] == f"name one of {session}.g1, {session}.g2"


def test_an_extension_without_amounts_names_the_options(office: Office, gate: str) -> None:
    """Whoever extends and does not say what is told which options say it."""
    error = office.say("clerk_1", "gates", "decide", gate, "extend").json["error"]
    assert error["message"] == "extend needs an amount"
    assert "--tokens N, --tool-calls N, --cost-microcents N, --wall-clock-ms N" in error["remedy"]


def test_one_person_is_no_quorum_of_two(office: Office, gate: str) -> None:
    """Who has approved cannot approve again, and a login that is called like them is not them."""
    assert office.say("bruno", "gates", "approve", gate).code == 0
    assert code_of(office.say("bruno", "gates", "approve", gate)) == (2, "already_approved")
    assert code_of(office.say("clerk_2", "gates", "approve", gate)) == (2, "wrong_login")


@pytest.mark.parametrize("actors", [(), ("--actors", "mine.toml")], ids=["no-file", "own-file"])
def test_the_owner_cannot_come_back_as_somebody_else(
    office: Office, gate: str, actors: tuple[str, ...]
) -> None:
    """Who started a run stays that person, whatever file says otherwise now."""
    Path("mine.toml").write_text('[[actor]]\nid = "clerk_9"\nos_user = "rosa"\nroles = ["clerk"]\n')
    office.be("rosa")
    answer = office.tercet("gates", "approve", gate, *actors, "--json")
    assert code_of(answer) == (2, "own_gate")
    assert "asker started this run" in answer.json["error"]["message"]


EVIL = '[[actor]]\nid = "{}"\nos_user = "nobody"\nroles = ["clerk"]\n'


@pytest.mark.req("R137")
@pytest.mark.parametrize(
    ("name", "code"),
    [("clerk_1", "wrong_login"), ("clerk_2", "wrong_login"), ("zed", "role_missing")],
    ids=["by name", "by os_user", "unknown"],
)
def test_one_login_approves_as_nobody_else(office: Office, gate: str, name: str, code: str) -> None:
    """A file of one's own makes nobody a clerk of the run's pack: the answer is refused, and says who is who."""
    Path("evil.toml").write_text(EVIL.format(name))
    office.be("nobody")
    answer = office.tercet("gates", "approve", gate, "--actors", "evil.toml", "--json")
    assert code_of(answer) == (2, code)
    assert "actors.toml of the run's own pack" in answer.json["error"]["remedy"]
    (left,) = office.tercet("gates", "list", "--json").json["gates"]
    assert left["approvals"] == []


def test_the_login_is_shown_with_the_answer(office: Office, gate: str, tmp_path: Path) -> None:
    """In the answer, at the gate, in the session, its record, where it came from, and the report."""
    assert office.say("clerk_1", "gates", "approve", gate).json["login"] == "clerk_1"
    assert office.say("bruno", "gates", "approve", gate).json["login"] == "bruno"
    shown = "approved by clerk_2 (clerk) from login bruno"
    assert shown in office.tercet("gates", "show", gate).text
    assert office.tercet("sessions", "resume", session_of(gate), "--pack", POST).code == 0
    told = office.tercet("sessions", "show", session_of(gate))
    assert "approved by clerk_2 from login bruno" in told.text
    record = office.tercet("sessions", "show", session_of(gate), "--json").json["decision_record"]
    assert [each["login"] for each in record["approvals"]] == ["clerk_1", "bruno"]
    origin = office.tercet("provenance", session_of(gate), "--json").json["provenance"]
    assert origin["logins"] == {"clerk_1": "clerk_1", "clerk_2": "bruno"}
    assert "clerk_2 from login bruno" in office.tercet("provenance", session_of(gate)).text
    page = tmp_path / "report.html"
    assert office.tercet("report", session_of(gate), "--out", page).code == 0
    assert "signed in on this machine, login bruno" in page.read_text()


def test_a_session_knows_its_people_without_a_file(office: Office, gate: str) -> None:
    """A clerk approves from their own login, and nobody has to name a list; others are still refused."""
    office.be("clerk_1")
    told = office.tercet("gates", "approve", gate, "--json").json
    assert (told["actor"], told["roles"], told["auth"]) == ("clerk_1", ["clerk"], "local")
    office.be("passer_by")
    assert code_of(office.tercet("gates", "approve", gate, "--json")) == (2, "role_missing")
    office.be("bruno")
    told = office.tercet("gates", "approve", gate, "--as", "clerk_2", "--json").json
    assert (told["actor"], told["missing"]) == ("clerk_2", {})


def test_people_may_be_named_by_the_environment_or_the_folder(
    office: Office, gate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TERCET_ACTORS and an actors.toml in this folder are the defaults of --actors."""
    monkeypatch.setenv("TERCET_ACTORS", str(POST))
    office.be("clerk_1")
    assert office.tercet("gates", "approve", gate, "--json").json["roles"] == ["clerk"]
    monkeypatch.delenv("TERCET_ACTORS")
    shutil.copy(POST / "actors.toml", "actors.toml")
    office.be("bruno")
    assert office.tercet("gates", "approve", gate, "--json").json["actor"] == "clerk_2"


FILES: list[tuple[str, str | None, str]] = [
    ("nowhere", None, "actors_not_found"),
    ("broken.toml", "[[actor]\n", "pack_invalid"),
    ("wrong.toml", '[[actor]]\nid = "a"\nrolls = ["clerk"]\n', "pack_invalid"),
    (
        "twice.toml",
        '[[actor]]\nid = "a"\nos_user = "x"\n[[actor]]\nid = "b"\nos_user = "x"\n',
        "pack_invalid",
    ),
]


@pytest.mark.parametrize(("name", "text", "code"), FILES, ids=[name for name, _, _ in FILES])
def test_a_file_of_people_that_cannot_be_read_is_wrong_use(
    office: Office, gate: str, name: str, text: str | None, code: str
) -> None:
    """No answer is recorded under a guess."""
    if text is not None:
        Path(name).write_text(text)
    office.be("clerk_1")
    answer = office.tercet("gates", "approve", gate, "--actors", name, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, code)


@pytest.mark.req("R138")
def test_an_expired_gate_is_not_answered(office: Office) -> None:
    """Its session ends expired, and nothing is called."""
    session = office.run(RUSH)
    assert code_of(office.say("clerk_1", "gates", "approve", f"{session}.g1")) in (
        (2, "gate_expired"),
        (2, "session_over"),
    )
    done = office.tercet("sessions", "resume", session, "--pack", POST, "--json")
    assert (done.code, done.json["standing"]) == (5, "expired")
    assert office.sent() == []


@pytest.mark.req("R139")
def test_a_denial_rejects_and_a_finished_session_takes_no_answer(office: Office, gate: str) -> None:
    """One deny ends it; afterwards every answer is told that the session is over."""
    assert office.say("clerk_1", "gates", "approve", gate).code == 0
    assert office.say("rosa", "gates", "deny", gate, "--note", "changed my mind").code == 0
    shown = office.tercet("sessions", "list").out
    assert "ending" in shown
    assert "as rejected" in shown
    done = office.tercet("sessions", "resume", session_of(gate), "--pack", POST)
    assert done.code == 5
    assert "✗ rejected: asker denied send: changed my mind" in done.out
    assert code_of(office.say("bruno", "gates", "approve", gate)) == (2, "session_over")
    assert office.sent() == []


def test_an_approval_is_withdrawn_before_the_call(office: Office, gate: str) -> None:
    """The gate is open again, and wants the approval that was withdrawn."""
    for user in ("clerk_1", "bruno"):
        assert office.say(user, "gates", "approve", gate).code == 0
    assert office.say("bruno", "gates", "withdraw", gate, "--note", "wrong box").json["answer"] == "withdraw"
    (left,) = office.tercet("gates", "list", "--json").json["gates"]
    assert [each["actor"] for each in left["approvals"]] == ["clerk_1"]
    assert office.tercet("sessions", "resume", session_of(gate), "--pack", POST).code == 4
    assert office.sent() == []


def test_an_approval_may_name_the_digest_that_was_looked_at(office: Office, gate: str) -> None:
    """The digest on the page is the one that is accepted."""
    digest = office.say("clerk_1", "gates", "show", gate).json["digest"]
    assert office.say("clerk_1", "gates", "approve", gate, "--digest", digest).code == 0


def test_a_template_is_not_sent_back(office: Office, tmp_path: Path) -> None:
    """It cannot learn, so whoever wants a change is told before the run would have no plan any more."""
    pack = shutil.copytree(POST, tmp_path / "post", ignore=shutil.ignore_patterns("__pycache__"))
    (pack / "templates").mkdir()
    plan: dict[str, Any] = {"plan_id": "letter", "intent": "post", "steps": [READ, SEND]}
    (pack / "templates" / "letter.json").write_text(json.dumps(plan))
    office.be("rosa")
    session = office.tercet("run", pack, "--intent", "post", "--json").json["session_id"]
    gate = f"{session}.g1"
    told = office.say("clerk_1", "gates", "modify", gate, "--note", "leave it out")
    assert code_of(told) == (2, "template_plan")
    assert office.tercet("sessions", "show", session, "--json").json["status"] == "awaiting_gate"
    assert office.sent() == []


@pytest.fixture
def handed_over(tercet: Tercet, kitchen: Kitchen) -> str:
    """The gate of a run that baked a loaf and could not knead dough."""
    plan = kitchen.plan(LOOK, bake(0), {**knead(4), "depends_on": ["bake"]})
    return tercet("run", BAKERY, "--plan", plan).out.split()[1] + ".g1"


@pytest.mark.req("R117")
def test_a_run_that_was_handed_over_shows_all_that_is_known(tercet: Tercet, handed_over: str) -> None:
    """The page has the plan, what was called, what the critic said, and the ways to go on as commands."""
    page = tercet("gates", "show", handed_over)
    assert "? how should this run continue?" in page.out
    assert "✓ bake  bakery.bake" in page.out
    assert "✗ knead  bakery.knead" in page.out
    assert "critic    review ok" in page.out
    for words in ("accept-partial", "abandon"):
        assert f"    tercet gates decide {handed_over} {words}\n" in page.out
    assert "replan" not in page.out, "the caller's plan is never changed"
    assert "decide " + handed_over + " extend" not in page.out, "nothing was short"
    packet = tercet("gates", "show", handed_over, "--json").json["packet"]
    assert [step["id"] for step in packet["plan"]["steps"]] == ["look", "bake", "knead"]
    assert len(packet["transcript"]) == 6
    assert packet["verdicts"][0]["stage"] == "review"


def test_a_run_that_was_handed_over_is_listed_as_escalated(tercet: Tercet, handed_over: str) -> None:
    """A list tells it from sessions that are only paused, and can be narrowed to it."""
    (row,) = tercet("sessions", "list", "--status", "escalated", "--json").json["sessions"]
    assert (row["status"], row["standing"], row["gates"]) == ("paused", "escalated", [handed_over])
    assert " escalated " in tercet("sessions", "list").out


@pytest.mark.req("R260")
@pytest.mark.parametrize("how", ["decide", "extend", "resume"])
def test_an_extended_run_goes_on(tercet: Tercet, handed_over: str, how: str) -> None:
    """All three ways to let a run use more lead to its end."""
    session = session_of(handed_over)
    words: tuple[str, ...] = ()
    if how == "decide":
        assert tercet("gates", "decide", handed_over, "extend", "--tool-calls", "5").code == 0
    elif how == "extend":
        told = tercet("sessions", "extend", session, "tool_calls=5", "tokens=100")
        assert "may use 5 tool calls, 100 tokens more" in told.out
    else:
        words = ("--extend", "tool_calls=5")
    done = tercet("sessions", "resume", session, "--pack", BAKERY, *words, "--json")
    assert (done.code, json.loads(done.out)["extended"]["tool_calls"]) == (0, 5)


def test_what_there_is_may_be_accepted_by_somebody_else(
    tercet: Tercet, kitchen: Kitchen, handed_over: str, office: Office
) -> None:
    """The owner cannot; somebody else can, and the run completes as partial."""
    answer = tercet("gates", "decide", handed_over, "accept-partial", "--json")
    assert code_of(answer) == (2, "own_gate")
    office.be("bruno")
    assert tercet("gates", "decide", handed_over, "accept-partial", "--note", "bread is enough").code == 0
    done = tercet("sessions", "resume", session_of(handed_over), "--pack", BAKERY)
    assert done.code == 0
    assert "✓ completed as partial" in done.out


@pytest.mark.req("R234")
def test_what_cannot_be_taken_back_is_left_for_a_person(
    tercet: Tercet, office: Office, handed_over: str
) -> None:
    """An abandoned run says what is left of it, and the command with which that is settled."""
    assert tercet("gates", "decide", handed_over, "abandon").code == 0
    session = session_of(handed_over)
    done = tercet("sessions", "resume", session, "--pack", BAKERY)
    assert done.code == 5
    assert "✗ bake was not compensated: bread cannot be unbaked" in done.out
    assert f"    tercet sessions settle {session} bake --note 'what you did'\n" in done.out
    shown = tercet("sessions", "show", session, "--json").json
    assert shown["rollback"]["requires_manual_intervention"] is True
    assert tercet("sessions", "prune", "--older-than", "1ms", "--json").json["pruned"] == 0
    assert code_of(tercet("sessions", "settle", session, "bake", "--json")) == (2, "own_gate")
    office.be("bruno")
    settled = tercet("sessions", "settle", session, "bake", "--note", "ate it", "--json").json
    assert (settled["actor"], settled["left"]) == ("bruno", [])
    assert "bake was not compensated, settled by bruno" in tercet("sessions", "show", session).out
    assert code_of(tercet("sessions", "settle", session, "bake", "--json")) == (2, "already_settled")
    assert code_of(tercet("sessions", "settle", session, "look", "--json")) == (2, "nothing_to_settle")
    asyncio.run(_let_go(session))
    other = tercet("sessions", "prune", "--older-than", "1ms", "--tenant", "acme")
    assert other.out == "No session is old enough.\n"
    assert tercet("sessions", "prune", "--older-than", "1ms").out == "1 session deleted\n"
    assert code_of(tercet("sessions", "show", session, "--json")) == (2, "unknown_session")


async def _let_go(session: str) -> None:
    """The lease on a session that is over runs out by itself; here nobody waits for that."""
    async with open_journal("sqlite:///tercet.db") as journal:
        lease = await journal.lease("default", session)
        assert lease is not None
        await journal.release(lease)


@pytest.fixture
def asked_back(office: Office) -> str:
    """The gate of a run that sent a letter and then came to nothing: is the letter called back?"""
    session = office.run(READ, SEND, {**RUSH, "depends_on": ["send"]})
    for user in ("clerk_1", "bruno"):
        assert office.say(user, "gates", "approve", f"{session}.g1").code == 0
    office.tercet("sessions", "resume", session, "--pack", POST)
    office.say("rosa", "sessions", "cancel", session)
    assert office.tercet("sessions", "resume", session, "--pack", POST).code == 4
    return office.tercet("gates", "list", "--json").json["gates"][0]["id"]


@pytest.mark.parametrize("choice", ["compensate", "keep"])
def test_effects_are_taken_back_or_kept_as_somebody_decides(
    office: Office, asked_back: str, choice: str
) -> None:
    """The page lists what would be undone; afterwards it is, or is not."""
    page = office.tercet("gates", "show", asked_back)
    assert '← send  post.recall with to = "box 7"' in page.out
    assert f"    tercet gates decide {asked_back} compensate\n" in page.out
    assert office.say("clerk_1", "gates", "decide", asked_back, choice).code == 0
    done = office.tercet("sessions", "resume", session_of(asked_back), "--pack", POST)
    assert done.code == 5
    is_back = choice == "compensate"
    assert ("✓ send was compensated" if is_back else "Its effects were kept.") in done.out
    assert office.sent() == ["sent box 7", "recalled box 7"][: 1 + is_back]

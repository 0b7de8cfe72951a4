"""`tercet sessions pause`, `cancel`, `extend`, `migrate` and the pins: what operators order, here or from elsewhere."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from .harness import Tercet
from .office import POST, READ, RUSH, SEND, Office, code_of
from .runs import BAKERY, LOOK, ORDER, Kitchen, bake, end


def carried(running: subprocess.Popen[str]) -> str:
    """The session that a running command told first."""
    assert running.stdout is not None
    return running.stdout.readline().split()[1]


def ended(running: subprocess.Popen[str]) -> tuple[int, str]:
    """How a running command ended, and what it said since."""
    out, err = running.communicate(timeout=600)
    return running.returncode, out + err


@pytest.mark.req("R256")
def test_a_run_is_paused_from_another_terminal(tercet: Tercet, kitchen: Kitchen) -> None:
    """The call under way ends, no other begins, both terminals say so, and it is resumed with one effect."""
    running = kitchen.start_baking(60)
    session = carried(running)
    with kitchen.opening_oven_when_told(session):
        told = tercet("sessions", "pause", session, "--note", "oven check")
    assert told.code == 0
    assert "runs this session: waiting until it has read the message" in told.text
    assert f"✓ {session} is paused, by agt_support" in told.out
    code, out = ended(running)
    assert code == 4, out
    assert "· paused: paused by agt_support: oven check" in out
    assert kitchen.count("loaves") == 1
    done = tercet("sessions", "resume", session, "--pack", BAKERY, "--json")
    assert (done.code, json.loads(done.out)["status"]) == (0, "completed")
    assert kitchen.count("calls") == 1


@pytest.mark.req("R251")
def test_a_run_is_cancelled_from_another_terminal(tercet: Tercet, kitchen: Kitchen) -> None:
    """The process that carries it brings it to its end: nothing more is called, and it exits with 5."""
    running = kitchen.start_baking(60)
    session = carried(running)
    with kitchen.opening_oven_when_told(session):
        told = json.loads(tercet("sessions", "cancel", session, "--note", "enough bread", "--json").out)
    assert (told["order"], told["actor"], told["auth"]) == ("cancel", "agt_support", "local")
    code, out = ended(running)
    assert code == 5
    assert "✗ cancelled: agt_support cancelled it: enough bread" in out
    shown = tercet("sessions", "show", session, "--json").json
    assert shown["status"] == "cancelled"
    assert {step["id"]: step["status"] for step in shown["steps"]}["last"] != "done"


def test_a_waiting_session_is_cancelled_and_brought_to_its_end(office: Office) -> None:
    """Nobody carries it, so whoever cancels it is told to resume it; then it is over, and nothing was sent."""
    session = office.run(READ, SEND)
    office.be("rosa")
    told = office.tercet("sessions", "cancel", session, "--actors", POST)
    assert "it ends once it is resumed" in told.text
    assert f"    tercet sessions resume {session} --pack {shlex.quote(str(POST))}\n" in told.out
    assert "· ending cancelled: asker cancelled it" in office.tercet("sessions", "show", session).out
    assert code_of(office.say("rosa", "sessions", "cancel", session)) == (2, "session_ending")
    done = office.tercet("sessions", "resume", session, "--pack", POST, "--json")
    assert (done.code, done.json["standing"]) == (5, "cancelled")
    assert code_of(office.say("rosa", "sessions", "cancel", session)) == (2, "session_over")
    assert office.sent() == []


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ("tokens=0", "tokens cannot be extended by 0"),
        (
            "patience=5",
            "unknown budget 'patience' (expected: tokens, tool_calls, cost_microcents, wall_clock_ms)",
        ),
    ],
)
def test_a_wrong_extension_is_named(office: Office, amount: str, message: str) -> None:
    """The unknown budget with the known ones, or the amount."""
    session = office.run(READ, SEND)
    error = office.say("rosa", "sessions", "extend", session, amount).json["error"]
    assert error["message"] == message


BAD: list[tuple[tuple[str, ...], str]] = [
    (("pause", "S"), "not_running"),
    (("pause", "ses_nowhere"), "unknown_session"),
    (("cancel", "ses_nowhere"), "unknown_session"),
    (("extend", "S", "tokens=-5"), "wrong_extension"),
    (("extend", "S", "tokens=0"), "wrong_extension"),
    (("extend", "S", "patience=5"), "wrong_extension"),
    (("extend", "S", "tokens"), "wrong_extension"),
    (("extend", "S", "tokens=many"), "wrong_extension"),
    (("extend", "S", "tokens=9999999999999999999999"), "wrong_extension"),
    (("resume", "S", "--pack", str(POST), "--extend", "tokens=-1"), "wrong_extension"),
    (("resume", "S", "--pack", str(BAKERY)), "pack_version_mismatch"),
    (("migrate", "ses_nowhere", "--pack", str(POST)), "unknown_session"),
    (("prune",), "usage"),
    (("prune", "--older-than", "soon"), "duration_invalid"),
    (("prune", "--older-than", "0d"), "duration_invalid"),
]


@pytest.mark.parametrize(
    ("words", "code"), BAD, ids=[f"{w[0]}-{code}-{n}" for n, (w, code) in enumerate(BAD)]
)
def test_a_wrong_order_is_typed_and_changes_nothing(
    office: Office, words: tuple[str, ...], code: str
) -> None:
    """Each mistake is wrong use with what to do, and the session waits as before."""
    session = office.run(READ, SEND)
    before = office.tercet("sessions", "show", session, "--json").json["updated_at"]
    answer = office.tercet("sessions", *(session if word == "S" else word for word in words), "--json")
    assert code_of(answer) == (2, code)
    assert office.tercet("sessions", "show", session, "--json").json["updated_at"] == before


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A post office whose rules a test may change."""
    return shutil.copytree(POST, tmp_path / "moved", ignore=shutil.ignore_patterns("__pycache__"))


def _bump(pack: Path) -> None:
    header = pack / "pack.toml"
    header.write_text(header.read_text().replace('"1.0.0"', '"1.1.0"'))


def _other_facts(pack: Path) -> None:
    facts = pack / "evidence" / "s1.json"
    facts.write_text(facts.read_text().replace("box 7", "box 8"))


@pytest.mark.req("R253", "R326")
@pytest.mark.parametrize(
    ("move", "code"), [(_bump, "pack_version_mismatch"), (_other_facts, "snapshot_version_mismatch")]
)
def test_a_session_is_not_resumed_with_what_has_moved(
    office: Office, copied: Path, move: Any, code: str
) -> None:
    """Another version of the pack or other evidence is refused, and says how to go on."""
    session = office.run(READ, SEND)
    move(copied)
    answer = office.tercet("sessions", "resume", session, "--pack", copied, "--json")
    assert code_of(answer) == (2, code)
    remedy = answer.json["error"]["remedy"]
    assert f"tercet sessions migrate {session} --pack {shlex.quote(str(copied))}; or end it: " in remedy
    assert f"tercet sessions cancel {session}" in remedy


def test_a_cancelled_session_is_not_told_to_be_cancelled(office: Office, copied: Path) -> None:
    """Resumed with another pack, it can be moved, or resumed with its own; its gate sends nobody to start it again."""
    session = office.run(READ, SEND)
    assert office.tercet("sessions", "cancel", session).code == 0
    _bump(copied)
    error = office.tercet("sessions", "resume", session, "--pack", copied, "--json").json["error"]
    assert "it is cancelled already" in error["remedy"]
    assert "sessions cancel" not in error["remedy"]
    error = office.say("clerk_1", "gates", "approve", f"{session}.g1").json["error"]
    assert error["code"] == "session_ending"
    assert error["remedy"].startswith(f"tercet sessions resume {session} ")
    assert office.tercet("sessions", "migrate", session, "--pack", copied).code == 5


def test_an_effect_is_settled_only_after_the_gates_of_its_session(office: Office) -> None:
    """Resuming a session that waits at a gate does not bring it to its end."""
    session = office.run(READ, SEND)
    error = office.tercet("sessions", "settle", session, "send", "--json").json["error"]
    assert error["remedy"] == f"answer its gate first: tercet gates show {session}.g1"


@pytest.mark.req("R264")
def test_a_moved_session_is_reviewed_anew(office: Office, copied: Path) -> None:
    """Migrating voids the approval that was there: the new gate asks again, under the new pack."""
    session = office.run(READ, SEND)
    assert office.say("clerk_1", "gates", "approve", f"{session}.g1").code == 0
    _bump(copied)
    moved = office.tercet("sessions", "migrate", session, "--pack", copied)
    assert moved.code == 4
    assert "moved to post@1.1.0 by" in moved.out
    (gate,) = office.tercet("gates", "list", "--json").json["gates"]
    assert (gate["id"], gate["approvals"]) == (f"{session}.g2", [])
    assert code_of(office.say("bruno", "gates", "approve", f"{session}.g1")) == (2, "gate_not_open")


@pytest.mark.req("R213")
def test_a_request_that_is_sent_again_is_the_same_session(tercet: Tercet, kitchen: Kitchen) -> None:
    """Same key and body: the session as it stands, and nothing is done twice. Another body: wrong use."""
    words = ("run", BAKERY, "--plan", kitchen.plan(LOOK, bake(0)), "--request-key", "monday")
    first = tercet(*words).out.split()[1]
    again = tercet(*words)
    assert again.code == 0
    assert f"· this request was sent before, as session {first}" in again.out
    assert kitchen.count("calls") == 1
    other = ("run", BAKERY, "--plan", kitchen.plan(LOOK), "--request-key", "monday", "--json")
    assert code_of(tercet(*other)) == (2, "request_key_reused")


def test_a_rehearsal_calls_nothing(tercet: Tercet, kitchen: Kitchen) -> None:
    """With --shadow the plan is reviewed and recorded, and that is all; a refused plan is refused."""
    done = tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, bake(0)), "--shadow")
    assert (done.code, done.err) == (0, "")
    assert "✓ completed: rehearsed, no tool was called" in done.out
    assert kitchen.count("calls") == 0
    unknown = {**LOOK, "tool": "bakery.burn"}
    assert tercet("run", BAKERY, "--plan", kitchen.plan(unknown), "--shadow").code == 3


@pytest.mark.req("R259")
def test_a_session_lives_no_longer_than_it_may(tercet: Tercet, kitchen: Kitchen) -> None:
    """A question that is asked longer than --ttl ends the session: exit 5, and the reason."""
    told = tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, ORDER), "--ttl", "1ms", "--json")
    session = json.loads(told.out)["session_id"]
    answer = tercet("gates", "settle", f"{session}.g1", "--did-not-happen", "--json")
    assert answer.code in (0, 2)
    shown = tercet("sessions", "show", session, "--json").json
    assert "expired" in (shown["ending"], shown["status"])
    bad = tercet("run", BAKERY, "--plan", kitchen.plan(LOOK), "--ttl", "tomorrow", "--json")
    assert code_of(bad) == (2, "duration_invalid")


def test_what_was_said_is_kept_when_nobody_waits_for_it(kitchen: Kitchen) -> None:
    """Ctrl-C while the other process is busy ends the waiting with 130, and the run is paused all the same."""
    running = kitchen.start_baking(60)
    session = carried(running)
    asking = kitchen.start("sessions", "pause", session)
    assert asking.stdout is not None
    assert "waiting until it has read the message" in asking.stdout.readline()
    code, out, _ = end(asking, signal.SIGINT)
    assert code == 130
    assert "· the message is kept" in out
    with kitchen.opening_oven_when_told(session):
        assert ended(running)[0] == 4


@pytest.mark.parametrize(
    "words", [("sessions", "cancel", "S"), ("gates", "deny", "S.g1"), ("stop", "tool", "post.send")]
)
def test_bytes_that_are_no_text_are_no_bug(office: Office, words: tuple[str, ...]) -> None:
    """A note in another encoding is kept as far as it is text."""
    session = office.run(READ, SEND)
    answer = office.say("rosa", *(word.replace("S", session) for word in words), "--note", "caf\udce9")
    assert answer.code == 0
    told = office.tercet("run", POST, "--intent", "post", "--request-key", "k\udce9", "--json")
    assert told.code in (2, 5)
    assert told.json["error"]["code"] != "internal"


@pytest.mark.req("R138", "R259")
def test_a_sweep_ends_what_nobody_touches(office: Office) -> None:
    """A session whose gate was not answered in time is brought to its end by a timer's command; a second finds nothing."""
    session = office.run(RUSH)
    swept = office.tercet("sessions", "sweep", "--pack", POST, "--json").json
    assert swept["expired"] in ([session], [])  # the run itself may have been late already
    assert office.tercet("sessions", "show", session, "--json").json["status"] == "expired"
    again = office.tercet("sessions", "sweep", "--pack", POST)
    assert (again.code, again.out.strip()) == (0, "Nothing was due.")
    assert office.sent() == []


def test_a_damaged_session_is_named_when_old_ones_are_forgotten(tercet: Tercet, kitchen: Kitchen) -> None:
    """What cannot be read stays and is told with its reason, on the screen and as JSON."""
    assert tercet("run", BAKERY, "--plan", kitchen.plan(LOOK)).code == 0
    [session] = [row["session_id"] for row in tercet("sessions", "list", "--json").json["sessions"]]
    with closing(sqlite3.connect(kitchen.folder / "tercet.db")) as db:
        db.execute("UPDATE events SET data = x'00'")
        db.execute("DELETE FROM checkpoints")
        db.commit()
    told = tercet("sessions", "prune", "--older-than", "1ms")
    assert told.code == 0
    assert f"! {session} cannot be read and was kept: " in told.out
    answer = tercet("sessions", "prune", "--older-than", "1ms", "--json").json
    assert (answer["pruned"], [each["session_id"] for each in answer["unreadable"]]) == (0, [session])

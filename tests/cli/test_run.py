"""`tercet run`: what it prints, how it ends, and what is left in the journal."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tercet.cli.journals import journal_words
from tercet.database.schema import Schema
from tercet.database.sqlite import connect_writer
from tercet.journal.sqlite import writer

from .harness import PLANS, REFUNDS, Tercet
from .runs import BAKERY, LOOK, ORDER, ORDER_881, REFUND, Kitchen, bake, knead


def bakery(kitchen: Kitchen, *steps: dict[str, Any]) -> tuple[str | Path, ...]:
    """The words that run a plan of the bakery."""
    return ("run", BAKERY, "--plan", kitchen.plan(*steps))


def test_a_run_tells_its_session_first_and_each_step_after(tercet: Tercet, kitchen: Kitchen) -> None:
    """The first line is the session's id; each step is told when it begins and when it is done."""
    answer = tercet(*bakery(kitchen, LOOK, bake(0)))
    lines = answer.out.splitlines()
    assert answer.code == 0
    assert lines[0].startswith("session   ses_")
    assert [line.split()[:3] for line in lines if "bakery." in line] == [
        ["·", "look", "bakery.look"],
        ["✓", "look", "bakery.look"],
        ["·", "bake", "bakery.bake"],
        ["✓", "bake", "bakery.bake"],
    ]
    assert next(line for line in lines if line.startswith("✓ bake")).endswith(" ms")
    assert "✓ completed in" in answer.out
    assert answer.err == "looking up rye\n"
    assert kitchen.count("loaves") == 1


SESSION_KEYS = [
    "session_id", "tenant_id", "pack_pin", "snapshot_pin", "intent", "started_at", "heartbeat", "status", "checkpoints",
    "next_step", "owner_actor",
]  # fmt: skip
PROGRESS_KEYS = [
    "session_id", "progress_id", "emitted_at", "current_step", "completed_step_count", "total_step_count",
    "budget_remaining", "awaiting_gate",
]  # fmt: skip
VERDICT_KEYS = ["run_id", "plan_id", "verdict", "step_scores", "loop_guard_trips", "replan_attempts"]


@pytest.mark.req("R24", "R249", "R261")
def test_a_run_and_its_session_have_the_published_shapes(tercet: Tercet, kitchen: Kitchen) -> None:
    """`run` and `sessions show` print session row, progress and verdict with exactly the published keys, in their order."""
    ran = tercet(*bakery(kitchen, LOOK, bake(0)), "--json")
    told = json.loads(ran.out)
    published, session = told["published"], told["session_id"]
    assert (ran.code, list(published)) == (0, ["session", "progress", "verdict"])
    assert list(published["session"]) == SESSION_KEYS
    assert list(published["session"]["heartbeat"]) == ["interval_ms", "ttl_ms", "last_seen"]
    points = published["session"]["checkpoints"]
    assert list(points[0]) == ["checkpoint_id", "after_step", "critic_verdict", "saved_at"]
    assert [(each["after_step"], each["critic_verdict"]) for each in points[:3]] == [
        ("", "ok"),
        ("look", "accept"),
        ("bake", "accept"),
    ]
    assert list(published["progress"]) == PROGRESS_KEYS
    assert list(published["progress"]["budget_remaining"]) == [
        "tokens",
        "tool_calls",
        "cost_cents",
        "wall_clock_ms",
    ]
    assert (published["progress"]["completed_step_count"], published["progress"]["total_step_count"]) == (
        2,
        2,
    )
    assert list(published["verdict"]) == VERDICT_KEYS
    assert [list(each) for each in published["verdict"]["step_scores"]] == [["step_id", "scores"]] * 2
    assert published["verdict"]["verdict"] == "accept"
    assert tercet("sessions", "show", session, "--json").json["published"] == published


def test_a_template_carries_an_intent_to_its_gate(tercet: Tercet, kitchen: Kitchen) -> None:
    """The refund desk's own plan runs up to the payment, shows the resolved call, and says what to type next."""
    answer = tercet(*REFUND, ORDER_881)
    gate = answer.out.splitlines()[0].split()[1] + ".g1"
    assert answer.code == 4
    assert "? may refund be called? (GATE_FINANCE_APPROVAL)" in answer.out
    assert 'payment_id = "pay_8861"' in answer.out
    assert "amount_inr = 24500  (INR 24,500)  authority" in answer.out
    assert "a person other than agt_support" in answer.out
    for words in ("gates show {}", "gates approve {}", "gates deny {}"):
        assert f"    tercet {words.format(gate)}\n" in answer.out
    with closing(sqlite3.connect(kitchen.folder / "refunds.db")) as db:
        assert db.execute("SELECT count(*) FROM refunds").fetchone() == (0,)


@pytest.mark.parametrize("words", [("--plan", PLANS / "plan_a.json"), ("--input", '{"order_id": "ord_874", "window_id": "rw_874"}')])  # fmt: skip
def test_a_refused_plan_ends_with_three(
    tercet: Tercet, kitchen: Kitchen, words: tuple[str | Path, ...]
) -> None:
    """A plan of the caller or of a template that the critic refuses runs nothing, and the remedy is told."""
    answer = tercet("run", REFUNDS, "--intent", "support.refund", *words)
    assert answer.code == 3
    assert "✗ refused by the critic: missing_evidence" in answer.out
    assert "remedy" in answer.out
    assert "Nothing was run." in answer.out
    assert not (kitchen.folder / "refunds.db").exists()


def test_what_is_not_done_is_tried_again(tercet: Tercet, kitchen: Kitchen) -> None:
    """Failures and retries are told, and what a tool's error holds cannot draw on the screen."""
    answer = tercet(*bakery(kitchen, LOOK, knead(1)))
    assert answer.code == 0
    assert "✗ knead  bakery.knead  not done: the machine did not start\\x1b[31m" in answer.out
    assert "↻ knead  bakery.knead  tried again in" in answer.out
    assert "attempt 2" in answer.out
    assert "\x1b" not in answer.out


def test_a_run_that_fails_for_good_is_escalated(tercet: Tercet, kitchen: Kitchen) -> None:
    """When retries are used up the critic hands the run to a person: exit 5, and how to go on."""
    answer = tercet(*bakery(kitchen, LOOK, knead(9)))
    assert answer.code == 5
    assert "✗ escalated: " in answer.out
    assert "tercet sessions resume ses_" in answer.out


def test_a_step_whose_condition_is_false_is_told(tercet: Tercet, kitchen: Kitchen) -> None:
    """A skipped step says why."""
    again = {**LOOK, "id": "again", "when": "look == 'nothing'"}
    answer = tercet(*bakery(kitchen, LOOK, again))
    assert answer.code == 0
    assert "○ again  bakery.look  skipped: `look == 'nothing'` is false" in answer.out
    assert answer.err == "looking up rye\n"


def test_an_unknown_outcome_is_asked_about(tercet: Tercet, kitchen: Kitchen) -> None:
    """A call that broke and declares nothing is not repeated: a person is asked, with all that is known of it."""
    answer = tercet(*bakery(kitchen, LOOK, ORDER))
    assert answer.code == 4
    assert "? did order happen?" in answer.out
    assert 'flour = "spelt"' in answer.out
    assert "raised ConnectionError: the line broke" in answer.text
    assert "--did-not-happen" in answer.out
    assert kitchen.count("calls") == 1


def test_json_is_one_object_whatever_tools_print(tercet: Tercet, kitchen: Kitchen) -> None:
    """With --json stdout holds the final object and nothing else; what tools print goes to stderr."""
    answer = tercet(*bakery(kitchen, LOOK, bake(0)), "--json")
    told = json.loads(answer.out)
    assert (answer.code, answer.err) == (0, "looking up rye\n")
    assert (told["status"], told["standing"], told["owner"]) == ("completed", "completed", "agt_support")
    assert [(step["id"], step["status"], step["attempts"]) for step in told["steps"]] == [
        ("look", "done", 1),
        ("bake", "done", 1),
    ]
    assert told["record"].startswith("sha256:")
    assert told["used"]["tool_calls"] == 2
    assert told["next"] == [f"tercet sessions show {told['session_id']}"]


def test_json_at_a_gate_has_the_call_and_the_commands(tercet: Tercet, kitchen: Kitchen) -> None:
    """A program finds the gate with its resolved call, and what may follow."""
    answer = tercet(*REFUND, ORDER_881, "--json")
    told = answer.json
    (gate,) = told["gates"]
    assert (answer.code, told["status"]) == (4, "awaiting_gate")
    assert gate["shown"]["params"] == {"payment_id": "pay_8861", "amount_inr": 24500}
    assert gate["names"] == ["GATE_FINANCE_APPROVAL"]
    assert f"tercet gates approve {gate['id']}" in told["next"]


def test_the_journal_may_be_elsewhere(
    tercet: Tercet, kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--journal and TERCET_JOURNAL name another journal; the next command repeats only what is not in the environment."""
    words = bakery(kitchen, LOOK)
    elsewhere = f"sqlite:///{kitchen.folder}/elsewhere.db"
    assert f" --journal {elsewhere}" in tercet(*words, "--journal", elsewhere).out
    monkeypatch.setenv("TERCET_JOURNAL", elsewhere)
    assert "--journal" not in tercet(*words).out
    assert len(tercet("sessions", "list", "--json").json["sessions"]) == 2
    assert not (kitchen.folder / "tercet.db").exists()


def test_a_journal_in_memory_leaves_nothing(tercet: Tercet, kitchen: Kitchen) -> None:
    """A run on memory: works, and says that nothing is left of it."""
    answer = tercet(*bakery(kitchen, LOOK), "--journal", "memory:")
    assert answer.code == 0
    assert "the session is gone" in answer.out


BAD = [
    ((*REFUND[:2], "--intent", "sales.discount"), "unknown_intent", "choose one of support.refund"),
    ((*REFUND, '{"order_id": "ord_881"}'), "planning_failure", """as in --input '{"window_id": "…"}'"""),
    ((*REFUND, '{"order_id": "ord_881", "window_id": 7}'), None, ""),
    ((*REFUND, '{"order_id": '), "input_invalid", "--input @file.json"),
    ((*REFUND, "[1]"), "input_invalid", "give the fields names"),
    ((*REFUND, "@nowhere.json"), "input_not_found", "name the input's file"),
    (("run", REFUNDS, "--plan", "nowhere.json"), "plan_not_found", "name the plan's file"),
    (("run", BAKERY, "--intent", "bake"), "planning_failure", "run a plan of your own with --plan"),
    (("run", REFUNDS, "--snapshot", "kg_1999", "--input", ORDER_881), "unknown_snapshot", "choose one of"),
    (("run", BAKERY, "--journal", "nodir/x.db"), "unknown_journal", "sqlite:///nodir/x.db"),
]


@pytest.mark.parametrize(("words", "code", "remedy"), BAD, ids=[f"{code}-{n}" for n, (_, code, _) in enumerate(BAD)])  # fmt: skip
def test_bad_input_starts_no_session(
    tercet: Tercet, kitchen: Kitchen, words: tuple[str | Path, ...], code: str | None, remedy: str
) -> None:
    """What cannot be run is wrong use, is answered with what to do, and leaves no session."""
    if words[1] == BAKERY and "--journal" in words:
        words = (*words, "--plan", kitchen.plan(LOOK))
    answer = tercet(*words, "--json")
    if code is None:  # a number in the place of a name is a window that is not there
        assert (answer.code, answer.json["standing"]) == (3, "refused")
        return
    assert (answer.code, answer.json["error"]["code"]) == (2, code)
    assert remedy in answer.json["error"]["remedy"]
    if (kitchen.folder / "tercet.db").exists():
        assert tercet("sessions", "list", "--json").json == {"sessions": [], "damaged": []}


def test_a_template_that_the_input_breaks_is_no_bug(tercet: Tercet, pack: Path, kitchen: Kitchen) -> None:
    """An input whose type makes no plan of the template is answered with the place."""
    template = pack / "templates" / "refund.json"
    text = template.read_text().replace(
        '"evidence_refs": ["kg:refund_window:${input.window_id}#snapshot_${snapshot}"]',
        '"evidence_refs": ["${input.window_id}"]',
        1,
    )
    template.write_text(text)
    answer = tercet(
        "run", pack, "--intent", "support.refund", "--input", '{"order_id": "o", "window_id": 7}', "--json"
    )
    assert (answer.code, answer.json["error"]["code"]) == (2, "planning_failure")
    assert "/steps/1/evidence_refs/0" in answer.json["error"]["message"]


def test_a_plan_that_does_not_parse_is_told_with_its_place(tercet: Tercet, kitchen: Kitchen) -> None:
    """A plan's mistakes are listed, and nothing is started."""
    (kitchen.folder / "plan.json").write_text('{"steps": [{"id": "s1", "tool": "bakery.look", "parms": {}}]}')
    answer = tercet("run", BAKERY, "--plan", "plan.json", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "plan_invalid")
    assert "parms" in answer.json["error"]["problems"][0]["place"]


def test_a_file_that_is_no_journal_is_left_alone(tercet: Tercet, kitchen: Kitchen) -> None:
    """A file that is no database, and a database of something else, are refused and not touched."""
    words = bakery(kitchen, LOOK)
    path = kitchen.folder / "tercet.db"
    path.write_bytes(b"shopping list: flour, salt, water\n" * 50)
    before = path.read_bytes()
    answer = tercet(*words, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "journal_corrupt")
    assert "--journal" in answer.json["error"]["remedy"]
    assert path.read_bytes() == before
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE recipes (name TEXT)")
    answer = tercet(*words, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "not_a_journal")


def test_a_journal_of_a_newer_version_is_left_alone(tercet: Tercet, kitchen: Kitchen) -> None:
    """A journal that a newer Tercet wrote is wrong use, with what to do."""
    words = bakery(kitchen, LOOK)
    assert tercet(*words).code == 0
    with closing(sqlite3.connect(kitchen.folder / "tercet.db", isolation_level=None)) as db:
        db.execute("INSERT INTO journal_schema (version) VALUES (999)")
    for each in (words, ("sessions", "list")):
        answer = tercet(*each, "--json")
        assert (answer.code, answer.json["error"]["code"]) == (2, "journal_newer")
        assert "upgrade Tercet" in answer.json["error"]["remedy"]


def test_a_journal_in_no_folder_cannot_be_opened(tercet: Tercet, kitchen: Kitchen) -> None:
    """A wrong address is wrong use."""
    answer = tercet(*bakery(kitchen, LOOK), "--journal", "sqlite:///nowhere/runs.db", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "journal_unavailable")
    assert "create nowhere" in answer.json["error"]["remedy"]


def test_a_journal_that_stays_locked_is_a_failure(tercet: Tercet, kitchen: Kitchen) -> None:
    """A lock that somebody holds for too long is nobody's typing mistake: exit 5, nothing written."""
    words = bakery(kitchen, LOOK)
    assert tercet(*words).code == 0
    with closing(sqlite3.connect(kitchen.folder / "tercet.db", isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        answer = tercet(*words, "--json")
        db.execute("ROLLBACK")
    assert (answer.code, answer.json["error"]["code"]) == (5, "journal_busy")
    assert len(tercet("sessions", "list", "--json").json["sessions"]) == 1


def test_a_password_is_not_printed() -> None:
    """A command to be copied names the journal without its password."""
    assert journal_words("postgresql://rosa:s3cret@db/runs") == ("--journal", "postgresql://rosa:…@db/runs")


def test_a_disk_that_is_full_from_the_start_has_no_session_to_resume(
    tercet: Tercet, kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where not even the first write fits, the remedy is to run it again, and nothing was called or listed."""
    assert tercet(*bakery(kitchen, LOOK)).code == 0

    def connect(path: Path, schema: Schema, *, patience_s: float) -> sqlite3.Connection:
        connection = connect_writer(path, schema, patience_s=patience_s)
        connection.execute("PRAGMA max_page_count = 1")  # as large as it is by now
        return connection

    monkeypatch.setattr(writer, "connect_writer", connect)
    answer = tercet(*bakery(kitchen, LOOK, bake(0)), "--json")
    assert (answer.code, answer.json["error"]["code"]) == (5, "journal_full")
    assert (
        answer.json["error"]["remedy"] == "make room on its disk, then run it again: no session was started"
    )
    assert len(tercet("sessions", "list", "--json").json["sessions"]) == 1
    assert kitchen.count("calls") == 0

"""`tercet report`: a page about a run, in a file."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from .harness import REFUNDS, Tercet
from .office import READ, SEND, Office, code_of
from .runs import BAKERY, LOOK, ORDER_881, REFUND, Kitchen

SECRET = "planted-secret-4711"  # noqa: S105 - of nothing


def baked(tercet: Tercet, kitchen: Kitchen) -> str:
    """A run of the bakery that is over; its session."""
    return json.loads(tercet("run", BAKERY, "--plan", kitchen.plan(LOOK), "--json").out)["session_id"]


def test_a_report_is_written_beside_where_one_stands(tercet: Tercet, kitchen: Kitchen) -> None:
    """By default the file is named by the session; what is told as JSON is true of it."""
    session = baked(tercet, kitchen)
    told = tercet("report", session, "--json").json
    page = Path(f"{session}.html").read_bytes()
    assert told == {
        "file": f"{session}.html",
        "session_id": session,
        "standing": "completed",
        "bytes": len(page),
        "sha256": sha256(page).hexdigest(),
    }
    assert page.startswith(b"<!doctype html>")
    again = tercet("report", session)
    assert (again.code, Path(f"{session}.html").read_bytes()) == (0, page)
    assert f"{session}.html: completed" in again.out


def test_a_report_goes_to_standard_output(tercet: Tercet, kitchen: Kitchen) -> None:
    """With -o - nothing but the page is printed, and no file is made."""
    session = tercet(*REFUND, ORDER_881, "--json").json["session_id"]
    answer = tercet("report", session, "-o", "-")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith("</html>\n")
    assert "waits for people" in answer.out
    assert not list(Path().glob("*.html"))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("ses_0000000000000000",), "unknown_session"),
        (("SESSION", "-o", "notes.txt"), "file_exists"),
        (("SESSION", "-o", "."), "not_a_file"),
        (("SESSION", "-o", "nowhere/report.html"), "missing_folder"),
        (("SESSION", "-o", "-"), "two_outputs"),
        (("SESSION", "--journal", "sqlite:///none.db"), "journal_not_found"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(
    tercet: Tercet, kitchen: Kitchen, words: tuple[str, ...], code: str
) -> None:
    """Nothing is written, and nobody's file is lost."""
    session = baked(tercet, kitchen)
    Path("notes.txt").write_text("mine")
    answer = tercet("report", *(session if word == "SESSION" else word for word in words), "--json")
    assert code_of(answer) == (2, code)
    assert Path("notes.txt").read_text() == "mine"
    assert not list(Path().glob("*.html"))


def test_a_bundle_has_the_report_of_its_run(tercet: Tercet, kitchen: Kitchen) -> None:
    """The page of a bundle is the page of the run that it was made of, to the last byte; a damaged one has none."""
    session = baked(tercet, kitchen)
    page = tercet("report", session, "-o", "-").out
    tercet("export", session, "-o", "run.tercet", "--pack", BAKERY)
    Path("tercet.db").rename("gone.db")
    assert tercet("report", "run.tercet", "--json").json["session_id"] == session
    assert Path("run.html").read_text(encoding="utf-8") == page
    data = bytearray(Path("run.tercet").read_bytes())
    data[len(data) // 2] ^= 1
    Path("bad.tercet").write_bytes(data)
    answer = tercet("report", "bad.tercet", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (3, "bundle_damaged")
    assert not Path("bad.html").exists()


def test_a_changed_journal_has_no_report(tercet: Tercet, kitchen: Kitchen) -> None:
    """An event that was changed is named, and no page tells anything that the chain does not hold."""
    import sqlite3  # noqa: PLC0415 - the one test that goes behind the journal's back

    session = baked(tercet, kitchen)
    with sqlite3.connect("tercet.db") as db:
        db.execute("UPDATE events SET data = CAST(replace(CAST(data AS TEXT), 'rye', 'oat') AS BLOB)")
    db.close()
    answer = tercet("report", session, "--json")
    assert answer.code == 5
    assert answer.json["error"]["code"] == "journal_corrupt"
    assert not list(Path().glob("*.html"))


def test_a_secret_of_the_environment_is_in_no_report(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that somebody wrote into a request, a call and a note stands in the journal, and not in the report."""
    monkeypatch.setenv("MAIL_API_KEY", SECRET)
    send: dict[str, Any] = json.loads(json.dumps(SEND))
    send["params"]["text"] = SECRET
    session = office.run(READ | {"params": {"box": f"box {SECRET}"}}, send)
    assert not office.say("bruno", "gates", "deny", f"{session}.g1", "--note", f"never say {SECRET}").code
    shown = office.tercet("sessions", "show", session, "--json")
    assert SECRET in shown.out, "the secret was really planted"
    page = office.tercet("report", session, "-o", "-").out
    assert SECRET not in page
    assert "[redacted]" in page


def test_the_report_of_a_letter_that_somebody_approved(office: Office) -> None:
    """Everybody who answered is named with their roles, beside the digest that they answered to."""
    session = office.run(READ, SEND)
    gate = json.loads(office.tercet("gates", "show", f"{session}.g1", "--json").out)
    assert not office.say("bruno", "gates", "approve", f"{session}.g1", "--note", "looks right").code
    page = office.tercet("report", session, "-o", "-").out
    assert "clerk_2" in page
    assert "looks right" in page
    assert gate["digest"] in page


def test_the_refund_of_the_example_can_be_reported(tercet: Tercet, kitchen: Kitchen) -> None:
    """A plan that was refused before anything happened has a report as well."""
    plan = REFUNDS / "plans" / "plan_a.json"
    refused = tercet("run", REFUNDS, "--plan", plan, "--json")
    page = tercet("report", refused.json["session_id"], "-o", "-").out
    assert "No tool was called." in page
    assert "evidence_not_pinned" in page

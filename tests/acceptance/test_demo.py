"""The real `tercet demo`: what it says is compared with the databases that it leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from console.desk import read_forms
from tercet.core import codec
from tercet.core import events as e
from tercet.journal.opening import open_journal

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600
PAY = "adp_payments.issue_refund"


# --- the command, and what it leaves ---


@dataclass(frozen=True, kw_only=True)
class Left:
    """The files of a demo, read without its help."""

    folder: Path

    def refunds(self) -> list[tuple[str, str, int, str]]:
        """Key, payment, amount and status of every refund."""
        query = "SELECT idempotency_key, payment_id, amount_inr, status FROM refunds"
        with closing(sqlite3.connect(self.folder / "refunds.db")) as db:
            return db.execute(query).fetchall()

    def events(self, session: str) -> list[e.Event]:
        """What happened in a session."""
        return asyncio.run(self._events(session))

    async def _events(self, session: str) -> list[e.Event]:
        async with open_journal(f"sqlite:///{self.folder / 'tercet.db'}") as journal:
            return [codec.decode(stored.data) for stored in await journal.read("default", session)]

    def statuses(self) -> list[str]:
        """How the sessions stand, the first one first."""
        return asyncio.run(self._statuses())

    async def _statuses(self) -> list[str]:
        async with open_journal(f"sqlite:///{self.folder / 'tercet.db'}") as journal:
            return [row.status for row in reversed(await journal.sessions("default"))]


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """The real command, running."""
    return subprocess.Popen(
        [sys.executable, "-m", "tercet", "demo", "--dir", str(folder), *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip


def play(folder: Path, *words: str) -> tuple[int, str]:
    """The command from its beginning to its end: its exit code, and what it said."""
    running = start(folder, *words)
    out, err = running.communicate(timeout=PATIENCE_S)
    assert not err
    return running.returncode, out


def play_at_terminal(
    folder: Path, typed: str, *words: str, **more: str | Callable[[str], str]
) -> tuple[int, str]:
    """The same at a terminal, with something typed at its question, and at the later ones what `more` says; else `q`."""
    answers: dict[str, str | Callable[[str], str]] = {
        "q quits": typed, "q ends": "q\n", "closes the console": "\n", **more,
    }  # fmt: skip
    own, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "tercet", "demo", "--fast", "--dir", str(folder), *words],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "DISPLAY": "", "WAYLAND_DISPLAY": ""},
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while piece := _read(own):
        said += piece
        for question in [each for each in answers if each.encode() in said]:
            answer = answers.pop(question)
            os.write(own, (answer if isinstance(answer, str) else answer(said.decode())).encode())
    os.close(own)
    return running.wait(PATIENCE_S), said.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # on Linux, the end of a terminal whose other side has been closed
        return b""


# --- the story ---


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The facts of a demo that nobody disturbed."""
    code, out = play(tmp_path_factory.mktemp("told") / "demo", "--yes", "--json")
    assert code == 0, out
    return json.loads(out)


@pytest.mark.req("R151", "R255", "R262", "R323")
def test_a_killed_payment_is_made_once(told: dict[str, Any]) -> None:
    """A worker dies between the payment and its COMPLETE; another repeats the call under its key, and one refund is paid."""
    left = Left(folder=Path(told["folder"]))
    session = told["waiting"]["session_id"]
    events = left.events(session)
    intents = [event for event in events if isinstance(event, e.Intent) and event.tool == PAY]
    resumed = [event for event in events if isinstance(event, e.SessionResumed)]
    assert [event.in_flight for event in resumed] == [(), ("s1",)]
    assert len({event.owner.split(":")[1] for event in resumed}) == 2, "two processes"
    assert len(intents) == 2
    assert sum(isinstance(event, e.Complete) and event.step == "s1" for event in events) == 1
    assert left.refunds() == [(intents[0].key, "pay_8861", 24_500, "issued")]
    assert told["crashed"]["signal"] == signal.SIGKILL
    assert (told["crashed"]["intents"], told["crashed"]["completes"]) == (1, 0)
    assert told["recovered"]["keys"] == [intent.key for intent in intents]
    assert left.statuses() == ["failed", "completed"]


@pytest.mark.req("R324")
def test_what_it_says_is_in_the_databases(told: dict[str, Any]) -> None:
    """Verdict, gate, approval and record are those of the journal, and nothing was called for the plan that was refused."""
    left = Left(folder=Path(told["folder"]))
    refused = left.events(told["refused"]["session_id"])
    verdict = next(event.verdict for event in refused if isinstance(event, e.PlanReviewed))
    assert (verdict["code"], verdict["remedy"]) == (told["refused"]["code"], told["refused"]["remedy"])
    assert not any(isinstance(event, e.Intent) for event in refused)
    events = left.events(told["waiting"]["session_id"])
    gate = next(event for event in events if isinstance(event, e.GateOpened))
    answers = [event for event in events if isinstance(event, e.GateAnswered)]
    ended = next(event for event in events if isinstance(event, e.SessionEnded))
    assert told["waiting"]["digest"] == gate.digest
    assert {value["name"]: value["value"] for value in told["waiting"]["values"]} == gate.shown["params"]
    assert [(each.actor, each.answer, each.digest) for each in answers] == [
        ("user_finance_lead", "approve", gate.digest)
    ]
    assert told["own_attempt"]["code"] == "own_gate"
    assert told["recorded"]["hash"] == ended.record
    assert told["recorded"]["outputs"] == ended.outputs
    assert told["recorded"]["digest"] == gate.digest


def test_the_commands_at_its_end_work(told: dict[str, Any]) -> None:
    """Pasted as they are, they show the session, make a page of it, pay nothing again, and refuse the attacker's plan."""
    done = [subprocess.run(shlex.split(line), capture_output=True, check=False) for line in told["next"]]
    assert [each.returncode for each in done] == [0, 0, 0, 3]
    assert len(Left(folder=Path(told["folder"])).refunds()) == 1
    assert Path(told["folder"], "report.html").read_bytes().startswith(b"<!doctype html>")


def test_it_reads_well_without_a_terminal(tmp_path: Path) -> None:
    """In a pipe it asks nothing, pauses nowhere, uses no colour and shows no link even with `--console`; each scene is
    there, with the journal's own words."""
    code, out = play(tmp_path / "demo", "--console")
    assert code == 0
    assert "\x1b" not in out
    assert "/console/login" not in out
    scenes = [
        "refused by the critic: missing_evidence",
        "the file does not exist",
        "stopped at GATE_FINANCE_APPROVAL",
        "INR 24,500 to pay_8861",
        "refused: agt_support started this run",
        "approved by user_finance_lead",
        "is dead: signal 9",
        "1 INTENT, 0 COMPLETE",
        "paid once",
        "2 INTENT, 1 COMPLETE",
        "Try next",
    ]
    places = [out.find(scene) for scene in scenes]
    assert -1 not in places
    assert places == sorted(places)
    ended = Left(folder=tmp_path / "demo").events(_session(out))[-1]
    assert isinstance(ended, e.SessionEnded)
    assert ended.record in out


def _session(out: str) -> str:
    return out.partition("sessions show ")[2].split()[0]


# --- at a terminal ---


@pytest.mark.req("R139")
def test_a_denial_is_told_too(tmp_path: Path) -> None:
    """Whoever denies at the prompt gets a rejected session, no refund, and exit code 5."""
    code, said = play_at_terminal(tmp_path / "demo", "perhaps\nn\n")
    left = Left(folder=tmp_path / "demo")
    assert code == 5
    assert "denied by user_finance_lead" in said
    assert left.statuses() == ["failed", "rejected"]
    assert left.refunds() == []


def test_the_gate_can_be_left_open(tmp_path: Path) -> None:
    """Whoever quits at the prompt leaves a session that waits, and exit code 4."""
    code, said = play_at_terminal(tmp_path / "demo", "q\n")
    left = Left(folder=tmp_path / "demo")
    assert code == 4
    assert "tercet gates show" in said
    assert left.statuses() == ["failed", "awaiting_gate"]
    assert left.refunds() == []


# --- the console ---


def _log_in(client: httpx2.Client, said: str) -> httpx2.Response:
    """Follow the link that the demo shows."""
    link = re.findall(r"http://127\.0\.0\.1:\d+/console/login/link\?[^\s\x1b]+", said)[-1]
    page = client.get(link)
    form = read_forms(page.text)["/console/login/link"]
    return client.post(str(httpx2.URL(link).join(form.action)), data=form.fields, follow_redirects=True)


def _answer(said: str, answer: str) -> str:
    """Answer the gate in the console; nothing is typed at the terminal."""
    with httpx2.Client() as client:
        page = _log_in(client, said)
        action = f"{page.url.path}/answer"
        form = read_forms(page.text)[action]
        asked = client.post(
            str(page.url.join(action)), data={**form.fields, "answer": answer}, follow_redirects=True
        )
        if answer == "approve":
            form = read_forms(asked.text)[action]
            client.post(str(page.url.join(action)), data=form.fields, follow_redirects=True)
    return ""


@pytest.mark.parametrize(("answer", "code", "status"), [("approve", 0, "completed"), ("deny", 5, "rejected")])
def test_the_gate_is_answered_in_the_console(tmp_path: Path, answer: str, code: int, status: str) -> None:
    """With --console the demo opens at its gate, waits for the answer there, and goes on by itself."""

    def in_console(said: str) -> str:
        return _answer(said, answer)

    found, said = play_at_terminal(tmp_path / "demo", "", "--console", **{"goes on by itself": in_console})
    left = Left(folder=tmp_path / "demo")
    assert found == code, said
    assert left.statuses() == ["failed", status]
    assert len(left.refunds()) == (answer == "approve")
    assert ("is dead: signal 9" in said) == (answer == "approve")


def test_enter_approves_and_then_opens_the_console_on_the_run_that_was_made(tmp_path: Path) -> None:
    """Enter at the prompt is an approval, and Enter at the end opens the session's page."""
    pages: list[httpx2.Response] = []

    def look(said: str) -> str:
        with httpx2.Client() as client:
            pages.append(_log_in(client, said))
        return "\n"

    code, said = play_at_terminal(tmp_path / "demo", "\n", **{"q ends": "\n", "closes the console": look})
    assert code == 0, said
    assert "paid once" in said
    assert len(Left(folder=tmp_path / "demo").refunds()) == 1
    assert pages[0].url.path == f"/console/sessions/{_session(said)}"
    assert "completed" in pages[0].text


def test_with_yes_it_never_waits_and_opens_nothing(tmp_path: Path) -> None:
    """`--console` changes nothing there: the demo approves by itself, and shows no link."""
    code, said = play_at_terminal(tmp_path / "yes", "", "--console", "--yes", **{"q quits": "", "q ends": ""})
    assert (code, "console" in said.partition("Try next")[2]) == (0, False), said


# --- ends that nobody planned ---


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _children(pid: int) -> list[int]:
    told = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)  # noqa: S607
    pairs = [line.split() for line in told.stdout.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def _wait_for(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)
    return found


def _has_paid(folder: Path) -> bool:
    try:
        return bool(Left(folder=folder).refunds())
    except sqlite3.OperationalError:  # the tables are not there yet
        return False


@pytest.mark.parametrize("moment", ["its first worker starts", "a worker has paid"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_is_left_behind(tmp_path: Path, moment: str, number: signal.Signals) -> None:
    """However the demo is ended, and whenever, its workers end with it."""
    folder = tmp_path / "demo"
    running = start(folder, "--yes")
    if moment == "a worker has paid":
        _wait_for(lambda: (folder / "refunds.db").exists() and _has_paid(folder))
    workers = _wait_for(lambda: _children(running.pid))
    running.send_signal(number)
    running.communicate(timeout=PATIENCE_S)
    assert running.returncode == (130 if number == signal.SIGINT else -number)
    _wait_for(lambda: not any(_is_there(worker) for worker in workers))


# --- mistakes ---


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A folder with something in it is refused, and stays as it is."""
    (tmp_path / "letter").write_text("dear")
    code, out = play(tmp_path, "--json")
    assert code == 2
    assert json.loads(out)["error"]["code"] == "folder_not_empty"
    assert [each.name for each in tmp_path.iterdir()] == ["letter"]


def test_a_folder_that_cannot_be_made_is_a_typed_answer(tmp_path: Path) -> None:
    """Where nothing can be written, the answer says so."""
    (tmp_path / "letter").write_text("dear")
    code, out = play(tmp_path / "letter" / "demo", "--json")
    assert code == 2
    assert json.loads(out)["error"]["code"] == "unwritable"


def test_a_python_without_sqlite_is_a_typed_answer(tmp_path: Path) -> None:
    """Without SQLite there is no demo, and no traceback."""
    program = (
        "import sys; sys.modules['_sqlite3'] = None; sys.argv = ['tercet', 'demo', '--json'];"
        "from tercet.cli.main import run; run()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "sqlite_missing"


# --- installed ---


def test_the_pack_comes_with_the_package(tmp_path: Path) -> None:
    """Laid out as the wheel lays it out, the demo finds its pack without the repository."""
    site = tmp_path / "site"
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    junk = shutil.ignore_patterns("__pycache__", "*.db*")
    for package in wheel["packages"]:
        shutil.copytree(ROOT / package, site / Path(package).name, ignore=junk)
    for source, target in wheel["force-include"].items():
        shutil.copytree(ROOT / source, site / target, ignore=junk)
    program = "from tercet.cli.demo.folder import pack_home; from tercet import Pack; print(pack_home() if Pack.load(pack_home()).tools else '')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    assert Path(done.stdout.strip()) == (site / "tercet" / "examples" / "refunds").resolve()

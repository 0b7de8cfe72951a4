"""The real command in a process of its own: exit codes, streams, pipes that close."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from .harness import PLANS, REFUNDS

TERCET = (sys.executable, "-m", "tercet")


def run(
    *words: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command with an environment of our own choosing."""
    return subprocess.run(
        [*TERCET, *map(str, words)],
        capture_output=True, text=True, encoding="utf-8", timeout=600, check=False, cwd=cwd,
        env={**os.environ, "COLUMNS": "80", **(env or {})},
    )  # fmt: skip


PLAN_A = {
    "ok": False,
    "kind": "missing_evidence",
    "reasons": ["step 1 requires evidence class refund_window_evidence, none pinned"],
    "offending_step": 1,
}
PLAN_B = {"ok": True, "reasons": ["2 steps, 2 required outputs covered"]}


@pytest.mark.parametrize(
    ("plan", "code", "verify"),
    [
        pytest.param("plan_a.json", 3, PLAN_A, marks=pytest.mark.req("R91")),
        pytest.param("plan_b.json", 0, PLAN_B, marks=pytest.mark.req("R90", "R92")),
    ],
)
def test_the_worked_refunds(plan: str, code: int, verify: object, tmp_path: Path) -> None:
    """Both worked plans end as published, and reviewing them leaves no trace: no database, no refund."""
    done = run("verify", REFUNDS, PLANS / plan, "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (code, "")
    assert json.loads(done.stdout)["verify"] == verify
    assert not list(tmp_path.iterdir())


def test_plain_text_where_there_is_no_terminal() -> None:
    """Piped output holds no escape codes, and FORCE_COLOR brings them."""
    words = ("verify", REFUNDS, PLANS / "plan_a.json")
    assert "\x1b" not in run(*words).stdout
    assert "\x1b[" in run(*words, env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b[31" not in run(*words, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout


def test_an_ascii_terminal_is_served_too() -> None:
    """Where the encoding has no tree and no tick, letters take their place."""
    done = run("verify", REFUNDS, PLANS / "plan_a.json", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.isascii()
    assert "x refused: missing_evidence" in done.stdout


def test_json_is_utf8_whatever_the_terminal_is() -> None:
    """A program gets UTF-8, as JSON demands."""
    done = run("verify", REFUNDS, PLANS / "plan_a.json", "--json", env={"PYTHONIOENCODING": "ascii"})
    assert "—" in json.loads(done.stdout)["report"]["rationale"]


@pytest.mark.skipif(os.name != "posix", reason="closes a pipe by its descriptor")
@pytest.mark.parametrize("words", [(), ("--json",)], ids=["screen", "json"])
def test_a_reader_that_goes_away_changes_nothing(words: tuple[str, ...]) -> None:
    """With nobody reading, the command is silent and its exit code is still the verdict."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*TERCET, "verify", str(REFUNDS), str(PLANS / "plan_a.json"), *words],
            stdout=writer, stderr=subprocess.PIPE, timeout=600, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (3, b"")


@pytest.mark.skipif(os.name != "posix", reason="closes streams in a shell's manner")
@pytest.mark.parametrize(("redirection", "code"), [(">&-", 0), ("--json >&-", 0), ("- <&-", 2)])
def test_closed_streams_are_no_bug(redirection: str, code: int) -> None:
    """A command started without stdin, stdout or stderr still ends as it should."""
    plan = "" if redirection.startswith("- ") else shlex.quote(str(PLANS / "plan_b.json"))
    line = f"{shlex.join(TERCET)} verify {shlex.quote(str(REFUNDS))} {plan} {redirection}"
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == code
    assert "bug" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told() -> None:
    """An answer that cannot be written is not taken for a verdict."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*TERCET, "verify", str(REFUNDS), str(PLANS / "plan_a.json"), "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_bug_shows_its_traceback_on_request(tmp_path: Path) -> None:
    """TERCET_TRACEBACK=1 adds the traceback on stderr, and leaves stdout to the JSON."""
    done = run("verify", tmp_path, PLANS / "plan_a.json", "--json", env={"TERCET_TRACEBACK": "1"})
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "pack_invalid"

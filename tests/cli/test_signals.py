"""The real command, stopped in the middle of a call: it halts, says how to go on, and goes on with one effect."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .harness import Tercet
from .runs import BAKERY, LOOK, Kitchen, bake, end, until
from .studio import LETTERS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")


def resume(kitchen: Kitchen, session: str, pack: Path = BAKERY) -> subprocess.CompletedProcess[str]:
    """The session gone on with, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tercet", "sessions", "resume", session, "--pack", str(pack), "--json"],
        cwd=kitchen.folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.req("R158")
@pytest.mark.parametrize(
    ("number", "seconds", "calls"),
    [
        pytest.param(signal.SIGINT, 60, 2, id="SIGINT-call-left-behind"),
        pytest.param(signal.SIGTERM, 1, 1, id="SIGTERM-call-waited-for"),
    ],
)
def test_a_stopped_run_is_resumed_with_one_effect(
    kitchen: Kitchen, number: signal.Signals, seconds: float, calls: int
) -> None:
    """A call that ends within the grace is kept; one that does not is made again under its key: one loaf either way."""
    running = kitchen.start_baking(seconds)
    code, out, _ = end(running, number)
    session = out.split()[1]
    assert code == 4
    assert (
        "· stopping: waits up to 2.0 s for bake to end; Ctrl-C again ends at once, and the run can be resumed"
        in out
    )
    assert "· paused: the process was told to stop" in out
    assert f"tercet sessions resume {session} --pack {shlex.quote(str(BAKERY))}" in out
    done = resume(kitchen, session)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "completed")
    assert (kitchen.count("calls"), kitchen.count("loaves")) == (calls, 1)


def test_a_second_signal_ends_at_once(tercet: Tercet, kitchen: Kitchen) -> None:
    """The second Ctrl-C ends the process with 130 while the call is still under way; the session can be gone on with."""
    running = kitchen.start_baking(60)
    running.send_signal(signal.SIGINT)
    assert running.stdout is not None
    heard = iter(running.stdout)
    session = next(heard).split()[1]
    assert any("stopping" in line for line in heard)
    assert end(running, signal.SIGINT)[0] == 130
    shown = tercet("sessions", "show", session).out
    assert "▸ bake  bakery.bake  under way" in shown
    assert f"tercet sessions resume {session}" in shown


def test_a_tool_that_holds_the_process_is_named_while_it_is_waited_for(
    kitchen: Kitchen, tmp_path: Path
) -> None:
    """An async tool that blocks keeps the first Ctrl-C from being heard: that is said, and the second ends at once."""
    pack = shutil.copytree(LETTERS, tmp_path / "letters", ignore=shutil.ignore_patterns("__pycache__"))
    source = (pack / "tools.py").read_text()
    blocking = "    Path('begun').touch()\n    while not Path('go_on').exists():\n        time.sleep(0.02)\n"
    head, name, rest = source.partition("def proofread(")
    signature, doc, body = rest.partition('as JUnit XML."""\n')
    (pack / "tools.py").write_text(
        head.replace("from xml", "import time\nfrom pathlib import Path\nfrom xml", 1)
        + f"async {name}{signature}{doc}{blocking}{body}"
    )
    running = kitchen.start("run", pack, "--intent", "letter", "--input", '{"kind": "bad"}')
    until(running, (kitchen.folder / "begun").exists)
    running.send_signal(signal.SIGINT)
    assert running.stdout is not None
    heard = iter(running.stdout)
    session = next(heard).split()[1]
    told = next(line for line in heard if "stopping" in line)
    assert "· stopping: waits for a tool, which blocks this process; Ctrl-C again ends at once" in told
    assert end(running, signal.SIGINT)[0] == 130
    (kitchen.folder / "go_on").touch()
    done = resume(kitchen, session, pack)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (4, "awaiting_gate")
    assert [each["kind"] for each in json.loads(done.stdout)["gates"]] == ["output"]


def test_a_session_that_another_process_carries_is_left_alone(kitchen: Kitchen) -> None:
    """Resuming a session whose process is alive says so as soon as that is certain, and changes nothing."""
    running = kitchen.start_baking(60, "--json")
    rows = subprocess.run(
        [sys.executable, "-m", "tercet", "sessions", "list", "--json"],
        cwd=kitchen.folder, capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    (row,) = json.loads(rows.stdout)["sessions"]
    refused = resume(kitchen, row["session_id"])
    assert refused.returncode == 2
    assert json.loads(refused.stdout)["error"]["code"] == "session_running"
    code, out, _ = end(running, signal.SIGTERM)
    assert (code, json.loads(out)["standing"]) == (4, "paused")
    assert kitchen.count("calls") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_screen_that_cannot_be_written_stops_no_run(kitchen: Kitchen) -> None:
    """A run whose progress cannot be written is carried out all the same, and its exit code says what was wrong."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tercet", "run", str(BAKERY), "--plan", str(kitchen.plan(LOOK, bake(0)))],
            cwd=kitchen.folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert kitchen.count("loaves") == 1

"""`tercet serve` and `tercet console`: what stops them from starting, and what they print first."""

from __future__ import annotations

import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .harness import REFUNDS, Tercet


@pytest.mark.parametrize("command", ["serve", "console"])
def test_a_port_that_is_taken_is_wrong_use(
    command: str, tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the address and the option that helps, and no journal is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = tercet(command, REFUNDS, "--port", str(port), "--json")
    error = answer.json["error"]
    assert (answer.code, error["code"]) == (2, "cannot_listen")
    assert error["message"] == f"cannot listen on 127.0.0.1:{port}: Address already in use"
    assert "--port" in error["remedy"]
    assert list(tmp_path.iterdir()) == []


def test_an_address_of_another_machine_is_wrong_use(tercet: Tercet, tmp_path: Path) -> None:
    """An address that this machine does not have leads to --host, not to --port."""
    answer = tercet("serve", REFUNDS, "--host", "192.0.2.1", "--journal", str(tmp_path / "t.db"), "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "cannot_listen")
    assert answer.json["error"]["remedy"] == "choose an address of this machine with --host"


@contextmanager
def output_of(folder: Path, *words: str) -> Generator[list[str]]:
    """The lines that a server prints until it is ready; it is stopped by SIGTERM."""
    command = [sys.executable, "-m", "tercet", *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line.strip())
                if "Ctrl-C" in line:
                    break
            yield lines
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0


@pytest.mark.slow
@pytest.mark.parametrize("command", ["serve", "worker"])
def test_the_start_counts_the_sessions_whose_pack_version_is_not_served(
    command: str, tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unfinished sessions of the version before are named with the command that moves them; ended ones are not counted."""
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(tmp_path / "refunds.db"))
    folder, journal = tmp_path / "refunds", f"sqlite:///{tmp_path / 'runs.db'}"
    shutil.copytree(REFUNDS, folder)
    where = ("--journal", journal)
    told = ("--intent", "support.refund", "--input", '{"order_id": "ord_881", "window_id": "rw_881"}')
    sessions = [
        tercet("run", folder, *told, "--request-key", key, *where, "--json").json["session_id"]
        for key in "abc"
    ]
    assert tercet("cancel", sessions[2], *where).code == 0
    assert tercet("sessions", "resume", sessions[2], "--pack", folder, *where).code == 5
    port = ("--port", "0") if command == "serve" else ()
    with output_of(tmp_path, command, str(folder), *where, *port) as lines:
        assert not [line for line in lines if "pinned" in line]
    header = folder / "pack.toml"
    header.write_text(header.read_text().replace('version = "1.0.0"', 'version = "1.1.0"'))
    with output_of(tmp_path, command, str(folder), *where, *port) as lines:
        (at,) = [number for number, line in enumerate(lines) if "pinned to" in line]
        assert lines[at] == "! 2 sessions are pinned to refunds@1.0.0, which is not served here"
        assert lines[at + 2].startswith(f"tercet sessions migrate {sessions[1]} ")
        if command == "worker":
            moved = tercet(*shlex.split(lines[at + 2])[1:])
            assert moved.code == 4, moved.err


@pytest.mark.slow
def test_the_console_prints_its_login_link_first(tmp_path: Path) -> None:
    """The first address on the screen is the link that logs in, alone on its line; that of the service comes after it."""
    with output_of(tmp_path, "console", str(REFUNDS), "--no-open") as lines:
        addresses = [line for line in lines if "http://" in line]
        assert addresses[0].startswith("http://127.0.0.1:")
        assert "/console/login/link?token=" in addresses[0]
        assert addresses[1].startswith("✓ serving refunds@1.0.0 at http://127.0.0.1:")

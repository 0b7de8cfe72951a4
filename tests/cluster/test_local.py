"""`make cluster`: real commands on a real PostgreSQL and a real Temporal, started and stopped like a user does."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cluster import local
from cluster.local import KEYS, PORTS, REQUEST, ROOT, Local, mark_of

pytestmark = pytest.mark.slow


def tercet(*words: str, server: str = "", key: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command, against a service if there is one."""
    given = {"TERCET_SERVER": server, "TERCET_API_KEY": key} if server else {}
    return subprocess.run(
        [sys.executable, "-m", "tercet", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, **given},
    )  # fmt: skip


def make(command: str, folder: Path) -> str:
    """Do what `make cluster` or `make cluster-down` does; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "cluster.local", command, "--folder", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    """A folder for a cluster, with a path that has a space; what runs in it is stopped at the end."""
    place = tmp_path / "my cluster"
    yield place
    left = Local(place)
    left.load()
    left.stop()
    with suppress(FileNotFoundError):
        shutil.rmtree(
            (place / "postgres-folder").read_text(encoding="utf-8")
        )  # may be outside of the test's folder


def state_of(folder: Path) -> dict[str, Any]:
    """Return what a cluster keeps about itself."""
    return json.loads((folder / "cluster.json").read_text(encoding="utf-8"))


def test_a_cluster_is_started_used_killed_started_again_and_stopped(folder: Path) -> None:
    """A refund goes through it by commands, although the usual ports are taken and a part is killed; nothing is left."""
    (folder / "postgres").mkdir(parents=True)  # what a start that was cut short leaves
    (folder / "cluster.json").write_text("{", encoding="utf-8")
    taken: list[socket.socket] = []
    for port in PORTS.values():
        try:
            taken.append(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue  # taken as well
    try:
        printed = make("up", folder)
        told = state_of(folder)["told"]
        assert "login link" in printed
        keys = {name: told[name] for name in KEYS}
        assert told["ui"] in printed
        assert shlex.quote(told["journal"]) in printed  # zsh would look for files that match it
        asked = ("run", "refunds", "--intent", "support.refund", "--input", REQUEST, "--json")
        started = tercet(*asked, server=told["url"], key=told["agent"])
        assert started.returncode == 4, started.stderr
        session = json.loads(started.stdout)["session_id"]

        # Someone kills the service and a worker; another start finds what is left, and goes on with the data.
        before = state_of(folder)["processes"]
        for each in before[-2:]:
            os.kill(each["pid"], 9)
        make("up", folder)
        assert not any(mark_of(each["pid"]) == each["mark"] for each in before)
        told, processes = state_of(folder)["told"], state_of(folder)["processes"]
        url, lead = told["url"], told["lead"]
        assert {name: told[name] for name in KEYS} == keys  # they are valid still
        printed = make("up", folder)
        assert "already runs" in printed
        assert "login link" not in printed  # the link of the start has been used, or is too old
        assert lead in printed
        assert state_of(folder)["processes"] == processes

        drain = (
            "cluster",
            "drain",
            told["pack"],
            "--journal",
            told["journal"],
            "--temporal",
            told["temporal"],
        )
        left = tercet(*drain, "--json")
        assert left.returncode == 4, left.stderr
        counted = json.loads(left.stdout)
        assert (counted["journal"]["total"], counted["temporal"]["total"]) == (1, 1)
        approved = tercet("approve", f"{session}.g1", server=url, key=lead)
        assert approved.returncode == 0, approved.stderr
        watched = tercet("sessions", "watch", session, server=url, key=lead)
        assert watched.returncode == 0, watched.stdout
        drained = tercet(*drain, "--wait")
        assert drained.returncode == 0, drained.stderr
        assert "Nothing is left" in drained.stdout
        with urllib.request.urlopen(f"{told['ui']}/api/v1/namespaces/default/workflows") as answer:  # noqa: S310
            (shown,) = json.load(answer)["executions"]
        assert shown["execution"]["workflowId"] == f"default/{session}"
        assert {"TercetIntent", "TercetTenant", "TercetStatus", "TercetPack"} <= shown["searchAttributes"][
            "indexedFields"
        ].keys()
    finally:
        for each in taken:
            each.close()
    assert "service, worker-2, worker-1, temporal, postgres" in make("down", folder)
    assert not any(mark_of(each["pid"]) == each["mark"] for each in processes)
    assert "No cluster runs" in make("down", folder)


def test_an_interrupted_start_stops_what_it_has_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as started:

        def start(cluster: Local) -> None:
            cluster._note("postgres", started.pid)  # pyright: ignore[reportPrivateUsage]
            raise KeyboardInterrupt

        monkeypatch.setattr(Local, "_start", start)
        monkeypatch.setattr(sys, "argv", ["local", "up", "--folder", str(folder)])
        assert local.main() == 130
        assert started.wait() == -signal.SIGTERM
    assert "Interrupted" in capsys.readouterr().out


def test_a_process_that_has_the_id_of_an_ended_one_is_left_alone(folder: Path) -> None:
    """A file that was written before the machine was restarted names ids that other processes have now."""
    folder.mkdir()
    stale = local.Process(name="service", pid=os.getpid(), mark="Mon Jan  1 00:00:00 2024 tercet serve")
    (folder / "cluster.json").write_text(
        json.dumps({"processes": [vars(stale)], "told": {}}), encoding="utf-8"
    )
    found = Local(folder)
    found.load()
    assert not found.is_running
    assert found.stop() == []

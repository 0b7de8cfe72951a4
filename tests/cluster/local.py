"""A cluster on this machine to try things with: `make cluster` and `make cluster-down`.

    PYTHONPATH=tests python -m cluster.local up [--folder FOLDER]
    PYTHONPATH=tests python -m cluster.local down [--folder FOLDER]

PostgreSQL and Temporal come out of wheels; two workers and the service with its console are the real commands. They run on
in the background. The folder holds their logs, their data, which the next start finds again, and a file with their process
ids.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugins.postgres import PostgresServer, is_open_to_all, is_too_long, reopen_server, start_server
from plugins.temporal import TemporalServer, free_port

ROOT = Path(__file__).parents[2]
PACK = "examples/refunds"
PORTS = {"temporal": 7233, "ui": 8233, "service": 8700}
"""The ports that are used if they are free."""
WORKERS = ("worker-1", "worker-2")
START_S, STOP_S = 180, 60
KEYS = {"agent": ("agt_support",), "lead": ("user_finance_lead", "--role", "finance_lead")}
REQUEST = '{"order_id": "ord_881", "window_id": "rw_881"}'


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process of the cluster; `mark` tells it from a later one with the same id."""

    name: str
    pid: int
    mark: str

    @property
    def is_running(self) -> bool:
        """Whether it still runs, and is not another one with its id."""
        return bool(self.mark) and mark_of(self.pid) == self.mark

    def stop(self) -> None:
        """End it, politely at first."""
        for number, patience_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
            if not self.is_running:
                return
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
            ends = time.monotonic() + patience_s
            while self.is_running and time.monotonic() < ends:
                time.sleep(0.05)


def mark_of(pid: int) -> str:
    """Return when a process was started and what it is, or nothing if there is none or it has ended."""
    words = ["ps", "-p", str(pid), "-o", "state=,lstart=,command="]
    told = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
    )
    state, _, mark = told.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else mark.strip()


def choose_port(wanted: int) -> int:
    """Return a port if it is free, else any other."""
    with suppress(OSError), socket.create_server(("127.0.0.1", wanted)):
        return wanted
    return free_port()


class Local:
    """The cluster in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state = folder / "cluster.json"
        self._processes: list[Process] = []
        self._told: dict[str, Any] = {}
        self._login_link = ""
        """Only known to the process that started the service: it works once, soon after."""

    # --- what is known of it ---

    def load(self) -> None:
        """Read what was written at the last start; a damaged file counts as none."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            read = json.loads(self._state.read_text(encoding="utf-8"))
            self._processes = [Process(**each) for each in read["processes"]]
            self._told = read["told"]

    def _save(self) -> None:
        processes = [vars(each) for each in self._processes]
        self._state.touch(mode=0o600)  # it holds keys
        self._state.write_text(json.dumps({"processes": processes, "told": self._told}), encoding="utf-8")

    @property
    def is_running(self) -> bool:
        """Whether every part runs."""
        return bool(self._processes) and all(each.is_running for each in self._processes)

    # --- start and stop ---

    def up(self) -> None:
        """Start everything, and tell how to use it; what already runs is left as it is."""
        self.load()
        if self.is_running:
            say("The cluster already runs.")
        else:
            self.stop()  # what is left of a cluster that was killed
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                self._start()
            except BaseException:
                self.stop()
                raise
        self._tell()

    def _start(self) -> None:
        say("Starting PostgreSQL, Temporal, two workers and the service; this takes a while.")
        postgres = self._start_postgres()
        temporal = TemporalServer(
            folder=self.folder, port=choose_port(PORTS["temporal"]), ui_port=choose_port(PORTS["ui"])
        )
        temporal.start()
        assert temporal.process is not None
        self._note("temporal", temporal.process.pid)
        common = [PACK, "--temporal", temporal.address, "--journal", postgres.url, "--json"]
        started = {name: self._launch(name, "worker", *common) for name in WORKERS}
        port = choose_port(PORTS["service"])
        started["service"] = self._launch("service", "serve", *common, "--port", str(port))
        told = {name: self._wait(name, process) for name, process in started.items()}["service"]
        self._login_link = told["login_link"]
        self._told = {
            "url": told["url"], "temporal": temporal.address, "ui": f"http://127.0.0.1:{temporal.ui_port}",
            "journal": postgres.url, "pack": told["packs"][0], **self._keys(postgres.url),
        }  # fmt: skip
        self._save()

    def _start_postgres(self) -> PostgresServer:
        place = self.folder / "postgres-folder"
        folder = Path(place.read_text(encoding="utf-8")) if place.exists() else self.folder / "postgres"
        if (folder / "data" / "PG_VERSION").exists():
            server = reopen_server(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            TemporalServer(folder=self.folder).remove_data()  # its sessions are not in a new journal
            # As root the server runs as another user, who must reach its data; and a socket's path is short.
            if is_too_long(folder / "data") or (os.geteuid() == 0 and not is_open_to_all(self.folder)):
                folder = Path(tempfile.mkdtemp(prefix="tercet-cluster-"))
            place.write_text(str(folder), encoding="utf-8")
            server = start_server(folder, is_synced=True)
        self._note("postgres", server.pid)
        return server

    def _launch(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        log = self._log(name)
        log.unlink(missing_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tercet", *words], cwd=ROOT, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, "TERCET_REFUNDS_DB": str(self.folder / "refunds.db")},
            )  # fmt: skip
        self._note(name, process.pid)
        return process

    def _wait(self, name: str, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """Return what a process printed once it works."""
        ends = time.monotonic() + START_S
        while time.monotonic() < ends:
            for line in self._log(name).read_text(errors="replace").splitlines():
                with suppress(ValueError):
                    if "packs" in (told := json.loads(line)):
                        return told
            if process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit(f"{name} does not start: {self._log(name).read_text(errors='replace')[-2000:]}")

    def _keys(self, journal: str) -> dict[str, str]:
        """Return the API keys of the agent and of the finance lead: those of an earlier start while they are valid."""
        place, kept = self.folder / "keys.json", dict[str, Any]()
        with suppress(OSError, ValueError):
            kept = json.loads(place.read_text(encoding="utf-8"))
        listed = self._tercet("api-keys", "list", "--journal", journal)["keys"]
        valid = {each["id"] for each in listed if each["status"] == "valid"}
        for name, words in KEYS.items():
            if kept.get(name, {}).get("id") not in valid:
                kept[name] = self._tercet("api-keys", "create", *words, "--journal", journal)
        place.touch(mode=0o600)
        place.write_text(json.dumps(kept), encoding="utf-8")
        return {name: kept[name]["api_key"] for name in KEYS}

    def _tercet(self, *words: str) -> Any:
        command = [sys.executable, "-m", "tercet", *words, "--json"]
        return json.loads(
            subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        )

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _note(self, name: str, pid: int) -> None:
        self._processes.append(Process(name=name, pid=pid, mark=mark_of(pid)))
        self._save()  # at once: whatever happens next, it can be stopped

    def stop(self) -> list[str]:
        """Stop what runs, the newest first; return the names."""
        running = [each for each in reversed(self._processes) if each.is_running]
        for each in running:
            each.stop()
        self._processes = []
        self._state.unlink(missing_ok=True)
        return [each.name for each in running]

    def down(self) -> None:
        """Stop everything, and keep the data."""
        self.load()
        stopped = self.stop()
        say(f"Stopped: {', '.join(stopped)}." if stopped else "No cluster runs.")
        if self.folder.exists():
            say(f"Its data is kept in {self.folder}: make cluster goes on with it.")

    def _tell(self) -> None:
        told, tercet = self._told, shlex.quote(str(Path(sys.executable).parent / "python")) + " -m tercet"
        agent, lead = (
            f"TERCET_SERVER={told['url']} TERCET_API_KEY={told[who]} {tercet}" for who in ("agent", "lead")
        )
        link = (
            f"  login link     {self._login_link} (once, within five minutes)\n" if self._login_link else ""
        )
        say(f"""
The cluster runs, with two workers of {PACK}.

  console        {told["url"]}/console
{link}  log in as      the finance lead, with the API key {told["lead"]}
  Temporal UI    {told["ui"]} (filter or add columns by TercetStatus, TercetIntent, TercetTenant, TercetPack)
  Temporal       {told["temporal"]}
  journal        {told["journal"]}
  logs           {self.folder}

Start a refund as the agent; it waits at a gate. The order can be refunded once; to begin anew, stop the cluster and remove {self.folder}.

  {agent} run refunds --intent support.refund --input '{REQUEST}'

See what waits, and approve it as the finance lead:

  {lead} gates list
  {lead} approve GATE

Count the sessions left on a pack version, and stop the cluster:

  {tercet} cluster drain {told["pack"]} --journal {shlex.quote(told["journal"])} --temporal {told["temporal"]}
  make cluster-down""")


def say(text: str) -> None:
    """Print a line."""
    print(text, flush=True)  # noqa: T201 - a command


def main() -> int:
    """Start or stop the cluster."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=("up", "down"))
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "cluster")
    given = parser.parse_args()
    local = Local(given.folder.resolve())
    try:
        local.up() if given.command == "up" else local.down()
    except KeyboardInterrupt:
        say("Interrupted: make cluster-down stops what still runs.")
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())

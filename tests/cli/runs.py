"""Runs for tests of the command line: the bakery, its plans and its database, and the refund desk."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from tercet.core.messages import inbox_of

from .harness import REFUNDS

BAKERY = Path(__file__).parent / "bakery"
REFUND = ("run", REFUNDS, "--intent", "support.refund", "--input")
PATIENCE_S = 600
"""Only what hangs takes that long: a busy machine is slow."""
ORDER_881 = '{"order_id": "ord_881", "window_id": "rw_881"}'

LOOK = {"id": "look", "tool": "bakery.look", "params": {"bread": "rye"}}
ORDER = {"id": "order", "tool": "bakery.order", "params": {"flour": "spelt"}, "depends_on": ["look"]}


def bake(seconds: float) -> dict[str, Any]:
    """A step whose first attempt takes so long."""
    return {
        "id": "bake",
        "tool": "bakery.bake",
        "params": {"bread": "rye", "seconds": seconds},
        "depends_on": ["look"],
    }


def knead(fails: int) -> dict[str, Any]:
    """A step that is not done so often before it is."""
    return {"id": "knead", "tool": "bakery.knead", "params": {"fails": fails}, "depends_on": ["look"]}


@dataclass(frozen=True)
class Kitchen:
    """A working folder with a journal, a bakery's database and room for plans."""

    folder: Path

    def plan(self, *steps: dict[str, Any]) -> Path:
        """A plan of these steps in a file."""
        path = self.folder / "plan.json"
        path.write_text(json.dumps({"intent": "bake", "steps": list(steps)}))
        return path

    def count(self, table: str) -> int:
        """How many rows a table of the bakery has: calls, or loaves."""
        with closing(sqlite3.connect(self.folder / "bakery.db")) as db:
            known = db.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
            return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] if known else 0  # noqa: S608

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """The real command, running."""
        return subprocess.Popen(
            [sys.executable, "-m", "tercet", *map(str, words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", cwd=self.folder,
            env={**os.environ, "COLUMNS": "100"},
        )  # fmt: skip

    def start_baking(self, seconds: float, *words: str) -> subprocess.Popen[str]:
        """A run that is in the middle of a slow call, with another call to come."""
        last = {**LOOK, "id": "last", "depends_on": ["bake"]}
        running = self.start("run", BAKERY, "--plan", self.plan(LOOK, bake(seconds), last), *words)
        until(running, lambda: self.count("loaves") > 0)
        return running

    def open_oven(self) -> None:
        """Let the slow call end."""
        (self.folder / "oven_is_open").touch()

    @contextmanager
    def opening_oven_when_told(self, session: str) -> Generator[None]:
        """Let the slow call end when somebody has said something to the session, with a second to hear it."""

        def open_when_told() -> None:
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline and not self._is_told(session):
                time.sleep(0.02)
            time.sleep(1)
            self.open_oven()

        waiting = Thread(target=open_when_told)
        waiting.start()
        yield
        waiting.join()

    def _is_told(self, session: str) -> bool:
        with closing(sqlite3.connect(self.folder / "tercet.db")) as db:
            inbox = db.execute("SELECT 1 FROM streams WHERE stream = ?", (inbox_of(session),))
            return inbox.fetchone() is not None


def until(running: subprocess.Popen[str], has_begun: Callable[[], bool]) -> None:
    """Wait until a call of a command has begun."""
    deadline = time.monotonic() + PATIENCE_S
    while not has_begun():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline, "the call did not begin"
        time.sleep(0.02)


def end(running: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    """Send a signal to a command; its exit code and what it said."""
    running.send_signal(number)
    out, err = running.communicate(timeout=PATIENCE_S)
    return running.returncode, out, err

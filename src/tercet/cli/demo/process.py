"""Starting, awaiting and killing the processes of the demo: its workers, and its console."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

import tercet
from tercet.cli.demo.folder import Folder
from tercet.contracts.errors import InternalError, UsageError

FROZEN = "frozen"
"""The line that a worker prints when it has stopped at its crash point."""


class Worker:
    """A worker process, or another module of the demo, as a context manager that ends it.

    It runs in its own process group, so that Ctrl-C reaches only the demo. If the demo is killed, the worker's stdin
    closes, and the worker ends itself.
    """

    def __init__(self, folder: Folder, *words: str, module: str = "worker") -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", f"tercet.cli.demo.{module}", str(folder.root), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=_environment(folder),
            start_new_session=True,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                stream.close()

    def kill(self) -> int:
        """Kill it as `kill -9` does; return the number of the signal that ended it, 0 if it had ended before."""
        self._process.kill()
        return max(0, -self._process.wait())

    def wait_until_frozen(self) -> None:
        """Wait until it has stopped at its crash point; raise its error if it failed before."""
        line = self._read_line()
        if line.strip() != FROZEN:
            raise self._failure(line)

    def wait_for_link(self) -> str:
        """Return the address that a console prints once it can be reached; raise its error if it failed before."""
        line = self._read_line()
        if not line.startswith("http://"):
            raise self._failure(line)
        return line.strip()

    def wait(self) -> None:
        """Wait until it ends; raise its error if it failed."""
        line = self._read_line()
        if self._process.wait():
            raise self._failure(line)

    def _read_line(self) -> str:
        """Return the next line that it prints; empty at its end."""
        stream = self._process.stdout
        return stream.readline().decode(errors="replace") if stream is not None else ""

    def _failure(self, line: str) -> Exception:
        code = self._process.wait()
        if line.startswith("{"):
            facts = json.loads(line)
            return UsageError(facts["message"], code=facts["code"], remedy=facts["remedy"])
        self._stderr.seek(0)
        last = self._stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
        return InternalError(f"a worker of the demo ended with {code}: {last or 'it printed nothing'}")


def say(word: str) -> None:
    """Print a line for the process that started this one."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """End this process when stdin closes."""
    while os.read(0, 1):  # not sys.stdin, whose lock would block the exit
        pass
    os._exit(1)


def _environment(folder: Folder) -> dict[str, str]:
    """Return this process's environment, with the same Tercet and the demo's own payment database."""
    sources = str(Path(tercet.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (sources, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "TERCET_REFUNDS_DB": str(folder.payments)}

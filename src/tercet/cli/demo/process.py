"""The worker processes of the demo, as the process that starts them sees them."""

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
"""What a worker says when it stands still at its crash point."""


class Worker:
    """A worker process; leaving it, in whatever way, ends it.

    It has a session of its own, so that Ctrl-C reaches only the demo; should the demo be killed, the worker's stdin
    closes and it ends by itself.
    """

    def __init__(self, folder: Folder, *words: str) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", "tercet.cli.demo.worker", str(folder.root), *words],
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
        """`kill -9`: the number of the signal that ended it, 0 if it had ended by itself."""
        self._process.kill()
        return max(0, -self._process.wait())

    def wait_until_frozen(self) -> None:
        """Wait until it stands still at its crash point; raises what kept it from getting there."""
        line = self._read_line()
        if line.strip() != FROZEN:
            raise self._failure(line)

    def wait(self) -> None:
        """Wait until it has done what it can; raises what kept it from it."""
        line = self._read_line()
        if self._process.wait():
            raise self._failure(line)

    def _read_line(self) -> str:
        """The next line that it says; empty at its end."""
        stream = self._process.stdout
        return stream.readline().decode(errors="replace") if stream is not None else ""

    def _failure(self, line: str) -> Exception:
        code = self._process.wait()
        if line.startswith("{"):
            facts = json.loads(line)
            return UsageError(facts["message"], code=facts["code"], remedy=facts["remedy"])
        self._stderr.seek(0)
        last = self._stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
        return InternalError(f"a worker of the demo ended with {code}: {last or 'it line nothing'}")


def _environment(folder: Folder) -> dict[str, str]:
    """This process's environment, with the same Tercet and the demo's own payment database."""
    sources = str(Path(tercet.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (sources, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "TERCET_REFUNDS_DB": str(folder.payments)}

"""A worker of the demo: a process that starts or resumes one session, and goes as far as it can.

    python -m tercet.cli.demo.worker FOLDER start PLAN
    python -m tercet.cli.demo.worker FOLDER resume SESSION [freeze]

With `freeze` it stands still at the crash point between a tool's answer and its COMPLETE, says so, and waits to be
killed. It lives no longer than the process that started it: when its stdin closes, it ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import tercet
from tercet.cli.demo.folder import OWNER, Folder
from tercet.contracts.errors import InternalError, TercetError, UsageError
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.request import Request
from tercet.packs import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.testing.crash_points import Point

FROZEN = "frozen"
"""What a worker says when it stands still at its crash point."""


class Worker:
    """A worker process; leaving it, in whatever way, ends it.

    It has a session of its own, so that Ctrl-C reaches only the demo; should the demo be killed, the worker's stdin
    closes and it ends by itself.
    """

    def __init__(self, folder: Folder, *words: str) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", "tercet.cli.demo.worker", str(folder.root), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env=_environment(folder),
            start_new_session=True,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                stream.close()

    def kill(self) -> int:
        """`kill -9`: the number of the signal that ended it, 0 if it had ended by itself."""
        self._process.kill()
        return max(0, -self._process.wait())

    def wait_until_frozen(self) -> None:
        """Wait until it stands still at its crash point; raises what kept it from getting there."""
        said = self._hear()
        if said.strip() != FROZEN:
            raise self._failure(said)

    def wait(self) -> None:
        """Wait until it has done what it can; raises what kept it from it."""
        said = self._hear()
        if self._process.wait():
            raise self._failure(said)

    def _hear(self) -> str:
        """The next line that it says; empty at its end."""
        stream = self._process.stdout
        return stream.readline().decode(errors="replace") if stream is not None else ""

    def _failure(self, said: str) -> Exception:
        code = self._process.wait()
        if said.startswith("{"):
            told = json.loads(said)
            return UsageError(told["message"], code=told["code"], remedy=told["remedy"])
        self._complaints.seek(0)
        last = self._complaints.read().decode(errors="replace").strip().rpartition("\n")[2]
        return InternalError(f"a worker of the demo ended with {code}: {last or 'it said nothing'}")


def _environment(folder: Folder) -> dict[str, str]:
    """This process's environment, with the same Tercet and the demo's own payment database."""
    sources = str(Path(tercet.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (sources, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "TERCET_REFUNDS_DB": str(folder.payments)}


LEASE_MS = 3_000
"""Short, so that the process that takes over from a dead worker need not wait long; long enough for a machine that is busy."""
_POINT: Point = "after_answer"


async def work(folder: Folder, what: str, which: str, *, freezes: bool) -> None:
    """Carry one session as far as it goes."""
    pack = Pack.load(folder.pack)
    options = RuntimeOptions(lease_ms=LEASE_MS, crash=freeze if freezes else pass_by)
    async with Runtime(pack, folder.journal_url, options=options) as runtime:
        if what == "resume":
            await runtime.resume(which)
            return
        plan = load_plan(folder.plan(which).read_bytes())
        request = Request(intent="support.refund", input={"order_id": "ord_881"})
        await runtime.run(request, plan=plan, actor=OWNER)


def freeze(point: str) -> None:
    """Stand still if this is the point: the money has moved, and the journal does not know."""
    if point == _POINT:
        say(FROZEN)
        threading.Event().wait()


def pass_by(_point: str) -> None:
    """Go on."""


def say(word: str) -> None:
    """Report to the process that started this one."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """Wait until stdin closes, and end."""
    while os.read(0, 1):  # not through sys.stdin, whose lock would be in the way at the end
        pass
    os._exit(1)


def main(words: Sequence[str]) -> int:
    """Do what the words say."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    root, what, which, *more = words
    try:
        asyncio.run(work(Folder(root=Path(root)), what, which, freezes="freeze" in more))
    except TercetError as error:
        say(json.dumps(described(error)))
        return 1
    return 0


def described(error: TercetError) -> dict[str, Any]:
    """An error for another process."""
    return {"code": error.code, "message": error.message, "remedy": error.remedy}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

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
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tercet.cli.demo.folder import OWNER, Folder
from tercet.cli.demo.process import FROZEN
from tercet.contracts.errors import TercetError
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.request import Request
from tercet.packs import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.testing.crash_points import Point

LEASE_MS = 3_000
"""Short, so that the process that takes over from a dead worker need not wait long; long enough for a machine that is busy."""
_POINT: Point = "after_answer"


async def work(folder: Folder, what: str, which: str, *, is_freezing: bool) -> None:
    """Carry one session as far as it goes."""
    pack = Pack.load(folder.pack)
    options = RuntimeOptions(lease_ms=LEASE_MS, crash=freeze if is_freezing else ignore)
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


def ignore(_point: str) -> None:
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
        asyncio.run(work(Folder(root=Path(root)), what, which, is_freezing="freeze" in more))
    except TercetError as error:
        say(json.dumps(error_json(error)))
        return 1
    return 0


def error_json(error: TercetError) -> dict[str, Any]:
    """An error for another process."""
    return {"code": error.code, "message": error.message, "remedy": error.remedy}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

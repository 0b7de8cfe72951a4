"""A worker process of the demo: starts or resumes one session, and runs it until it is over or waits.

    python -m tercet.cli.demo.worker FOLDER start PLAN
    python -m tercet.cli.demo.worker FOLDER resume SESSION [freeze]

With `freeze` it stops at the crash point between a tool's answer and its COMPLETE, prints `frozen`, and waits to be
killed. When its stdin closes, because the process that started it is gone, it ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tercet.cli.demo.folder import OWNER, Folder
from tercet.cli.demo.process import FROZEN, end_with_parent, say
from tercet.contracts.errors import TercetError
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.request import Request
from tercet.packs import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.testing.crash_points import Point

LEASE_MS = 3_000
"""Short, since the next worker waits for it after a crash; long enough for a busy machine."""
_POINT: Point = "after_answer"


async def work(folder: Folder, what: str, which: str, *, is_freezing: bool) -> None:
    """Run one session until it is over or waits."""
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
    """Block at the crash point: the money has moved, and the journal has not recorded it."""
    if point == _POINT:
        say(FROZEN)
        threading.Event().wait()


def ignore(_point: str) -> None:
    """Do nothing at a crash point."""


def main(words: Sequence[str]) -> int:
    """Run the worker with these arguments and return its exit code."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    root, what, which, *more = words
    try:
        asyncio.run(work(Folder(root=Path(root)), what, which, is_freezing="freeze" in more))
    except TercetError as error:
        say(json.dumps({"code": error.code, "message": error.message, "remedy": error.remedy}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

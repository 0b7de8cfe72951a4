"""Services that die at the n-th crash point that they come to, each in a process of its own that listens on a socket.

`python -m service.killed` imports everything once, then forks a service for each line of standard input, and prints where
it listens, and how it ended. A crash point is before and after every commit of the journal, and wherever the driver has one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from itertools import count
from typing import Any, cast

from tercet.contracts.request import Actor
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, Position
from tercet.packs.pack import Pack
from tercet.runtime import RuntimeOptions
from tercet.service.oidc import OidcSettings
from tercet.service.server import ServeSettings, listen, open_service, serve_until_stopped


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def serve(pack: str, folder: str, last: int, quorum: int, oidc: dict[str, Any] | None) -> None:
    """Serve a pack until the crash; its journal and its shop are in a folder."""
    os.environ["TERCET_REFUNDS_DB"] = f"{folder}/refunds.db"
    numbers = count(1)

    def crash(_: str) -> None:
        if next(numbers) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    async with open_journal(f"sqlite:///{folder}/runs.db") as journal:
        store = journal.append

        async def append(unit: Append) -> Position:
            crash("before_commit")
            position = await store(unit)
            crash("after_commit")
            return position

        cast("Any", journal).append = append
        options = RuntimeOptions(crash=crash, lease_ms=1_000)
        settings = ServeSettings(local=Actor(id="olga"), oidc=OidcSettings(**oidc) if oidc else None)
        loaded = Pack.load(pack)
        if quorum > 1:
            gates = [each.model_copy(update={"quorum": quorum}) for each in loaded.gates]
            loaded = loaded.model_copy(update={"gates": tuple(gates), "actors": ()})
        async with open_service((loaded,), journal, settings, options=options) as running:
            with listen("127.0.0.1", 0) as bound:
                told = json.dumps({"pid": os.getpid(), "port": bound.getsockname()[1]})
                await serve_until_stopped(running, bound, lambda: say(told))


def main() -> None:
    """Fork a service for each line, one after the other."""
    for line in sys.stdin:
        words: dict[str, Any] = json.loads(line)
        if (child := os.fork()) == 0:
            asyncio.run(serve(**words))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        say(json.dumps({"ended": os.waitstatus_to_exitcode(status)}))


if __name__ == "__main__":
    main()

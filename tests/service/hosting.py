"""A service on a socket, in a thread of this process: for clients that block, such as commands."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Queue
from typing import Any

import uvicorn

from tercet.contracts.request import Actor
from tercet.engine.streams.credentials import ApiKeys, NewKey
from tercet.executor.clock import SystemClock
from tercet.journal.opening import open_journal
from tercet.packs.pack import Pack
from tercet.service.server import Running, ServeSettings, listen, open_service


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """A service that answers at a URL."""

    url: str
    journal: str
    local_key: str

    def key(self, actor: str, **more: Any) -> str:
        """Make an API key, through a connection of its own."""

        async def make() -> str:
            async with open_journal(self.journal) as journal:
                wanted = NewKey(tenant=more.pop("tenant", "default"), actor=actor, by="test", **more)
                return (await ApiKeys(journal).create(wanted, SystemClock().now()))[1]

        return asyncio.run(make())


@contextmanager
def hosting(journal: str, *packs: Pack, **settings: Any) -> Generator[Hosted]:
    """A service with these packs; it is stopped at the end."""
    told: Queue[Hosted | BaseException] = Queue()
    servers: list[uvicorn.Server] = []

    async def main() -> None:
        async with open_journal(journal) as opened:
            asked = ServeSettings(local=Actor(id="olga", os_user="olga"), **settings)
            async with open_service(packs, opened, asked) as running:
                await _serve(running)

    async def _serve(running: Running) -> None:
        bound = listen("127.0.0.1", 0)
        config = uvicorn.Config(running.app, log_config=None, access_log=False, lifespan="off")
        servers.append(uvicorn.Server(config))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        told.put(Hosted(url=url, journal=journal, local_key=running.local_key))
        await servers[0].serve([bound])
        running.http.is_closing.set()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - the test says what happened
            told.put(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        hosted = told.get(timeout=60)
        if isinstance(hosted, BaseException):
            raise hosted
        yield hosted
    finally:
        for server in servers:
            server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()

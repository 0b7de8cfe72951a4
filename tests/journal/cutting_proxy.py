"""A proxy in front of a PostgreSQL server, on loopback, that cuts connections at chosen bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit


@dataclass
class CuttingProxy:
    """Passes bytes on in both directions; each budget is how many more bytes of the next connections may pass."""

    socket: str
    """The server's Unix socket."""
    url: str = ""
    answers: list[int] = field(default_factory=list[int])
    """One for each of the next connections: after so many bytes from the server it is cut."""
    hold_answers: bool = False
    """Whether to pass on what clients send, and to cut the connection instead of passing the next answer on."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        budget = self.answers.pop(0) if self.answers else None
        behind_reader, behind_writer = await asyncio.open_unix_connection(self.socket)
        asking = asyncio.ensure_future(self._ask(reader, behind_writer))
        try:
            while data := await behind_reader.read(65_536):
                if self.hold_answers:
                    self.hold_answers = False
                    break
                if budget is not None:
                    data, budget = data[:budget], budget - len(data)
                writer.write(data)
                await writer.drain()
                if budget is not None and budget <= 0:
                    break
        finally:
            asking.cancel()
            for each in (writer, behind_writer):
                each.close()

    async def _ask(self, reader: asyncio.StreamReader, behind: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                behind.write(data)
                await behind.drain()


@asynccontextmanager
async def cutting_proxy(url: str) -> AsyncGenerator[CuttingProxy]:
    """A proxy in front of the server of this address, which names a Unix socket."""
    parts = urlsplit(url)
    folder = parse_qs(parts.query)["host"][0]
    proxy = CuttingProxy(f"{folder}/.s.PGSQL.5432")
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxy.url = f"postgresql://postgres@127.0.0.1:{port}{parts.path}"
    async with server:
        yield proxy

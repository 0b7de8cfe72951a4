"""Clients that are slow, silent, half gone or too talkative, on real sockets: each is cut off, and others are served."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from service.desk import REFUND, Desk, open_desk
from tercet.service import connection
from tercet.service.boundary import HEADERS, Limits
from tercet.service.connection import Connection
from tercet.service.server import listen, serve_until_stopped

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let connections wait for tenths of seconds, so that the tests need not."""
    monkeypatch.setattr(Connection, "request_s", 0.3)
    monkeypatch.setattr(Connection, "read_s", 0.5)


@asynccontextmanager
async def serving(**limits: Any) -> AsyncGenerator[tuple[Desk, int]]:
    """A service that listens on a port of this machine."""
    async with open_desk(limits=Limits(**limits)) as desk, asyncio.timeout(300):
        ready = asyncio.Event()
        with listen("127.0.0.1", 0) as bound:
            server = asyncio.create_task(serve_until_stopped(desk.running, bound, ready.set))
            await ready.wait()
            try:
                yield desk, bound.getsockname()[1]
            finally:
                server.cancel()
                await asyncio.gather(server, return_exceptions=True)


async def answer_to(port: int, data: bytes) -> bytes:
    """Send bytes, and return all that comes back until the service closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def is_healthy(port: int) -> bool:
    """Whether the service still answers."""
    answer = await answer_to(port, b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
    return answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nhost: 127", b"POST /rpc HTTP/1.1\r\n"])
async def test_headers_that_do_not_come_are_not_waited_for(sent: bytes) -> None:
    """A connection without a whole request is closed, however many there are."""
    async with serving() as (_, port):
        silent = [asyncio.create_task(answer_to(port, sent)) for _ in range(50)]
        assert await is_healthy(port)
        assert await asyncio.gather(*silent) == [b""] * 50


async def test_silent_connections_make_room_and_a_request_under_way_does_not(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where files are short, the next connection takes the place of one that has asked for nothing."""
    monkeypatch.setattr(Connection, "request_s", 60)
    monkeypatch.setattr(connection, "most_connections", lambda: 5)
    async with serving() as (desk, port):
        key = await desk.key("agt_support")
        session = (await desk.rpc(key, "invokeAgent", request=REFUND))["session"]["session_id"]
        asked = f"GET /v1/sessions/{session}/progress HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(asked.encode())
        await reader.readuntil(b"event: progress")
        silent = {asyncio.create_task(answer_to(port, b"")) for _ in range(20)}
        while len(silent) > 4:
            _, silent = await asyncio.wait(silent, return_when=asyncio.FIRST_COMPLETED)
        assert await is_healthy(port)
        await desk.rpc(key, "cancelSession", session_id=session)
        assert b"event: progress" in await reader.readuntil(b"0\r\n\r\n")
        writer.close()


async def test_headers_byte_by_byte_are_not_waited_for() -> None:
    """Sending something now and then does not keep a connection open."""
    async with serving() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /")
        ended = asyncio.create_task(reader.read())
        while not ended.done():
            writer.write(b"x")
            await asyncio.wait((ended,), timeout=0.05)
        assert isinstance(ended.exception(), ConnectionResetError) or ended.result() == b""
        writer.close()


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    """A full buffer is left unread for a while, then the connection ends and the request with it."""
    async with serving() as (_, port):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
            many = b"GET /openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 100_000
            with pytest.raises(ConnectionError):  # pipelined, and never read
                await asyncio.get_running_loop().sock_sendall(client, many)
        assert await is_healthy(port)


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_hundred_megabytes_are_refused_and_not_kept(is_chunked: bool) -> None:
    """The body is refused at its limit; what still comes is thrown away, and the connection ends."""
    async with serving() as (desk, port):
        key = await desk.key("agt_support")
        head = f"POST /rpc HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
        head += "transfer-encoding: chunked\r\n\r\n" if is_chunked else "content-length: 100000000\r\n\r\n"
        piece = b"10000\r\n" + b"x" * 65_536 + b"\r\n" if is_chunked else b"x" * 65_536
        process = psutil.Process()
        before = process.memory_info().rss
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode())
        most = 0
        with suppress(ConnectionError):
            for _ in range(1_525):
                writer.write(piece)
                await writer.drain()
                most = max(most, process.memory_info().rss - before)
        answer = b""
        with suppress(ConnectionError):
            answer = await reader.read()
        writer.close()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 413")
        assert most < 40_000_000
        assert await is_healthy(port)


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nx\r\n\r\n",
     b"GET / HTTP/1.1\r\n\r\n",
     b"POST /rpc HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -1\r\n\r\n"],
)  # fmt: skip
async def test_what_is_not_http_gets_a_typed_answer_with_the_headers(sent: bytes) -> None:
    """Also what no application ever sees is answered in the one shape."""
    async with serving() as (_, port):
        answer = await answer_to(port, sent)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400"), answer[:200]
    assert json.loads(body)["error"]["code"] == "malformed_request"
    sent_headers = {line.partition(b":")[0].lower().decode() for line in head.split(b"\r\n")[1:]}
    assert set(HEADERS) <= sent_headers


async def test_a_request_with_two_lengths_is_refused_and_ends_its_connection() -> None:
    """What a proxy takes for a body is not read as the next request."""
    next_one = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    lengths = b"transfer-encoding: chunked\r\ncontent-length: %d\r\n\r\n" % (5 + len(next_one))
    async with serving() as (_, port):
        answer = await answer_to(
            port, b"POST /rpc HTTP/1.1\r\nhost: 127.0.0.1\r\n" + lengths + b"0\r\n\r\n" + next_one
        )
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_a_progress_stream_that_nobody_reads_does_not_hold_up_the_service(shop: Path) -> None:
    """A stream with a silent reader is one stream; the service stops all the same."""
    async with serving() as (desk, port):
        key = await desk.key("agt_support")
        started = await desk.rpc(key, "invokeAgent", request=REFUND)
        session = started["session"]["session_id"]
        asked = f"GET /v1/sessions/{session}/progress HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n\r\n"
        streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
        for _, writer in streams:
            writer.write(asked.encode())
        firsts = [await reader.readuntil(b"event: progress") for reader, _ in streams]
        assert all(b"200 OK" in first for first in firsts)
        for _, writer in streams[:5]:
            writer.transport.abort()  # half of them are gone without a word
        assert await is_healthy(port)
    for _, writer in streams:
        writer.close()


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    """Connections send small packets at once: with Nagle's algorithm every answer would take 40 ms longer."""
    with listen("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        connection, _ = bound.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

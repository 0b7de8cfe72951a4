"""A service of the benchmarks in a process of its own, and clients that do no more than they need of HTTP."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from tercet.contracts.request import Actor
from tercet.engine.streams.credentials import NewKey
from tercet.executor.clock import SystemClock
from tercet.journal.opening import open_journal
from tercet.service.server import ServeSettings, listen, open_service, serve_until_stopped

from . import workload
from .measurement import ROOT


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A service that listens."""

    pid: int
    port: int
    keys: list[str]
    """A key for each client; those of the other tenant last."""


async def serve(url: str, clients: int, others: int) -> None:
    """Serve the pack of the benchmarks on a free port, and print the port and a key for each client."""
    async with open_journal(url) as journal:
        settings = ServeSettings(local=Actor(id="bench"))
        async with open_service((workload.pack_of(),), journal, settings) as running:
            now = SystemClock().now()
            tenants = ["default"] * clients + ["other"] * others
            keys = [
                (await running.keys.create(NewKey(tenant=tenant, actor=f"client_{n}", by="bench"), now))[1]
                for n, tenant in enumerate(tenants)
            ]
            with listen("127.0.0.1", 0) as bound:
                port = bound.getsockname()[1]
                told = json.dumps({"port": port, "keys": keys})
                await serve_until_stopped(running, bound, lambda: print(told, flush=True))


@contextmanager
def serving(url: str, clients: int, others: int = 0) -> Generator[Serving]:
    """A service on a store, with keys for so many clients of one tenant and of another; it is stopped at the end."""
    words = [sys.executable, "-m", "bench.service_clients", url, str(clients), str(others)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            told: dict[str, Any] = json.loads(server.stdout.readline())
            yield Serving(pid=server.pid, **told)
        finally:
            server.terminate()
            server.wait(60)


@cache
def _body(mode: str, steps: int) -> bytes:
    plan = workload.plan_of(steps).model_dump(mode="json", exclude_unset=True)
    params = {"request": {"intent": workload.INTENT}, "plan": plan, "mode": mode, "wait_ms": 30_000}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "invokeAgent", "params": params}).encode()


@cache
def _large() -> bytes:
    """Return a call of verifyPlan with about 850 kB of expressions."""
    value = {"$cel": "1+" * 200 + "1"}
    steps = [{"id": f"s{n}", "tool": "shop.look", "params": {"n": value}} for n in range(1_800)]
    params = {"request": {"intent": workload.INTENT}, "plan": {"steps": steps}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "verifyPlan", "params": params}).encode()


class Client:
    """One connection that is kept open, with no more than the benchmark needs of HTTP."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._head = (
            f"POST /rpc HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\ncontent-length: "
        )

    async def __aenter__(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def invoke(self, mode: str, *, steps: int = workload.STEPS) -> str | None:
        """Make a run; return its status, or None if the credential makes too many calls."""
        result = await self._call(_body(mode, steps))
        return None if result is None else result["session"]["status"]

    async def verify(self) -> str | None:
        """Have a large plan reviewed; return the outcome, or None if the credential makes too many calls."""
        result = await self._call(_large())
        return None if result is None else result["verdict"]["outcome"]

    async def _call(self, body: bytes) -> dict[str, Any] | None:
        self._writer.write(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length:")[2].split()[0])
        answer = json.loads(await self._reader.readexactly(length))
        error = answer.get("error", {})
        if error.get("code") == "rate_limited" or error.get("data", {}).get("code") == "rate_limited":
            return None
        assert "result" in answer, answer
        return answer["result"]


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

"""A whole cluster on one machine: PostgreSQL, Temporal, the service and workers, each a process that may be killed."""

from __future__ import annotations

import asyncio
import subprocess
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cluster.process import NOT_STARTED, end_process, start_process, wait_ready
from plugins.postgres import PostgresServer, running_server
from plugins.temporal import TemporalServer, free_port, running_temporal

STOP_S = 90
SERVICE = "service"
_RESTART_S = 0.5
_WATCH_S = 0.2


@dataclass(kw_only=True)
class Member:
    """A worker or the service: kept running until it is told to stop, as a supervisor would."""

    name: str
    machine: Machine
    versions: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None
    is_wanted: bool = False
    task: asyncio.Task[None] | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self) -> None:
        """Start it, and return once it works."""
        self.is_wanted = True
        self.ready.clear()
        self.task = asyncio.create_task(self._keep())
        await self.ready.wait()

    async def _keep(self) -> None:
        machine = self.machine
        while self.is_wanted:
            self.process = process = start_process(
                machine.temporal.address, machine.postgres.url, *self.versions, log=machine.folder / f"{self.name}.log",
                role="service" if self.name == SERVICE else "worker", port=machine.port,
            )  # fmt: skip
            if not await asyncio.to_thread(wait_ready, process):
                machine.refused[self.name] += self.is_wanted  # what it needs is down: it is started again
                end_process(process)
                await asyncio.sleep(_RESTART_S)
                continue
            self.ready.set()
            while process.poll() is None:  # noqa: ASYNC110 - another process
                await asyncio.sleep(_WATCH_S)
            if self.is_wanted:
                (machine.refused if process.returncode == NOT_STARTED else machine.ended)[self.name] += 1
            end_process(process)

    async def kill(self) -> None:
        """Kill it, as a crash would."""
        self.is_wanted = False
        if self.process is not None:
            self.process.kill()
        if self.task is not None:
            await self.task

    async def stop(self) -> None:
        """Stop it as an operator does: sessions that it runs are left to others."""
        self.is_wanted = False
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
        if self.task is not None:
            async with asyncio.timeout(STOP_S):
                await self.task


@dataclass(kw_only=True)
class Machine:
    """What runs, and how often which part was killed, ended by itself or could not start."""

    folder: Path
    postgres: PostgresServer
    temporal: TemporalServer
    port: int = field(default_factory=free_port)
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    kills: Counter[str] = field(default_factory=Counter[str])
    ended: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held by what stops or starts a part."""

    @property
    def url(self) -> str:
        """Where the service answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def names(self) -> list[str]:
        """What can be killed."""
        return ["postgres", "temporal", *self.members]

    async def replace(self, name: str, *versions: str) -> None:
        """Stop the worker or the service of this name, if there is one, and start one for these versions of the pack."""
        async with self._locks[name]:
            if name in self.members:
                await self.members[name].stop()
            self.members[name] = Member(name=name, machine=self, versions=versions)
            await self.members[name].start()

    async def kill(self, name: str, pause_s: float, note: Callable[[str], None]) -> None:
        """Kill a part, and start it again after a pause."""
        async with self._locks[name]:
            self.kills[name] += 1
            note(f"kill {name}")
            if name == "postgres":
                await asyncio.to_thread(self.postgres.stop, "kill")
            elif name == "temporal":
                await asyncio.to_thread(self.temporal.kill)
            else:
                await self.members[name].kill()
            await asyncio.sleep(pause_s)
            if name == "postgres":
                await asyncio.to_thread(self.postgres.start)
            elif name == "temporal":
                await asyncio.to_thread(self.temporal.start)
            else:
                await self.members[name].start()


@asynccontextmanager
async def open_machine(
    folder: Path, workers: Sequence[str], versions: Sequence[str]
) -> AsyncGenerator[Machine]:
    """A cluster with these workers, all for the same versions of the pack; everything is stopped at the end."""
    with running_server("tercet-machine-") as postgres, running_temporal(folder) as temporal:
        machine = Machine(folder=folder, postgres=postgres, temporal=temporal)
        try:
            for name in (SERVICE, *workers):
                await machine.replace(name, *versions)
            yield machine
        finally:
            for member in machine.members.values():
                await member.kill()

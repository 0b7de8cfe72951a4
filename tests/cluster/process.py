"""A worker or the service of a cluster as a process: `python -m cluster.process ROLE TEMPORAL JOURNAL PORT VERSION...`.

It prints one line when it works, and stops when its input ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from cluster.crew import dispatcher_of, working
from cluster.orders import AGENT, make_pack
from tercet.cluster.connection import TemporalSettings, connect
from tercet.contracts.errors import GatewayError
from tercet.journal.opening import open_journal
from tercet.service.server import ServeSettings, listen, open_service, serve_until_stopped

TESTS = Path(__file__).parents[1]
NOT_STARTED = 75
"""The exit code of a worker that could not start since Temporal was down."""


async def work(temporal: str, journal: str, versions: list[str]) -> None:
    """Run sessions until a signal."""
    packs = [make_pack(version) for version in versions]
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with open_journal(journal) as opened:
        client = await connect(TemporalSettings(address=temporal))
        async with working(client, opened, *packs, sweep_ms=250):
            say_ready()
            await stopped.wait()


async def serve(temporal: str, journal: str, port: int, versions: list[str]) -> None:
    """Serve the packs until a signal, and run nothing."""
    packs = [make_pack(version) for version in versions]
    async with open_journal(journal) as opened:
        carrier = dispatcher_of(await connect(TemporalSettings(address=temporal)))
        async with open_service(packs, opened, ServeSettings(local=AGENT), carrier=carrier) as running:
            await serve_until_stopped(running, listen("127.0.0.1", port), say_ready)
        await carrier.close()


def say_ready() -> None:
    """Print the line that says that this process works."""
    sys.stdout.write("works\n")
    sys.stdout.flush()


def _stop_at_end_of_input() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def start_process(
    temporal: str, journal: str, *versions: str, log: Path, role: str = "worker", port: int = 0
) -> subprocess.Popen[bytes]:
    """Start a worker or the service; its log is appended to a file."""
    words = [sys.executable, "-m", "cluster.process", role, temporal, journal, str(port), *versions]
    with log.open("ab") as errors:
        return subprocess.Popen(
            words, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )  # fmt: skip


def wait_ready(process: subprocess.Popen[bytes]) -> bool:
    """Wait until a process works; False if it has ended instead."""
    assert process.stdout is not None
    return process.stdout.readline() == b"works\n"


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, if it still runs, and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


@contextmanager
def worker_process(
    temporal: str, journal: str, *versions: str, log: Path
) -> Generator[subprocess.Popen[bytes]]:
    """A worker as a process, killed at the end if it still runs."""
    process = start_process(temporal, journal, *versions, log=log)
    try:
        assert wait_ready(process), process.poll()
        yield process
    finally:
        end_process(process)


if __name__ == "__main__":
    threading.Thread(target=_stop_at_end_of_input, daemon=True).start()
    if sys.argv[1] == "worker":
        try:
            asyncio.run(work(sys.argv[2], sys.argv[3], sys.argv[5:]))
        except GatewayError:
            sys.exit(NOT_STARTED)  # Temporal went away while it started
    else:
        asyncio.run(serve(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:]))

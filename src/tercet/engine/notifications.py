"""Notifications of gates that opened and of compensations that failed: by a program, a webhook, or both, as the pack says.

They are sent after the event is durable, from threads of their own: a hook that hangs or fails does not delay the run.
A failure is reported as the signal `notify_failed`, and not retried. Each event is sent at most once: a process that dies
between the append and the hook sends nothing. The lists of open gates and of sessions are the truth.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from tercet.contracts.gate import Notify
from tercet.contracts.plan import compensated_step
from tercet.contracts.values.canonical import canonical
from tercet.core import events as e
from tercet.core.fold.base import ANSWERS
from tercet.core.state import State
from tercet.core.transcript import timestamp
from tercet.engine.subscription import Signal

THREADS = 4
INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""The variables of this process that a program inherits; keys and passwords stay here."""


def message_of(session: str, opened: e.GateOpened) -> dict[str, Any]:
    """Return the payload that a hook receives about a gate."""
    needs = {name: {"roles": list(need.roles), "quorum": need.quorum} for name, need in opened.needs.items()}
    return {
        "gate": opened.gate,
        "session": session,
        "kind": opened.kind,
        "step": opened.step,
        "tool": opened.shown.get("tool"),
        "params": opened.shown.get("params", {}),
        "reason": opened.shown.get("reason", opened.shown.get("why", "")),
        "needs": needs,
        "roles": sorted({role for need in opened.needs.values() for role in need.roles}),
        "quorum": max((need.quorum for need in opened.needs.values()), default=1),
        "digest": opened.digest,
        "opened_at": timestamp(opened.at),
        "expires_at": timestamp(opened.expires) if opened.expires else None,
        "answers": list(opened.shown.get("options", ANSWERS[opened.kind])),
        "command": f"tercet gates show {opened.gate}",
    }


def alert_of(state: State, skipped: e.StepSkipped) -> dict[str, Any]:
    """Return the payload that a hook receives about a compensation that failed: an operator has to undo the step."""
    session = state.start.session
    return {
        "session": session,
        "kind": "compensation_failed",
        "step": compensated_step(skipped.step),
        "reason": state.steps[skipped.step].error,
        "failed_at": timestamp(skipped.at),
        "command": f"tercet sessions show {session}",
    }


class Notifier:
    """Sends the notifications of one process."""

    def __init__(self, notify_of: Callable[[str], Notify | None], signal: Signal) -> None:
        """`notify_of` returns the hooks of the pack with a hash; `signal` receives failures."""
        self._notify_of = notify_of
        self._signal = signal
        self._threads: ThreadPoolExecutor | None = None
        self._sending: set[asyncio.Future[list[str]]] = set()
        self._longest_ms = 0

    def notify(self, state: State, event: e.Event) -> None:
        """Start the hooks of a pack for a gate that opened or a compensation that failed; returns immediately."""
        match event:
            case e.GateOpened():
                message = message_of(state.start.session, event)
            case e.StepSkipped() if compensated_step(event.step):
                message = alert_of(state, event)
            case _:
                return
        if (notify := self._notify_of(state.start.pack_hash)) is not None:
            self._begin(notify, message)

    def _begin(self, notify: Notify, message: dict[str, Any]) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tercet-notify")
        # Program and webhook are tried one after the other.
        self._longest_ms = max(self._longest_ms, 2 * notify.timeout_ms)
        data = canonical(message)
        sending = asyncio.get_running_loop().run_in_executor(self._threads, _send, notify, data)
        self._sending.add(sending)
        sending.add_done_callback(lambda done: self._sent(message, done))

    async def close(self) -> None:
        """Wait for running hooks, at most one hook timeout; those still queued are cancelled."""
        await self._wait()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
            await self._wait()  # for running hooks, and for the signals of cancelled ones

    async def _wait(self) -> None:
        if self._sending:
            await asyncio.wait(self._sending, timeout=self._longest_ms / 1000)

    def _sent(self, message: dict[str, Any], done: asyncio.Future[list[str]]) -> None:
        self._sending.discard(done)
        about = {name: message[name] for name in ("gate", "session", "kind") if name in message}
        for fault in _faults(done):
            self._signal("notify_failed", {**about, "error": fault})


def _faults(done: asyncio.Future[list[str]]) -> list[str]:
    if done.cancelled():
        return ["the runtime was closed before the hook ran"]
    error = done.exception()
    return done.result() if error is None else [f"{type(error).__name__}: {error}"]


def _send(notify: Notify, data: bytes) -> list[str]:
    """Run the program and call the webhook; return the errors."""
    seconds = notify.timeout_ms / 1000
    return [*_run(notify.command, data, seconds), *_post(notify.webhook, data, seconds)]


def _run(command: tuple[str, ...], data: bytes, seconds: float) -> Iterator[str]:
    if not command:
        return
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    quiet = subprocess.DEVNULL
    try:
        # The pack names the program, as it names the code of its tools; no shell is involved.
        with subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=env, start_new_session=True
        ) as program:
            try:
                program.communicate(data, timeout=seconds)
            except subprocess.TimeoutExpired:
                # This ends its children too: it runs in its own process group.
                with suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)
                yield f"{command[0]} did not end within {seconds:g} s"
                return
    except OSError as error:
        yield f"{command[0]} cannot be run: {error}"
        return
    if program.returncode:
        yield f"{command[0]} ended with {program.returncode}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A gate is posted only to the address that the pack names."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Do not follow."""
        return


def _post(url: str, data: bytes, seconds: float) -> Iterator[str]:
    if not url:
        return
    headers: Mapping[str, str] = {"Content-Type": "application/json", "User-Agent": "tercet"}
    # The scheme is http or https: `Notify` reads no other.
    request = urllib.request.Request(url, data=data, headers=dict(headers), method="POST")  # noqa: S310
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=seconds):
            return
    except urllib.error.HTTPError as error:
        error.close()
        yield f"the webhook answered {error.code}"
    except (OSError, ValueError) as error:
        yield f"the webhook cannot be reached: {error}"

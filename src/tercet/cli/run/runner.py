"""Running a session in this process, in the foreground.

The first Ctrl-C or SIGTERM pauses the session, so that it can be resumed; the second ends the process at once, which
loses nothing either. A tool that does not return cannot keep the process alive: `leave` in `main.py` ends the process
although the tool's thread still runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    redirect_stdout,
)
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from tercet.cli import ExitCode
from tercet.cli.journals import RecordedSession, find_library, journal_at, read_session, tenant_of
from tercet.cli.options import option
from tercet.cli.remote import open_remote, unserved_pack
from tercet.cli.run.progress import NoProgress, Progress, show_cursor
from tercet.cli.screen import Screen, print_json
from tercet.cli.sessions.next_commands import EXIT_CODES, Commands
from tercet.cli.sessions.session_json import as_json as session_json
from tercet.cli.sessions.session_view import show_ending
from tercet.contracts.errors import TercetError, UsageError
from tercet.core import events as e
from tercet.core.state import State
from tercet.engine.control import GRACE_MS
from tercet.engine.session_reader import load_history, load_state
from tercet.executor.clock import SystemClock
from tercet.journal.errors import JournalFull, LeaseHeld
from tercet.journal.protocol import Journal
from tercet.observe.settings import (
    DEFAULT_RATE,
    STDERR,
    Sampling,
    TelemetrySettings,
    collector_address,
    demand_library,
    read_settings,
)
from tercet.observe.telemetry import Telemetry
from tercet.packs import Pack
from tercet.runtime import RunResult, Runtime, RuntimeOptions
from tercet.view.terminal.text import duration_text, listed, printable
from tercet.view.vocabulary import standing

if TYPE_CHECKING:
    from tercet.service.client import AsyncClient
    from tercet.service.remote_journal import RemoteJournal


VARIABLE = "TERCET_TELEMETRY"
SAMPLE_VARIABLE = "TERCET_SAMPLE"

TelemetryWords: TypeAlias = Annotated[
    list[str] | None,
    option(
        "WHAT",
        f"Export telemetry: otlp (a collector, see OTEL_EXPORTER_OTLP_ENDPOINT), prometheus[:PORT] or log[:FILE]; may be given several times. By default {VARIABLE}, else nothing.",
        "--telemetry",
        envvar=VARIABLE,
        show_default=False,
        show_envvar=False,
    ),
]
SampleRate: TypeAlias = Annotated[
    float,
    option(
        "RATE",
        f"The share of the runs to trace, from 0 to 1, besides every failed, gated or escalated one: by default {SAMPLE_VARIABLE}, else {DEFAULT_RATE}.",
        "--sample",
        envvar=SAMPLE_VARIABLE,
        show_default=False,
        show_envvar=False,
    ),
]


def settings_of(words: Sequence[str] | None, rate: float) -> TelemetrySettings:
    """Return the settings that the options name; raise `UsageError` if one is invalid."""
    settings = read_settings(words or (), Sampling(rate))
    if settings.needs_library:
        demand_library()
    return settings


@asynccontextmanager
async def open_telemetry(
    settings: TelemetrySettings, say: Callable[[str], None], undelivered: dict[str, int]
) -> AsyncGenerator[tuple[Telemetry, ...]]:
    """Open the observers in settings; report where they send to, and at the end how much was not delivered."""
    if not settings.is_on:
        yield ()
        return
    # What a collector does not accept is reported once below; the exporters would repeat it.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    async with Telemetry(settings) as telemetry:
        say(f"· telemetry: {'; '.join(_ways(telemetry))}")
        yield (telemetry,)
    undelivered.update(telemetry.dropped)
    if telemetry.dropped:
        lost = ", ".join(f"{number:,} {what}" for what, number in telemetry.dropped.items())
        say(f"· telemetry: not delivered: {lost}")


def _ways(telemetry: Telemetry) -> list[str]:
    settings, found = telemetry.settings, list[str]()
    if settings.otlp:
        found.append(f"spans of {settings.sampling} to {printable(collector_address(os.environ), 200)}")
    if telemetry.metrics_address:
        found.append(f"metrics on {telemetry.metrics_address}")
    if settings.log is not None:
        found.append(
            f"a log {'on stderr' if str(settings.log) == STDERR else f'in {printable(str(settings.log), 200)}'}"
        )
    return found


# --- runner ---


T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TIDY_S = 0.2
"""The time that cancelled tasks have to end."""
_HELD_S = 0.5
"""The time after which an unhandled signal is explained to the user."""
_AGAIN = "Ctrl-C again ends at once, and the run can be resumed"


class Foreground:
    """Runs one session until it is over, waits, or is stopped."""

    def __init__(
        self,
        pack: Pack,
        progress: Progress | NoProgress,
        commands: Commands,
        *,
        store: str = "",
        telemetry: TelemetrySettings | None = None,
    ) -> None:
        self._pack = pack
        self._telemetry = telemetry or TelemetrySettings()
        self._store = store
        self._progress = progress
        self._commands = commands
        self._lease = LeaseWait(progress, commands)
        self._runtime: Runtime | None = None
        self._session = ""
        self._is_stopping = False
        self._has_waited = False
        self._undelivered: dict[str, int] = {}

    def run(self, act: Callable[[Runtime], Awaitable[RunResult]], *, is_new: bool) -> RecordedSession:
        """Call `act` with a runtime, and return the session afterwards."""
        loop = asyncio.new_event_loop()
        with self._progress, _redirect_tool_output(self._progress), _signals(loop, self._stop, self._wait):
            try:
                return run_until_complete(loop, self._run(act, is_new=is_new))
            except JournalFull as error:
                if is_new and not self._session:
                    error.remedy = "make room on its disk, then run it again: no session was started"
                raise

    @property
    def telemetry_json(self) -> dict[str, Any]:
        """The telemetry that was not delivered, as JSON; empty without telemetry."""
        return {"telemetry": {"undelivered": self._undelivered}} if self._telemetry.is_on else {}

    async def _run(self, act: Callable[[Runtime], Awaitable[RunResult]], *, is_new: bool) -> RecordedSession:
        url = self._commands.journal
        async with (
            journal_at(url, is_new=is_new, is_written=True) as journal,
            find_library(self._store, url) as evidence,
            open_telemetry(self._telemetry, self._progress.say, self._undelivered) as observers,
        ):
            # One session runs in the foreground: others are left to workers.
            self._runtime = Runtime(
                self._pack,
                journal,
                tell=self._tell,
                options=RuntimeOptions(held=self._held),
                watchdog_ms=None,
                evidence=evidence,
                observers=observers,
            )
            drawing = asyncio.ensure_future(self._progress.redraw_until_cancelled())
            try:
                async with self._runtime as runtime:
                    result = await act(runtime)
                return await read_session(journal, result.session_id)
            except TercetError as error:
                if self._session:
                    # What is in the journal is safe, so the session can be resumed.
                    again = self._commands.resume_session(self._session)
                    error.remedy = "; then ".join(filter(None, [error.remedy, again]))
                raise
            finally:
                drawing.cancel()

    def _tell(self, state: State, event: e.Event) -> None:
        if state.start.lane:  # the parent run shows the result of its lane
            return
        if isinstance(event, e.SessionStarted | e.SessionResumed):
            self._session = state.start.session
        self._progress.tell(state, event)
        if self._is_stopping and self._runtime is not None:
            self._runtime.stop()  # the signal came before there was a session

    def _held(self, found: LeaseHeld) -> None:
        if self._is_stopping:
            raise typer.Abort
        self._lease.wait_for(found)

    def _stop(self) -> None:
        self._is_stopping = True
        if not self._has_waited:
            under_way = self._progress.under_way
            waiting = (
                f": waits up to {duration_text(GRACE_MS)} for {listed(under_way)} to end" if under_way else ""
            )
            self._progress.say(f"· stopping{waiting}; {_AGAIN}")
        if self._runtime is not None:
            self._runtime.stop()

    def _wait(self) -> None:
        """Name the tool that blocks this process; called by another thread if the first signal is not handled soon."""
        if not self._is_stopping:
            self._has_waited = True
            held = listed(self._progress.under_way) or "a tool"
            self._progress.say(f"· stopping: waits for {held}, which blocks this process; {_AGAIN}")


class LeaseWait:
    """Waits for the lease of another process, and gives up when that process turns out to be alive."""

    def __init__(self, progress: Progress | NoProgress, commands: Commands) -> None:
        self._progress = progress
        self._commands = commands
        self._first: LeaseHeld | None = None

    def wait_for(self, found: LeaseHeld) -> None:
        """Print the remaining time once; raise `UsageError` if the lease was renewed."""
        if self._first is None:
            self._first = found
            left = duration_text(found.wait_ms)
            self._progress.say(
                f"· {process_name(found.owner)} holds the lease on this session; waiting {left} for it to expire"
            )
        elif found.lease != self._first.lease:
            raise UsageError(
                f"{process_name(found.owner)} is alive and runs session {found.stream}",
                code="session_running",
                remedy=f"follow it with {self._commands.watch(found.stream)}, or stop that process first",
            )


def process_name(owner: str) -> str:
    """Return the process that a lease names, as text."""
    host, _, rest = owner.partition(":")
    number = rest.partition(":")[0]
    return printable(f"process {number} on {host}" if number else owner, 120)


def _redirect_tool_output(progress: Progress | NoProgress) -> AbstractContextManager[object]:
    """Send what tools print to stderr, unless the live area shows it above itself."""
    return nullcontext() if progress.is_live else redirect_stdout(sys.stderr)


def run_until_complete(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop and close the loop; unlike `asyncio.run`, do not wait for threads of tools."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.set_exception_handler(lambda _loop, _context: None)  # errors of abandoned tasks are not reported
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=_TIDY_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()


@contextmanager
def _signals(
    loop: asyncio.AbstractEventLoop, stop: Callable[[], None], wait: Callable[[], None]
) -> Generator[None]:
    """Call `stop` on the first signal and end the process on the second; call `wait` if the first is not handled soon."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may install signal handlers
        return
    is_second = False

    # Not `loop.add_signal_handler`: this one is called even while a tool blocks the loop.
    def handle(_number: int, _frame: object) -> None:
        nonlocal is_second
        if is_second:
            show_cursor()
            os._exit(ExitCode.INTERRUPTED)
        is_second = True
        loop.call_soon_threadsafe(stop)
        unheard.start()

    unheard = threading.Timer(_HELD_S, wait)
    unheard.daemon = True
    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        unheard.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


# --- following ---


POLL_S = 0.2

Tell: TypeAlias = Callable[[State, e.Event], None]
Call: TypeAlias = "Callable[[AsyncClient], Awaitable[str]]"
"""Starts or resumes a session at a service, and returns its id."""


async def follow(
    journal: Journal, session: str, tell: Tell, *, until: Callable[[State], bool], after: State | None = None
) -> State:
    """Report the events of a session after a state, and return its state once that is one to stop at."""
    state, tenant = after or State(), tenant_of(journal)
    while True:
        for event, then in (await load_history(journal, tenant, session, after=state)).walk():
            state = then
            tell(state, event)
        if until(state):
            return state
        await asyncio.sleep(POLL_S)


def has_settled(state: State) -> bool:
    """Return whether a session is over, waits for a person or is paused: a service does nothing more by itself."""
    return standing(state) not in ("in progress", "ending")


_PINNED = ("pack_version_mismatch", "snapshot_version_mismatch")


async def _unserved(journal: RemoteJournal, session: str) -> str:
    """Return the pack version of a session, if the service does not serve that one."""
    return unserved_pack(await journal.client.call("getSession", {"session_id": session}))


def run_at_service(url: str, call: Call, *, as_json: bool, act_as: str = "", resumed: str = "") -> ExitCode:
    """Start or resume a session at a service, follow it until it ends or waits, and show the result as `tercet run` does."""
    commands, screen = Commands(journal=url), Screen()
    progress = NoProgress() if as_json else Progress(screen, SystemClock())
    started: list[str] = []
    unserved_packs: list[str] = []

    async def main() -> RecordedSession:
        async with open_remote(url, act_as=act_as) as journal:
            before = await load_state(journal, journal.tenant, resumed) if resumed else None
            try:
                session = await call(journal.client)
            except TercetError as error:
                if resumed and error.code in _PINNED:
                    error.remedy = (
                        f"move it to the version that the service serves: {commands.migrate(resumed)}"
                    )
                raise
            started.append(session)
            if resumed and (unserved := await _unserved(journal, session)):
                unserved_packs.append(unserved)  # to follow it would have no end
                return await read_session(journal, session)
            drawing = asyncio.ensure_future(progress.redraw_until_cancelled())
            try:
                await follow(journal, session, progress.tell, until=has_settled, after=before)
            finally:
                drawing.cancel()
            return await read_session(journal, session)

    try:
        with progress:
            recorded = asyncio.run(main())
    except KeyboardInterrupt:
        if started and not as_json:
            screen.offer("· the run goes on at the service. Follow it with:", commands.watch(started[0]))
        raise
    state = recorded.state
    commands = replace(commands, unserved="".join(unserved_packs))
    if as_json:
        print_json(session_json(recorded, commands))
    else:
        unchanged = f"session {printable(state.start.session)} is {standing(state)}: nothing was done"
        show_result(screen, recorded, commands, progress, unchanged=unchanged)
    return EXIT_CODES[standing(state)]


def show_result(
    screen: Screen,
    recorded: RecordedSession,
    commands: Commands,
    progress: Progress | NoProgress,
    *,
    unchanged: str,
    evidence: Sequence[str] = (),
) -> None:
    """Print how a session ended or waits, below its progress; `unchanged` takes the place of progress if there was none."""
    if not progress.has_shown:
        screen.say(f"· {unchanged}")
    screen.say()
    show_ending(
        screen,
        recorded.state,
        commands,
        now=SystemClock().now(),
        rollback=recorded.rollback,
        refusal=recorded.refusal,
        evidence=evidence,
        asked=recorded.asked,
    )

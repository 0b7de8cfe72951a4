"""The gateway: makes every tool call, which ends as done, not done or unknown.

An exception from a tool above read_only is *unknown*, unless it is `NotDone` or arose before the call: a connection that
breaks may break after the money moved. A call that outlives its time is abandoned, not waited for: a tool that swallows
its cancellation must not hold the run. A result that cannot be used (not JSON, too large, against its schema) is *done*
and failed: the effect happened, and calling again would be a second one.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import re
import signal
import threading
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import Any, Protocol, TypeAlias, cast, get_type_hints

import msgspec
import orjson
from pydantic_core import to_jsonable_python

from tercet.contracts.errors import GatewayError, LaneWaiting, NotDone, Unusable
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.values.plain import is_small, not_plain, storable
from tercet.contracts.values.references import MAX_DEPTH
from tercet.core.answers import Done, Ended, NotHappened, Unknown
from tercet.core.fold.base import LANE_WAITING
from tercet.executor.clock import Clock
from tercet.executor.threads import ToolThreads
from tercet.executor.timers import SharedTimers
from tercet.policy import schemas
from tercet.tools import Tool, ToolContext
from tercet.tools.tool import Absent, Happened
from tercet.tools.tool import Unknown as Undecided

MAX_RESULT_BYTES = 32 * 2**20
LONGEST_DELAY_MS = 24 * 3_600_000
"""The longest delay that a tool can ask for before a retry."""
_SUSPECT = re.compile(rb"null|\d{16}|[eE]\+?\d\d")
_SEARCHED_BYTES = 2**20
_LONGEST_SUSPECT = 16


Check: TypeAlias = "Callable[[], NotHappened | Awaitable[NotHappened | None] | None]"
"""Checks just before a call whether it may be made, at once or as an awaitable; returns why not, or None."""


class Guard(Protocol):
    """Changes what a tool receives and returns, so that what is recorded differs from what it sees."""

    async def open(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return what the tool is called with. Raises `NotDone` if it must not be called."""
        ...

    def close(self, ended: Ended) -> Ended:
        """Return what is recorded of the outcome."""
        ...


class Gateway:
    """Calls tools. `clock` is given; nothing but threads and timers is kept between calls."""

    def __init__(self, clock: Clock, threads: ToolThreads | None = None) -> None:
        self.clock = clock
        self.threads = threads or ToolThreads()
        """Runs work that would block the event loop."""
        self.timers = SharedTimers()

    def begin(
        self,
        tool: Tool,
        params: dict[str, Any],
        context: ToolContext | None,
        *,
        timeout_ms: int,
        on_end: Callable[[Ended], None],
        check: Check | None = None,
        guard: Guard | None = None,
    ) -> Attempt:
        """Start an attempt at a call; `on_end` is called once with its outcome, whatever the tool does.

        A tool that does not take a context needs none.
        """
        if guard is not None:
            function = partial(
                _call_opened, guard, self.threads, partial(_prepare_call, tool.call), params, context
            )
            return Attempt(self, tool, function, timeout_ms, _closing(guard, on_end), check)
        if is_small(params):
            function = _prepare_call(tool.call, params, context)
            return Attempt(self, tool, function, timeout_ms, on_end, check)
        prepare = partial(_prepare_call, tool.call, params, context)
        return Attempt(self, tool, prepare, timeout_ms, on_end, check, is_prepared=False)

    async def call(
        self,
        tool: Tool,
        params: dict[str, Any],
        context: ToolContext,
        *,
        timeout_ms: int,
        guard: Guard | None = None,
    ) -> Ended:
        """Return one attempt at a call; never raises for anything that the tool does."""
        ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        attempt = self.begin(
            tool, params, context, timeout_ms=timeout_ms, on_end=ended.set_result, guard=guard
        )
        try:
            return await ended
        finally:
            attempt.abandon()

    async def look_up(
        self, tool: Tool, params: dict[str, Any], context: ToolContext, *, guard: Guard | None = None
    ) -> Ended:
        """Ask a tool's look-up whether the call with these parameters and this key happened.

        Only `Absent()` means that it did not: an exception, a time-out and any other return value are unknown.
        """
        if tool.reconcile is None:
            return Unknown(error=f"{tool.name} has no look-up")
        answers: list[Ended] = []

        def read(_: Tool, answer: Any) -> Ended:
            found = _read_look_up_answer(tool, answer)
            answers.append(found if guard is None else guard.close(found))
            return answers[-1]

        try:
            if guard is not None:
                params = await guard.open(params)
            called = partial(tool.reconcile, **_look_up_arguments(tool.reconcile, params, context))
        except (TypeError, ValueError, NotDone) as error:
            return Unknown(error=_short(f"the look-up of {tool.name} cannot be called: {error}"))
        ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        on_end = ended.set_result if guard is None else _closing(guard, ended.set_result)
        attempt = Attempt(self, tool, called, tool.timeout_ms, on_end, read=read)
        try:
            failed = await ended
        finally:
            attempt.abandon()
        if answers:
            return answers[0]
        error = failed.error.replace(tool.name, f"the look-up of {tool.name}", 1)
        return Unknown(error=error, code="" if isinstance(failed, Done) else failed.code)


class Attempt:
    """One call in progress: a task and a timer, and whichever ends first is reported.

    Whatever takes longer for a larger value is done in a thread: copying the parameters, before the timer starts, and
    checking the result, after it has stopped.

    The task itself reports the end, rather than a callback after it: a step then costs one turn of the event loop less.
    """

    __slots__ = ("_began", "_gateway", "_on_end", "_read", "_task", "_timeout_ms", "_timer", "_tool")

    def __init__(
        self,
        gateway: Gateway,
        tool: Tool,
        function: Callable[[], Any],
        timeout_ms: int,
        on_end: Callable[[Ended], None],
        check: Check | None = None,
        *,
        read: Callable[[Tool, Any], Ended] | None = None,
        is_prepared: bool = True,
    ) -> None:
        """`function` makes the call; if it is not prepared, it returns the function that does, and runs in a thread."""
        self._gateway = gateway
        self._tool = tool
        self._read = read or _usable
        self._timeout_ms = timeout_ms
        self._on_end: Callable[[Ended], None] | None = on_end
        self._began = gateway.clock.monotonic()
        running = self._run(function, check) if is_prepared else self._prepare(function, check)
        self._task = asyncio.get_running_loop().create_task(running)
        self._timer = gateway.timers.start(timeout_ms, self) if is_prepared else None

    def abandon(self) -> None:
        """Stop waiting: the tool is cancelled, and how it ends is not reported."""
        self._on_end = None
        self._stop_timer()
        self._task.cancel()

    def expire(self) -> None:
        """End the call because its time has run out."""
        error = f"{self._tool.name} did not answer within {self._timeout_ms:,} ms"
        self._end(_failed(self._tool, error, "timeout"))
        self._task.cancel()

    async def _prepare(self, prepare: Callable[[], Callable[[], Any]], check: Check | None) -> None:
        try:
            function = await self._gateway.threads.work(prepare)
        except BaseException as error:  # noqa: BLE001 - copying a value may run its own code
            self._end(_failure(self._tool, error))
            return
        if self._on_end is not None:
            self._timer = self._gateway.timers.start(self._timeout_ms, self)
            await self._run(function, check)

    async def _run(self, function: Callable[[], Any], check: Check | None) -> None:
        tool, threads = self._tool, self._gateway.threads
        try:
            refusal = None if check is None else check()
            if refusal is not None and not isinstance(refusal, NotHappened):
                refusal = await refusal
            if refusal is not None:
                self._end(refusal)
                return
            answer = await _call(function, threads)
            if self._on_end is None:
                return
            if is_small(answer):
                ended = _check_result(tool, self._read, answer)
            else:
                self._stop_timer()  # it was in time, however long its result takes to be checked
                loop = asyncio.get_running_loop()
                ended = await loop.run_in_executor(threads, _check_result, tool, self._read, answer)
        except KeyboardInterrupt:
            raise  # from the user: a tool's own is contained
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises must not end the run
            ended = _failure(tool, error)
        self._end(ended)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._gateway.timers.stop(self._timer, self)
            self._timer = None

    def _end(self, ended: Ended) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            self._stop_timer()
            latency = self._gateway.clock.monotonic() - self._began
            on_end(msgspec.structs.replace(ended, latency_ms=latency))


def _check_result(tool: Tool, read: Callable[[Tool, Any], Ended], answer: Any) -> Ended:
    try:
        return read(tool, answer)
    except BaseException as error:  # noqa: BLE001 - a result's own code may run here
        return _failure(tool, error)


def _failure(tool: Tool, error: BaseException) -> Ended:
    """Return how a call ended that raised an error. The attributes of an error are whatever the tool's code gave it."""
    match error:
        case NotDone():
            return NotHappened(
                error=_short(_text(error)),
                code=_code(error),
                is_retriable=bool(error.is_retriable),
                retry_after_ms=_delay_ms(error.retry_after_ms),
                is_attempt_only=bool(error.is_attempt_only),
            )
        case Unusable():
            return _unusable(tool, error)
        case LaneWaiting():
            return Unknown(error=_short(_text(error)), code=LANE_WAITING, lane=error.session)
        case GatewayError():
            return _failed(tool, _text(error), _code(error))
        case asyncio.CancelledError():
            return _failed(tool, f"{tool.name} was cancelled from inside", "cancelled")
        case _:
            return _failed(tool, f"{tool.name} raised {type(error).__name__}: {_text(error)}", "raised")


def _failed(tool: Tool, error: str, code: str) -> Ended:
    """Return a failure that says nothing about whether the call happened; for a read it makes no difference."""
    if tool.mode is ApprovalMode.READ_ONLY:
        return NotHappened(error=_short(error), code=code)
    return Unknown(error=_short(error), code=code)


def _unusable(tool: Tool, error: Unusable) -> Ended:
    """Return the outcome of a call with an unusable result: done for an effect, retriable for a read."""
    if tool.mode is ApprovalMode.READ_ONLY:
        return NotHappened(error=_short(_text(error)), code=_code(error))
    return Done(error=_short(_text(error)))


async def _call(function: Callable[[], Any], threads: ToolThreads) -> Any:
    """Make a call. `KeyboardInterrupt` and `SystemExit` of a tool are contained: a task that raises them ends the event loop."""
    try:
        if _is_coroutine_function(_unbound(function)):
            return await function()
        answer: Any = await asyncio.get_running_loop().run_in_executor(threads, _contained, function)
        return await answer if inspect.isawaitable(answer) else answer
    except KeyboardInterrupt as error:
        if _may_be_from_user():
            raise
        raise _not_ended(error) from error
    except SystemExit as error:
        raise _not_ended(error) from error


def _contained(function: Callable[[], Any]) -> Any:
    """Run a tool in its thread, where no signal arrives; a future cannot carry these three."""
    try:
        return function()
    except (SystemExit, KeyboardInterrupt, StopIteration) as error:
        raise _not_ended(error) from error


def _not_ended(error: BaseException) -> RuntimeError:
    return RuntimeError(f"{type(error).__name__}: {_text(error)}")


def _may_be_from_user() -> bool:
    """Return whether Ctrl-C raises `KeyboardInterrupt` in the code that runs: it does where Python's own handler is in place.

    `asyncio.run` replaces that handler, and cancels its main task at the first Ctrl-C.
    """
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _unbound(function: Any) -> Any:
    """Return the function of a tool that is bound to its context."""
    return function.func if isinstance(function, partial) else function  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


@lru_cache(maxsize=4_096)
def _is_coroutine_function(function: Any) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - an object whose class has an async one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _read_look_up_answer(tool: Tool, answer: Any) -> Ended:
    """Return how a call ended by the answer of its look-up; the result schema is for what was found."""
    match answer:
        case Happened():
            return _usable(tool, answer.value)
        case Absent():
            return NotHappened(error="the look-up found that it did not happen", code="absent")
        case Undecided():
            return Unknown(error=_short(str(answer.reason)) or f"the look-up of {tool.name} cannot tell")
        case _:
            given = "None" if answer is None else f"a {type(answer).__name__}"
            return Unknown(
                error=_short(
                    f"the look-up of {tool.name} returned {given}: return Happened(value), Absent() or Unknown(reason)"
                ),
                code="look_up_answer",
            )


def _usable(tool: Tool, value: Any) -> Ended:
    try:
        plain = value if _is_plain(value) else to_jsonable_python(value)
        data = orjson.dumps(plain)
    except Exception as error:  # noqa: BLE001 - a result's own code runs here, and the call has happened
        return Done(error=f"{tool.name} returned what JSON does not have: {_short(_text(error))}")
    if len(data) > MAX_RESULT_BYTES:
        return Done(
            error=f"{tool.name} returned {len(data):,} bytes, over {MAX_RESULT_BYTES:,}: return a reference to large data"
        )
    if plain is not None and _is_suspect(data) and (fault := not_plain(plain)) is not None:
        return Done(error=f"{tool.name} returned what JSON does not have: {_short(fault)}")
    if tool.result is not None:
        faults = schemas.faults(tool.result_text, plain)
        if faults:
            return Done(value=None, error=f"the result of {tool.name} breaks its schema: {faults[0].message}")
    return Done(value=plain)


def _is_suspect(data: bytes) -> bool:
    """Return whether JSON may stand for something else: NaN is printed as null, and long numbers and depths are not exact."""
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        return True
    # In pieces, since nothing else runs in the process during one search.
    return any(
        _SUSPECT.search(data, start, start + _SEARCHED_BYTES + _LONGEST_SUSPECT)
        for start in range(0, len(data), _SEARCHED_BYTES)
    )


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (str, int, float, bool)


@lru_cache(maxsize=4_096)
def _context_name(function: Callable[..., Any]) -> str | None:
    """Return the parameter that a function wants its context in."""
    # A callable object keeps its annotations on its __call__.
    annotated = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = get_type_hints(annotated)
    except (NameError, TypeError):
        return None
    return next((name for name, hint in hints.items() if hint is ToolContext and name != "return"), None)


def takes_context(tool: Tool) -> bool:
    """Return whether a tool has a parameter for its context."""
    return _context_name(tool.call) is not None


def _arguments(
    function: Callable[..., Any], params: dict[str, Any], context: ToolContext | None
) -> dict[str, Any]:
    """Return what a tool is called with: copies of lists and objects, since what was recorded is not the tool's to change."""
    given = {name: value if _is_plain(value) else copy.deepcopy(value) for name, value in params.items()}
    if context is not None and (name := _context_name(function)) is not None:
        given[name] = context
    return given


def _look_up_arguments(
    function: Callable[..., Any], params: dict[str, Any], context: ToolContext
) -> dict[str, Any]:
    """Return what a look-up is called with: its context, and those of the call's parameters that it names."""
    accepted = inspect.signature(function).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in accepted.values())
    named = {name: value for name, value in params.items() if takes_all or name in accepted}
    return _arguments(function, named, context)


def _prepare_call(
    function: Callable[..., Any], params: dict[str, Any], context: ToolContext | None
) -> Callable[[], Any]:
    """Return the call of a tool with its arguments."""
    return partial(function, **_arguments(function, params, context))


async def _call_opened(
    guard: Guard,
    threads: ToolThreads,
    prepare: Callable[[dict[str, Any], ToolContext | None], Callable[[], Any]],
    params: dict[str, Any],
    context: ToolContext | None,
) -> Any:
    """Call a tool with the parameters that its guard opens."""
    return await _call(prepare(await guard.open(params), context), threads)


def _closing(guard: Guard, on_end: Callable[[Ended], None]) -> Callable[[Ended], None]:
    def end(ended: Ended) -> None:
        on_end(guard.close(ended))

    return end


def _code(error: GatewayError) -> str:
    """Return the code of an error, or that of its class if it is not a text."""
    code = cast("object", error.code)
    return _short(code) if isinstance(code, str) else error.default_code


def _delay_ms(value: object) -> int:
    """Return a delay that a tool asks for in whole milliseconds, at most a day; 0 for anything but a positive number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:  # not even NaN
        return 0
    return int(min(value, LONGEST_DELAY_MS))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - even an error's own text is a tool's code
        return "an error without a readable message"


def _short(text: str) -> str:
    """Return a text that can be stored: shortened, and without lone surrogates, as in file names that are not UTF-8."""
    clean = storable(text)
    return clean if len(clean) <= 500 else f"{clean[:497]}…"

"""The gateway: every call of a tool goes through here, and ends as done, not done or unknown.

An exception from a tool above read_only is *unknown*, unless it is `NotDone` or arose before the call: a connection that
breaks may break after the money moved. A call that outlives its time is abandoned, not waited for: a tool that swallows
its cancellation must not hold the run. A result that cannot be used (not JSON, too large, against its schema) is *done*
and failed: the effect happened, and calling again would be a second one.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, get_type_hints

import orjson
from pydantic_core import PydanticSerializationError, to_jsonable_python

from tercet.contracts.errors import NotDone
from tercet.contracts.mode import ApprovalMode
from tercet.executor.attempt import Done, Ended, NotHappened, Unknown
from tercet.executor.clock import Clock
from tercet.policy import schemas
from tercet.tools import Tool, ToolContext

MAX_RESULT_BYTES = 32 * 2**20


class Gateway:
    """Calls tools. `clock` is given; nothing else is kept between calls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def call(
        self, tool: Tool, params: dict[str, Any], context: ToolContext, *, timeout_ms: int
    ) -> Ended:
        """One attempt at a call; never raises for anything that the tool does."""
        began = self._clock.now()
        ended = await self._attempt(
            tool, partial(tool.call, **_arguments(tool.call, params, context)), timeout_ms
        )
        return _timed(ended, self._clock.now() - began)

    async def look_up(self, tool: Tool, context: ToolContext) -> Ended:
        """Ask a tool whether the action with this key happened: done with its result, not happened, or unknown."""
        if tool.reconcile is None:
            return Unknown(error=f"{tool.name} cannot look a key up")
        function = tool.reconcile
        named = _context_name(function) or "context"
        ended = await self._attempt(tool, partial(function, **{named: context}), tool.timeout_ms)
        if isinstance(ended, Done) and ended.value is None:
            return NotHappened(error="nothing is known of this key", code="absent")
        return ended if isinstance(ended, Done) else Unknown(error=ended.error, code=ended.code)

    async def _attempt(self, tool: Tool, function: Callable[[], Any], timeout_ms: int) -> Ended:
        task = asyncio.ensure_future(_run(function))
        try:
            finished, _ = await asyncio.wait({task}, timeout=timeout_ms / 1000)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not finished:
            task.cancel()
            task.add_done_callback(_forget)
            return self._failed(tool, f"{tool.name} did not answer within {timeout_ms:,} ms", "timeout")
        try:
            return _usable(tool, task.result())
        except NotDone as error:
            return NotHappened(error=error.message, code=error.code)
        except asyncio.CancelledError:
            return self._failed(tool, f"{tool.name} was cancelled from inside", "cancelled")
        except Exception as error:  # noqa: BLE001 - whatever a tool raises must not end the run
            return self._failed(tool, f"{tool.name} raised {type(error).__name__}: {error}", "raised")
        except SystemExit as error:
            return self._failed(tool, f"{tool.name} tried to end the process: {error}", "exit")

    def _failed(self, tool: Tool, error: str, code: str) -> Ended:
        """A failure that says nothing about whether the call happened; for a read it makes no difference."""
        if tool.mode is ApprovalMode.READ_ONLY:
            return NotHappened(error=_short(error), code=code)
        return Unknown(error=_short(error), code=code)


async def _run(function: Callable[[], Any]) -> Any:
    if _is_async(function):
        return await function()
    answer: Any = await asyncio.get_running_loop().run_in_executor(None, _contained, function)
    return await answer if inspect.isawaitable(answer) else answer


def _contained(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except (SystemExit, StopIteration) as error:
        # A future cannot carry these two.
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _is_async(function: Callable[[], Any]) -> bool:
    inner: Any = function.func if isinstance(function, partial) else function
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


def _forget(task: asyncio.Future[Any]) -> None:
    """Take the result of an abandoned call, so that nobody warns that it was never taken."""
    if not task.cancelled():
        task.exception()


def _usable(tool: Tool, value: Any) -> Ended:
    try:
        plain = value if _is_plain(value) else to_jsonable_python(value)
        data = orjson.dumps(plain)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        return Done(error=f"{tool.name} returned what JSON does not have: {_short(str(error))}")
    if len(data) > MAX_RESULT_BYTES:
        return Done(
            error=f"{tool.name} returned {len(data):,} bytes, over {MAX_RESULT_BYTES:,}: return a reference to large data"
        )
    if tool.result is not None:
        faults = schemas.faults(tool.result_text, plain)
        if faults:
            return Done(value=None, error=f"the result of {tool.name} breaks its schema: {faults[0].message}")
    return Done(value=plain)


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (str, int, float, bool)


@lru_cache(maxsize=4_096)
def _context_name(function: Callable[..., Any]) -> str | None:
    """The parameter that a function wants its context in."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):
        return None
    return next((name for name, hint in hints.items() if hint is ToolContext and name != "return"), None)


def _arguments(function: Callable[..., Any], params: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    name = _context_name(function)
    return params if name is None else {**params, name: context}


def _timed(ended: Ended, latency_ms: int) -> Ended:
    match ended:
        case Done():
            return Done(value=ended.value, error=ended.error, latency_ms=latency_ms)
        case NotHappened():
            return NotHappened(
                error=ended.error, code=ended.code, is_retriable=ended.is_retriable, latency_ms=latency_ms
            )
        case Unknown():
            return Unknown(error=ended.error, code=ended.code, latency_ms=latency_ms)


def _short(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:497]}…"

"""The gateway: whatever a tool does, its call ends as done, not done or unknown."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from tercet.contracts.errors import NotDone
from tercet.core.answers import Done, Ended, NotHappened, Unknown
from tercet.executor.clock import SystemClock
from tercet.executor.gateway import MAX_RESULT_BYTES, Gateway
from tercet.testing.clock import VirtualClock
from tercet.tools import Tool, ToolContext
from tercet.tools.tool import Absent, Happened
from tercet.tools.tool import Unknown as NotSure

CONTEXT = ToolContext(tenant="t", run_id="r", step_id="s", actor="ada", idempotency_key="k", attempt=2)


def call(
    function: Callable[..., Any],
    mode: str = "local_write",
    params: dict[str, Any] | None = None,
    *,
    timeout_ms: int = 1_000,
    patience_s: float = 5.0,
    **declared: Any,
) -> Ended:
    """How one call ends."""
    clock = VirtualClock(patience_s=patience_s)
    tool = Tool.model_validate({"name": "do.it", "mode": mode, "call": function, **declared})
    return clock.run(Gateway(clock).call(tool, params or {}, CONTEXT, timeout_ms=timeout_ms))


def raising(error: BaseException) -> Callable[[], Any]:
    """An async tool that raises."""

    async def function() -> None:
        raise error

    return function


def raising_plainly(error: BaseException) -> Callable[[], Any]:
    """A plain tool that raises, in its thread."""

    def function() -> None:
        raise error

    return function


async def hang() -> None:
    """A tool that never answers."""
    await asyncio.Event().wait()


def test_a_call_gets_its_parameters_and_its_context() -> None:
    """Parameters come by name, and the context where the function asks for it."""

    async def function(where: ToolContext, n: int) -> Any:
        return [n, where.idempotency_key, where.attempt]

    assert call(function, params={"n": 1}) == Done(value=[1, "k", 2])


def test_a_tool_cannot_change_what_was_recorded() -> None:
    """It gets copies of lists and objects."""
    params = {"items": [1, 2], "nested": {"a": 1}}

    async def function(items: list[int], nested: dict[str, int]) -> Any:
        items.clear()
        nested.clear()
        return "done"

    assert call(function, params=params) == Done(value="done")
    assert params == {"items": [1, 2], "nested": {"a": 1}}


def test_a_plain_function_runs_in_a_thread() -> None:
    """It does not hold up the loop."""
    main = threading.get_ident()

    def function() -> Any:
        return threading.get_ident() != main

    assert call(function) == Done(value=True)


def test_a_plain_function_may_hand_back_an_awaitable() -> None:
    """Its coroutine is awaited on the loop."""

    async def later(n: int) -> int:
        return n

    assert call(lambda: later(5)) == Done(value=5)


@pytest.mark.parametrize("make", [raising, raising_plainly])
def test_not_done_is_believed(make: Callable[[BaseException], Callable[[], Any]]) -> None:
    """A tool that says that nothing happened may be tried again, whatever its mode."""
    ended = call(make(NotDone("no stock", code="empty")), "destructive")
    assert ended == NotHappened(error="no stock", code="empty")


DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize("make", [raising, raising_plainly])
@pytest.mark.parametrize("mode", ["read_only", "local_write"])
@pytest.mark.parametrize(
    ("stated", "recorded"),
    [
        ({"retry_after_ms": 1_500.7}, {"retry_after_ms": 1_500}),
        *[({"retry_after_ms": bad}, {}) for bad in (float("nan"), "5", None, True, -3, -float("inf"))],
        *[({"retry_after_ms": long}, {"retry_after_ms": DAY_MS}) for long in (float("inf"), 2**70)],
        ({"is_retriable": "no"}, {"is_retriable": True}),
        ({"is_retriable": None}, {"is_retriable": False}),
        ({"is_attempt_only": "x"}, {"is_attempt_only": True}),
        ({"code": 5}, {"code": "not_done"}),
        *[
            ({"message": text}, {"error": "an error without a readable message"})
            for text in (404, None, b"no")
        ],
    ],
)
def test_values_of_the_wrong_type_in_not_done_are_recorded_with_the_right_one(
    make: Callable[[BaseException], Callable[[], Any]],
    mode: str,
    stated: dict[str, Any],
    recorded: dict[str, Any],
) -> None:
    """They come from the tool's own code: an event with such a value could never be read again."""
    raised: dict[str, Any] = {"message": "busy", **stated}
    wanted: dict[str, Any] = {"error": "busy", **recorded}
    ended = call(make(NotDone(**raised)), mode)
    assert ended == NotHappened(**wanted)
    assert msgspec.json.decode(msgspec.json.encode(ended), type=NotHappened) == ended


@pytest.mark.parametrize("make", [raising, raising_plainly])
@pytest.mark.parametrize(
    "error", [ValueError("bad"), ConnectionResetError("gone"), SystemExit(3), StopIteration(), RecursionError()]
)  # fmt: skip
def test_an_exception_leaves_the_outcome_open(
    make: Callable[[BaseException], Callable[[], Any]], error: BaseException
) -> None:
    """Above read_only nobody knows what happened before it; for a read it makes no difference."""
    written = call(make(error))
    assert isinstance(written, Unknown)
    assert written.error.startswith("do.it raised")
    read = call(make(error), "read_only")
    assert isinstance(read, NotHappened)
    assert read.is_retriable


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
@pytest.mark.parametrize("kind", ["async", "plain", "plain_returning_awaitable"])
def test_a_tool_that_tries_to_end_the_process_is_contained(kind: str, error: BaseException) -> None:
    """`sys.exit` or `KeyboardInterrupt` in a tool ends its call, not the process or its loop."""
    function = raising_plainly(error) if kind == "plain" else raising(error)
    ended = asyncio.run(
        _call_once(_hide_async(function) if kind == "plain_returning_awaitable" else function)
    )
    assert isinstance(ended, Unknown)
    assert ended.error == f"do.it raised RuntimeError: {type(error).__name__}: {error}"


def _hide_async(function: Callable[[], Any]) -> Callable[[], Any]:
    def plain() -> Any:
        return function()

    return plain


async def _call_once(function: Callable[[], Any]) -> Ended:
    tool = Tool.model_validate({"name": "do.it", "mode": "local_write", "call": function})
    return await Gateway(SystemClock()).call(tool, {}, CONTEXT, timeout_ms=10_000)


def test_ctrl_c_in_an_async_tool_still_interrupts_a_loop_without_a_handler_of_its_own() -> None:
    """Where Python's own handler is in place, the signal raises `KeyboardInterrupt` in the code that runs."""

    async def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)

    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(_call_once(interrupted))
    finally:
        loop.close()


def test_ctrl_c_in_an_async_tool_cancels_asyncio_run() -> None:
    """The first Ctrl-C cancels the main task, whichever code runs when it arrives."""

    async def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(_call_once(interrupted))


def test_an_error_whose_text_fails_is_still_an_end() -> None:
    """Even the message of an exception is a tool's code."""

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no comment")

    assert isinstance(call(raising(MuteError())), Unknown)


@pytest.mark.parametrize(("mode", "kind"), [("local_write", Unknown), ("read_only", NotHappened)])
def test_a_tool_that_hangs_is_given_up(mode: str, kind: type[Ended]) -> None:
    """When its time is up the call is over, and the time that it took is told."""
    ended = call(hang, mode, timeout_ms=700)
    assert isinstance(ended, kind)
    assert ended.latency_ms == 700
    assert getattr(ended, "code", "") == "timeout"


def test_a_tool_that_swallows_its_cancellation_holds_nobody() -> None:
    """The call ends on time; the tool may go on in vain."""

    async def stubborn() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(10)
        return "late"

    ended = call(stubborn, timeout_ms=50)
    assert isinstance(ended, Unknown)
    assert ended.latency_ms == 50


def test_a_thread_that_hangs_holds_nobody() -> None:
    """The thread cannot be stopped, so it is left behind."""
    release = threading.Event()

    async def main() -> Ended:
        clock = VirtualClock(patience_s=0.05)
        tool = Tool.model_validate({"name": "do.it", "mode": "local_write", "call": lambda: release.wait(30)})
        try:
            return await Gateway(clock).call(tool, {}, CONTEXT, timeout_ms=20)
        finally:
            release.set()

    ended = VirtualClock(patience_s=0.05).run(main())
    assert isinstance(ended, Unknown)


def test_a_tool_that_cancels_itself_is_unknown() -> None:
    """A cancellation that nobody asked for is a failure like any other."""
    ended = call(raising(asyncio.CancelledError()))
    assert isinstance(ended, Unknown)
    assert ended.code == "cancelled"


# --- results ---


class Model(BaseModel):
    """A result as a model."""

    n: int
    at: datetime


@dataclass
class Point:
    """A result as a dataclass."""

    x: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        (Model(n=1, at=datetime(2026, 1, 1, tzinfo=UTC)), {"n": 1, "at": "2026-01-01T00:00:00Z"}),
        (Point(x=3), {"x": 3}),
        ({1: "one"}, {"1": "one"}),
        (b"text", "text"),
        (1.5, 1.5),
    ],
    ids=["none", "tuple", "model", "dataclass", "integer key", "bytes", "float"],
)
def test_results_become_plain_json(value: Any, expected: Any) -> None:
    """What stands in the journal is JSON, whatever the tool's types were."""

    async def function() -> Any:
        return value

    assert call(function) == Done(value=expected)


@pytest.mark.parametrize(
    "value",
    [object(), float("nan"), {"deep": [float("inf")]}, 2**60, {"big": -(2**54)}, 2**70, "\ud800", {"k": {1, object()}}],
    ids=["object", "nan", "inf", "beyond 2^53", "below", "beyond 64 bits", "surrogate", "set"],
)  # fmt: skip
def test_what_json_does_not_have_is_done_and_failed(value: Any) -> None:
    """The call happened, so it is not repeated; its result cannot be used, and the message says so."""

    async def function() -> Any:
        return value

    ended = call(function)
    assert isinstance(ended, Done)
    assert "what JSON does not have" in ended.error
    assert ended.value is None


def test_numbers_that_only_look_odd_pass() -> None:
    """Long fractions, nulls and digits in texts are no reason to refuse a result."""

    async def function() -> Any:
        return {"f": 0.30000000000000004, "n": None, "t": "1234567890123456789", "e": 1e15}

    ended = call(function)
    assert isinstance(ended, Done)
    assert ended.error == ""


def test_a_result_without_end_is_done_and_failed() -> None:
    """A value that holds itself, or nests too deep, is not followed for ever."""
    endless: list[Any] = []
    endless.append(endless)
    deep: Any = 1
    for _ in range(150):
        deep = [deep]

    async def function(which: Any) -> Any:
        return endless if which == "endless" else deep

    for which in ("endless", "deep"):
        ended = call(function, params={"which": which})
        assert isinstance(ended, Done)
        assert ended.error


def test_a_huge_result_is_done_and_failed() -> None:
    """More than the journal should hold is answered with what to return instead."""

    async def function() -> Any:
        return "x" * MAX_RESULT_BYTES

    ended = call(function)
    assert isinstance(ended, Done)
    assert "return a reference to large data" in ended.error


def test_a_result_against_its_schema_is_done_and_failed() -> None:
    """The message says where it breaks."""

    async def function() -> Any:
        return {"n": "one"}

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    ended = call(function, result=schema)
    assert isinstance(ended, Done)
    assert "breaks its schema" in ended.error


# --- looking a key up ---


def look_up(function: Callable[..., Any] | None) -> Ended:
    """What a tool's look-up comes to."""
    clock = VirtualClock()
    declared = {"reconcile": function} if function else {}
    tool = Tool.model_validate(
        {"name": "do.it", "mode": "network", "call": hang, "timeout_ms": 50, **declared}
    )
    return clock.run(Gateway(clock).look_up(tool, {"payment_id": "pay_1", "amount": 5}, CONTEXT))


def answering(answer: Any) -> Callable[..., Any]:
    """A look-up that always answers so."""

    def look(**_: Any) -> Any:
        return answer

    return look


@pytest.mark.req("R153")
def test_a_look_up_finds_misses_or_does_not_know() -> None:
    """`Happened` has the result of the action, `Absent` says that it never happened, and the rest says nothing."""

    async def found(context: ToolContext) -> Any:
        return Happened({"key": context.idempotency_key})

    def absent(context: ToolContext) -> Any:
        return Absent()

    assert look_up(found) == Done(value={"key": "k"})
    assert isinstance(look_up(absent), NotHappened)
    assert isinstance(look_up(raising_plainly(ValueError("down"))), Unknown)
    assert isinstance(look_up(raising(NotDone("cannot tell"))), Unknown)
    assert isinstance(look_up(hang), Unknown)
    assert isinstance(look_up(None), Unknown)
    assert isinstance(look_up(len), Unknown)
    assert look_up(answering(NotSure("the ledger is locked"))) == Unknown(error="the ledger is locked")
    assert look_up(answering(Happened())) == Done(value=None)


@pytest.mark.parametrize("answer", [None, True, {"key": "k"}, Absent, "absent"], ids=repr)
def test_only_a_typed_answer_of_a_look_up_counts(answer: Any) -> None:
    """A forgotten return must not mean that the call did not happen, and a bare value not that it did."""
    ended = look_up(answering(answer))
    assert isinstance(ended, Unknown)
    assert "return Happened(value), Absent() or Unknown(reason)" in ended.error


def test_a_look_up_receives_the_parameters_of_the_call() -> None:
    """All of them, or those that it names."""

    def some(ctx: ToolContext, payment_id: str) -> Any:
        return Happened([payment_id, ctx.idempotency_key])

    def all_of_them(**params: Any) -> Any:
        return Happened(params)

    def every(amount: int, payment_id: str) -> Any:
        return Happened([payment_id, amount])

    assert look_up(some) == Done(value=["pay_1", "k"])
    assert look_up(every) == Done(value=["pay_1", 5])
    assert look_up(all_of_them) == Done(value={"payment_id": "pay_1", "amount": 5})

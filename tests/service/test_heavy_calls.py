"""Calls that take long, such as the review of a large plan: those of other tenants do not wait for them."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from starlette.requests import Request

from tercet.core.resolve import planning
from tercet.executor.threads import SWITCH_S, HeavyWork, ToolThreads
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.runtime import Runtime, runs
from tercet.service import methods
from tercet.service.boundary import Limits, count_calls
from tercet.tools import tool

from .desk import REFUND, open_desk

PLAN = {"steps": [{"id": "s1", "tool": "desk.look"}]}


class Blocked:
    """Stands for a function that takes as long as the test wants, and counts how often it is under way."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.begun = 0
        self.ended_early = True

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.begun += 1
        self.ended_early &= self.end.wait(600)
        raise ValueError("it ends")


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    made = Blocked()
    yield made
    made.end.set()


async def until(condition: Any) -> None:
    async with asyncio.timeout(300):
        while True:
            if condition():
                return
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("method", "owner", "name"),
    [("verifyPlan", Pack, "verify"), ("replayRun", methods, "replay_recording")],
)
@pytest.mark.usefixtures("shop")
async def test_a_heavy_call_of_one_tenant_leaves_another_its_turn(
    monkeypatch: pytest.MonkeyPatch, blocked: Blocked, method: str, owner: Any, name: str
) -> None:
    """One heavy call of a tenant is under way at a time, and meanwhile another tenant's calls, also heavy ones, are answered."""
    async with open_desk() as desk:
        one, other = await desk.key("agt"), await desk.key("agt", tenant="other")
        session = (await desk.rpc(one, "invokeAgent", request=REFUND))["session"]["session_id"]
        asked: dict[str, Any] = {"session_id": session} if method == "replayRun" else {"plan": PLAN}
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, blocked)
        heavy = [asyncio.create_task(desk.rpc(one, method, **asked)) for _ in range(3)]
        await until(lambda: blocked.begun)
        monkeypatch.setattr(owner, name, original)
        assert (await desk.rpc(other, "getCaller"))["tenant"] == "other"
        assert (await desk.rpc(other, "invokeAgent", request=REFUND))["session"]["status"] == "awaiting_gate"
        assert "outcome" in (await desk.rpc(other, "verifyPlan", plan=PLAN))["verdict"]
        assert not any(task.done() for task in heavy)
        assert blocked.begun == 1
        blocked.end.set()
        answers = await asyncio.gather(*heavy)
        assert blocked.ended_early
        assert sorted("code" in answer for answer in answers) == [False, False, True]


async def test_work_is_limited_for_each_tenant_and_in_all() -> None:
    heavy, threads, ends = HeavyWork(), ToolThreads(), threading.Event()
    begun: list[str] = []

    def work(tenant: str) -> str:
        begun.append(tenant)
        assert ends.wait(300)
        return tenant

    names = ("a", "a", "b", "c")
    tasks = [asyncio.create_task(heavy.run(threads, name, lambda name=name: work(name))) for name in names]
    await until(lambda: len(begun) == 2)
    assert sorted(begun) == ["a", "b"]
    tasks[1].cancel()  # it waits for its tenant
    tasks[0].cancel()  # it keeps its place until its function has ended
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(begun) == 2
    ends.set()
    assert await asyncio.gather(*tasks[2:]) == ["b", "c"]
    assert await heavy.run(threads, "a", lambda: "free again") == "free again"


async def test_heavy_work_lets_other_threads_take_turns_more_often() -> None:
    """Until the last of it has ended; then turns are as long as before."""
    heavy, threads, before = HeavyWork(), ToolThreads(), sys.getswitchinterval()
    ends = {name: threading.Event() for name in "ab"}
    begun: list[str] = []

    def work(name: str) -> None:
        begun.append(name)
        assert ends[name].wait(20)

    tasks = [asyncio.create_task(heavy.run(threads, name, partial(work, name))) for name in ends]
    await until(lambda: len(begun) == 2)
    for name, task in zip(ends, tasks, strict=True):
        assert sys.getswitchinterval() == SWITCH_S < before
        ends[name].set()
        await task
    assert sys.getswitchinterval() == before


async def test_a_program_that_sets_its_own_turns_keeps_them() -> None:
    """Whether it has set them before, shorter than ours, or while the work was under way."""
    heavy, threads, before = HeavyWork(), ToolThreads(), sys.getswitchinterval()
    try:
        sys.setswitchinterval(0.0001)
        own = sys.getswitchinterval()
        assert await heavy.run(threads, "a", sys.getswitchinterval) == own
        assert sys.getswitchinterval() == own
        sys.setswitchinterval(before)
        await heavy.run(threads, "a", lambda: sys.setswitchinterval(0.0001))
        assert sys.getswitchinterval() == own
    finally:
        sys.setswitchinterval(before)


async def test_a_large_plan_is_parsed_and_reviewed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, seen = threading.get_ident(), dict[str, set[int]]()

    def watch(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def noted(*args: Any, **named: Any) -> Any:
            seen.setdefault(name, set()).add(threading.get_ident())
            return original(*args, **named)

        monkeypatch.setattr(owner, name, noted)

    @tool("sum.look", mode="read_only")
    async def look(n: int) -> int:
        return n

    watch(planning, "verify")
    watch(runs, "as_plan")
    text = "1 + " * 250 + "1"
    steps = [
        {"id": f"s{n}", "tool": "sum.look", "params": {"n": {"$cel": f"{text} + {n}"}}} for n in range(100)
    ]
    decisions = [{"id": "add", "risk_tier": "low"}]
    pack = Pack.model_validate({"name": "sums", "version": "1.0.0", "tools": (look,), "decisions": decisions})
    async with Runtime(pack, MemoryJournal()) as runtime:
        await runtime.run({"intent": "add"}, plan={"steps": steps})
    assert seen.keys() == {"verify", "as_plan"}
    assert all(loop not in threads for threads in seen.values())


@pytest.mark.parametrize(
    ("name", "value", "count"),
    [
        ("x", "", 1),
        ("content-length", "9999", 1),
        ("content-length", "850000", 86),
        ("content-length", "x", 1),
        ("content-length", "9" * 30, 1),
        ("content-length", "9" * 9, 101),
        ("transfer-encoding", "chunked", 101),
    ],
)
def test_a_large_body_counts_as_several_calls(name: str, value: str, count: int) -> None:
    request = Request({"type": "http", "headers": [(name.encode(), value.encode())]})
    assert count_calls(request, Limits()) == count
    assert count_calls(request, Limits(burst=1)) == 1

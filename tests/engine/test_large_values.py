"""Large values: whatever takes longer for a larger value is done in a thread, and leases are renewed meanwhile."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tercet.core import codec
from tercet.core.resolve import calls, ending
from tercet.engine import driver, values
from tercet.engine.leases import LeaseClient
from tercet.executor import gateway
from tercet.journal.errors import LeaseHeld
from tercet.policy import schemas
from tercet.tools import ToolContext

from .workshop import ADA, ASK, Workshop, plan, step

RESULT = {"type": "object", "properties": {"rows": {"type": ["array", "string"]}}}
LEASE_MS = 10_000


def nested(depth: int) -> Any:
    """A value that nests so deep."""
    return {"in": nested(depth - 1), "n": [1, 2]} if depth else "x"


LARGE: dict[str, Callable[[], Any]] = {
    "many objects": lambda: [{"id": f"id{n}", "n": n, "ok": None, "pad": "x" * 400} for n in range(1_500)],
    "deep": lambda: [nested(50) for _ in range(1_000)],
    "one string": lambda: "x" * 1_000_000,
}


class Places:
    """Notes in which threads functions are called, once a large value is about."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = threading.get_ident()
        self.seen: dict[str, set[int]] = {}
        self.is_on = False
        self._monkeypatch = monkeypatch

    def watch(self, owner: Any, name: str) -> None:
        """Note where a function is called."""
        original = getattr(owner, name)

        def noted(*args: Any, **named: Any) -> Any:
            if self.is_on and (
                name != "decide" or args[0].blobs
            ):  # a wake-up before the value is there is harmless
                self.seen.setdefault(name, set()).add(threading.get_ident())
            return original(*args, **named)

        self._monkeypatch.setattr(owner, name, noted)


@pytest.mark.slow
@pytest.mark.parametrize("shape", LARGE)
async def test_what_grows_with_a_value_is_done_in_a_thread(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    """Checking, storing, passing on, judging and recording a large result: none of it is done by the event loop."""
    places = Places(monkeypatch)

    async def produce(_: ToolContext, __: dict[str, Any]) -> Any:
        rows = LARGE[shape]()
        places.is_on = True
        return {"rows": rows}

    async def count(_: ToolContext, params: dict[str, Any]) -> Any:
        return {"count": len(params["rows"])}

    workshop.tool("make.it", produce, mode="read_only", result=RESULT)
    workshop.tool("take.it", count, mode="read_only")
    rows = {"$from": "a#/rows"}
    made = plan(
        step("a", "make.it"),
        step("b", "take.it", params={"rows": rows}, depends_on=("a",)),
        outputs={"rows": rows, "count": {"$from": "b#/count"}},
    )
    watched = [
        (gateway, "_usable"), (copy, "deepcopy"), (values, "encode_json"), (driver, "decide"), (codec, "encode"),
        (calls, "_intent"), (ending, "Results"), (ending, "score"), (ending, "split_record"),
    ]  # fmt: skip

    async with workshop.runtime(workshop.pack()) as runtime:
        for owner, name in watched:
            places.watch(owner, name)
        result = await runtime.run(ASK, plan=made, actor=ADA)
        places.is_on = False
        monkeypatch.undo()
        assert result.status == "completed"
        assert result.outputs["count"] == len(result.outputs["rows"])
    small = {"_usable", "encode_json"}  # of the second tool's small result
    copied = set[str]() if shape == "one string" else {"deepcopy"}  # a string need not be copied
    assert {name for _, name in watched} - {"deepcopy"} | copied == places.seen.keys()
    assert {name for name, seen in places.seen.items() if places.loop in seen} <= small
    assert all(seen - {places.loop} for seen in places.seen.values())


async def test_a_lease_is_renewed_while_a_result_is_checked(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: another process that watches the lease cannot take the session over."""
    begun, go_on = asyncio.Event(), threading.Event()
    loop: asyncio.AbstractEventLoop
    original = schemas.faults

    def ponder(*args: Any, **named: Any) -> Any:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(30)
        return original(*args, **named)

    async def produce(_: ToolContext, __: dict[str, Any]) -> Any:
        monkeypatch.setattr(schemas, "faults", ponder)
        return {"rows": LARGE["many objects"]()}

    workshop.tool("make.it", produce, result=RESULT, timeout_ms=1_000)

    async def main() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        async with (
            workshop.journal("memory:") as journal,
            workshop.runtime(workshop.pack(), journal, lease_ms=LEASE_MS) as runtime,
        ):
            other = LeaseClient(journal=journal, tenant="default", clock=workshop.clock, lease_ms=LEASE_MS)
            running = asyncio.ensure_future(runtime.run(ASK, plan=plan(step("a", "make.it")), actor=ADA))
            await begun.wait()
            (row,) = await journal.sessions("default")
            ends: set[int] = set()
            for _ in range(60):
                workshop.clock.advance(1_000)
                for _ in range(20):
                    await asyncio.sleep(0)
                with pytest.raises(LeaseHeld) as held:
                    await other.acquire(row.session_id)
                ends.add(held.value.until)
            go_on.set()
            assert (await running).status == "completed"
            assert len(ends) >= 15

    await main()
    assert workshop.calls == [("a", 1)]

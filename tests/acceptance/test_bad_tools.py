"""Tools that misbehave, and sessions and journals that are not what somebody thinks: each has a typed answer."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from acceptance.vanishing import VARIABLE, vanish
from tercet import Actor, DecisionSpec, Pack, Plan, Request, ToolContext, tool
from tercet.contracts.errors import UsageError
from tercet.core.codec import CodecError
from tercet.core.state import State
from tercet.journal.errors import NewerJournal
from tercet.journal.protocol import Append
from tercet.runtime import RunResult, Runtime, RuntimeOptions

OPERATOR = Actor(id="user_operator")
LEASE_MS = 2_000
PATH = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", ""))))
"""With it another process finds these tests, and the same Tercet."""


def house(
    call: Callable[..., Any], *, is_idempotent: bool = False, timeout_ms: int = 200
) -> tuple[Pack, Plan]:
    """A pack with one tool, and a plan with one step."""
    made = tool(
        "bad.tool",
        mode="local_write",
        no_compensation="a test",
        idempotent=is_idempotent,
        timeout_ms=timeout_ms,
    )(call)
    pack = Pack(name="bad", version="1.0.0", tools=[made], decisions=[DecisionSpec(id="bad.day")])
    steps = [{"id": "s1", "tool": "bad.tool"}]
    return pack, Plan.model_validate({"intent": "bad.day", "steps": steps})


async def run(pack: Pack, plan: Plan, journal: str = "memory:") -> tuple[RunResult, State]:
    """Run the one step, and look at the state that it left."""
    async with Runtime(pack, journal, options=RuntimeOptions(lease_ms=LEASE_MS)) as runtime:
        result = await runtime.run(Request(intent="bad.day"), plan=plan)
        return result, await runtime.state(result.session_id)


def plain_raise() -> None:
    """Raise."""
    raise ValueError("the line broke")


async def async_raise() -> None:
    """Raise."""
    raise ValueError("the line broke")


def plain_exit() -> None:
    """End the interpreter, or try to."""
    sys.exit(7)


async def async_exit() -> None:
    """End the interpreter, or try to."""
    sys.exit(7)


async def hang() -> None:
    """Never answer."""
    await asyncio.sleep(3600)


async def swallow() -> None:
    """Never answer, and be deaf to the first cancellation."""
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        await asyncio.sleep(0.5)


@pytest.mark.req("R110", "R125")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (plain_raise, "ValueError: the line broke"),
        (async_raise, "ValueError: the line broke"),
        (plain_exit, "SystemExit: 7"),
        (async_exit, "SystemExit: 7"),
        (hang, "did not answer within"),
        (swallow, "did not answer within"),
    ],
)
async def test_a_call_that_breaks_asks_an_operator_whether_it_happened(
    call: Callable[..., Any], said: str
) -> None:
    """Where a tool declares nothing, only a person may say what became of a call; the run then goes on."""
    pack, plan = house(call, timeout_ms=200 if call in (hang, swallow) else 30_000)
    async with Runtime(pack) as runtime:
        result = await runtime.run(Request(intent="bad.day"), plan=plan)
        assert result.status == "awaiting_gate"
        assert result.gate is not None
        assert result.gate.kind == "reconcile"
        assert said in result.gate.shown["why"]
        await runtime.settle(result.gate.id, happened=True, value=None, actor=OPERATOR)
        assert (await runtime.resume(result.session_id)).status == "completed"


@pytest.mark.req("R124")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no number", "breaks its schema"),
        ({1, 2}, "breaks its schema"),
        (object(), "returned what JSON does not have"),
        ("x" * 100_000_000, "returned 100,000,002 bytes"),
    ],
    ids=["against the schema", "a set", "no JSON", "100 MB"],
)
def test_a_result_that_cannot_be_used_is_done_and_never_called_again(value: Any, said: str) -> None:
    """The effect happened, so the step fails without a second call, and a person decides."""
    calls: list[str] = []

    def answer(ctx: ToolContext) -> int:
        """Answer wrongly."""
        calls.append(ctx.idempotency_key)
        return value

    result, state = asyncio.run(run(*house(answer, is_idempotent=True, timeout_ms=30_000)))
    assert result.status == "paused"
    assert said in state.steps["s1"].error
    assert said in result.reason
    assert state.steps["s1"].outcome == "done"
    assert len(calls) == 1


def test_a_tool_that_hangs_in_a_thread_does_not_keep_the_process(tmp_path: Path) -> None:
    """The run comes to its gate and the process ends, although the thread of the tool never does."""
    script = """
        import asyncio, threading
        from acceptance.test_bad_tools import house, run
        def stuck() -> None:
            threading.Event().wait()
        result, _ = asyncio.run(run(*house(stuck)))
        print(result.status)
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={"PYTHONPATH": PATH}, cwd=tmp_path,
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    assert told.stdout.strip() == "awaiting_gate"


@pytest.mark.req("R151", "R155")
def test_a_tool_that_kills_its_process_is_a_crash_and_the_session_resumes(tmp_path: Path) -> None:
    """`os._exit` leaves no time to say anything; the journal knows the call, and an operator says what became of it."""
    script = """
        import asyncio
        from acceptance.test_bad_tools import house, run
        from acceptance.vanishing import vanish
        asyncio.run(run(*house(vanish), "sqlite:///runs.db"))
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={"PYTHONPATH": PATH, VARIABLE: "1"},
        cwd=tmp_path, timeout=600, check=False,
    )  # fmt: skip
    assert told.returncode == 9

    async def story() -> None:
        async with Runtime(
            house(vanish)[0], f"sqlite:///{tmp_path}/runs.db", options=RuntimeOptions(lease_ms=LEASE_MS)
        ) as runtime:
            (row,) = await runtime.sessions()
            assert row.status == "in_progress"
            waiting = await runtime.resume(row.session_id)
            assert waiting.gate is not None
            assert waiting.gate.kind == "reconcile"
            await runtime.settle(waiting.gate.id, happened=False, actor=OPERATOR)
            assert (await runtime.resume(row.session_id)).status == "completed"

    asyncio.run(story())


def fine() -> int:
    """Do as told."""
    return 1


def test_a_session_that_is_not_there_cannot_be_resumed() -> None:
    """The answer says where to look for those that are, and leaves nothing in the journal."""

    async def story() -> None:
        async with Runtime(house(fine)[0]) as runtime:
            with pytest.raises(UsageError, match="no session ses_nowhere") as caught:
                await runtime.resume("ses_nowhere")
            assert caught.value.code == "unknown_session"
            assert caught.value.remedy is not None
            assert await runtime.sessions() == []

    asyncio.run(story())


@pytest.mark.req("R152")
def test_a_session_that_is_over_is_told_again_and_not_run_again() -> None:
    """Resuming it brings the same result and writes nothing."""

    async def story() -> None:
        pack, plan = house(fine)
        async with Runtime(pack) as runtime:
            first = await runtime.run(Request(intent="bad.day"), plan=plan)
            before = await runtime.journal.head("default", first.session_id)
            assert await runtime.resume(first.session_id) == first
            assert await runtime.journal.head("default", first.session_id) == before

    asyncio.run(story())


def test_a_journal_of_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    """A file whose schema is newer is not opened, and the answer says to upgrade."""
    path = tmp_path / "runs.db"
    asyncio.run(run(*house(fine), f"sqlite:///{path}"))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO journal_schema (version) VALUES (999)")
    with pytest.raises(NewerJournal, match="version 999") as caught:
        asyncio.run(run(*house(fine), f"sqlite:///{path}"))
    assert "upgrade" in (caught.value.remedy or "")


def test_events_of_a_newer_version_are_not_misread() -> None:
    """A session with an event that this version cannot know is refused whole, and stays as it is."""

    async def story() -> None:
        pack, plan = house(plain_raise)
        async with Runtime(pack) as runtime:
            session = (await runtime.run(Request(intent="bad.day"), plan=plan)).session_id
            journal = runtime.journal
            lease = await journal.acquire("default", session, owner="tomorrow", now_ms=0, ttl_ms=1)
            end = await journal.head("default", session)
            newer = Append(
                tenant="default",
                stream=session,
                expected=end.seq,
                epoch=lease.epoch,
                events=(b'2{"type":"tomorrow"}',),
            )
            after = await journal.append(newer)
            with pytest.raises(CodecError) as caught:
                await runtime.resume(session)
            assert caught.value.code == "newer_journal"
            assert caught.value.remedy is not None
            assert await journal.head("default", session) == after

    asyncio.run(story())

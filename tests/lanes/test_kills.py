"""Real processes, killed while lanes are under way: what the parent spent is what its lanes used, and no more."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tercet.core import codec
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.journal.opening import open_journal
from tercet.replay.replay import replay

LANES, BUDGET = 40, 24
KILLS = ("before_call:12", "inside_commit:24", "after_answer:8")


def live(journal: str, tenant: str, calls: Path, crash: str = "") -> tuple[int, str]:
    """One process: its exit code, and what it said."""
    words = [sys.executable, "-m", "lanes.worker", journal, tenant, str(calls), str(LANES), str(BUDGET)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TERCET_CRASH": crash}
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment, check=False)
    return done.returncode, done.stdout.strip() or done.stderr[-2_000:]


async def read(journal: str, tenant: str) -> tuple[list[e.Event], dict[str, State], list[str]]:
    """The events of the parent, the state of every session, and what does not replay."""
    async with open_journal(journal) as opened:
        rows = await opened.sessions(tenant, limit=1_000)
        states, parent, different = dict[str, State](), list[e.Event](), list[str]()
        for row in rows:
            found = [codec.decode(each.data) for each in await opened.read(tenant, row.session_id)]
            state = State()
            for event in found:
                state = fold_event(state, event)
            states[row.session_id] = state
            if not state.start.root:
                parent = found
        for row in rows[:: max(1, len(rows) // 10)]:
            report = await replay(opened, row.session_id, tenant=tenant)
            if report.difference is not None:
                different.append(str(report.difference))
        return parent, states, different


@pytest.mark.req("R268", "R332")
def test_forty_lanes_spend_twenty_four_calls_whenever_processes_are_killed(
    journal_url: str, tmp_path: Path
) -> None:
    """Three processes die by SIGKILL; the fourth ends the run. The budget is spent, those that were cut off included; every
    other lane is refused for want of budget."""
    tenant, calls = f"t{uuid4().hex[:8]}", tmp_path / "calls"
    killed = [live(journal_url, tenant, calls, crash)[0] for crash in KILLS]
    assert killed.count(-9) == len(KILLS), killed
    code, said = live(journal_url, tenant, calls)
    assert (code, said) == (0, "completed")
    events, states, different = asyncio.run(read(journal_url, tenant))
    assert different == []
    (parent,) = [state for state in states.values() if not state.start.root]
    lanes = [state for state in states.values() if state.start.lane]
    assert all(lane.is_over for lane in lanes)
    assert parent.used.tool_calls == sum(lane.used.tool_calls for lane in lanes) == BUDGET
    assert parent.used.reserved_calls == 0
    assert len({lane.start.lane["step"] for lane in lanes}) == len(lanes), "one session for each lane"
    refused = [event for event in events if isinstance(event, e.StepRefused)]
    assert {event.code for event in refused} == {"budget_exceeded"}
    assert len(lanes) + len(refused) == LANES
    assert len(calls.read_text().splitlines()) <= BUDGET

"""A sample of the campaign with wrong clocks: real workers, killed and resumed by others whose clocks differ."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from acceptance.clock_jumps import HOUR_MS, PATTERNS, run_pair
from acceptance.schedule import trial
from acceptance.tally import problems_of
from acceptance.trial import run_trial


@pytest.mark.parametrize("number", [0, 1])
def test_workers_with_wrong_clocks_leave_what_a_right_clock_leaves(tmp_path: Path, number: int) -> None:
    """Three workers die, and clocks differ and jump by an hour: the run ends, and no effect happens twice."""
    kills, clocks = PATTERNS[number]
    journal = f"sqlite:///{tmp_path}/{{name}}.db"

    async def main() -> None:
        calm, found = await asyncio.gather(
            run_trial(trial(journal, tmp_path, "twelve:reconcile")),
            run_trial(replace(trial(journal, tmp_path, "twelve:reconcile", kills), clocks=clocks)),
        )
        assert not calm.is_lost, calm.status
        assert list(problems_of(found, calm.left)) == []
        assert found.kills == len(kills)

    asyncio.run(main())


@pytest.mark.parametrize("kill_after_s", [None, 0.1])
def test_a_worker_whose_clock_is_ahead_waits_for_a_living_one(
    tmp_path: Path, kill_after_s: float | None
) -> None:
    """It sees the lease renewed, and takes over only where the other one is killed; no effect happens twice."""
    chosen = trial(f"sqlite:///{tmp_path}/{{name}}.db", tmp_path, "twelve:reconcile")
    found = asyncio.run(run_pair(chosen, (0, HOUR_MS), kill_after_s))
    assert list(problems_of(found, None)) == []

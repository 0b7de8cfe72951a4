"""A sample of the crash campaign with sessions that Temporal schedules (`make crash-cluster` does all of it).

The trials are those of `acceptance`, unchanged: what a run leaves must be what it leaves without Temporal and without kills.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from acceptance.tally import problems_of
from acceptance.trial import Engine, Found, Trial, run_trial
from cluster.trial_worker import engine_of
from plugins.temporal import running_temporal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    """Temporal: a server of its own, since no other trial may be under way in a namespace."""
    with running_temporal(tmp_path_factory.mktemp("trials")) as server:
        yield engine_of(server.address, "default")


TRIALS = {
    "refunds:nothing": {"kills": ("after_append:2", "after_effect:1")},
    "denied:reconcile": {"kills": ("before_append:2",), "undo_kills": ("after_effect:1", "before_append:2")},
    "expired:idempotent": {"undo_kills": ("after_effect:1",), "spoken_kills": ("after_post:1",)},
    "lanes:nothing": {"kills": ("after_append:2", "before_effect:1", "after_answer:1", "inside_commit:2")},
}
"""A payment with its approval; effects that are taken back after a denial, and after a gate that expired; and an order after
lanes, one of which waits for an approval."""


@pytest.mark.parametrize("scene", TRIALS)
def test_a_run_that_temporal_schedules_and_whose_workers_die_leaves_what_a_calm_one_leaves(
    scene: str, engine: Engine, postgres_url: str, tmp_path: Path
) -> None:
    """The calm one runs without Temporal: the record, the effects and the answers are the same."""
    name = f"{scene}-{os.urandom(3).hex()}".replace(":", "-")
    calm = Trial(name=f"{name}-calm", journal=postgres_url, scene=scene, folder=tmp_path)
    killed = replace(calm, name=name, engine=engine, **TRIALS[scene])

    async def story() -> tuple[Found, Found]:
        return await asyncio.gather(run_trial(calm), run_trial(killed))

    before, after = asyncio.run(story())
    assert not before.is_lost, before.status
    assert list(problems_of(after, before.left)) == []
    died = after.kills + after.undo_kills + after.spoken_kills
    assert died == sum(len(points) for points in TRIALS[scene].values())

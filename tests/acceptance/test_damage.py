"""A sample of the campaign with damaged files and full disks (`make crash` does more)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from acceptance.damage import FULL, WAYS, Outcome, damage, fill_disk
from acceptance.trial import Trial


def tried(tmp_path: Path, scene: str, way: str, seed: int) -> Outcome | None:
    """One trial."""
    journal = f"sqlite:///{tmp_path / 'runs.db'}"
    trial = Trial(name=f"sample-{seed}", journal=journal, scene=scene, folder=tmp_path, seed=seed)
    return asyncio.run(fill_disk(trial) if way == FULL else damage(trial, way))


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_repeated_after_damage(tmp_path: Path, way: str) -> None:
    """A killed run whose files were damaged goes on without a repeat, or the damage is reported."""
    outcome = tried(tmp_path, "twelve:nothing", way, 3)
    assert outcome is not None
    assert outcome.violation == ""


def test_a_run_on_a_full_disk_goes_on_with_room_again(tmp_path: Path) -> None:
    """A run whose journal cannot grow stops; with room again it comes to its end, and nothing happens twice."""
    outcome = tried(tmp_path, "twelve:nothing", FULL, 1)
    assert outcome is not None
    assert (outcome.ended, outcome.repeats) == ("completed", 0)

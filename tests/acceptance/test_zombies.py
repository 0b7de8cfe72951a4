"""Workers that are stopped, lose their session to another, and wake up again (`make crash` tries every point)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from acceptance.trial import Trial
from acceptance.zombie import Haunting, haunt, wrongs_of


def wake(journal: str, folder: Path, scene: str, point: str) -> Haunting:
    """A zombie of this scene, stopped at this point."""
    name = f"{folder.name}-{scene}-{point}".replace(":", "-")
    return asyncio.run(haunt(Trial(name=name, journal=journal, scene=scene, folder=folder), point))


@pytest.mark.req("R156", "R323")
@pytest.mark.parametrize(
    ("scene", "point"),
    [
        ("twelve:nothing", "before_append"),
        ("twelve:nothing", "after_append"),
        ("twelve:nothing", "after_effect"),
        ("refunds:reconcile", "after_answer"),
        ("twelve:idempotent", "before_call"),
        ("twelve:fenced", "before_effect"),
    ],
)
def test_a_zombie_writes_nothing_and_repeats_nothing(tmp_path: Path, scene: str, point: str) -> None:
    """Its append is refused, and its call is held back by the lease, by the key or by the fencing token."""
    haunting = wake(f"sqlite:///{tmp_path / 'runs.db'}", tmp_path, scene, point)
    assert wrongs_of(haunting) == []
    assert haunting.told["error"] == "lease_lost"
    assert haunting.successor.duplicates == 0


@pytest.mark.parametrize("point", ["inside_commit", "after_commit"])
def test_a_zombie_on_postgresql_writes_nothing(tmp_path: Path, postgres_url: str, point: str) -> None:
    """The server finishes the statement that it has, and refuses the next."""
    haunting = wake(postgres_url, tmp_path, "twelve:nothing", point)
    assert wrongs_of(haunting) == []
    assert haunting.successor.duplicates == 0


def test_the_window_that_remains_is_one_call_wide(tmp_path: Path) -> None:
    """Stopped behind its last look at the lease, a call that nothing guards happens a second time: this one alone."""
    haunting = wake(f"sqlite:///{tmp_path / 'runs.db'}", tmp_path, "twelve:nothing", "before_call")
    assert wrongs_of(haunting) == []
    assert haunting.successor.duplicates == 1


def test_a_zombie_with_the_lock_of_the_file_keeps_others_out(tmp_path: Path) -> None:
    """Nobody can take over from a process that was stopped inside a commit of SQLite: they are told who to end."""
    haunting = wake(f"sqlite:///{tmp_path / 'runs.db'}", tmp_path, "twelve:nothing", "inside_commit")
    assert wrongs_of(haunting) == []
    assert haunting.refused["error"] == "journal_busy"
    # It goes on, lets go if it sees that its lease has run out, or asks about a call that outlived its time meanwhile.
    assert haunting.told["status"] in ("completed", "paused", "awaiting_gate")
    assert haunting.successor.duplicates == 0

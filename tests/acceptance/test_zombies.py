"""Workers that are stopped, lose their session to another, and wake up again (`make crash` tries every point)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from rich.progress import Progress

from acceptance import campaign
from acceptance.trial import Engine, Found, Trial
from acceptance.zombie import Haunting, PointNotReachedError, haunt, race_successor, wrongs_of


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


@pytest.mark.parametrize("point", ["inside_commit", "after_commit"])
def test_a_zombie_on_postgresql_writes_nothing(tmp_path: Path, postgres_url: str, point: str) -> None:
    """The server finishes the statement that it has, and refuses the next."""
    haunting = wake(postgres_url, tmp_path, "twelve:nothing", point)
    assert wrongs_of(haunting) == []


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_the_lease_alone_fences_a_zombie_whose_successor_has_not_written(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    """The stream is where the zombie left it, so its append fails by the epoch of its lease and by nothing else."""
    sqlite = f"sqlite:///{tmp_path / 'runs.db'}"
    journal = sqlite if store == "sqlite" else request.getfixturevalue("postgres_url")
    trial = Trial(name=tmp_path.name, journal=journal, scene="twelve:idempotent", folder=tmp_path)
    told, has_written, found = asyncio.run(race_successor(trial))
    assert not has_written
    assert told["error"] == "lease_lost"
    assert (found.status, found.duplicates) == ("completed", 0)


def test_the_window_that_remains_is_one_call_wide_for_each_call_under_way(tmp_path: Path) -> None:
    """Stopped behind its last look at the lease, a call that nothing guards happens a second time: only calls that were
    under way do, each once."""
    haunting = wake(f"sqlite:///{tmp_path / 'runs.db'}", tmp_path, "twelve:nothing", "before_call")
    assert wrongs_of(haunting) == []
    assert 1 <= haunting.successor.duplicates <= len(haunting.in_flight)


def test_a_zombie_with_the_lock_of_the_file_keeps_others_out(tmp_path: Path) -> None:
    """Nobody can take over from a process that was stopped inside a commit of SQLite: they are told who to end."""
    haunting = wake(f"sqlite:///{tmp_path / 'runs.db'}", tmp_path, "twelve:nothing", "inside_commit")
    assert wrongs_of(haunting) == []
    assert haunting.refused["error"] == "journal_busy"
    # It goes on, lets go if it sees that its lease has run out, or asks about a call that outlived its time meanwhile.
    assert haunting.told["status"] in ("completed", "paused", "awaiting_gate")
    assert haunting.successor.duplicates == 0


async def test_the_campaign_tries_another_session_if_no_worker_came_to_its_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that outlives its time on a busy machine must not end the campaign with all that it has found."""
    tried: list[str] = []

    async def stop(trial: Trial, point: str) -> Haunting:
        tried.append(trial.name)
        if len(tried) < 2:
            raise PointNotReachedError(point)
        found = Found(trial=trial, status="completed")
        return Haunting(
            point=point, successor=found, refused={}, told={}, has_written=False, in_flight=frozenset()
        )

    monkeypatch.setattr(campaign, "haunt", stop)
    monkeypatch.setattr(campaign, "HAUNTED", ("twelve:nothing",))
    monkeypatch.setattr(campaign, "POINTS", ("after_effect",))
    engines: asyncio.Queue[Engine] = asyncio.Queue()
    engines.put_nowait(Engine())
    with Progress(disable=True) as progress:
        found = await campaign.Campaign(["sqlite:///{name}.db"], tmp_path, engines, progress).haunt()
    assert [each.successor.status for each in found] == ["completed"]
    assert len(set(tried)) == 2


def test_a_second_effect_is_counted_against_the_calls_that_were_under_way() -> None:
    """One for each of them where nothing guards the tool; never a second one, nor one of a step that was not under way."""

    def found(scene: str, **steps: int) -> list[str]:
        trial = Trial(name="made up", journal="memory:", scene=scene, folder=Path())
        successor = Found(trial=trial, status="completed", steps=Counter(steps))
        told = {"error": "lease_lost"}
        return wrongs_of(
            Haunting(
                point="after_effect",
                successor=successor,
                refused={},
                told=told,
                has_written=False,
                in_flight=frozenset(("s02", "s03")),
            )
        )

    assert found("twelve:nothing", s01=1, s02=2, s03=2) == []
    assert found("twelve:nothing", s01=2, s02=1) == ["second effects: {'s01': 1}"]
    assert found("twelve:nothing", s02=3) == ["second effects: {'s02': 1}"]
    assert found("twelve:idempotent", s02=2) == ["second effects: {'s02': 1}"]

"""Recorded runs of each version, of every example, and of stories as this version tells them: all come out the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from histories.__main__ import record
from histories.stories import STORIES
from tercet.replay.recording import load_bundle
from tercet.replay.replay import replay_recording

HISTORIES = Path(__file__).parents[1] / "histories"
FILES = sorted(HISTORIES.rglob("*.tercet"))


@pytest.mark.slow
@pytest.mark.req("R271", "R272", "R273", "R275")
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_recorded_run_is_judged_as_it_was(file: Path) -> None:
    """Whatever has become of the code since, every verdict and every checkpoint of an old journal follows again."""
    report = replay_recording(asyncio.run(load_bundle(file)))
    assert (report.outcome, report.difference) == ("replay_equal", None)
    assert report.verdicts_rederived >= 3


def test_every_story_is_there_of_some_version() -> None:
    """A story that nobody has recorded proves nothing about old journals."""
    assert {file.stem for file in FILES} == set(STORIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_a_story_of_this_version_comes_out_the_same(name: str, tmp_path: Path) -> None:
    """Told anew, each story ends as it is named, and replays; of an agent, what its critics said is taken as a fact."""
    report = replay_recording(asyncio.run(load_bundle(record(name, tmp_path))))
    assert (report.outcome, report.difference) == ("replay_equal", None)
    ends = {"denied": "rejected"}
    assert report.status == ends.get(name, "completed")
    assert report.verdicts_as_facts == (4 if name == "agent" else 0)

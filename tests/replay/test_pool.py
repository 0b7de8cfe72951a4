"""Many runs: however many there are, only a batch for each core is in memory, and who stops early has what was found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice

import msgspec
import pytest

from engine.workshop import Workshop
from tercet.journal.errors import JournalCorrupt
from tercet.replay import pool
from tercet.replay.pool import BATCH_BYTES, FEW, most_held, one_by_one
from tercet.replay.recording import Recording
from tercet.replay.replay import replay_each
from tercet.replay.what_if import rejudge_each

from .office import LOOSE, TIGHT, record, refunds

pytestmark = pytest.mark.slow


class Counted:
    """The same run so often, and how many of them had been taken and not judged at most."""

    def __init__(self, run: Recording, times: int) -> None:
        self._run = run
        self._times = times
        self.taken = 0
        self.judged = 0
        self.most = 0

    def __iter__(self) -> Iterator[Recording]:
        for _ in range(self._times):
            self.taken += 1
            self.most = max(self.most, self.taken - self.judged)
            yield self._run


@pytest.fixture
def run(workshop: Workshop) -> Recording:
    """A recorded refund of five."""
    [found] = record(workshop, refunds(workshop, LOOSE), [5])
    return found


@pytest.mark.req("R275", "R276")
@pytest.mark.parametrize("workers", [1, 2])
def test_how_many_runs_there_are_says_nothing_about_how_many_are_held(run: Recording, workers: int) -> None:
    """Of 200 runs as of 2,000 the same few are in memory at once: one, or a batch for each process and one to come."""
    for times in (200, 2_000):
        runs = Counted(run, times)
        for _ in one_by_one(pool.size_of, runs, workers=workers):
            runs.judged += 1
        assert (runs.taken, runs.judged, runs.most) == (times, times, most_held(workers))


def test_replay_and_what_if_take_runs_as_they_need_them(workshop: Workshop, run: Recording) -> None:
    """Both judge each run before they take the next one."""
    tight = refunds(workshop, TIGHT)
    for judge in (partial(replay_each, workers=1), partial(rejudge_each, pack=tight, workers=1)):
        runs = Counted(run, 30)
        for _ in judge(runs):
            runs.judged += 1
        assert (runs.judged, runs.most) == (30, 1)


def test_without_a_number_of_workers_no_more_are_held_for_long(run: Recording) -> None:
    """Looking whether there are many takes a few, and these are let go of as they are judged."""
    runs = Counted(run, 300)
    for _ in one_by_one(pool.size_of, runs):
        runs.judged += 1
    assert runs.judged == 300
    assert runs.most <= max(FEW, most_held(os.cpu_count() or 1))


def test_a_large_run_is_a_batch_by_itself(run: Recording) -> None:
    """Memory is counted in bytes too: of runs that fill a batch each, no more are held than there are batches."""
    large = msgspec.structs.replace(run, blobs={**run.blobs, "sha256:0": bytes(BATCH_BYTES)})
    runs = Counted(large, 9)
    for _ in one_by_one(pool.size_of, runs, workers=2):
        runs.judged += 1
    assert (runs.judged, runs.most) == (9, 3)


def test_who_stops_early_takes_no_more_runs(run: Recording) -> None:
    """Closing it lets the processes end, and reads nothing that nobody asked for."""
    runs = Counted(run, 2_000)
    with closing(replay_each(runs, workers=2)) as coming:
        assert [each.is_equal for each in islice(coming, 3)] == [True] * 3
    assert runs.taken <= 3 + most_held(2)


@pytest.mark.parametrize("workers", [None, 1, 2])
def test_a_run_that_cannot_be_read_is_told_behind_those_before_it(
    run: Recording, workers: int | None
) -> None:
    """What was there is judged first, also what had been handed over when the damage was met."""

    def damaged() -> Iterator[Recording]:
        yield from [run] * 5
        raise JournalCorrupt("event 3", "its bytes are others")

    judged: list[int] = []
    with pytest.raises(JournalCorrupt):
        judged += one_by_one(pool.size_of, damaged(), workers=workers)
    assert len(judged) == 5

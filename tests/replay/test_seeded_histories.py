"""Seeded runs of the version before: they replay, those that waited then go on to the same end, and the same seeds give the
same events again.

All bytes of an event are compared except its seal: that is the hash of a folded state, whose form may change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest

from histories import seeded
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.core import codec
from tercet.core import events as e
from tercet.engine import sessions
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording, load_bundle
from tercet.replay.replay import replay_recording

pytestmark = pytest.mark.slow
SCREENED = Behaviour.OUTPUTS_SCREENED
RULES = tuple(number for number in CURRENT if number < SCREENED)
"""What the archive was recorded by. Its judgements of outputs are facts since rule 6: they replay, but the same seed is
judged by other rules now, so seeds with such judgements are not played again, and only resumed."""
JUDGED = 64
"""How many seeds that is."""
CHUNKS = [seeded.SEEDS[at : at + 16] for at in range(0, len(seeded.SEEDS), 16)]
FEWEST = 5
"""How often each type of event occurs at least."""


def _ids(chunk: Sequence[int]) -> str:
    return f"{chunk[0]}-{chunk[-1]}"


@pytest.fixture
def earlier_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of Tercet that goes by the rules of the archive."""
    framed = Pack.run_context

    def old_frame(self: Pack, **given: Any) -> Any:
        return framed(self, **given).model_copy(update={"behaviour": RULES})

    monkeypatch.setattr(Pack, "run_context", old_frame)
    monkeypatch.setattr(sessions, "CURRENT", RULES)  # what a session is moved to

    def accept(_: Pack) -> None:
        """The check came after the archive."""

    monkeypatch.setattr(sessions, "demand_explained_replans", accept)


@cache
def is_judged_earlier(seed: int) -> bool:
    """Whether outputs of a seed were judged by rules before 6."""
    found = (load_recording(end).events for end in seeded.recorded_runs()[seed].sessions)
    return any(isinstance(codec.decode(data), e.OutputsVerified) for events in found for data in events)


def load_recording(end: seeded.SessionEnd) -> Recording:
    """A session as it was recorded."""
    with TemporaryDirectory() as folder:
        return asyncio.run(load_bundle(seeded.recorded_bundle(end, Path(folder))))


def test_seeds_that_are_judged_by_other_rules_now_are_known_and_counted() -> None:
    """No seed drops out of the comparison for any other reason."""
    judged = [seed for seed in seeded.SEEDS if is_judged_earlier(seed)]
    assert len(judged) == JUDGED
    for seed in judged:
        for end in seeded.recorded_runs()[seed].sessions:
            started = codec.decode(load_recording(end).events[0])
            assert isinstance(started, e.SessionStarted)
            assert SCREENED not in started.behaviour


def recorded_events(end: seeded.SessionEnd, folder: Path) -> list[bytes]:
    """The events of a session as they were recorded, without seals."""
    recording = asyncio.run(load_bundle(seeded.recorded_bundle(end, folder)))
    return [codec.strip_seal(data) for data in recording.events]


@pytest.mark.parametrize("chunk", CHUNKS, ids=_ids)
def test_a_recorded_run_is_judged_as_it_was(chunk: tuple[int, ...], tmp_path: Path) -> None:
    """Every verdict of every bundle follows again from what was recorded."""
    different: list[str] = []
    for end in (end for seed in chunk for end in seeded.recorded_runs()[seed].sessions):
        report = replay_recording(asyncio.run(load_bundle(seeded.recorded_bundle(end, tmp_path))))
        if (report.outcome, report.status) != ("replay_equal", end.status):
            different.append(
                f"{_name(end)}: {report.outcome}, {report.status} not {end.status}: {report.difference}"
            )
    assert not different, "\n".join(different)


@pytest.mark.usefixtures("earlier_rules")
@pytest.mark.parametrize("chunk", CHUNKS, ids=_ids)
def test_a_seed_gives_the_same_events_again(chunk: tuple[int, ...], tmp_path: Path) -> None:
    """Played again, a seed calls the same tools and writes the same events."""
    different: list[str] = []
    for seed in (seed for seed in chunk if not is_judged_earlier(seed)):
        recorded = seeded.recorded_runs()[seed]
        now, journal = seeded.make_run(seed)
        for end in recorded.sessions:
            again = asyncio.run(seeded.events_of(journal, end))
            if difference := seeded.first_difference(recorded_events(end, tmp_path), again):
                different.append(f"{_name(end)}: {difference}")
        if not different and _result(now) != _result(recorded):
            different.append(f"{recorded.family}: recorded {recorded}, now {now}")
    assert not different, "\n".join(different)


@pytest.mark.usefixtures("earlier_rules")
@pytest.mark.parametrize("chunk", CHUNKS, ids=_ids)
def test_a_session_that_waited_goes_on_to_the_same_end(chunk: tuple[int, ...], tmp_path: Path) -> None:
    """Resumed out of the recorded journal, each waiting session gets the answers that it got then, and ends as it did;
    one whose outputs were judged by earlier rules goes on from where it waited, and comes to a rest."""
    path = seeded.unpack_waiting(tmp_path)
    different: list[str] = []
    for recorded in filter(seeded.is_waiting, map(seeded.recorded_runs().__getitem__, chunk)):
        now, events = seeded.finish_waiting(path, recorded.seed)
        if is_judged_earlier(recorded.seed):
            for end, found in zip(now.sessions, events, strict=True):
                before = recorded_events(end, tmp_path)[: end.waiting]
                assert seeded.first_difference(before, found[: end.waiting]) == "", _name(end)
                assert len(found) > end.waiting, f"{_name(end)} did not go on"
                assert end.status != "in_progress", _name(end)
            continue
        for end, found in zip(now.sessions, events, strict=True):
            if difference := seeded.first_difference(recorded_events(end, tmp_path), found):
                different.append(f"{_name(end)} after event {end.waiting}: {difference}")
        if not different and (now.sessions, now.later_calls) != (recorded.sessions, recorded.later_calls):
            different.append(f"{recorded.family}: recorded {recorded}, now {now}")
    assert not different, "\n".join(different)


def test_the_archive_has_every_type_of_event(tmp_path: Path) -> None:
    """A type of event that no recorded run has would prove nothing."""
    ends = [end for run in seeded.recorded_runs().values() for end in run.sessions]
    found = seeded.count_events(recorded_events(end, tmp_path) for end in ends)
    tags = {str(kind.__struct_config__.tag) for kind in get_args(e.Event)}
    assert not {tag: found[tag] for tag in tags - seeded.NEWER_EVENTS if found[tag] < FEWEST}
    assert not seeded.NEWER_EVENTS & found.keys()
    assert sorted(seeded.recorded_runs()) == list(seeded.SEEDS)
    assert len(ends) >= 240
    assert sum(bool(end.waiting) for end in ends) >= 30


def test_a_difference_names_the_event_and_the_field() -> None:
    """The first event and the first field that differ are named, with both values."""
    before = [b'1{"type":"a","at":1}', b'1{"type":"b","at":2,"shown":{"n":[1,2]}}']
    after = [b'1{"type":"a","at":1}', b'1{"type":"b","at":2,"shown":{"n":[1,3]}}']
    assert seeded.first_difference(before, before) == ""
    assert seeded.first_difference(before, after) == "event 2 (b): /shown/n/1: recorded '2', now '3'"
    assert seeded.first_difference(before, before[:1]).startswith("event 2 is missing: ")
    assert seeded.first_difference(before[:1], before).startswith("event 2 is new: ")


def _result(run: seeded.SeededRun) -> object:
    ends = [(end.session, end.status, end.outputs, end.events) for end in run.sessions]
    return ends, run.calls, run.later_calls


def _name(end: seeded.SessionEnd) -> str:
    return f"seed {end.seed} ({seeded.family_of(end.seed).name}), session {end.session}"

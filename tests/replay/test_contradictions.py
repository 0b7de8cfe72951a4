"""Bundles whose hashes are right and whose parts contradict each other: replay names the contradiction."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.workshop import Workshop
from tercet.contracts.values.canonical import canonical
from tercet.core import codec
from tercet.core import events as e
from tercet.journal.chain import ZERO, link
from tercet.replay.bundle.exporting import BundleWriter
from tercet.replay.bundle.reading import verify_bundle
from tercet.replay.recording import Recording, load_bundle
from tercet.replay.replay import replay_recording
from tercet.view.run import Difference

from .archive import make, split

_PLACES = ("stream", "seq", "checkpoint", "pack", "path")


def rewrite(path: Path, *, drop_last_event: bool = False, **changes: Any) -> None:
    """Write a bundle again with other fields in its manifest, and all hashes right."""
    parts = [part.partition(b"\n") for part in split(path.read_bytes())[1:-1]]
    records = [(json.loads(line[65:]), payload[:-1]) for line, _, payload in parts]
    manifest = {**json.loads(records[0][1]), **changes}
    session = manifest["streams"][0]
    if drop_last_event:
        last = session["events"]
        records = [
            each
            for each in records
            if not (each[0].get("stream") == session["name"] and each[0]["seq"] == last)
        ]
        chain = ZERO
        for header, payload in records:
            if header["kind"] == "event" and header["stream"] == session["name"]:
                chain = link(chain, payload)
        session |= {"events": last - 1, "chain": chain.hex()}
    with path.open("wb") as file:
        writer = BundleWriter(file)
        writer.add("manifest", canonical(manifest))
        for header, payload in records[1:]:
            writer.add(header["kind"], payload, **{name: header[name] for name in _PLACES if name in header})
        writer.finish()


def replay_bundle(path: Path) -> Difference | None:
    """The difference that replay finds in a bundle whose bytes are sound."""
    assert verify_bundle(path)
    return replay_recording(asyncio.run(load_bundle(path))).difference


@pytest.fixture
def bundle(workshop: Workshop, tmp_path: Path) -> Path:
    """A bundle of a completed run."""
    path = tmp_path / "run.tercet"
    make(workshop, path)
    return path


@pytest.fixture
def recording(bundle: Path) -> Recording:
    """The run in that bundle."""
    return asyncio.run(load_bundle(bundle))


def test_a_bundle_that_was_only_written_again_replays_equal(bundle: Path) -> None:
    """The other tests change exactly one thing."""
    rewrite(bundle)
    assert replay_bundle(bundle) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "failed"), ("is_over", False), ("record", "sha256:" + "0" * 64), ("intent", "other"),
        ("decision", "other"), ("run", "run_other"), ("plan_hash", "sha256:" + "0" * 64), ("started_at", 5),
        ("updated_at", 5), ("snapshot", "other"), ("library", "other"), ("planner", "other"), ("models", ["other"]),
    ],
)  # fmt: skip
def test_a_manifest_that_contradicts_the_events_is_a_difference(bundle: Path, field: str, value: Any) -> None:
    """What a bundle says about its run follows from the events in it."""
    rewrite(bundle, **{field: value})
    found = replay_bundle(bundle)
    assert found is not None
    assert (found.event, found.field) == ("manifest", field)


def test_a_run_without_the_end_that_its_manifest_names_is_a_difference(bundle: Path) -> None:
    """The events alone are those of a run that has not ended yet."""
    rewrite(bundle, drop_last_event=True)
    found = replay_bundle(bundle)
    assert found is not None
    assert (found.event, found.field, found.recorded) == ("manifest", "status", "completed")


def test_a_verdict_without_its_point_is_a_difference(recording: Recording) -> None:
    """Points are written together with verdicts; without the last one, the last verdict has none."""
    for points in ((), recording.checkpoints[:-1]):
        found = replay_recording(msgspec.structs.replace(recording, checkpoints=points)).difference
        assert found is not None
        assert found.field == "point"


def test_an_event_before_the_one_in_front_of_it_is_a_difference(recording: Recording) -> None:
    """The times of a session never go back."""
    decoded = [codec.decode(data) for data in recording.events]
    place = next(n for n, event in enumerate(decoded) if isinstance(event, e.Complete))
    events = list(recording.events)
    events[place] = codec.encode(msgspec.structs.replace(decoded[place], at=decoded[place - 1].at - 1))
    forged = msgspec.structs.replace(recording, events=tuple(events), checkpoints=())
    found = replay_recording(forged).difference
    assert found is not None
    assert (found.position, found.event, found.field) == (place + 1, "COMPLETE", "at")

"""Recorded runs that are nonsense: typed answers only, in bounded time and memory, and answers that can be printed."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from engine.workshop import ADA, ASK, Workshop, plan, step
from tercet.cli.main import app
from tercet.contracts.errors import UsageError
from tercet.contracts.values.canonical import hash_bytes
from tercet.core import codec
from tercet.core import events as e
from tercet.core.codec import CodecError
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import CheckpointKind, StoredCheckpoint
from tercet.packs.pack import Pack
from tercet.policy import schemas
from tercet.replay.comparison import LONGEST, brief
from tercet.replay.recording import Recording, load
from tercet.replay.replay import replay, replay_recording
from tercet.replay.sources import load_bundle
from tercet.replay.what_if import what_if

from .archive import make_small, put_in

DEEP = (1_500, 100_000)
"""Deeper than Python's stack, and much deeper."""


@pytest.fixture
def pack(workshop: Workshop) -> Pack:
    """A pack with one tool."""
    workshop.tool("do.it")
    return workshop.pack()


@pytest.fixture
def run(workshop: Workshop, pack: Pack) -> Recording:
    """A run of one step."""

    async def main() -> Recording:
        journal = MemoryJournal()
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            return await load(journal, "default", result.session_id)

    return workshop.run(main())


def nested(depth: int) -> bytes:
    """An object in an object, and so on."""
    return b'{"a":' * depth + b"1" + b"}" * depth


def with_event(run: Recording, index: int, data: bytes) -> Recording:
    """The run with other bytes in the place of an event."""
    return msgspec.structs.replace(run, events=(*run.events[:index], data, *run.events[index + 1 :]))


def with_checkpoint(run: Recording, kind: CheckpointKind, data: bytes) -> Recording:
    """The run with one checkpoint, of its third event."""
    return msgspec.structs.replace(run, checkpoints=(StoredCheckpoint(3, kind, hash_bytes(data), data),))


def both_answer(run: Recording, pack: Pack) -> tuple[str, str]:
    """What replay and what-if say, both of which can be printed."""
    replayed, tried = replay_recording(run), what_if([run], pack, workers=1)
    assert json.loads(replayed.model_dump_json())["outcome"] == replayed.outcome
    assert json.dumps(tried.model_dump(mode="json"))
    return replayed.outcome, tried.runs[0].outcome


@pytest.mark.req("R276")
@pytest.mark.parametrize("depth", DEEP)
@pytest.mark.parametrize("place", ["request", "plan", "an unknown field"])
def test_events_that_are_nested_too_deeply_are_unreadable(
    run: Recording, pack: Pack, depth: int, place: str
) -> None:
    """Nesting is no way to overturn the reader: the event is named as one that does not read."""
    index, found, other = {
        "request": (0, b'"input":{', b'"input":{"deep":' + nested(depth) + b","),
        "plan": (1, b'"plan":{', b'"plan":{"deep":' + nested(depth) + b","),
        "an unknown field": (1, b'{"type"', b'{"zz":' + nested(depth) + b',"type"'),
    }[place]
    data = run.events[index].replace(found, other, 1)
    with pytest.raises(CodecError):
        codec.decode(data)
    assert both_answer(with_event(run, index, data), pack) == ("replay_different", "unreadable")


@pytest.mark.parametrize("depth", [100, 300, 600, 900])
def test_a_difference_can_be_printed_whatever_was_recorded(run: Recording, pack: Pack, depth: int) -> None:
    """A judgement that somebody has put something deep or large into is told by how it begins."""
    index, reviewed = next(
        (i, event)
        for i, event in enumerate(map(codec.decode, run.events))
        if isinstance(event, e.PlanReviewed)
    )
    deep = msgspec.json.decode(nested(depth))
    for planted in (deep, "x" * 10_000_000, {"x" * 1_000_000: 1}):
        verdict = {**reviewed.verdict, "code": planted, "planted": planted}
        forged = with_event(run, index, codec.encode(msgspec.structs.replace(reviewed, verdict=verdict)))
        assert both_answer(forged, pack) == ("replay_different", "changed")
        assert len(replay_recording(forged).model_dump_json()) < 4 * LONGEST


def test_what_is_small_is_told_as_it_is() -> None:
    """Only what is too much becomes the beginning of its text."""
    small: dict[str, Any] = {"a": [1, {"b": None}]}
    assert brief(small) is small
    assert brief(["x" * LONGEST]).endswith(" …")
    assert brief([[]] * 300).startswith("[[],[]")


@pytest.mark.req("R276")
def test_a_fold_is_unpacked_no_further_than_a_state_can_be(run: Recording, pack: Pack) -> None:
    """A few hundred kilobytes that would become a quarter of a gigabyte are a changed checkpoint, and stay small."""
    bomb = zlib.compress(bytes(2**28), 9)
    tracemalloc.start()
    assert both_answer(with_checkpoint(run, "fold", bomb), pack)[0] == "replay_different"
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**24


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("fold", b"x"),
        ("fold", b""),
        ("fold", zlib.compress(b"\x91" * 100_000 + b"\x00")),
        ("fold", zlib.compress(b"x" * 100)[:-3]),
        ("point", b"\x91" * 100_000 + b"\x00"),
        ("point", b""),
    ],
)
def test_a_checkpoint_that_is_none_is_a_difference(run: Recording, kind: CheckpointKind, data: bytes) -> None:
    """Cut, nested or nothing at all."""
    found = replay_recording(with_checkpoint(run, kind, data)).difference
    assert found is not None
    assert (found.event, found.field, found.position) == ("checkpoint", kind, 3)


def broken_events(run: Recording) -> Iterator[tuple[str, Recording]]:
    """Events that are cut, empty, of another version, or from another time."""
    third = run.events[2]
    yield "empty", with_event(run, 2, b"")
    yield "cut", with_event(run, 2, third[:-5])
    yield "of another version", with_event(run, 2, b"2" + third[1:])
    yield "no JSON", with_event(run, 2, b"1\xff\xfe")
    yield "not an object", with_event(run, 2, b"1[]")
    yield "before all time", begun_at(run, -(2**63))
    yield "none", msgspec.structs.replace(run, events=(), checkpoints=())


def begun_at(run: Recording, at: int) -> Recording:
    """The same run with another beginning."""
    told = msgspec.structs.replace(codec.decode(run.events[0]), at=at)
    return with_event(run, 0, codec.encode(told))


def test_a_run_of_a_far_future_is_judged(run: Recording, pack: Pack) -> None:
    """A year that no calendar has is read like any other; the events behind it are earlier, which is a difference."""
    assert both_answer(begun_at(run, 2**63 - 1), pack) == ("replay_different", "unchanged")


def test_broken_events_are_a_difference_and_unreadable(run: Recording, pack: Pack) -> None:
    """Whatever is wrong with them, neither replay nor what-if takes them for a run that came out the same."""
    for name, broken in broken_events(run):
        assert both_answer(broken, pack) == ("replay_different", "unreadable"), name


@pytest.mark.parametrize("data", [b"\xff\xfe", b"[" * 100_000 + b"]" * 100_000, nested(100_000), b"{}", b"5"])
def test_a_kept_pack_that_is_none_is_told_and_no_changed_verdict(
    run: Recording, pack: Pack, data: bytes
) -> None:
    """Replay cannot judge by it; what-if does not know what the run's own pack gave it, so it is unreadable."""
    forged = msgspec.structs.replace(run, blobs=dict.fromkeys(run.blobs, data))
    with pytest.raises(UsageError) as told:
        replay_recording(forged)
    assert told.value.code == "declarations_unreadable"
    assert what_if([forged], pack, workers=1).runs[0].outcome == "unreadable"


def test_a_hundred_thousand_events_are_judged(run: Recording, pack: Pack) -> None:
    """A session that was let go of and taken up fifty thousand times comes out the same; each event is looked at once."""
    at = codec.decode(run.events[2]).at
    paused = codec.encode(e.SessionPaused(at=at, reason="a break"))
    taken = (codec.encode(e.SessionResumed(at=at, owner="w", epoch=2 + n)) for n in range(50_000))
    pauses = tuple(data for resumed in taken for data in (paused, resumed))
    long = msgspec.structs.replace(run, events=(*run.events[:3], *pauses), checkpoints=())
    report = replay_recording(long)
    assert (report.outcome, report.events) == ("replay_equal", 100_003)
    moved = (*long.events[:-1], codec.encode(e.SessionResumed(at=at, owner="w", epoch=1, in_flight=("z",))))
    found = replay_recording(msgspec.structs.replace(long, events=moved)).difference
    assert found is not None
    assert (found.position, found.field.partition(".")[0]) == (100_003, "in_flight")


def test_of_ten_thousand_blobs_only_those_that_replay_needs_are_read(
    workshop: Workshop, tmp_path: Path
) -> None:
    """A bundle may hold any number: they are checked, and not taken into memory."""
    few, many = tmp_path / "few.tercet", tmp_path / "many.tercet"
    make_small(workshop, few)
    many.write_bytes(few.read_bytes())
    put_in(many, *(sha256(b"%d" % n).digest() for n in range(10_000)))
    loaded = [workshop.run(load_bundle(file)) for file in (few, many)]
    assert loaded[0] == loaded[1]
    assert replay_recording(loaded[1]).is_equal


def test_checkpoints_of_nothing_are_a_difference_however_many_there_are(
    workshop: Workshop, tmp_path: Path
) -> None:
    """A hundred thousand of events that are not there: the first of them is named."""
    file = tmp_path / "it.tercet"
    make_small(workshop, file)
    recording = workshop.run(load_bundle(file))
    point = recording.checkpoints[-1]
    more = tuple(
        StoredCheckpoint(len(recording.events) + n, "point", point.hash, point.data)
        for n in range(1, 100_001)
    )
    forged = msgspec.structs.replace(recording, checkpoints=(*recording.checkpoints, *more))
    found = replay_recording(forged).difference
    assert found is not None
    assert (found.position, found.expected) == (len(recording.events) + 1, "none: the events end before it")


@pytest.mark.parametrize(
    "words", [("replay",), ("replay", "--pack", "examples/refunds"), ("golden", "add", "--to", "x")]
)
def test_files_that_are_no_bundle_get_a_typed_answer(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Lines of JSON, a bundle that was cut off, one of another version, and a folder: each is told with what to do."""
    make_small(workshop, tmp_path / "true.tercet")
    data = (tmp_path / "true.tercet").read_bytes()
    files = {
        "lines.jsonl": (b'{"type":"session_started"}\n{"type":"plan_pro', "not_a_bundle"),
        "cut.tercet": (data[: len(data) // 2], "bundle_damaged"),
        "newer.tercet": (data.replace(b"tercet-bundle 1", b"tercet-bundle 2", 1), "newer_bundle"),
        "empty.tercet": (b"", "not_a_bundle"),
    }
    pack = [str(Path(__file__).parents[2] / word) if word.startswith("examples") else word for word in words]
    monkeypatch.chdir(tmp_path)
    for name, (content, code) in files.items():
        (tmp_path / name).write_bytes(content)
        result = CliRunner().invoke(app, [*pack, name, "--json"])
        assert result.exception is None or isinstance(result.exception, SystemExit), name
        told = json.loads(result.stdout)
        assert (name, told["error"]["code"]) == (name, code)
        assert told["error"]["remedy"]


def test_a_recorded_pack_whose_schema_expands_without_measure_is_refused(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replay answers that such a plan is rejected, instead of waiting for a validator that never comes back."""
    defs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(12)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**defs, "d12": {"type": "object"}}}
    workshop.is_forged = True
    workshop.tool("do.it", parameters=schema)

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            with monkeypatch.context() as lenient:
                lenient.setattr(schemas, "MAX_EVALUATIONS", 10**9)
                lenient.setattr(schemas, "_MAX_LISTED", 10**9)
                result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            for kept in (schemas.validator, schemas._bounds, schemas._prepared):  # pyright: ignore[reportPrivateUsage]
                kept.cache_clear()
            report = await replay(runtime.journal, result.session_id)
            assert report.difference is not None
            assert (report.difference.event, report.difference.expected) == ("plan_reviewed", "reject")

    workshop.run(main())

"""Replay: recorded runs come out the same, and whatever was changed in one is found and named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import tercet
from engine.workshop import ADA, ASK, BOB, Workshop, plan, step
from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.values.canonical import hash_bytes
from tercet.core import codec
from tercet.core import events as e
from tercet.core.table import TABLE
from tercet.engine.streams.experience import add_feedback
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import StoredCheckpoint
from tercet.packs.pack import Pack
from tercet.replay.answers import RECORDED
from tercet.replay.bundle.exporting import export_run
from tercet.replay.recording import Recording, load, load_bundle
from tercet.replay.replay import replay, replay_many, replay_recording
from tercet.replay.rules import RuleSource
from tercet.replay.what_if import what_if
from tercet.runtime import RuntimeOptions

from .archive import run_to_the_end, shop


def recorded(workshop: Workshop) -> Recording:
    """A run with evidence, a large result, a gate and its approval, as it was recorded."""
    pack, journal = shop(workshop), MemoryJournal()

    async def main() -> Recording:
        session = await run_to_the_end(workshop, pack, journal)
        return await load(journal, "default", session)

    return workshop.run(main())


def changed(recording: Recording, position: int, event: e.Event) -> Recording:
    """The same with another event in one place, also with values that a journal would not take."""
    events = list(recording.events)
    events[position - 1] = codec.VERSION + msgspec.json.encode(event)
    return msgspec.structs.replace(recording, events=tuple(events))


@pytest.mark.req("R8", "R276")
async def test_record_feedback_and_replay_read_one_report(workshop: Workshop) -> None:
    """All three hold the critic's report as the run recorded it; a changed one is told apart field by field."""
    workshop.tool("do.it")
    async with workshop.runtime(workshop.pack()) as runtime:
        result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
        record = await runtime.record(result.session_id)
        told = await add_feedback(
            runtime.journal, "default", result.session_id, author="bob", correction="wrong", now=5_000
        )
        diff = (await runtime.replay(result.session_id)).diff
        recording = await load(runtime.journal, "default", result.session_id)
    assert diff is not None
    assert record.report == told.entry.report == diff.recorded == diff.replayed
    assert diff.differences == ()
    position, reported = next(
        (n, event)
        for n, event in enumerate(map(codec.decode, recording.events), 1)
        if isinstance(event, e.RunReported)
    )
    other = {**reported.report, "rationale": "it went well"}
    forged = changed(recording, position, msgspec.structs.replace(reported, report=other))
    diff = replay_recording(forged).diff
    assert diff is not None
    assert (diff.differences, diff.recorded.rationale) == (("rationale",), "it went well")
    assert diff.replayed == record.report


# --- the table ---


def test_every_type_of_event_is_derived_or_a_fact_and_never_both() -> None:
    """A type that carries a judgement cannot be taken as a fact because somebody forgot its entry."""
    kinds = set(get_args(e.Event))
    pinned = {e.SessionStarted, e.SessionMigrated}  # compiled again
    facts = {kind for kind, row in TABLE.items() if row.fact}
    assert TABLE.keys() == kinds
    assert not RECORDED.keys() & facts
    assert kinds - RECORDED.keys() - facts - pinned == {
        e.RetryScheduled
    }  # resolved with the judgement of its step
    assert {kind for kind, row in TABLE.items() if row.is_verdict} <= RECORDED.keys()


# --- equal ---


@pytest.mark.req("R271", "R272", "R273", "R215")
def test_a_run_comes_out_the_same(workshop: Workshop) -> None:
    """Every event and every checkpoint of a run with a gate follows from the facts before it; no tool is called."""
    recording = recorded(workshop)
    called = list(workshop.calls)
    report = replay_recording(recording)
    assert (report.outcome, report.difference) == ("replay_equal", None)
    assert (report.events, report.checkpoints) == (len(recording.events), len(recording.checkpoints))
    assert report.status == "completed"
    counts = {each.event: each.count for each in report.rederived}
    assert counts["plan_reviewed"] == counts["gate_opened"] == counts["run_reported"] == 1
    assert counts["step_judged"] == counts["INTENT"] == 3
    assert {each.event: each.reason for each in report.facts} == {
        "plan_proposed": "the proposal of a planner or a caller",
        "COMPLETE": "the result of a tool",
        "gate_answered": "the message of a person",
    }
    assert (report.verdicts_rederived, report.verdicts_as_facts) == (7, 0)
    assert workshop.calls == called


@pytest.mark.req("R271")
def test_a_bundle_comes_out_the_same(workshop: Workshop, tmp_path: Path) -> None:
    """A run in a file, also one that was exported without its pack, is judged by the declarations that it has kept."""
    pack, journal, file = shop(workshop), MemoryJournal(), tmp_path / "run.tercet"

    async def main() -> Recording:
        session = await run_to_the_end(workshop, pack, journal)
        await export_run(journal, "default", session, file)
        return await load_bundle(file)

    report = replay_recording(workshop.run(main()))
    assert (report.outcome, report.pack) == ("replay_equal", pack.ref)


def test_a_run_that_is_under_way_is_judged_as_far_as_it_is(workshop: Workshop) -> None:
    """Each prefix of a run that ends where an append ended is equal: the next event does not change the last."""
    recording = recorded(workshop)
    ends = {point.seq for point in recording.checkpoints}
    for end in sorted(ends):
        cut = msgspec.structs.replace(
            recording,
            events=recording.events[:end],
            checkpoints=tuple(point for point in recording.checkpoints if point.seq <= end),
        )
        assert replay_recording(cut).difference is None


def test_the_front_page_replays(workshop: Workshop) -> None:
    """`runtime.replay` takes a session, or a run by its own id, and says which one it does not know."""
    pack = shop(workshop)

    async def main() -> None:
        async with tercet.Runtime(
            pack, MemoryJournal(), watchdog_ms=None, options=RuntimeOptions(clock=workshop.clock)
        ) as runtime:
            result = await runtime.run(ASK, plan=plan(step("b")), actor=ADA)
            report = await runtime.replay(result.session_id)
            assert report.is_equal
            assert await runtime.replay(report.run_id) == report
            for unknown in ("ses_none", "run_none"):
                with pytest.raises(UsageError, match=unknown):
                    await runtime.replay(unknown)

    workshop.run(main())


def test_many_runs_are_judged_in_processes_of_their_own(workshop: Workshop) -> None:
    """In two processes they come out as in one, in the same order."""
    recording = recorded(workshop)
    wrong = changed(recording, 3, e.Decomposed(at=0, steps=7))
    runs = [recording, wrong, recording]
    assert replay_many(runs, workers=2) == replay_many(runs, workers=1)
    assert [each.is_equal for each in replay_many(runs)] == [True, False, True]


# --- different ---


def mutations(event: e.Event) -> Iterator[tuple[str, e.Event]]:
    """The event with each of its fields changed, one at a time, but for its time."""
    for name in event.__struct_fields__:
        value: Any = getattr(event, name)
        other: Any
        match value:
            case bool():
                other = not value
            case str():
                other = f"{value}x"
            case int():
                other = value + 1
            case dict():
                other = {**value, "planted": 1}  # pyright: ignore[reportUnknownVariableType]
            case tuple() if name == "behaviour":
                other = (*value, 999)  # pyright: ignore[reportUnknownVariableType]
            case tuple():
                other = (*value, "planted")  # pyright: ignore[reportUnknownVariableType]
            case _:
                continue
        if name != "at":
            yield name, msgspec.structs.replace(event, **{name: other})


_TOLD = {
    "session_started": {
        *(
            "run",
            "trace",
            "traceparent",
            "actor",
            "request",
            "budget",
            "safety_mode",
            "evidence",
        ),
        *("library", "library_hash", "planner", "models", "fallible", "stepwise", "expires", "shadow"),
        *("root", "depth", "body", "behaviour", "pack_hash", "snapshot", "people", "dev", "folder"),
    },
    "plan_proposed": {"plan", "origin", "planner", "decision"},
    "INTENT": {"epoch", "breaker"},
    "COMPLETE": {"value", "blob", "error", "latency", "reconciled", "step", "attempt"},
    "gate_answered": {"gate", "outside", "inbox"},
    "session_resumed": {"owner", "epoch", "people"},
}
"""What each type of event only tells: a change there shows later, in what follows from it, or nowhere."""


@pytest.mark.req("R276")
def test_a_changed_judgement_is_named(workshop: Workshop) -> None:
    """Whatever field of a derived event is changed, replay names that event and that field, and what it should be."""
    recording = recorded(workshop)
    tried = 0
    for position, data in enumerate(recording.events, 1):
        event = codec.decode(data)
        kind = str(type(event).__struct_config__.tag)
        for name, other in mutations(event):
            if name in _TOLD.get(kind, ()):
                continue
            tried += 1
            try:
                found = replay_recording(changed(recording, position, other)).difference
            except UsageError as error:  # nothing of that name is known
                pytest.fail(f"{kind}.{name}: {error}")
            assert found is not None, (position, kind, name)
            assert found.position == position, (position, kind, name, found)
            if found.field not in (
                "type",
                "bytes",
            ):  # about another step nothing was due, or it does not parse
                assert found.field.split(".")[0] in (name, "step"), (kind, name, found)
                assert found.recorded != found.expected
    assert tried > 60


@pytest.mark.req("R276")
@pytest.mark.parametrize("kind", ["COMPLETE", "gate_answered", "plan_proposed"])
def test_a_changed_fact_shows_in_what_follows_from_it(workshop: Workshop, kind: str) -> None:
    """A result, an answer or a plan that was changed afterwards does not lead to the verdicts that were recorded."""
    recording = recorded(workshop)
    for position, data in enumerate(recording.events, 1):
        event = codec.decode(data)
        if str(type(event).__struct_config__.tag) != kind:
            continue
        other: e.Event = event
        match event:
            case e.Complete() if not event.blob:
                other = msgspec.structs.replace(event, value={"n": "another"})
            case e.GateAnswered():
                other = msgspec.structs.replace(event, actor="mallory")
            case e.PlanProposed():
                other = msgspec.structs.replace(event, plan={**event.plan, "steps": event.plan["steps"][1:]})
            case _:
                continue
        found = replay_recording(changed(recording, position, other)).difference
        assert found is not None
        assert found.position >= position


def test_a_missing_a_doubled_and_a_moved_event_are_found(workshop: Workshop) -> None:
    """Each event that is taken away, told twice or told too early is missed where it should be."""
    recording = recorded(workshop)
    events = recording.events
    for index in range(1, len(events)):
        before, after = events[: index - 1], events[index + 1 :]
        missing = (*before, events[index - 1], *after)
        doubled = (*before, events[index - 1], events[index], events[index], *after)
        moved = (*before, events[index], events[index - 1], *after)
        pair = {type(codec.decode(events[index])), type(codec.decode(events[index - 1]))}
        # Nothing but the chain knows whether somebody answered before or after a process had taken over.
        are_facts = pair == {e.GateAnswered, e.SessionResumed}
        for other in (missing, doubled, *(() if are_facts else (moved,))):
            report = replay_recording(msgspec.structs.replace(recording, events=other))
            assert not report.is_equal, index


def test_events_that_belong_together_are_missed_at_the_end(workshop: Workshop) -> None:
    """A note is two events in one append: a journal that ends between them was cut off."""
    journal = MemoryJournal()
    workshop.tool("do.it")

    async def main() -> Recording:
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("n", None)), actor=ADA)
        return await load(journal, "default", result.session_id)

    recording = workshop.run(main())
    at = next(i for i, data in enumerate(recording.events, 1) if isinstance(codec.decode(data), e.Intent))
    cut = msgspec.structs.replace(recording, events=recording.events[:at], checkpoints=())
    found = replay_recording(cut).difference
    assert found is not None
    assert (found.position, found.event, found.check) == (
        at + 1,
        "COMPLETE",
        "the end of the journal was cut off",
    )


@pytest.mark.req("R215")
def test_a_changed_checkpoint_is_named(workshop: Workshop) -> None:
    """Each point of the chain is compared byte by byte with what the state leaves there."""
    recording = recorded(workshop)
    for index, point in enumerate(recording.checkpoints):
        for data in (point.data[:-1] + bytes([point.data[-1] ^ 1]), b"nonsense"):
            other = StoredCheckpoint(point.seq, point.kind, hash_bytes(data), data)
            points = (*recording.checkpoints[:index], other, *recording.checkpoints[index + 1 :])
            found = replay_recording(msgspec.structs.replace(recording, checkpoints=points)).difference
            assert found is not None
            assert (found.event, found.position, found.field) == ("checkpoint", point.seq, point.kind)


def test_an_event_that_nobody_can_read_is_named(workshop: Workshop) -> None:
    """Bytes that are no event are a difference at their position, and no traceback."""
    recording = recorded(workshop)
    other = msgspec.structs.replace(recording, events=(*recording.events[:4], b"1{}", *recording.events[5:]))
    found = replay_recording(other).difference
    assert found is not None
    assert (found.position, found.field) == (5, "bytes")


# --- the pack ---


def test_a_journal_that_has_not_kept_its_pack_needs_an_installed_one(workshop: Workshop) -> None:
    """Without either, replay says which pack is missing; with it, the run comes out the same."""
    pack = shop(workshop)
    recording = recorded_with(workshop, pack)
    bare = msgspec.structs.replace(
        recording, blobs={k: v for k, v in recording.blobs.items() if k != pack.hash}
    )
    with pytest.raises(UsageError, match="has no stored pack") as refused:
        replay_recording(bare)
    assert refused.value.code == "pack_not_recorded"
    assert replay_recording(bare, RuleSource((pack,))).is_equal


def recorded_with(workshop: Workshop, pack: Pack) -> Recording:
    """A run of a pack to its end."""
    journal = MemoryJournal()

    async def main() -> Recording:
        session = await run_to_the_end(workshop, pack, journal)
        return await load(journal, "default", session)

    return workshop.run(main())


@pytest.mark.req("R271")
def test_a_session_that_moved_to_another_pack_is_judged_by_both(workshop: Workshop) -> None:
    """Before the move by the pack that it was started with, and behind it by the other."""
    old = shop(workshop)
    new = old.model_copy(update={"version": "1.1.0", "description": "mended"})
    journal = MemoryJournal()

    async def main() -> None:
        async with workshop.runtime(old, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)
        async with workshop.runtime(new, journal) as runtime:
            result = await runtime.migrate(result.session_id, actor=BOB)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            assert result.status == "completed"
            report = await replay(journal, result.session_id)
            assert (report.outcome, report.pack) == ("replay_equal", "workshop@1.1.0")

    workshop.run(main())


def test_whatever_is_changed_there_is_an_answer(workshop: Workshop) -> None:
    """Each field of each event, also of those that only tell facts: an outcome, or a refusal that says what is missing."""
    recording = recorded(workshop)
    for position, data in enumerate(recording.events, 1):
        for name, other in mutations(codec.decode(data)):
            forged = changed(recording, position, other)
            if name in ("pack_hash", "behaviour") and isinstance(other, e.SessionStarted):
                with pytest.raises(UsageError) as refused:
                    replay_recording(forged)
                assert refused.value.code in ("pack_not_recorded", "newer_rules")
                continue
            assert replay_recording(forged).outcome in ("replay_equal", "replay_different")
            assert what_if([forged], shop_again(workshop), workers=1).runs[0].outcome in OUTCOMES


OUTCOMES = ("unchanged", "changed", "unreadable")


def shop_again(workshop: Workshop) -> Pack:
    """The pack of the recorded run, made of the same tools."""
    return workshop.pack(gates=(Gate(name="BOSS", roles=("boss",)),))

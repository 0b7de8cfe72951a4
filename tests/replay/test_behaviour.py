"""Changed rules: a run is judged again under the rules that it was started with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.quality_desk import FACT, GOOD, WRITE, desk, last, of
from engine.workshop import ADA, ASK, Workshop, plan, step
from tercet.contracts.behaviour import CURRENT, Behaviour
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.core import codec
from tercet.core import events as e
from tercet.core.outputs import judging as quality
from tercet.engine import checkpoint
from tercet.engine.session_reader import restore
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Append, NewCheckpoint, StoredCheckpoint
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording, load
from tercet.replay.replay import replay_recording
from tercet.replay.rules import RuleSource

UNSORTED: dict[str, Any] = {
    "type": "object",
    "properties": {"zeal": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["zeal", "amount"],
}


def refused(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, rules: tuple[int, ...]
) -> tuple[Pack, Recording]:
    """A run whose plan is refused for its arguments, in a version of Tercet that goes by these rules."""
    workshop.tool("do.it", parameters=UNSORTED)
    pack, journal = workshop.pack(), MemoryJournal()
    framed = Pack.run_context

    def old_frame(self: Pack, **given: Any) -> Any:
        return framed(self, **given).model_copy(update={"behaviour": rules})

    monkeypatch.setattr(Pack, "run_context", old_frame)

    async def main() -> Recording:
        async with workshop.runtime(pack, journal) as runtime:
            workshop.is_forged = True
            result = await runtime.run(ASK, plan=plan(step("a", params={"zeal": 1})), actor=ADA)
            assert result.status == "failed"
            return await load(journal, "default", result.session_id)

    workshop.is_forged = True
    recording = workshop.run(main())
    monkeypatch.undo()
    return pack, recording


def remedy(recording: Recording) -> str:
    """What the review advised."""
    [found] = [each for each in map(codec.decode, recording.events) if isinstance(each, e.PlanReviewed)]
    return str(found.verdict["refusals"][0]["remedy"])


def test_a_session_writes_down_the_rules_that_it_goes_by(workshop: Workshop) -> None:
    """All that this version knows, in its first event; replay tells them."""
    workshop.tool("do.it")
    journal = MemoryJournal()

    async def main() -> Recording:
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            return await load(journal, "default", result.session_id)

    recording = workshop.run(main())
    started = codec.decode(recording.events[0])
    assert isinstance(started, e.SessionStarted)
    assert started.behaviour == CURRENT == tuple(Behaviour)
    assert replay_recording(recording).behaviour == CURRENT


@pytest.mark.req("R271", "R273")
def test_an_old_run_is_judged_under_the_old_rule(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before rule 1, a remedy named parameters as the author had written them: such a run still comes out the same."""
    pack, recording = refused(workshop, monkeypatch, rules=())
    assert remedy(recording) == "do.it takes zeal, amount"
    # What the session has kept does not tell the old order, so this takes the pack itself.
    bare = msgspec.structs.replace(recording, blobs={})
    assert replay_recording(bare, RuleSource((pack,))).difference is None


@pytest.mark.req("R271", "R273")
def test_a_new_run_is_judged_under_the_new_rule(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """By rule 1 the verdict follows from the hash of the pack, so what the session has kept is enough."""
    pack, recording = refused(workshop, monkeypatch, rules=CURRENT)
    assert remedy(recording) == "do.it takes amount, zeal"
    assert replay_recording(recording).difference is None
    bare = msgspec.structs.replace(recording, blobs={})
    assert replay_recording(bare, RuleSource((pack,))).difference is None


def test_the_number_of_the_rule_decides_and_nothing_else(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same run with the number taken away would have been judged otherwise: so the number is heeded."""
    pack, recording = refused(workshop, monkeypatch, rules=CURRENT)
    started = codec.decode(recording.events[0])
    older = codec.encode(msgspec.structs.replace(started, behaviour=()))
    other = msgspec.structs.replace(recording, events=(older, *recording.events[1:]), blobs={})
    found = replay_recording(other, RuleSource((pack,))).difference
    assert found is not None
    assert (found.event, found.field) == ("plan_reviewed", "verdict.remedy")
    assert (found.recorded, found.expected) == ("do.it takes amount, zeal", "do.it takes zeal, amount")


def test_a_rule_of_a_later_version_is_not_guessed(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever does not know a rule cannot judge by it, and says so."""
    _, recording = refused(workshop, monkeypatch, rules=CURRENT)
    started = codec.decode(recording.events[0])
    newer = codec.encode(msgspec.structs.replace(started, behaviour=(*CURRENT, 999)))
    other = msgspec.structs.replace(recording, events=(newer, *recording.events[1:]))
    with pytest.raises(UsageError, match="goes by rule 999") as told:
        replay_recording(other)
    assert told.value.code == "newer_rules"


@pytest.mark.req("R271", "R273")
@pytest.mark.parametrize(("rules", "is_bounded"), [((1,), False), (CURRENT, True)])
def test_evidence_is_bounded_only_by_the_rule(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, rules: tuple[int, ...], is_bounded: bool
) -> None:
    """Before rule 3 all evidence was read, however much: such a run is judged again without the finding of too much."""
    monkeypatch.setattr(quality, "MAX_READ", 2)
    framed = Pack.run_context

    def frame(self: Pack, **given: Any) -> Any:
        return framed(self, **given).model_copy(update={"behaviour": rules})

    with monkeypatch.context() as older:
        older.setattr(Pack, "run_context", frame)
        recording = judged(workshop, GOOD, FACT)
    found = [codec.decode(each) for each in recording.events]
    told = [each["description"] for each in of(e.OutputsCritiqued, found)[0].diagnosis["defects"]]
    assert told == (["the evidence has more than the 2 statements that are read"] if is_bounded else [])
    assert replay_recording(recording).difference is None


@pytest.mark.req("R271", "R273")
def test_of_members_that_bear_a_claim_out_alike_a_replay_names_the_same(workshop: Workshop) -> None:
    """By rule 3 it does not matter in which order the author of the evidence has written them."""
    fact = FACT.model_copy(update={"content": {"z_weight": 5, "a_weight": 5}})
    recording = judged(workshop, "The weight is 5.", fact)
    verified = last(e.OutputsVerified, map(codec.decode, recording.events))
    assert verified.verdict["claims"][0]["support"][0]["pointer"] == "/a_weight"
    assert replay_recording(recording).difference is None


@pytest.mark.parametrize("is_strict", [False, True])
def test_encoded_secrets_are_found_only_by_the_rule(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, is_strict: bool
) -> None:
    """Before rule 5 only secrets in clear were found: a run of that time is judged again without the finding."""
    rules = CURRENT if is_strict else tuple(each for each in CURRENT if each != Behaviour.STRICT_CALLS)
    framed = Pack.run_context

    def frame(self: Pack, **given: Any) -> Any:
        return framed(self, **given).model_copy(update={"behaviour": rules})

    with monkeypatch.context() as older:
        older.setattr(Pack, "run_context", frame)
        recording = judged(workshop, f"{GOOD} {b'AKIAIOSFODNN7EXAMPLE'.hex(':')}", FACT)
    found = [codec.decode(each) for each in recording.events]
    told = [each["description"] for each in of(e.OutputsCritiqued, found)[0].diagnosis["defects"]]
    assert ("it holds something that must not go out: AWS access key" in told) is is_strict
    assert replay_recording(recording).difference is None


def judged(workshop: Workshop, letter: str, fact: Evidence) -> Recording:
    """A run whose letter is held against a fact."""
    pack, journal = desk(workshop, {"letter": letter}, evidence=(fact,)), MemoryJournal()

    async def main() -> Recording:
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            return await load(journal, "default", result.session_id)

    return workshop.run(main())


def test_a_fold_of_earlier_rules_is_told_from_a_changed_one_and_is_not_continued_from(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a fold does not hold what calls were made with: it replays, but a session is restored from its events."""
    workshop.tool("do.it")
    pack, journal, framed = workshop.pack(), MemoryJournal(), Pack.run_context
    older = tuple(number for number in CURRENT if number != Behaviour.STRICT_CALLS)

    def old_frame(self: Pack, **given: Any) -> Any:
        return framed(self, **given).model_copy(update={"behaviour": older})

    monkeypatch.setattr(Pack, "run_context", old_frame)

    async def main() -> None:
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            recording = await load(journal, "default", result.session_id)
            state = await runtime.state(result.session_id)
        assert state.steps["a"].params == {"n": "a"}
        folded = checkpoint.fold(checkpoint.as_folded(state))
        as_stored = StoredCheckpoint(kind="fold", seq=folded.seq, data=folded.data, hash="")
        points = (*recording.checkpoints, as_stored)
        assert replay_recording(msgspec.structs.replace(recording, checkpoints=points)).difference is None
        copied = MemoryJournal()
        given = NewCheckpoint(kind="fold", seq=folded.seq, data=folded.data)
        session = result.session_id
        await copied.append(
            Append(
                tenant="default", stream=session, expected=0, events=recording.events, checkpoints=(given,)
            )
        )
        assert (await restore(copied, "default", session)).state == state

    workshop.run(main())

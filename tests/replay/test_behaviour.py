"""Changed rules: a run is judged again under the rules that it was started with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.quality_desk import FACT, GOOD, KEY, WRITE, desk
from engine.workshop import ADA, ASK, Workshop, plan, step
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.core import codec
from tercet.core import events as e
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
    others = tuple(number for number in CURRENT if number != Behaviour.PARAMETERS_BY_NAME)
    older = codec.encode(msgspec.structs.replace(started, behaviour=others))
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


OLDER = tuple(number for number in CURRENT if number != Behaviour.OUTPUTS_REPAIRED_PLAINLY)
OLDEST = tuple(number for number in OLDER if number != Behaviour.OUTPUTS_SCREENED)
EARLIER = f"outputs judged by rules before {int(Behaviour.OUTPUTS_REPAIRED_PLAINLY)}"


@pytest.mark.req("R271", "R273")
@pytest.mark.parametrize("rules", [OLDEST, OLDER, CURRENT])
def test_judgements_by_rules_that_are_gone_are_facts_and_counted(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, rules: tuple[int, ...]
) -> None:
    """No earlier judge is kept: what one said is taken as it was recorded, and the report says how often. By the rules of
    today every judgement follows again, and a changed one is found."""
    framed = Pack.run_context

    def frame(self: Pack, **given: Any) -> Any:
        return framed(self, **given).model_copy(update={"behaviour": rules})

    with monkeypatch.context() as older:
        older.setattr(Pack, "run_context", frame)
        recording = judged(workshop, f"{GOOD} Sign in with {KEY}.", FACT)
    report = replay_recording(recording)
    assert report.difference is None
    taken = {each.event: each.count for each in report.facts if each.reason == EARLIER}
    judgements = {"outputs_verified": 2, "outputs_critiqued": 2, "outputs_repaired": 1, "run_reported": 1}
    assert taken == ({} if rules == CURRENT else judgements)
    events = [codec.decode(each) for each in recording.events]
    at = next(n for n, each in enumerate(events) if isinstance(each, e.OutputsVerified))
    verified = events[at]
    assert isinstance(verified, e.OutputsVerified)
    forged = msgspec.structs.replace(verified, verdict={**verified.verdict, "unjudged": []})
    changed = (*recording.events[:at], codec.encode(forged), *recording.events[at + 1 :])
    found = replay_recording(msgspec.structs.replace(recording, events=changed)).difference
    assert (found is not None and found.event == "outputs_verified") is (rules == CURRENT)


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

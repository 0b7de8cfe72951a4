"""What somebody would change in a journal to hide something: replay does not believe it, also where the chain is right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.quality_desk import BAD_TONE, GOOD, THRESHOLDS, TONE, WRITE, desk, model
from engine.test_retrieving import Planner, asks, fact, shelved
from engine.workshop import ADA, ASK, Workshop, plan, step
from histories.stories import STORIES
from tercet.contracts.gate import Gate
from tercet.contracts.request import Actor
from tercet.core import codec, messages
from tercet.core import events as e
from tercet.journal.memory import MemoryJournal
from tercet.replay.recording import Recording, load
from tercet.replay.replay import replay_recording
from tercet.view.run import Difference


def told(workshop: Workshop, name: str) -> Recording:
    """One of the stories."""
    journal = MemoryJournal()

    async def main() -> Recording:
        return await load(journal, "default", await STORIES[name](workshop, journal))

    return workshop.run(main())


def place(recording: Recording, kind: type[e.Event]) -> tuple[int, Any]:
    """The first event of a type, and its position."""
    decoded = enumerate(map(codec.decode, recording.events), 1)
    return next((n, event) for n, event in decoded if isinstance(event, kind))


def forged(recording: Recording, changes: dict[int, e.Event], *, end: int | None = None) -> Difference | None:
    """What replay says of other events in these positions; the checkpoints are gone, and what comes behind `end`."""
    events = [
        codec.encode(changes[n]) if n in changes else data for n, data in enumerate(recording.events[:end], 1)
    ]
    return replay_recording(
        msgspec.structs.replace(recording, events=tuple(events), checkpoints=())
    ).difference


@pytest.mark.req("R273", "R276")
def test_a_verdict_on_outputs_is_no_fact_because_its_question_was_changed(workshop: Workshop) -> None:
    """Whoever changes the hash of a question and the verdict that its answer led to is found out."""
    pack = desk(workshop, {"letter": GOOD}, quality={"rubric": TONE}, decision={"thresholds": THRESHOLDS})
    journal = MemoryJournal()

    async def main() -> Recording:
        critics = [model(*[BAD_TONE] * 9, name="scripted:critic")]
        async with workshop.runtime(pack, journal, critics=critics) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
        return await load(journal, "default", result.session_id)

    recording = workshop.run(main())
    asked, question = place(recording, e.ModelAsked)
    said, critique = place(recording, e.OutputsCritiqued)
    changes = {
        asked: msgspec.structs.replace(question, prompt="sha256:" + "0" * 64),
        said: msgspec.structs.replace(critique, rubric={**critique.rubric, "planted": 1}),
    }
    found = forged(recording, changes, end=said)
    assert found is not None
    assert found.position == said
    assert "Unrecorded" in str(found.expected)


@pytest.mark.req("R276")
@pytest.mark.parametrize(
    "other", [{"actor": "dan", "roles": ()}, {"actor": "policy:small"}, {"answer": "modify", "note": "no"}]
)
def test_an_answer_counts_only_from_whoever_could_give_it(workshop: Workshop, other: dict[str, Any]) -> None:
    """A denial by somebody without a role, or in the name of a policy, was never let in: so it was not recorded either."""
    recording = told(workshop, "denied")
    position, answer = place(recording, e.GateAnswered)
    found = forged(recording, {position: msgspec.structs.replace(answer, **other)}, end=position)
    assert found is not None
    assert (found.position, found.event) == (position, "gate_answered")


PEOPLE = (Actor(id="bob", roles=("boss",), os_user="bob_login"), Actor(id="dan", roles=("boss",)))


def approved(workshop: Workshop) -> Recording:
    """A run with a call that bob approved, whom the pack lists as a boss."""
    gated: dict[str, Any] = {"gates": ("BOSS",), "authority": (), "no_compensation": "final"}
    workshop.tool("wipe.it", mode="destructive", **gated)
    pack, journal = workshop.pack(gates=(Gate(name="BOSS", roles=("boss",)),), actors=PEOPLE), MemoryJournal()

    async def main() -> Recording:
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a", "wipe.it")), actor=ADA)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=Actor(id="bob"))
            assert (await runtime.resume(result.session_id)).status == "completed"
            return await load(journal, "default", result.session_id)

    return workshop.run(main())


@pytest.mark.req("R276")
@pytest.mark.parametrize(
    "other",
    [{"answer": "deny"}, {"actor": "dan"}, {"roles": ()}, {"note": "other"}, {"value": 1}, {"session": "s"}],
    ids=lambda other: next(iter(other)),
)
def test_an_answer_is_derived_from_the_message_in_the_inbox(
    workshop: Workshop, other: dict[str, Any]
) -> None:
    """An answer whose message says something else is a difference, even where the answer alone would be possible."""
    recording = approved(workshop)
    position, answer = place(recording, e.GateAnswered)
    said = messages.decode(recording.inbox[answer.inbox])
    inbox = {answer.inbox: messages.encode(msgspec.structs.replace(said, **other))}
    found = forged(msgspec.structs.replace(recording, inbox=inbox), {})
    assert found is not None
    assert (found.position, found.event) == (position, "gate_answered")
    assert replay_recording(recording).difference is None
    without = msgspec.structs.replace(recording, inbox={})
    assert replay_recording(without).difference is None  # then the answer is a fact


@pytest.mark.req("R276")
def test_an_answer_counts_only_with_the_roles_of_the_recorded_list_of_people(workshop: Workshop) -> None:
    """Whoever takes a role from the recorded list, or the name, or makes the approver the owner by login, is found out."""
    recording = approved(workshop)
    start, started = place(recording, e.SessionStarted)
    position, _ = place(recording, e.GateAnswered)
    bob = started.people["bob"]
    assert (bob["roles"], bob["login"]) == (["boss"], "bob_login")
    forgeries: list[dict[str, Any]] = [
        {"people": {**started.people, "bob": {**bob, "roles": []}}},
        {"people": {"dan": started.people["dan"]}},
        {"actor": {**started.actor, "os_user": "bob_login"}},
    ]
    for changes in forgeries:
        found = forged(recording, {start: msgspec.structs.replace(started, **changes)})
        assert found is not None
        assert (found.position, found.event) == (position, "gate_answered")


@pytest.mark.req("R276")
def test_retrieval_changes_nothing_but_what_is_pinned(workshop: Workshop) -> None:
    """A plan that another step slipped into while evidence was looked up is not the one that was proposed."""
    workshop.tool("do.it")
    journal = MemoryJournal()

    async def main() -> Recording:
        store = await shelved(fact("ann"))
        async with workshop.runtime(workshop.pack(), journal, evidence=store) as runtime:
            result = await runtime.run(ASK, planner=Planner(plan(asks("a"), step("b"))), actor=ADA)
        return await load(journal, "default", result.session_id)

    recording = workshop.run(main())
    position, retrieved = place(recording, e.EvidenceRetrieved)
    slipped = {**retrieved.plan, "steps": [*retrieved.plan["steps"], {"id": "c", "tool": "do.it"}]}
    for other in (slipped, {**retrieved.plan, "revision": 7}):
        again = msgspec.structs.replace(retrieved, plan=other)
        found = forged(recording, {position: again}, end=position)
        assert found is not None
        assert (found.position, found.field.split(".")[0]) == (position, "plan")


@pytest.mark.req("R276")
@pytest.mark.parametrize("field", ["session", "tenant"])
def test_a_run_that_is_told_under_another_name_is_noticed(workshop: Workshop, field: str) -> None:
    """The first event names the session and the tenant that it is kept under."""
    recording = told(workshop, "completed")
    position, start = place(recording, e.SessionStarted)
    found = forged(recording, {position: msgspec.structs.replace(start, **{field: "other"})}, end=position)
    assert found is not None
    assert (found.position, found.field, found.recorded) == (position, field, "other")


def changed(workshop: Workshop) -> Recording:
    """A run in which bob set a value and dan approved the changed call."""
    gated: dict[str, Any] = {"gates": ("BOSS",), "authority": ("n",), "no_compensation": "final"}
    workshop.tool("wipe.it", mode="destructive", **gated)
    pack, journal = workshop.pack(gates=(Gate(name="BOSS", roles=("boss",)),), actors=PEOPLE), MemoryJournal()
    asked = plan(step("a", "wipe.it", params={"n": {"$from": "request#/count"}}))

    async def main() -> Recording:
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=asked, actor=ADA)
            assert result.gate is not None
            await runtime.modify(result.gate.id, actor=Actor(id="bob"), note="less", changes={"n": 1})
            result = await runtime.resume(result.session_id)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=Actor(id="dan"))
            assert (await runtime.resume(result.session_id)).status == "completed"
            return await load(journal, "default", result.session_id)

    return workshop.run(main())


def test_a_changed_plan_follows_from_the_values_that_were_set(workshop: Workshop) -> None:
    """Another value in the plan than the approver set is found out, and so is one that they never set."""
    recording = changed(workshop)
    decoded = list(enumerate(map(codec.decode, recording.events), 1))
    [(position, proposed)] = [
        (n, each) for n, each in decoded if isinstance(each, e.PlanProposed) and each.changed_by
    ]
    [(answered, answer)] = [
        (n, each) for n, each in decoded if isinstance(each, e.GateAnswered) and each.changes
    ]
    assert replay_recording(recording).difference is None
    other = plan(step("a", "wipe.it", params={"n": 9}))
    planted = msgspec.structs.replace(
        proposed, plan=other.model_dump(mode="json", exclude_defaults=True), hash=other.hash
    )
    found = forged(recording, {position: planted}, end=position)
    assert found is not None
    assert (found.position, found.event) == (position, "plan_proposed")
    found = forged(recording, {answered: msgspec.structs.replace(answer, changes={"/n": 9})}, end=answered)
    assert found is not None
    assert (found.position, found.field) == (answered, "changes./n")

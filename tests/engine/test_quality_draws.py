"""Samples that the runtime draws: of the step that brought an output, and of a model that makes outputs anew."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tercet.contracts.gate import Gate
from tercet.contracts.shape import JsonObject
from tercet.core import codec
from tercet.core import events as e
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording, load
from tercet.replay.replay import replay_recording

from .quality_desk import (
    BAD_TONE,
    FINE_TONE,
    GOOD,
    THRESHOLDS,
    TONE,
    WRITE,
    WRONG,
    Carried,
    carry,
    desk,
    last,
    model,
    of,
    whole,
)
from .test_quality_consistency import ONLY_COMPLETE, OTHER
from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

VOTED = (*THRESHOLDS, {"name": "self_consistency"})


def drawing(
    workshop: Workshop, *drafts: JsonObject, draws: int = 3, quality: JsonObject | None = None, **more: Any
) -> Pack:
    """A pack whose letter is drawn so often; its tool brings these drafts, one after the other."""
    vote = {"draws": draws, "into": "letter", **more.pop("consistency", {})}
    decision = {"thresholds": VOTED, **more.pop("decision", {})}
    return desk(
        workshop,
        *drafts,
        quality={**(quality or ONLY_COMPLETE), "consistency": vote},
        decision=decision,
        **more,
    )


def drawn(workshop: Workshop, *letters: str, **more: Any) -> Carried:
    """A run whose step brings these letters, one after the other."""
    return carry(
        workshop, drawing(workshop, *({"letter": each} for each in letters), draws=len(letters), **more)
    )


@pytest.mark.req("R171", "R173")
@pytest.mark.parametrize("count", [3, 5, 7])
def test_the_runtime_draws_as_many_samples_as_are_asked_for(workshop: Workshop, count: int) -> None:
    """The step is called again with the same parameters, under keys of its own each time; what most agree on is taken, and
    the share of those that agree is held against the limit."""
    done = drawn(workshop, OTHER, *[GOOD] * (count - 1))
    assert done.way[:3] == ["outputs_produced", "samples_drawn", "outputs_verified: critique"]
    made = last(e.SamplesDrawn, done.found)
    assert made.samples == (OTHER, *[GOOD] * (count - 1))
    assert (made.step, made.tool, made.calls, made.chosen) == ("draft", "do.it", count - 1, {"letter": GOOD})
    share = round((count - 1) / count, 6)
    assert (made.consistency["method"], made.consistency["consistency"]) == ("exact", share)
    assert last(e.OutputsVerified, done.found).consistency == made.consistency
    assert done.state.outputs == {"letter": GOOD}
    assert len(workshop.keys) == len(set(workshop.keys)) == count
    assert done.state.used.tool_calls == count
    is_enough = share >= 0.7
    assert made.consistency["verdict"] == ("PASS" if is_enough else "LOW_CONFIDENCE")
    assert done.result.status == ("completed" if is_enough else "paused")


@pytest.mark.req("R172")
def test_letters_in_words_are_compared_by_similarity(workshop: Workshop) -> None:
    """No two are equal, and the one that is nearest to all others is taken."""
    letters = (OTHER, GOOD, f"{GOOD} Thank you.", f"{GOOD} Thank you for it.", f"{GOOD} Thanks.")
    made = last(e.SamplesDrawn, drawn(workshop, *letters, consistency={"method": "similarity"}).found)
    assert made.consistency["method"] == "similarity"
    assert made.chosen["letter"] in letters[1:]


@pytest.mark.req("R173")
def test_samples_that_differ_are_criticised_and_go_to_a_person(workshop: Workshop) -> None:
    """LOW_CONFIDENCE is recorded, goes through CRITIQUE, counts in the confidence, and is not committed."""
    done = drawn(workshop, GOOD, OTHER, "Something else altogether was said.")
    made, critiqued = last(e.SamplesDrawn, done.found), of(e.OutputsCritiqued, done.found)[0]
    assert made.consistency["verdict"] == "LOW_CONFIDENCE"
    assert critiqued.confidence["features"]["consistency"] == made.consistency["consistency"]
    assert done.result.status == "paused"
    assert "self_consistency is 0.33" in done.result.reason


def test_what_was_not_chosen_is_no_witness(workshop: Workshop) -> None:
    """The letter that the step brought first says what evidence contradicts: it does not bear itself out afterwards."""
    done = drawn(
        workshop,
        WRONG,
        GOOD,
        GOOD,
        consistency={"minimum": 0.6},
        quality={},
        decision={"thresholds": (*THRESHOLDS, {"name": "self_consistency", "minimum": 0.6})},
    )
    assert (done.result.status, done.result.outputs) == ("completed", {"letter": GOOD})
    assert of(e.OutputsCritiqued, done.found)[0].diagnosis["defects"] == []
    assert WRONG not in str(last(e.OutputsVerified, done.found).verdict)


def test_an_output_that_is_declared_by_name_is_drawn_where_it_came_from(workshop: Workshop) -> None:
    """The last result that carries it is the one that counts."""
    pack = drawing(workshop, {"letter": GOOD})
    done = carry(workshop, pack, plan=plan(step("draft"), declared_outputs=("letter",)))
    assert (done.result.status, last(e.SamplesDrawn, done.found).step) == ("completed", "draft")


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (plan(step("draft"), outputs={"letter": {"$cel": "draft.letter"}}), "no step has brought letter"),
        (plan(step("draft"), outputs={"letter": GOOD}), "no step has brought letter"),
    ],
)
def test_what_no_step_brought_cannot_be_drawn_again(workshop: Workshop, written: Any, why: str) -> None:
    """What was computed, or written by the planner, has no samples: that is told, and nothing is committed."""
    done = carry(workshop, drawing(workshop, {"letter": GOOD}), plan=written)
    assert last(e.SamplesDrawn, done.found).error == why
    assert done.result.status == "paused"
    assert "self_consistency was not measured" in done.result.reason


def test_only_what_changes_nothing_is_called_again(workshop: Workshop) -> None:
    """A step that writes is called once, whatever a decision says about samples."""
    pack = drawing(workshop, {"letter": GOOD})
    workshop.tools.clear()
    workshop.tool("keep.it", mode="local_write")
    pack = pack.model_copy(update={"tools": (*pack.tools, *workshop.tools)})
    written = plan(
        step("draft", "keep.it", params={"letter": GOOD}), outputs={"letter": {"$from": "draft#/letter"}}
    )
    done = carry(workshop, pack, plan=written)
    assert last(e.SamplesDrawn, done.found).error == "keep.it is no read_only tool of this run"
    assert workshop.calls == [("draft", 1)]


async def test_a_step_that_a_person_approves_is_not_called_behind_their_back(workshop: Workshop) -> None:
    """An approval is for one call: further samples would need further ones."""
    workshop.tool("ask.it", mode="read_only", gates=("GATE_BOSS",))
    pack = drawing(workshop, {"letter": GOOD}, gates=(Gate(name="GATE_BOSS", roles=("boss",)),))
    written = plan(
        step("draft", "ask.it", params={"letter": GOOD}), outputs={"letter": {"$from": "draft#/letter"}}
    )
    approved: list[Any] = []

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=written, actor=ADA)
        assert result.gate is not None
        await runtime.approve(result.gate.id, actor=BOB)
        result = await runtime.resume(result.session_id)
        approved.extend(await events(runtime.journal, result.session_id))
        assert result.status == "paused"
    assert last(e.SamplesDrawn, approved).error == "a person approves every call of draft"
    assert workshop.calls == [("draft", 1)]


def test_samples_are_paid_for_like_any_call(workshop: Workshop) -> None:
    """Where the budget of calls is used up, no more are drawn, and the limit counts as missed."""
    done = carry(workshop, drawing(workshop, {"letter": GOOD}, draws=5, budget={"tool_calls": 3}))
    made = last(e.SamplesDrawn, done.found)
    assert (made.calls, len(made.samples), made.consistency) == (2, 3, {})
    assert "1 tool call is needed" in made.error
    assert (done.result.status, done.state.used.tool_calls) == ("paused", 3)


def test_samples_without_measure_are_not_compared(workshop: Workshop) -> None:
    """All of them would stand in one event: what is that long has to be judged otherwise."""
    done = carry(workshop, drawing(workshop, {"letter": "x" * 300_000}))
    assert "300,002 bytes" in last(e.SamplesDrawn, done.found).error
    assert (done.result.status, done.state.used.tool_calls) == ("paused", 1)


KIND = f"Thank you. {GOOD}"


@pytest.mark.req("R171", "R173")
@pytest.mark.parametrize("is_agreed", [True, False])
def test_a_model_that_makes_everything_anew_is_asked_several_times(
    workshop: Workshop, is_agreed: bool
) -> None:
    """The answer that most agree on is taken, all of them are recorded and paid for, and how far they agree is what the
    outputs are held to from then on."""
    # The whole tone is wrong, so nothing less than all is written anew.
    pack = drawing(
        workshop,
        {"letter": GOOD},
        quality={"rubric": TONE, "repair": {"edit_up_to": "none", "rewrite_up_to": "none"}},
    )
    answers = [KIND] * 3 if is_agreed else [KIND, f"{KIND} Bye.", KIND]
    mender = model(*map(whole, answers))
    critic = model(BAD_TONE, FINE_TONE, name="scripted:critic")
    done = carry(workshop, pack, critics=[critic], repairers=[mender], plan=WRITE)
    repaired = last(e.OutputsRepaired, done.found)
    assert [question.seed for question in mender.questions] == [0, 1, 2]
    assert {question.temperature for question in mender.questions} == {0.7}
    assert repaired.outputs == {"letter": KIND}
    assert repaired.consistency["consistency"] == (1.0 if is_agreed else 0.666667)
    assert last(e.OutputsVerified, done.found).consistency == repaired.consistency
    assert repaired.attempts == 1
    answered = [event for event in of(e.ModelAnswered, done.found) if "letter" in event.answer]
    assert [each["replacement"]["letter"] for each in map(_json, answered)] == answers
    assert repaired.tokens == sum(event.tokens_in + event.tokens_out for event in answered)
    assert done.result.status == ("completed" if is_agreed else "paused")
    assert is_agreed or "self_consistency is 0.666667, below 0.7" in done.result.reason


def _json(event: e.ModelAnswered) -> JsonObject:
    return json.loads(event.answer)


def test_an_answer_that_cannot_be_used_agrees_with_nobody(workshop: Workshop) -> None:
    """It counts against those that can; where most cannot be used, the attempt has failed."""
    quality: JsonObject = {
        "rubric": TONE,
        "repair": {"edit_up_to": "none", "rewrite_up_to": "none", "max_attempts": 1},
    }
    pack = drawing(workshop, {"letter": GOOD}, quality=quality)
    critics = [model(BAD_TONE, *[FINE_TONE] * 3, name="scripted:critic")]
    lost = carry(workshop, pack, critics=critics, repairers=[model(whole(KIND), {"no": 1}, {"no": 2})])
    assert lost.state.outputs == {"letter": GOOD}
    assert last(e.OutputsRepaired, lost.found).consistency == {}


def test_without_tokens_for_all_of_them_nobody_is_asked(workshop: Workshop) -> None:
    """Three answers cost three times as much, and that is reckoned with before the first."""
    limits = {"edit_up_to": "none", "rewrite_up_to": "none", "max_tokens": 5_000}
    pack = drawing(workshop, {"letter": GOOD}, quality={"rubric": TONE, "repair": limits})
    mender = model(*[whole(KIND)] * 3)
    critics = [model(BAD_TONE, *[FINE_TONE] * 3, name="scripted:critic")]
    done = carry(workshop, pack, critics=critics, repairers=[mender])
    assert mender.questions == []
    (left,) = last(e.OutputsRepaired, done.found).escalation["left"]
    assert left["reason"] == "no tokens are left for it"


@pytest.mark.req("R171", "R271")
async def test_a_replay_holds_the_vote_again(workshop: Workshop) -> None:
    """What was drawn is a fact; what it agrees on is derived, so another word about it is found out."""
    pack, journal = drawing(workshop, {"letter": GOOD}), MemoryJournal()

    async def main() -> Recording:
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            return await load(journal, "default", result.session_id)

    recording = await main()
    events = list(map(codec.decode, recording.events))
    at = next(n for n, event in enumerate(events) if isinstance(event, e.SamplesDrawn))
    made = events[at]
    assert isinstance(made, e.SamplesDrawn)
    events[at] = msgspec.structs.replace(made, samples=(GOOD, GOOD, OTHER))
    forged = msgspec.structs.replace(recording, events=tuple(map(codec.encode, events)))
    found = replay_recording(forged).difference
    assert found is not None
    assert (found.event, found.field) == ("samples_drawn", "consistency.consistency")

"""Somebody tries to have outputs committed that should not be, or to keep every later run from judging."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.engine.streams import experience
from tercet.journal.side_stream import append_next
from tercet.packs import check

from .quality_desk import (
    BAD_TONE,
    FACT,
    FINE_TONE,
    GOOD,
    KEY,
    LEAKY,
    THRESHOLDS,
    TONE,
    WRITE,
    WRONG,
    Carried,
    carry,
    desk,
    last,
    mended,
    model,
    of,
    run_accepted,
)
from .workshop import ADA, ASK, BOB, DAN, LEA, Workshop, events, plan, step

_OUTCOME: JsonObject = {"features": {"critic": "high"}, "is_correct": True}
_STEERED: JsonObject = {"task_class": "letter", "run": "r", "iteration": 0, "before": 0.1, "after": 0.2}
_TINY: JsonObject = {**_STEERED, "intensity": 1e-200, "means": "model"}
_HUGE: JsonObject = {"bias": 1e308, "weights": {"critic": 1e308}, "centers": {"critic": -1e308}}

FOREIGN: dict[str, bytes] = {
    "bytes": b"\xff\x00garbage",
    "another shape": b"[]",
    "no session": b'{"session": "", "pattern": {"a": 1}}',
    "an attempt that is none": b'{"session": "s", "log": [{"a": 1}]}',
    "an observation that is none": b'{"session": "s", "observations": [{"x": 1}]}',
    "repairs without intensity": msgspec.json.encode({"session": "s", "observations": [_TINY] * 9}),
    "an outcome that is none": msgspec.json.encode({"session": "s", "outcomes": [_OUTCOME]}),
    "less than nothing": b'{"session": "s", "pattern": {"a": -5}}',
    "more than can be added": b'{"session": "s", "pattern": {"a": 1e308, "b": 1e308}}',
    "weights that are none": b'{"session": "s", "weights": {"bias": "x"}}',
    "weights without bounds": msgspec.json.encode({"session": "s", "weights": _HUGE}),
}


@pytest.mark.parametrize("kind", ["experience", "calibration"])
@pytest.mark.parametrize("what", FOREIGN)
async def test_foreign_bytes_among_lessons_keep_no_run_from_judging(
    workshop: Workshop, what: str, kind: str
) -> None:
    """What is no lesson teaches nothing; those before and behind it count as ever."""
    pack = desk(workshop, {"letter": LEAKY}, quality={"novelty": 1.0})
    stream = f"{kind}:letter"

    async with workshop.journal("memory:") as journal, workshop.runtime(pack, journal) as runtime:
        first = await run_accepted(runtime)
        await append_next(journal, "default", stream, FOREIGN[what])
        second = await run_accepted(runtime)
        drawn = last(e.ExperienceDrawn, await events(journal, second.session_id))
        assert (first.status, second.status) == ("completed", "completed")
        assert [each["tried"] for each in drawn.rates["tallies"]] == [1]
        assert drawn.novelty["nearest"] == first.session_id
        known = await experience.recall(journal, "default", "letter")
        assert {first.session_id, second.session_id} <= {each.session for each in known.lessons}


EDITOR = Gate(name="EDITOR", roles=("boss",), ttl_ms=600_000)


@pytest.mark.req("R142")
async def test_what_the_critic_did_not_accept_is_accepted_by_nobody_without_the_role(
    workshop: Workshop,
) -> None:
    """A letter with a key in it is handed over: whoever may not accept outputs may not take them as partial either."""
    pack = desk(
        workshop,
        {"letter": LEAKY},
        budget={"max_repairs": 0},
        gates=(EDITOR,),
        decision={"requires_human_approval": True, "output_gate": "EDITOR"},
    )

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=WRITE, actor=ADA)
        assert result.gate is not None
        assert result.gate.kind == "escalation"
        for somebody, code in ((DAN, "role_missing"), (LEA, "role_missing"), (ADA, "own_gate")):
            with pytest.raises(UsageError) as caught:
                await runtime.decide(result.gate.id, "accept_partial", actor=somebody)
            assert caught.value.code == code
        await runtime.decide(result.gate.id, "accept_partial", actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "completed"


@pytest.mark.req("R142")
async def test_a_yes_on_evidence_that_has_expired_is_none(workshop: Workshop) -> None:
    """Outputs wait for a person until the facts that they stand on are out of date: then they can only be refused."""
    soon = datetime.fromtimestamp(workshop.clock.now() / 1000 + 5, UTC)
    fact = FACT.model_copy(update={"expires_at": soon})
    pack = desk(workshop, {"letter": GOOD}, evidence=(fact,), decision={"requires_human_approval": True})
    pinning = plan(step("draft", evidence_refs=(fact.id,)), outputs={"letter": {"$from": "draft#/letter"}})

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=pinning, actor=ADA)
        assert result.gate is not None
        await workshop.clock.sleep(60_000)
        with pytest.raises(UsageError) as caught:
            await runtime.approve(result.gate.id, actor=BOB)
        assert caught.value.code == "evidence_expired"
        await runtime.deny(result.gate.id, actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "rejected"


@pytest.mark.req("R145")
async def test_what_a_person_wanted_changed_is_not_committed_behind_their_back(workshop: Workshop) -> None:
    """Nobody could heed the wish, and a critic that changed its mind makes confidence high: a person is asked again."""
    lax: JsonObject = {
        "dimensions": [
            {"name": "tone", "weight": 0.6, "minimum": 0.4, "scorer": "model", "question": "Is it kind?"},
            {"name": "safety", "weight": 0.4, "minimum": 0.95, "scorer": "safe"},
        ],
        "threshold": 0.5,
    }
    bands: JsonObject = {"auto_commit": 0.94, "human_review": 0.05}
    pack = desk(
        workshop,
        {"letter": GOOD},
        quality={"rubric": lax},
        decision={"thresholds": THRESHOLDS, "confidence": bands},
    )
    critic = model({"score": 0.5, "defects": []}, *[FINE_TONE] * 3)

    async with workshop.runtime(pack, critics=[critic]) as runtime:
        result = await runtime.run(ASK, plan=WRITE, actor=ADA)
        assert result.gate is not None
        await runtime.modify(result.gate.id, actor=BOB, note="write it in verse")
        again = await runtime.resume(result.session_id)
        reported = last(e.RunReported, await events(runtime.journal, result.session_id))
        assert reported.exit["confidence"] >= bands["auto_commit"]
        assert (reported.exit["triggers"], again.status) == (["required", "unjudged"], "awaiting_gate")
        assert again.gate is not None
        await runtime.approve(again.gate.id, actor=BOB)
        assert (await runtime.resume(again.session_id)).status == "completed"


@pytest.mark.slow
def test_what_a_model_is_not_shown_it_does_not_replace(workshop: Workshop) -> None:
    """A document that is longer than what is shown of it stays as it is: its end would be lost."""
    long = GOOD + " Thank you for it." * 5_000
    pack = desk(
        workshop,
        {"letter": long},
        quality={"rubric": TONE, "repair": {"max_tokens": 10_000_000}},
        decision={"thresholds": THRESHOLDS},
    )
    mender = model(*[mended(GOOD)] * 5)
    done = carry(workshop, pack, critics=[model(BAD_TONE, *[FINE_TONE] * 3)], repairers=[mender])
    assert done.state.outputs["letter"] == long
    assert mender.questions == []
    (left,) = last(e.OutputsRepaired, done.found).escalation["left"]
    assert left["reason"] == "it is too long to be shown to a model whole"


@pytest.mark.parametrize(
    "made",
    [
        {"letter": GOOD, "amount": 5},
        {"letter": GOOD, "__proto__": {"is_admin": True}},
        {"language": "en"},
        {},
    ],
    ids=["one more", "a strange one", "one for another", "none"],
)
def test_a_model_that_makes_everything_anew_makes_no_other_outputs(
    workshop: Workshop, made: JsonObject
) -> None:
    """What nobody asked for is not committed because a model wrote it beside what it was asked for."""
    pack = desk(workshop, {"letter": GOOD}, quality={"rubric": TONE}, decision={"thresholds": THRESHOLDS})
    mender = model(*[{"replacement": made}] * 9)
    done = carry(workshop, pack, critics=[model(BAD_TONE, *[FINE_TONE] * 3)], repairers=[mender])
    assert done.state.outputs == {"letter": GOOD}
    assert {entry["success"] for entry in done.state.quality.log} == {False}


SAMPLES = ("s0", "s1", "s2")


def voting(workshop: Workshop, *samples: str) -> Carried:
    """A run that chose one of three letters, each of which lacks a section; the rubric is the usual one."""
    section = {"heading": "Returns", "text": "The total is {{ total }}."}
    pack = desk(
        workshop,
        dict(zip(SAMPLES, samples, strict=True)),
        quality={
            "required_sections": ["Returns"],
            "consistency": {"samples": SAMPLES, "into": "letter", "minimum": 0.6},
            "repair": {"sections": [section]},
        },
        decision={
            "required_outputs": SAMPLES,
            "thresholds": (*THRESHOLDS, {"name": "self_consistency", "minimum": 0.6}),
        },
    )
    outputs = {name: {"$from": f"draft#/{name}"} for name in SAMPLES}
    return carry(workshop, pack, plan=plan(step("draft"), outputs=outputs))


@pytest.mark.req("R171")
@pytest.mark.parametrize("odd", [GOOD, WRONG], ids=["all agree", "one is wrong"])
def test_what_was_chosen_of_samples_is_judged_and_stays_mended(workshop: Workshop, odd: str) -> None:
    """That samples say the same, or one of them something wrong, is held against nobody, and a vote undoes no repair."""
    done = voting(workshop, GOOD, GOOD, odd)
    assert done.result.status == "completed"
    assert done.state.outputs["letter"].startswith(GOOD)
    assert "## Returns" in done.state.outputs["letter"]
    verified = of(e.OutputsVerified, done.found)
    assert of(e.OutputsRead, done.found)[0].outputs == {"letter": GOOD}
    assert verified[0].consistency == verified[1].consistency


def test_a_key_in_a_sample_that_was_not_chosen_is_not_committed(workshop: Workshop) -> None:
    """All samples are in the record: what must not go out is taken out of each of them."""
    done = voting(workshop, GOOD, GOOD, LEAKY)
    assert done.result.status == "completed"
    assert KEY not in str(done.state.outputs)


@pytest.mark.parametrize(
    "outputs",
    [{"letter": GOOD, "more": {KEY: 1}}, {"letter": GOOD, "more": {"card": 4111111111111111}}],
    ids=["the name of a member", "a number"],
)
def test_a_secret_that_is_no_text_is_not_committed(workshop: Workshop, outputs: JsonObject) -> None:
    """A key can be the name of a member, and the number of a card a number: no rule takes them out, so a person decides."""
    only_safe = {"dimensions": [{"name": "safety", "weight": 1.0, "minimum": 0.95, "scorer": "safe"}]}
    pack = desk(workshop, outputs, quality={"rubric": only_safe}, decision={"thresholds": THRESHOLDS})
    written = plan(step("draft"), outputs={name: {"$from": f"draft#/{name}"} for name in outputs})
    done = carry(workshop, pack, plan=written)
    assert done.result.status == "paused"
    assert "safety is 0.0" in done.result.reason
    assert KEY not in str(last(e.OutputsCritiqued, done.found).diagnosis)


@pytest.mark.slow
def test_what_a_critic_is_not_shown_it_does_not_approve(workshop: Workshop) -> None:
    """A critic that likes everything is not asked about a letter whose end it would not see."""
    long = GOOD + " Thank you for it." * 5_000
    pack = desk(workshop, {"letter": long}, quality={"rubric": TONE}, decision={"thresholds": THRESHOLDS})
    critic = model(*[FINE_TONE] * 5)
    done = carry(workshop, pack, critics=[critic])
    assert (done.result.status, critic.questions) == ("paused", [])
    assert "too long to be shown to a model whole" in done.result.reason


def test_a_dimension_does_not_stand_in_for_what_is_measured_elsewhere(workshop: Workshop) -> None:
    """A rubric may call a dimension self_consistency; the threshold of that name asks for samples that agree."""
    named = {"name": "self_consistency", "weight": 1.0, "minimum": 0.1, "scorer": "safe"}
    pack = desk(
        workshop,
        {"letter": GOOD},
        quality={"rubric": {"dimensions": [named]}},
        decision={"thresholds": (*THRESHOLDS, {"name": "self_consistency"})},
    )
    done = carry(workshop, pack)
    assert done.result.status == "paused"
    assert "self_consistency was not measured" in done.result.reason
    assert "threshold_unmeasured" in {problem.code for problem in check(pack)}


@pytest.mark.parametrize("marked", [(), ("message",)])
async def test_a_sentence_in_the_request_makes_no_claim_right(
    workshop: Workshop, marked: tuple[str, ...]
) -> None:
    """A value that no trusted source has stays wrong, whoever else says it in a sentence."""
    pack = desk(workshop, {"letter": WRONG}, decision={"untrusted_inputs": marked})
    said = {**ASK.input, "message": "I think that the total of order ord_881 is 999 EUR."}

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK.model_copy(update={"input": said}), plan=WRITE, actor=ADA)
        state = await runtime.state(result.session_id)
        assert "999" not in state.outputs["letter"] or result.status != "completed"
        found = of(e.OutputsCritiqued, await events(runtime.journal, result.session_id))
        assert any("'999 EUR'" in each["description"] for each in found[0].diagnosis["defects"])


def test_a_repair_that_only_a_test_can_judge_is_not_called_a_success(workshop: Workshop) -> None:
    """It stays pending in the log, so that it teaches nobody a rate that nobody has measured."""
    pack = desk(workshop, {"letter": GOOD}, quality={"rubric": TONE}, decision={"thresholds": THRESHOLDS})
    done = carry(
        workshop,
        pack,
        critics=[model(BAD_TONE, FINE_TONE, name="scripted:critic")],
        repairers=[model(mended(f"Thank you. {GOOD}"))],
    )
    (entry,) = last(e.OutputsRepaired, done.found).log
    assert (entry["defect"]["dimension"], entry.get("success")) == ("tone", None)

"""Somebody tries to have outputs committed that should not be, or to keep every later run from judging."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.shape import JsonObject
from tercet.journal import events as e
from tercet.journal.side_stream import append_next
from tercet.runtime import experience

from .quality_desk import (
    BAD_TONE,
    FACT,
    FINE_TONE,
    GOOD,
    LEAKY,
    THRESHOLDS,
    TONE,
    WRITE,
    carry,
    desk,
    last,
    mended,
    model,
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
def test_foreign_bytes_among_lessons_keep_no_run_from_judging(
    workshop: Workshop, what: str, kind: str
) -> None:
    """What is no lesson teaches nothing; those before and behind it count as ever."""
    pack = desk(workshop, {"letter": LEAKY}, quality={"novelty": 1.0})
    stream = f"{kind}:letter"

    async def main() -> None:
        async with workshop.journal("memory:") as journal, workshop.runtime(pack, journal) as runtime:
            first = await runtime.run(ASK, plan=WRITE, actor=ADA)
            await append_next(journal, "default", stream, lambda _: (FOREIGN[what],))
            second = await runtime.run(ASK, plan=WRITE, actor=ADA)
            drawn = last(e.ExperienceDrawn, await events(journal, second.session_id))
            assert (first.status, second.status) == ("completed", "completed")
            assert [each["tried"] for each in drawn.rates["tallies"]] == [1]
            assert drawn.novelty["nearest"] == first.session_id
            known = await experience.recall(journal, "default", "letter")
            assert {first.session_id, second.session_id} <= {each.session for each in known.lessons}

    workshop.run(main())


EDITOR = Gate(name="EDITOR", roles=("boss",), ttl_ms=600_000)


@pytest.mark.req("R142")
def test_what_the_critic_did_not_accept_is_accepted_by_nobody_without_the_role(workshop: Workshop) -> None:
    """A letter with a key in it is handed over: whoever may not accept outputs may not take them as partial either."""
    pack = desk(
        workshop,
        {"letter": LEAKY},
        budget={"max_repairs": 0},
        gates=(EDITOR,),
        decision={"requires_human_approval": True, "output_gate": "EDITOR"},
    )

    async def main() -> None:
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

    workshop.run(main())


@pytest.mark.req("R142")
def test_a_yes_on_evidence_that_has_expired_is_none(workshop: Workshop) -> None:
    """Outputs wait for a person until the facts that they stand on are out of date: then they can only be refused."""
    soon = datetime.fromtimestamp(workshop.clock.now() / 1000 + 5, UTC)
    fact = FACT.model_copy(update={"expires_at": soon})
    pack = desk(workshop, {"letter": GOOD}, evidence=(fact,), decision={"requires_human_approval": True})
    pinning = plan(step("draft", evidence_refs=(fact.id,)), outputs={"letter": {"$from": "draft#/letter"}})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=pinning, actor=ADA)
            assert result.gate is not None
            await workshop.clock.sleep(60_000)
            with pytest.raises(UsageError) as caught:
                await runtime.approve(result.gate.id, actor=BOB)
            assert caught.value.code == "evidence_expired"
            await runtime.deny(result.gate.id, actor=BOB)
            assert (await runtime.resume(result.session_id)).status == "rejected"

    workshop.run(main())


@pytest.mark.req("R145")
def test_what_a_person_wanted_changed_is_not_committed_behind_their_back(workshop: Workshop) -> None:
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

    async def main() -> None:
        async with workshop.runtime(pack, critics=[critic]) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            assert result.gate is not None
            await runtime.modify(result.gate.id, actor=BOB, note="write it in verse")
            again = await runtime.resume(result.session_id)
            reported = last(e.RunReported, await events(runtime.journal, result.session_id))
            assert reported.exit["disposition"] == "AUTO_COMMIT"
            assert (reported.exit["triggers"], again.status) == (["required"], "awaiting_gate")
            assert again.gate is not None
            await runtime.approve(again.gate.id, actor=BOB)
            assert (await runtime.resume(again.session_id)).status == "completed"

    workshop.run(main())


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

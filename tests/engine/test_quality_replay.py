"""Every judgement can be derived again from what was recorded before it, byte for byte, and a changed record shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec
import pytest

from tercet.contracts.question import ModelFault
from tercet.core import events as e
from tercet.core import transcript
from tercet.core.config import ExecutionPlan
from tercet.core.fold.apply import fold_event
from tercet.core.outputs.judging import OutputReview
from tercet.core.outputs.recorded_answers import Judged, Unrecorded, judge_again
from tercet.core.plans import read_plan
from tercet.core.state import State
from tercet.critic.score import score
from tercet.engine import sessions
from tercet.packs.pack import Pack

from .quality_desk import (
    BAD_TONE,
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
    mended,
    model,
)
from .test_quality_consistency import voting
from .test_quality_crashes import hand, judged, opinion
from .test_quality_ways import CURT, CURT_TONE
from .workshop import ADA, ASK, BOB, Workshop, events

KINDS = (e.OutputsVerified, e.OutputsCritiqued, e.OutputsRepaired)


def matters(pack: Pack, found: Sequence[e.Event]) -> Iterator[tuple[OutputReview, Judged]]:
    """Each judgement of a run with what it was made of, by the pack and the events before it alone."""
    state = State()
    for at, event in enumerate(found):
        if isinstance(event, KINDS):
            ctx, request = sessions.frame_of(state)
            config = sessions.build_run_config(pack, ctx, request, sessions.snapshot_of(pack, state))
            config = config.extended(state.extended) if state.extended else config
            course = ExecutionPlan.of(read_plan(state.plan), config.surface)
            run = transcript.run_of(config, course, state, found[:at], {})
            yield (
                OutputReview(
                    state=state, config=config, run=run, scored=score(run), repairers=event.repairers
                ),
                event,
            )
        state = fold_event(state, event)


def demand_derivable(pack: Pack, found: Sequence[e.Event]) -> int:
    """Every judgement comes out again, byte for byte; how many there were."""
    number = 0
    for review, event in matters(pack, found):
        again = judge_again(review, event)
        assert msgspec.json.encode(again) == msgspec.json.encode(event)
        number += 1
    return number


TONE_ONLY: dict[str, Any] = {"quality": {"rubric": TONE}, "decision": {"thresholds": THRESHOLDS}}
DOWN = ModelFault("it is down", code="model_refused")
SCENES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rules": ({"draft": LEAKY}, {}),
    "wrong": ({"draft": WRONG}, {}),
    "steered": ({"draft": LEAKY, "control": {"letter": {}}}, {}),
    "broken": ({"draft": 7}, {}),
    "models": (
        {"draft": GOOD, **TONE_ONLY},
        {"critics": [BAD_TONE, FINE_TONE], "repairers": [[mended(f"Thank you. {GOOD}")]]},
    ),
    "faults": (
        {"draft": GOOD, **TONE_ONLY},
        {"critics": [BAD_TONE, DOWN, DOWN], "repairers": [[DOWN, DOWN, DOWN], ["no JSON"]]},
    ),
    "circles": (
        {"draft": CURT, "budget": {"max_repairs": 8}, **TONE_ONLY},
        {"critics": [CURT_TONE] * 9, "repairers": [[mended(CURT)] * 20, [mended(CURT)] * 20]},
    ),
    "nobody": ({"draft": GOOD, **TONE_ONLY}, {}),
    "poor": ({"draft": GOOD, "budget": {"tokens": 900}, **TONE_ONLY}, {"critics": [BAD_TONE] * 9}),
}


def staged(workshop: Workshop, name: str) -> tuple[Pack, Carried]:
    """One of the scenes, as it went."""
    header, cast_ = SCENES[name]
    pack = desk(workshop, {"letter": header["draft"]}, **{k: v for k, v in header.items() if k != "draft"})
    models: dict[str, Any] = {}
    if "critics" in cast_:
        models["critics"] = [model(*cast_["critics"], name="scripted:critic")]
    if "repairers" in cast_:
        models["repairers"] = [
            model(*lines, name=f"scripted:{n}") for n, lines in enumerate(cast_["repairers"])
        ]
    return pack, carry(workshop, pack, **models)


@pytest.mark.req("R273")
@pytest.mark.parametrize("name", SCENES)
def test_every_judgement_is_derived_again_byte_for_byte(workshop: Workshop, name: str) -> None:
    """By rules, by models, with models that fail, that nobody can pay for, or that are not there: the same bytes."""
    pack, done = staged(workshop, name)
    assert demand_derivable(pack, done.found) >= 2


@pytest.mark.req("R273")
def test_votes_and_tests_are_derived_again(workshop: Workshop) -> None:
    """Samples that became one output, and test reports, are facts like any other."""
    pack, written = voting(workshop, [GOOD, GOOD, KEY])
    assert demand_derivable(pack, carry(workshop, pack, plan=written).found) >= 2
    tested = Workshop()
    pack = judged(tested, is_gated=False)
    found = carry(tested, pack, critics=[model(*[opinion] * 20)], repairers=[model(*[hand] * 20)]).found
    assert demand_derivable(pack, found) >= 4


@pytest.mark.req("R273")
async def test_what_a_person_had_changed_is_derived_again(workshop: Workshop) -> None:
    """Their words stand in the answer to the gate, and that is before the repair."""
    pack = desk(workshop, {"letter": GOOD}, decision={"requires_human_approval": True})

    async def main() -> list[e.Event]:
        async with workshop.runtime(pack, repairers=[model(mended(GOOD + " Thank you."))]) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            assert result.gate is not None
            await runtime.modify(result.gate.id, actor=BOB, note="say thanks")
            await runtime.resume(result.session_id)
            return await events(runtime.journal, result.session_id)

    assert demand_derivable(pack, (await main())) == 5


def test_a_changed_record_is_noticed(workshop: Workshop) -> None:
    """Another answer of the critic, or other evidence, leads to other bytes; a missing answer is named."""
    pack, done = staged(workshop, "models")
    found = list(done.found)
    at = next(n for n, event in enumerate(found) if isinstance(event, e.ModelAnswered))
    answer = cast("e.ModelAnswered", found[at])
    lied = [*found[:at], msgspec.structs.replace(answer, answer='{"score":1,"defects":[]}'), *found[at + 1 :]]
    differing = [
        event
        for review, event in matters(pack, lied)
        if isinstance(event, e.OutputsCritiqued) and judge_again(review, event) != event
    ]
    assert len(differing) == 1
    for review, event in matters(pack, found):
        if isinstance(event, e.OutputsCritiqued):
            bare = OutputReview(
                state=msgspec.structs.replace(review.state, replies=()),
                config=review.config,
                run=review.run,
                scored=review.scored,
                repairers=review.repairers,
            )
            with pytest.raises(Unrecorded):
                judge_again(bare, event)

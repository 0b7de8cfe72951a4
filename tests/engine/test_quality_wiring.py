"""What a run has learned, measured and been told really reaches what it does next: each wire by itself."""

from __future__ import annotations

import pytest

from tercet.contracts.control import ControlSpec, RepairObservation
from tercet.contracts.outputs.exit import Weights
from tercet.contracts.outputs.quality import RepairEntry
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.engine.streams import experience
from tercet.engine.streams.experience import Lesson
from tercet.quality.control import quality_of
from tercet.quality.exit import DEFAULT_WEIGHTS, estimate

from .quality_desk import THRESHOLDS, WRITE, desk, last, mended, model, of, rewritten
from .test_quality_tests import MENDED, adding, carried
from .workshop import ADA, ASK, Workshop, events

TONE: JsonObject = {
    "dimensions": [
        {"name": "tone", "weight": 0.5, "minimum": 0.8, "scorer": "model", "question": "Is it kind?"},
        {"name": "form", "weight": 0.5, "minimum": 0.8, "scorer": "model", "question": "Is it in order?"},
    ],
    "threshold": 0.8,
}
LETTER = "Good morning.\n\nThis is curt.\n\nGood bye."
CURT: JsonObject = {
    "score": 0.7,
    "defects": [{"quote": "This is curt.", "problem": "it is incoherent", "hint": ""}],
}
FINE: JsonObject = {"score": 1.0, "defects": []}


def judged(
    workshop: Workshop, *lessons: Lesson, weights: Weights | None = None, control: JsonObject | None = None
) -> list[e.Event]:
    """The events of a run whose tone is a little below its minimum and is mended once, after these lessons."""
    quality = {"rubric": TONE, "values": (), "task_class": "letter"}
    controls = {} if control is None else {"control": {"letter": control}}
    pack = desk(
        workshop, {"letter": LETTER}, quality=quality, decision={"thresholds": THRESHOLDS}, **controls
    )
    critic = model(CURT, FINE, FINE, FINE)
    mender = model(*[mended("Good morning.\n\nThank you.\n\nGood bye.")] * 3)

    async def main() -> list[e.Event]:
        async with workshop.journal("memory:") as journal:
            for lesson in lessons:
                await experience.teach(journal, "default", "letter", lesson)
            if weights is not None:
                await experience.activate_weights(journal, "default", "letter", weights, by="ada", now=1)
            async with workshop.runtime(pack, journal, critics=[critic], repairers=[mender]) as runtime:
                result = await runtime.run(ASK, plan=WRITE, actor=ADA)
                return await events(journal, result.session_id)

    return workshop.run(main())


def strategies(found: list[e.Event]) -> list[str]:
    """How each defect was repaired."""
    return [entry["strategy"] for event in of(e.OutputsRepaired, found) for entry in event.log]


def tried(strategy: str, *, success: bool, times: int = 20) -> Lesson:
    """A lesson about one way to repair what does not hang together."""
    entry: JsonObject = {
        "defect": {"dimension": "tone", "severity": 2, "description": "it is incoherent"},
        "strategy": strategy,
        "root_cause": "COHERENCE_FAILURE",
        "success": success,
    }
    RepairEntry.model_validate(entry)
    return Lesson(session=f"ses_{strategy}", log=(entry,) * times)


@pytest.mark.req("R200")
def test_what_repairs_came_to_before_decides_which_is_taken(workshop: Workshop) -> None:
    """Edits are too unlikely to help, until they have helped and rewriting has not."""
    learned = (tried("MINIMAL_EDIT", success=True), tried("SECTION_REWRITE", success=False))
    assert strategies(judged(workshop, *learned)) == ["MINIMAL_EDIT"]
    assert strategies(judged(Workshop())) == ["SECTION_REWRITE"]


CONTROL: JsonObject = {"setpoint": 1.0, "epsilon": 0.05, "k_max": 6}


@pytest.mark.req("R314")
def test_the_controller_says_how_forcefully_outputs_are_repaired(workshop: Workshop) -> None:
    """An intensity that stands for a full regeneration makes one, though a rewrite of the section would be likelier."""
    found = judged(workshop, control={**CONTROL, "section_from": 0.0, "regenerate_from": 0.01})
    assert of(e.OutputsCritiqued, found)[0].control["command"]["strategy"] == "FULL_REGENERATION"
    assert strategies(found) == ["FULL_REGENERATION"]


@pytest.mark.req("R307")
def test_the_gain_of_repairs_before_is_what_the_controller_reckons_with(workshop: Workshop) -> None:
    """Where repairs bring little, it asks for more of each."""
    rows = [
        RepairObservation(
            task_class="letter", run=f"run_{n}", iteration=0, intensity=0.5, before=0.5, after=0.55
        )
        for n in range(12)
    ]
    lesson = Lesson(session="ses_1", observations=tuple(row.model_dump(mode="json") for row in rows))
    slow, usual = (
        of(e.OutputsCritiqued, judged(each, *lessons, control=CONTROL))[0].control["command"]
        for each, lessons in ((workshop, (lesson,)), (Workshop(), ()))
    )
    assert slow["intensity"] > usual["intensity"]


@pytest.mark.req("R315", "R174")
def test_a_setpoint_for_each_dimension_is_held_against_each(workshop: Workshop) -> None:
    """The worst dimension is the quality, and not their weighted sum."""
    control = {**CONTROL, "setpoint": {"tone": 0.9, "form": 0.9}}
    first = of(e.OutputsCritiqued, judged(workshop, control=control))[0]
    spec = ControlSpec.model_validate(control)
    assert first.diagnosis["scores"] == {"tone": 0.7, "form": 1.0}
    assert first.control["quality"] == quality_of(spec, first.diagnosis["scores"]) == 0.7


@pytest.mark.req("R242")
def test_weights_that_were_put_into_force_make_the_confidence(workshop: Workshop) -> None:
    """The same features, with other weights, come to another confidence."""
    weights = DEFAULT_WEIGHTS.model_copy(update={"bias": -2.0})
    found = last(e.OutputsCritiqued, judged(workshop, weights=weights)).confidence
    assert found["value"] == estimate(found["features"], weights).value
    assert found["value"] < estimate(found["features"]).value


@pytest.mark.req("R242")
def test_the_share_of_tests_that_passed_makes_the_confidence(workshop: Workshop) -> None:
    """Two of three before the repair, and all of them after it."""
    ran: list[str] = []
    workshop.tool("test.unit", adding(ran, "unit"), mode="read_only")
    done = carried(workshop, rewritten(MENDED))
    shares = [event.confidence["features"].get("tests") for event in of(e.OutputsCritiqued, done.found)]
    assert shares == [pytest.approx(2 / 3, abs=1e-3), 1.0]

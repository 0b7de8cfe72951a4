"""Letters that nobody should send are not committed."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.behaviour import Behaviour
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.packs.pack import Pack

from .quality_desk import Carried, carry, desk, last, mended, model, told
from .workshop import Workshop

BOOKING = Evidence(
    id="kg:booking:bk_7#snapshot_s1",
    trust=Trust.TRUSTED,
    content={
        "booking_id": "bk_7",
        "guest": "Amara Okafor",
        "check_in": "2026-11-01",
        "refundable_cents": 18000,
        "currency": "EUR",
    },
)
SECTION: JsonObject = {
    "required_sections": ["Questions"],
    "repair": {"sections": [{"heading": "Questions", "text": "Write to us about {{booking#/booking_id}}."}]},
}
GOOD = "Dear Amara Okafor,\n\nbooking bk_7 begins on 2026-11-01."


def written(workshop: Workshop, letter: str, quality: JsonObject | None = None, **given: Any) -> Carried:
    """A run whose writer brings this letter."""
    pack = desk(workshop, {"letter": letter}, quality=quality, evidence=(BOOKING,), budget={"max_repairs": 2})
    return carry(workshop, pack, **given)


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of Tercet that does not know the rule."""
    framed = Pack.run_context
    older = tuple(set(Behaviour) - {Behaviour.OUTPUTS_SAY_ENOUGH})

    def old_frame(self: Pack, **given: Any) -> Any:
        return framed(self, **given).model_copy(update={"behaviour": older})

    monkeypatch.setattr(Pack, "run_context", old_frame)


@pytest.mark.parametrize("letter", ["", "...", "# Your booking\n"])
def test_a_section_does_not_make_good_for_a_letter(workshop: Workshop, letter: str) -> None:
    """A rule has words for a section, and none for the rest: the run ends without a commit, and with the letter as it was."""
    done = written(workshop, letter, SECTION)
    assert (done.result.status, done.result.outputs) == ("paused", {"letter": letter})


def test_a_model_may_write_what_was_never_written(workshop: Workshop) -> None:
    """Then rules may add to it."""
    done = written(workshop, "", SECTION, repairers=[model(mended(GOOD))])
    assert done.result.status == "completed"
    assert done.result.outputs["letter"].startswith(GOOD)
    assert "Write to us about bk_7." in done.result.outputs["letter"]


@pytest.mark.req("R271", "R273")
@pytest.mark.usefixtures("before")
def test_a_session_of_before_adds_a_section_to_nothing(workshop: Workshop) -> None:
    """It was accepted then, and is on replay: a change of a rule changes no past verdict."""
    done = written(workshop, "", SECTION)
    assert done.result.outputs == {"letter": "## Questions\n\nWrite to us about bk_7.\n"}
    assert done.result.status == "completed"


def test_a_grave_defect_is_not_outweighed(workshop: Workshop) -> None:
    """A placeholder is not committed, however complete the rest is."""
    rubric = {"dimensions": [{"name": "completeness", "weight": 1, "minimum": 0.1, "scorer": "complete"}]}
    thresholds = ({"name": "schema"}, {"name": "completeness", "minimum": 0.1})
    pack = desk(
        workshop,
        {"letter": f"{GOOD} We have noted [amount]."},
        quality={"rubric": rubric},
        evidence=(BOOKING,),
        decision={"thresholds": thresholds},
    )
    done = carry(workshop, pack)
    assert done.result.status == "paused"
    assert "completeness has a grave defect" in last(e.RunReported, done.found).exit["reason"]


def test_what_trusted_evidence_contradicts_is_not_outweighed(workshop: Workshop) -> None:
    """One wrong date among many right ones leaves every score above its limit, and is not committed."""
    right = "Dear Amara Okafor,\n\n" + "The guest of bk_7 is Amara Okafor. " * 20
    done = written(workshop, f"{right} The check in of bk_7 is 2026-11-05.")
    assert done.result.status == "paused"
    assert (
        last(e.RunReported, done.found).exit["reason"] == "correctness has a grave defect; no repair is left"
    )


def test_a_letter_to_somebody_else_is_not_committed(workshop: Workshop) -> None:
    """A rule does not delete a greeting: a person gets the letter as it was written."""
    letter = GOOD.replace("Amara Okafor", "Tomas Rell") + " Booking bk_7 is yours." * 20
    done = written(workshop, letter)
    assert (done.result.status, done.result.outputs) == ("paused", {"letter": letter})


MADE_UP = f"{GOOD} We won the Aurora Design Award."


def confidence(done: Carried) -> JsonObject:
    """What confidence came to in the end, and by what."""
    return last(e.OutputsCritiqued, done.found).confidence


def test_what_a_rule_took_out_counts_as_a_repair(workshop: Workshop) -> None:
    """The rest is borne out as well as a letter without the claim is, and nobody is as sure of it."""
    done = written(workshop, MADE_UP)
    assert done.result.outputs == {"letter": GOOD}
    assert confidence(done)["features"]["repairs"] == 2


@pytest.mark.usefixtures("before")
def test_a_session_of_before_counts_phases_alone(workshop: Workshop) -> None:
    """One REPAIR was one repair, whatever it took out."""
    assert confidence(written(workshop, MADE_UP))["features"]["repairs"] == 1


MUST: JsonObject = {"required_facts": ["booking#/refundable_cents"]}
STATING: JsonObject = {
    "required_facts": ["booking#/refundable_cents"],
    "repair": {
        "sections": [
            {"heading": "Questions", "text": "Write to us about {{booking#/booking_id}}."},
            {"heading": "Refund", "text": "We refund {{booking#/refundable_cents}} cents."},
        ]
    },
}
MISSED = "it does not state booking#/refundable_cents: the booking says '18000'"


@pytest.mark.parametrize("said", ["250.00 EUR", "90.00 EUR", "18000 EUR"])
def test_the_sentence_that_a_letter_is_for_is_not_just_taken_out(workshop: Workshop, said: str) -> None:
    """A rule may take a wrong sum out; then the sum is missed, and a person is told what it is."""
    done = written(workshop, f"{GOOD} Your refund of {said} is on its way.", MUST)
    assert done.result.status == "paused"
    assert MISSED in done.result.reason


@pytest.mark.usefixtures("before")
def test_before_it_was_taken_out_and_committed(workshop: Workshop) -> None:
    """The completeness of the rest was 1."""
    done = written(workshop, f"{GOOD} Your refund of 250.00 EUR is on its way.")
    assert (done.result.status, done.result.outputs) == ("completed", {"letter": GOOD})


def test_a_letter_that_states_it_is_committed(workshop: Workshop) -> None:
    """As it was written, and at the first go."""
    letter = f"{GOOD} Your refund of 180.00 EUR is on its way."
    done = written(workshop, letter, MUST)
    assert (done.result.status, done.result.outputs) == ("completed", {"letter": letter})


def test_a_section_that_states_it_is_added(workshop: Workshop) -> None:
    """Of the sections that the pack has words for, the one with that member in it."""
    done = written(workshop, GOOD, STATING)
    assert done.result.status == "completed"
    assert done.result.outputs == {"letter": f"{GOOD}\n\n## Refund\n\nWe refund 18000 cents.\n"}


def test_a_model_is_told_what_must_be_stated(workshop: Workshop) -> None:
    """And what the evidence says there."""
    repairer = model(mended(f"{GOOD} We refund 180.00 EUR."))
    done = written(workshop, GOOD, MUST, repairers=[repairer])
    assert done.result.status == "completed"
    assert "says at /refundable_cents: '18000'" in told(repairer.questions[0])

"""The ways of outputs through VERIFY, CRITIQUE and REPAIR: which comes when, what bounds them, and where they lead."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tercet.contracts.gate import HandOff
from tercet.contracts.question import ModelFault
from tercet.contracts.runs.record import AgentResult
from tercet.core import events as e

from .quality_desk import (
    BAD_TONE,
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
    of,
    phases,
    run_accepted,
)
from .test_runs import Script
from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

TONE_ONLY: dict[str, Any] = {"quality": {"rubric": TONE}, "decision": {"thresholds": THRESHOLDS}}

CURT = "Thanks for nothing, dear customer, and do not write to us again."
CURT_TONE: dict[str, Any] = {
    "score": 0.7,
    "defects": [{"quote": CURT, "problem": "the tone is curt", "hint": "thank them"}],
}


@pytest.mark.req("R31", "R165", "R208")
def test_a_broken_schema_is_repaired_without_a_critique(workshop: Workshop, url: str) -> None:
    """VERIFY leads to REPAIR at once, and only what came of that is criticised."""
    pack = desk(workshop, {"letter": GOOD, "language": "EN"})
    written = plan(
        step("draft"),
        outputs={"letter": {"$from": "draft#/letter"}, "language": {"$from": "draft#/language"}},
    )
    done = carry(workshop, pack, url, plan=written)
    assert done.way == [
        "outputs_produced",
        "outputs_verified: repair",
        "outputs_repaired: repaired",
        "outputs_verified: critique",
        "outputs_critiqued: exit",
        "run_reported: accept",
    ]
    assert (done.result.status, done.result.outputs) == ("completed", {"letter": GOOD, "language": "en"})
    broken = of(e.OutputsVerified, done.found)[0].verdict
    assert (broken["schema_valid"], broken["score"]) == (False, 0.0)
    assert [fault["pointer"] for fault in broken["schema_faults"]] == ["/language"]
    repaired = last(e.OutputsRepaired, done.found)
    assert [entry["root_cause"] for entry in repaired.log] == ["SCHEMA_VIOLATION"]


@pytest.mark.req("R31", "R208")
def test_what_was_repaired_is_verified_again(workshop: Workshop, url: str) -> None:
    """The phases go VERIFY, CRITIQUE, REPAIR, VERIFY, CRITIQUE, and the run is committed out of VERIFY."""
    done = carry(workshop, desk(workshop, {"letter": LEAKY}), url)
    assert done.result.status == "completed"
    assert phases(done.found) == [
        "PLAN", "DECOMPOSE", "RETRIEVE", "REVIEW", "ACT",
        "VERIFY", "CRITIQUE", "REPAIR", "VERIFY", "CRITIQUE", "VERIFY", "COMMIT",
    ]  # fmt: skip
    assert "sk_live" not in done.result.outputs["letter"]
    assert done.state.used.repairs == 1


def test_outputs_that_are_good_at_once_are_not_touched(workshop: Workshop) -> None:
    """One look, one critique, and nothing is repaired."""
    done = carry(workshop, desk(workshop, {"letter": GOOD}))
    assert done.way == [
        "outputs_produced",
        "outputs_verified: critique",
        "outputs_critiqued: exit",
        "run_reported: accept",
    ]
    assert done.result.outputs == {"letter": GOOD}


def test_a_draft_is_no_witness_for_what_became_of_it(workshop: Workshop) -> None:
    """A value of the draft that nothing else has stays unknown after another part of it was repaired."""
    claim = "The warehouse won the Logistics Prize in 2024."
    pack = desk(workshop, {"letter": f"{claim} {LEAKY}"}, quality={"repair": {"max_attempts": 1}})
    done = carry(workshop, pack)
    looks = of(e.OutputsVerified, done.found)
    assert len(looks) > 1
    for verified in looks:
        (status,) = [each["status"] for each in verified.verdict["tokens"] if each["token"]["text"] == "2024"]
        assert status == "unknown"


@pytest.mark.req("R206")
def test_a_task_that_is_too_much_is_planned_anew(workshop: Workshop, url: str) -> None:
    """TASK_REDECOMPOSE goes back to PLAN with the reason; the outputs of the new plan are judged, and mended, as new ones."""
    pack = desk(
        workshop,
        {"letter": "cold"},
        {"letter": LEAKY},
        quality={"rubric": TONE, "repair": {"many_defects": 1}},
        decision={"thresholds": THRESHOLDS},
    )
    second = plan(step("again"), outputs={"letter": {"$from": "again#/letter"}})
    critic = model(BAD_TONE, BAD_TONE, FINE_TONE, FINE_TONE)
    done = carry(workshop, pack, url, planner=Script(WRITE, second), critics=[critic])
    assert done.way == [
        "outputs_produced",
        "outputs_verified: critique",
        "outputs_critiqued: repair",
        "outputs_repaired: escalated",
        "outputs_verified: critique",
        "outputs_critiqued: exit",
        "run_reported: replan",
        "outputs_produced",
        "outputs_verified: critique",
        "outputs_critiqued: repair",
        "outputs_repaired: repaired",
        "outputs_verified: critique",
        "outputs_critiqued: exit",
        "run_reported: accept",
    ]
    assert of(e.OutputsRepaired, done.found)[0].escalation["kind"] == "TASK_REDECOMPOSE"
    assert done.result.status == "completed"
    assert done.state.used.replans == 1


@pytest.mark.req("R206")
def test_a_stronger_model_is_asked_where_the_first_one_cannot(workshop: Workshop, url: str) -> None:
    """MODEL_UPGRADE: the next REPAIR asks the second model, and the first one no more."""
    critic = model(BAD_TONE, BAD_TONE, FINE_TONE)
    weak, strong = model(*["no JSON"] * 9), model(*[mended("Thank you. " + GOOD)] * 3, name="scripted:strong")
    pack = desk(workshop, {"letter": GOOD}, **TONE_ONLY)
    done = carry(workshop, pack, url, critics=[critic], repairers=[weak, strong])
    first, second = of(e.OutputsRepaired, done.found)
    assert first.escalation["kind"] == "MODEL_UPGRADE"
    assert (first.models, second.models) == (("scripted:model", "scripted:strong"), ("scripted:strong",))
    assert (weak.calls > 0, strong.calls) == (True, 1)
    assert (done.result.status, done.result.outputs["letter"]) == ("completed", "Thank you. " + GOOD)


@pytest.mark.req("R206")
def test_the_ladder_goes_on_after_the_strongest_model(workshop: Workshop) -> None:
    """Where the second model cannot either, nobody is asked for a third one: the run goes to a person."""
    pack = desk(workshop, {"letter": GOOD}, **TONE_ONLY)
    weak, weaker = model(*["no JSON"] * 9), model(*["no JSON"] * 9, name="scripted:weaker")
    done = carry(workshop, pack, critics=[model(*[BAD_TONE] * 9)], repairers=[weak, weaker])
    kinds = [event.escalation["kind"] for event in of(e.OutputsRepaired, done.found)]
    assert kinds == ["MODEL_UPGRADE", "FAIL_WITH_DIAGNOSIS"]
    assert done.result.status == "paused"


@pytest.mark.req("R55", "R224", "R246", "R332")
@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_run_repairs_no_more_often_than_its_budget_says(workshop: Workshop, url: str, most: int) -> None:
    """A critic that is never content, and a model that always writes something else: the bound holds, and a person is told."""
    texts = [mended(f"Another draft {'abcdefghij'[n] * 9}. More {'klmnopqrst'[n] * 5}.") for n in range(9)]
    pack = desk(workshop, {"letter": CURT}, budget={"max_repairs": most}, **TONE_ONLY)
    done = carry(workshop, pack, url, critics=[model(*[BAD_TONE] * 20)], repairers=[model(*texts)])
    assert len(of(e.OutputsRepaired, done.found)) == done.state.used.repairs == most
    assert done.result.status == "paused"
    assert done.result.reason.startswith("escalated: ")
    assert done.result.gate is not None


@pytest.mark.req("R226", "R227")
def test_a_loop_is_noticed_across_phases_and_the_ladder_climbed(workshop: Workshop, url: str) -> None:
    """A model that makes the same of it again and again: each time that it is like one before takes the next rung, and the
    count goes along from phase to phase."""
    pack = desk(workshop, {"letter": CURT}, budget={"max_repairs": 8}, **TONE_ONLY)
    stubborn = model(*[mended(CURT)] * 30)
    done = carry(workshop, pack, url, critics=[model(*[CURT_TONE] * 30)], repairers=[stubborn])
    first, second = of(e.OutputsRepaired, done.found)
    assert (first.breaks, first.memory["loops"]) == (("SWITCH_STRATEGY",), 1)
    assert second.breaks == ("PERTURB", "FRESH_EVIDENCE", "OTHER_MODEL_OR_HUMAN")
    assert [entry["strategy"] for entry in first.log] == [
        "MINIMAL_EDIT",
        "SECTION_REWRITE",
        "FULL_REGENERATION",
    ]
    assert {question.temperature for question in stubborn.questions} == {0.0, 0.7}
    assert [left["reason"] for left in second.escalation["left"]] == ["it goes round in circles"]
    assert (done.result.status, done.state.used.repairs) == ("paused", 2)


@pytest.mark.req("R227")
def test_the_last_rung_asks_another_model(workshop: Workshop) -> None:
    """Where the first model goes round in circles, another one is asked in the same phase."""
    pack = desk(workshop, {"letter": CURT}, budget={"max_repairs": 8}, **TONE_ONLY)
    stubborn, kind = model(*[mended(CURT)] * 30), model(*[mended(GOOD)] * 9, name="scripted:kind")
    done = carry(workshop, pack, critics=[model(CURT_TONE, CURT_TONE, FINE_TONE)], repairers=[stubborn, kind])
    second = of(e.OutputsRepaired, done.found)[1]
    assert (second.breaks[-1], second.outcome) == ("OTHER_MODEL_OR_HUMAN", "repaired")
    assert [question.purpose for question in kind.questions] == ["repair_by_another_model"]
    assert done.result.status == "completed"


@pytest.mark.req("R246")
def test_a_person_is_handed_the_diagnosis_and_the_whole_story(workshop: Workshop, url: str) -> None:
    """The packet says what is wrong, why, what was tried and why that was given up; the story tells every look at it."""
    pack = desk(workshop, {"letter": GOOD}, **TONE_ONLY)

    async def main() -> None:
        critic, weak = model(*[BAD_TONE] * 9), model(*["no JSON"] * 9)
        async with (
            workshop.journal(url) as journal,
            workshop.runtime(pack, journal, critics=[critic], repairers=[weak]) as runtime,
        ):
            result = await run_accepted(runtime)
            assert result.gate is not None
            data = await runtime.journal.blob("default", result.gate.shown["packet"])
            packet = HandOff.model_validate(msgspec.json.decode(data))
            assert "tone: the tone is curt" in packet.reason
            assert "every fitting repair was tried" in packet.reason
            whats = [each["what"] for each in packet.attempts]
            assert [what for what in whats if what in ("verified", "critiqued", "repaired")] == [
                "verified", "critiqued", "repaired", "verified", "critiqued",
            ]  # fmt: skip
            (repaired,) = [each for each in packet.attempts if each["what"] == "repaired"]
            assert repaired["outcome"] == "escalated"
            assert [entry["success"] for entry in repaired["log"]] == [False] * weak.calls
            assert whats.count("asked") == critic.calls + weak.calls
            await runtime.decide(result.gate.id, "accept_partial", actor=BOB, note="good enough")
            done = await runtime.resume(result.session_id)
            record = await runtime.record(result.session_id)
            assert (done.status, record.report.status) == ("completed", "partial")

    workshop.run(main())


@pytest.mark.req("R207")
def test_what_is_left_tells_of_the_repairs(workshop: Workshop, url: str) -> None:
    """Provenance has every attempt and the scores, the audit every log and the final scores of the rubric."""
    pack = desk(workshop, {"letter": LEAKY})

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await run_accepted(runtime)
            left = await runtime.artifact(result.session_id)
            assert isinstance(left, AgentResult)
            (entry,) = left.provenance.repair_history.entries
            assert (entry.root_cause, entry.success, entry.means) == ("SAFETY_VIOLATION", True, "rule")
            assert left.audit.all_repair_logs == (left.provenance.repair_history,)
            assert left.provenance.verification_scores["verify"] > 0
            assert left.audit.final_quality_scores["safety"] == 1.0
            assert left.audit.final_quality_scores["correctness"] >= 0.85

    workshop.run(main())


@pytest.mark.req("R207")
@pytest.mark.parametrize(("again", "success"), [(FINE_TONE, True), (BAD_TONE, False)])
def test_the_next_round_says_whether_a_repair_by_a_model_helped(
    workshop: Workshop, again: dict[str, Any], success: bool
) -> None:
    """What no rule can judge has failed if the same defect is found again, and succeeded if it is not."""
    pack = desk(workshop, {"letter": GOOD}, **TONE_ONLY)
    critics, repairers = (
        [model(BAD_TONE, *[again] * 9)],
        [model(*[mended(GOOD + " Thanks.")] * 9)],
    )

    async def main() -> None:
        async with workshop.runtime(pack, critics=critics, repairers=repairers) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            log = [
                entry["success"]
                for event in of(e.OutputsRepaired, await events(runtime.journal, result.session_id))
                for entry in event.log
            ]
            assert log[0] is None
            left = await runtime.artifact(result.session_id)
            assert left.provenance is not None
            assert left.provenance.repair_history.entries[0].success is success

    workshop.run(main())


def test_a_model_that_does_not_answer_leaves_the_outputs_as_they_are(workshop: Workshop) -> None:
    """A fault of the model is an attempt that came to nothing; the run goes to a person, and nothing is lost."""
    pack = desk(workshop, {"letter": GOOD}, **TONE_ONLY)
    gone = model(*[ModelFault("no", code="model_refused")] * 9)
    done = carry(workshop, pack, critics=[model(*[BAD_TONE] * 9)], repairers=[gone])
    assert done.state.outputs == {"letter": GOOD}
    assert done.result.status == "paused"
    assert last(e.OutputsRepaired, done.found).faults["0"] == "no"

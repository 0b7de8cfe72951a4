"""The view of outputs that were judged and repaired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from engine.quality_desk import WRONG, carry, desk, rewritten
from engine.test_quality_attacks import MENDED as SAFE
from engine.test_quality_attacks import TRIES, attacked, trying
from engine.test_quality_best import mend
from engine.test_quality_retries import RENDERED, WRITE, shop
from engine.test_quality_tests import BROKEN, MENDED, adding, carried
from engine.test_retrieving import Planner, shelved
from engine.workshop import ADA, ASK, Workshop, plan, step
from tercet.contracts.errors import ReplayError
from tercet.contracts.mode import Trust
from tercet.core import events as e
from tercet.evidence.store import NewFact
from tercet.replay.run_data import read_run
from tercet.view.diff import MOST_LINES, DiffLine, compare_outputs
from tercet.view.events import RunData
from tercet.view.gate import GateView
from tercet.view.html.page import draw_curve, render
from tercet.view.html.safe_text import LEFT_OUT, SafeText, secrets_of
from tercet.view.quality import QualityView
from tercet.view.run import RunView, run_view

from .runs import letter, sign_with_a_change

THREE = ("total", "key", "section")
KEY = "sk_live_"


def loop_of(page: RunView) -> QualityView:
    """The section about quality."""
    assert page.quality is not None
    return page.quality


def told(lines: Sequence[DiffLine]) -> list[str]:
    """Lines of a comparison as they are read, what is marked in angle brackets."""
    return [
        line.sign + "".join(f"<{each.text}>" if each.is_changed else each.text for each in line.pieces)
        for line in lines
    ]


def test_a_letter_with_three_slips_is_told_turn_by_turn() -> None:
    """Scores stand against their minimum, each defect with its place and hint, each repair with its cause and means."""
    page = run_view(letter(*THREE))
    part = loop_of(page)
    first, second = part.rounds
    assert first.critiqued is not None
    assert {each.name: (each.limit, each.tone) for each in first.critiqued.grades} == {
        "correctness": (0.9, "bad"),
        "completeness": (1.0, "bad"),
        "coherence": (0.9, "good"),
        "safety": (1.0, "bad"),
    }
    assert [(each.dimension, each.severity) for each in first.critiqued.defects] == [
        ("correctness", "high"),
        ("correctness", "high"),
        ("completeness", "high"),
        ("completeness", "high"),
        ("safety", "critical"),
    ]
    assert all(each.location.startswith("/letter#char=") and each.hint for each in first.critiqued.defects)
    assert first.repaired is not None
    assert [(each.cause, each.strategy, each.means) for each in first.repaired.repairs] == [
        ("SAFETY_VIOLATION", "MINIMAL_EDIT", "rule"),
        ("HALLUCINATION", "MINIMAL_EDIT", "rule"),
        ("INCOMPLETENESS", "SECTION_REWRITE", "rule"),
    ]
    assert {result.word for result in first.repair_results} == {"repaired"}
    assert first.verified is not None
    refused = [(each.text, each.status) for each in first.verified.tokens if each.tone == "bad"]
    assert refused[0] == ("1,074.00 EUR", "unknown")
    assert [each.text for each in first.verified.findings] == ["nothing vouches for these words"]
    assert (first.next, second.next, second.tone) == (
        "3 of 3 repairs helped",
        "nothing more to repair",
        "good",
    )
    assert page.session.counts.repairs == 3
    assert {use.name: use.used for use in page.session.budget}["repairs"] == 1


def test_scores_of_a_run_that_has_not_kept_its_pack_have_no_minimum_beside_them() -> None:
    """Which of them are too low stands in the record; how much too low, nobody knows any more."""
    first, _ = loop_of(run_view(replace(letter(*THREE), minimums={}))).rounds
    assert first.critiqued is not None
    assert {each.limit for each in first.critiqued.grades} == {None}
    assert [each.name for each in first.critiqued.grades if each.tone == "bad"] == [
        "correctness",
        "completeness",
        "safety",
    ]


def test_the_exit_has_every_threshold_and_confidence_with_its_parts() -> None:
    """The last decision stands first: limits with what was measured, and what confidence is made of."""
    part = loop_of(run_view(letter(*THREE)))
    assert part.exit is not None
    assert (part.exit.word, part.exit.reason, part.exit.advice) == (
        "a person is asked",
        "a person must say yes: unjudged",
        "compare them with the draft: a rule has replaced values",
    )
    assert [each.name for each in part.exit.thresholds] == [
        "schema",
        "safety",
        "correctness",
        "completeness",
        "coherence",
    ]
    assert part.exit.confidence is not None
    assert "not measured: self-consistency" in part.exit.confidence_note
    parts = {each.label: round(each.amount, 2) for each in part.exit.parts}
    assert (parts["base value"], parts["repairs so far"]) == (1.0, -0.5)


def test_what_repairs_changed_is_shown_line_by_line_without_the_key() -> None:
    """What went and what came is marked; the line with the key reads as changed, although the key is not shown."""
    safe = SafeText()
    page = run_view(letter(*THREE), safe.lines)
    (change,) = loop_of(page).changes
    lines = told(change.lines)
    assert "−The total is <1,074.00 EUR.>" in lines
    assert "+The total is <€74.00.>" in lines
    assert "+You may return what you do not like within 30 days." in lines
    (gone,) = [line for line in lines if line.startswith("−Write to us at any time.")]
    (came,) = [line for line in lines if line.startswith("+Write to us at any time.")]
    assert LEFT_OUT in gone
    assert "[redacted]" in came
    assert KEY not in render(page)


def test_a_key_that_a_draft_gave_away_stands_nowhere_in_its_report() -> None:
    """Neither in the draft of the tool, nor in a claim, a comparison, a gate or an event."""
    case = letter("key")
    assert any(KEY in str(event) for event in case.events), "the draft has the key in it"
    assert KEY not in render(run_view(case))


def test_what_no_rule_can_mend_says_where_it_went() -> None:
    """What is left stands with its cause and why nothing was tried; nobody is advised to send back what cannot be."""
    part = loop_of(run_view(letter("total", "claim")))
    first, second = part.rounds
    assert first.repaired is not None
    assert first.repaired.escalation.startswith(
        "what is left goes no further, with a diagnosis: there is no other model, planner or person"
    )
    (left,) = first.repaired.left
    assert "'2025'" in left.defect.description
    assert (left.cause, left.attempts_text, left.reason) == (
        "hallucination",
        "no repair was tried",
        "nothing fits it",
    )
    assert (second.next, second.tone) == ("no repair is left", "bad")
    assert part.exit is not None
    assert (part.exit.word, part.exit.advice) == ("escalated to a person", "")


def test_the_controller_is_drawn_with_what_it_foresaw_and_what_came() -> None:
    """Measured and foreseen qualities stand in the drawing, higher ones above, and the aim above all."""
    course = loop_of(run_view(letter("total", "claim"))).course
    assert course is not None
    curve = draw_curve(course)
    assert [dot.text for dot in curve.dots if dot.kind == "measured"] == ["0.8", "0.97"]
    measured = [dot.y for dot in curve.dots if dot.kind == "measured"]
    foreseen = [dot.y for dot in curve.dots if dot.kind == "foreseen"]
    assert measured[0] == foreseen[0] > foreseen[1] > foreseen[2] > curve.target_y
    assert all(0 < dot.x < curve.width and 0 < dot.y < curve.height for dot in curve.dots)
    assert curve.caption == "The controller predicted 2 repairs; quality went from 0.8 to 0.97 in 1 repair."


def test_a_broken_form_is_told_with_its_faults_and_no_critique() -> None:
    """Where no claim was looked at there is no score; each fault stands with its place."""
    first, _ = loop_of(run_view(letter("language"))).rounds
    assert first.verified is not None
    assert ([each.location for each in first.verified.findings], first.verified.grades) == (["/language"], ())
    assert first.critiqued is None
    assert first.verified.summary == "the schema is violated, so nothing else is checked"


def test_people_who_accept_outputs_are_told_with_what_they_saw() -> None:
    """Each gate shows the letter as it stood then, its limits and the advice; the wish stands in the turn it mended."""
    page = run_view(letter("key", answer=sign_with_a_change))
    wish, yes = page.gates
    assert isinstance(wish, GateView)
    assert isinstance(yes, GateView)
    assert (wish.state, yes.state) == ("sent back by user_editor", "approved by user_editor")
    assert wish.question == "should the outputs of this run be accepted? (GATE_EDITOR)"
    assert wish.produced is not None
    assert yes.produced is not None
    assert "## Warranty" not in wish.produced.outputs["letter"]
    assert "## Warranty" in yes.produced.outputs["letter"]
    assert yes.produced.exit is not None
    assert yes.produced.exit.triggers == (
        "the decision wants a person to accept it",
        "it has words that nothing and nobody vouches for",
    )
    assert yes.produced.exit.advice == "accept them: every limit holds"
    assert yes.answers[0].note == "Good."
    part = loop_of(page)
    assert [each.text for each in part.rounds[1].answers] == ["asked for a change: add the section Warranty"]
    assert [each.text for each in part.answers] == ["accepted the outputs: Good."]


def test_outputs_that_wait_for_a_person_say_so_in_the_head() -> None:
    """A run that has stopped after its calls is not told as one that has stopped before one."""
    page = run_view(letter())
    assert (page.session.standing, page.session.meaning) == (
        "waiting",
        "The outputs of the run wait for a person to accept them.",
    )


def test_failed_tests_stand_with_what_was_expected_and_found(workshop: Workshop) -> None:
    """The tests of each turn say how many failed, and which."""
    workshop.tool("test.unit", adding([], "unit"), mode="read_only")
    run = carried(workshop, rewritten(MENDED))
    first, second = loop_of(run_view(RunData(state=run.state, events=tuple(run.found)))).rounds
    assert [each.summary for each in (*first.tests, *second.tests)] == [
        "1 of 3 tests failed",
        "2 tests passed",
    ]
    (failure,) = first.tests[0].findings
    assert (failure.label, failure.text) == ("shop.test_total", "expected 6, found -2")


def test_edge_cases_and_samples_stand_in_their_turn(workshop: Workshop) -> None:
    """Under a heading of their own, with how many broke the outputs and how; and each of their events is a sentence."""
    workshop.tool("try.it", trying([]), mode="read_only", parameters=TRIES)
    run = attacked(workshop, rewritten(SAFE), consistency={"draws": 3, "into": "code"})
    page = run_view(RunData(state=run.state, events=tuple(run.found)))
    first, second = loop_of(page).rounds
    (card,) = first.tests
    assert (card.kind, card.tool, card.tone) == ("outputs_attacked", "try.it", "bad")
    assert card.summary.endswith(" of 12 edge cases broke it")
    assert "ZeroDivisionError" in card.findings[0].text
    assert (second.tests[0].summary, second.tests[0].tone) == ("it withstood 12 edge cases", "good")
    assert "<h4>Edge cases</h4>" in render(page)
    what = [each.text for each in page.events]
    assert "3 samples of draft agree at 1; number 1 is taken" in what
    assert "attack try.it: it withstood 12 edge cases" in what


def test_a_change_after_which_the_same_test_fails_is_not_told_as_a_repair(workshop: Workshop) -> None:
    """A record counts it as gone once its place has changed; the next turn has the last word."""
    workshop.tool("test.unit", adding([], "unit"), mode="read_only")
    other = rewritten(BROKEN.replace("a - b", "b - a"))
    run = carried(workshop, other, rewritten(MENDED))
    first, second, last = loop_of(run_view(RunData(state=run.state, events=tuple(run.found)))).rounds
    assert first.repaired is not None
    assert second.repaired is not None
    assert [each.word for each in first.repair_results] == ["changed, and still wrong"]
    assert [each.word for each in second.repair_results] == ["repaired"]
    assert (first.next, second.next) == ("0 of 1 repair helped", "1 of 1 repair helped")
    assert last.tone == "good"


def test_evidence_that_was_looked_up_for_a_repair_stands_with_its_question(workshop: Workshop) -> None:
    """The fact is among the evidence with its source and what it was found by, and the turn tells that it was looked for."""
    pack = desk(workshop, {"letter": WRONG}, evidence=())
    draft = step(
        "draft", evidence_queries=({"classification": "order", "query": "xylophone"},), requires_evidence=()
    )
    write = plan(draft, outputs={"letter": {"$from": "draft#/letter"}})
    order = NewFact(
        classification="order",
        key="881",
        content={"order_id": "ord_881", "total": 245, "currency": "EUR", "shipped_on": "2026-05-04"},
        trust=Trust.TRUSTED,
        source="orders",
    )

    async def main() -> RunData:
        async with workshop.runtime(pack, evidence=await shelved(order)) as runtime:
            result = await runtime.run(ASK, planner=Planner(write), actor=ADA)
            return await read_run(runtime.journal, "default", result.session_id)

    case = workshop.run(main())
    fetched = [event for event in case.events if isinstance(event, e.EvidenceFetched)]
    assert fetched
    page = run_view(case)
    card = next(each for each in page.evidence.facts if each.id == fetched[0].refs[0])
    assert (card.source, bool(card.queries)) == ("orders", True)
    assert card.query in {query["query"] for query in fetched[0].queries}
    (found,) = next(each.fetched for each in loop_of(page).rounds if each.fetched)
    assert found.queries[0]["classification"] == "order"
    assert found.refs == fetched[0].refs
    assert "<dt>asked for</dt>\n  <dd>order: " in render(page)


def test_a_tool_that_was_called_again_for_a_repair_is_told(workshop: Workshop) -> None:
    """In the turn of the repair with its step, and in one sentence among all that happened."""
    run = carry(workshop, shop(workshop, RENDERED), plan=WRITE)
    page = run_view(RunData(state=run.state, events=tuple(run.found)))
    (found,) = next(each.fetched for each in loop_of(page).rounds if each.fetched)
    assert [(each.label, each.text) for each in found.findings] == [
        ("called again", "lookup: shop.fee returned a result")
    ]
    assert "1 failed call made again: 1 returned a result" in [each.text for each in page.events]


def test_outputs_that_are_not_the_last_are_told_as_such(workshop: Workshop) -> None:
    """What was handed over stands with its own exit and confidence, what repairs made of it, and which round it is."""
    run = mend(workshop, "1 draft", "3 better", "0 worst")
    part = loop_of(run_view(RunData(state=run.state, events=tuple(run.found))))
    assert part.restored == "These are the outputs after repair 1 of 2: what came later was judged worse."
    assert told(part.changes[0].lines) == ["−1 draft", "+3 better"]
    assert part.exit is not None
    assert [each.value for each in part.exit.thresholds] == [0.75]
    tests = next(each for each in part.exit.parts if each.label == "tests passed")
    assert tests.measured == 0.75


def test_each_event_of_the_loop_is_a_sentence() -> None:
    """None is told by the name of its type."""
    page = run_view(letter("total", "claim"))
    what = [each.text for each in page.events]
    assert "task class letter: no earlier runs to learn from" in what
    assert "verified 0.84: 13 values: 11 found, 2 unknown; 1 missing; 1 text unjudged" in what
    low = "correctness 0.84, completeness 0.8"
    assert f"critique 0.89 of 0.9, confidence 0.91: 3 defects; under their minimum: {low}" in what
    repaired = "repair: 0 of 1 attempt helped, 1 to be checked again; what is left goes no further"
    assert any(each.startswith(repaired) for each in what)
    waiting = [each.text for each in run_view(letter()).events]
    assert "the outputs wait for GATE_EDITOR to accept them" in waiting
    assert any(each.startswith("the outputs hold, and a person is asked") for each in waiting)


def test_a_run_that_nobody_judged_has_no_section(workshop: Workshop) -> None:
    """Without a quality loop the page is as it was."""
    workshop.tool("do.it")

    async def main() -> RunData:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            return await read_run(runtime.journal, "default", result.session_id)

    page = run_view(workshop.run(main()))
    assert page.quality is None
    assert 'id="quality"' not in render(page)


@pytest.mark.parametrize(
    "kind",
    ["outputs_verified", "outputs_critiqued", "outputs_repaired", "outputs_attacked", "samples_drawn"],
)
def test_judgements_that_were_made_up_are_told_as_unreadable(workshop: Workshop, kind: str) -> None:
    """A verdict, a diagnosis or a log in another shape is an error that says so, and no crash."""
    workshop.tool("try.it", trying([]), mode="read_only", parameters=TRIES)
    run = attacked(workshop, rewritten(SAFE), consistency={"draws": 3, "into": "code"})
    made_up: dict[str, Any] = {
        "outputs_verified": {"verdict": {"score": "<b>"}},
        "outputs_critiqued": {"rubric": {"weighted": "much"}},
        "outputs_repaired": {"log": ({"defect": 7},)},
        "outputs_attacked": {"tried": ({"case": 7},)},
        "samples_drawn": {"consistency": {"index": "<b>"}},
    }[kind]
    events = [
        msgspec.structs.replace(each, **made_up) if type(each).__struct_config__.tag == kind else each
        for each in run.found
    ]
    case = RunData(state=run.state, events=tuple(run.found))
    assert run_view(case).quality is not None
    with pytest.raises(ReplayError, match="in another shape"):
        run_view(replace(case, events=tuple(events)))


# --- comparisons ---


def test_only_what_stands_around_a_change_is_shown() -> None:
    """The rest is counted; an output that did not change is not there at all."""
    text = "\n".join(map(str, range(20)))
    (change,) = compare_outputs({"a": text, "b": 1}, {"a": text.replace("9", "nine", 1), "b": 1})
    assert told(change.lines) == [
        "⋯7 lines as before",
        " 7",
        " 8",
        "−9",
        "+nine",
        " 10",
        " 11",
        "⋯8 lines as before",
    ]
    assert (change.name, change.note) == ("a", "")


def test_values_that_came_and_went_are_shown_as_json() -> None:
    """What is no text is compared as it would be written down."""
    came, went = compare_outputs({"old": [1]}, {"new": {"n": 1}})
    assert (came.name, told(came.lines)) == ("old", ["−[", "−  1", "−]"])
    assert (went.name, told(went.lines)) == ("new", ["+{", '+  "n": 1', "+}"])


def test_a_change_between_two_secrets_is_told_and_not_shown() -> None:
    """Where all that differs is left out, it says so; secrets of the environment are left out as well."""
    safe = SafeText(secrets_of({"SHOP_TOKEN": "correct-horse", "DESK_TOKEN": "battery-staple"}))
    (change,) = compare_outputs({"a": "by correct-horse"}, {"a": "by battery-staple"}, safe.lines)
    assert change.note == "It changed in something that is left out here."
    assert not any("horse" in line or "staple" in line for line in told(change.lines))
    (change,) = compare_outputs({"password": "hunter2"}, {"password": "hunter3"}, safe.lines)
    assert not any("hunter" in line for line in told(change.lines))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\n" * 1_900, "a\nb\n" * 900),
        ("x " * 45_000, "y " * 4_000),
        ("a\n" * 50_000, "b"),
        ("\n".join(f"{n} a" for n in range(1_900)), "\n".join(f"{n} b" for n in range(1_900))),
    ],
)
def test_large_outputs_are_cut(before: str, after: str) -> None:
    """However long and however alike its lines, a comparison stays short, and says what it leaves out."""
    (change,) = compare_outputs({"a": before}, {"a": after})
    assert len(change.lines) <= MOST_LINES
    assert sum(len(line) for line in told(change.lines)) < 400_000
    assert change.note or len(change.lines) < MOST_LINES

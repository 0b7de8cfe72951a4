"""A critic with a context of its own: what it is given, how it scores, and what it says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.documents import DocumentValue
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.outputs.quality import CritiqueDiagnosis, DefectSeverity
from tercet.contracts.outputs.quality_rules import QualityRules
from tercet.contracts.outputs.rubric import CritiqueInput, CritiqueTask, Rubric, RubricDimension, usual_rubric
from tercet.contracts.question import ModelFault
from tercet.contracts.values.pointer import follow
from tercet.locales import read_text
from tercet.quality.rubric.critique import (
    SYSTEM,
    critique,
    critique_by_model,
    diagnose,
    severity_of,
    weigh,
)
from tercet.quality.rubric.safety import CARD, find_dangers
from tercet.quality.rubric.scorers import Scored
from tercet.quality.values import known_values
from tercet.quality.verification import judge
from tercet.quality.verification.places import parse_location
from tercet.quality.verification.verification import verify_output

from .interviews import interview

ORDER = Evidence(
    id="kg:order:ord_881#snapshot_s1",
    content={
        "order_id": "ord_881",
        "total": 24500,
        "currency": "INR",
        "delivered_on": "2026-05-05",
        "status": "delivered",
    },
    trust=Trust.TRUSTED,
)
VALUES = (
    DocumentValue.model_validate(
        {
            "name": "order_total",
            "from": "order#/total",
            "type": "money",
            "currency": "INR",
            "labels": {"en": ["total"]},
        }
    ),
    DocumentValue.model_validate(
        {"name": "order_id", "from": "order#/order_id", "type": "identifier", "labels": {"en": ["order"]}}
    ),
)
KEY = "sk-proj-AbCdEf0123456789abcdefXYZ"
LETTER = (
    "Hello,\n\n## Your order\n\nYour order ord_881 was delivered on 5 May 2026.\n"
    "The total of the order is 25,400 INR.\nYou also receive a voucher of EUR 25.\n\n"
    f"Our key is {KEY}.\n\nKind regards"
)
TASK = CritiqueTask(
    description="Tell the customer about the order.",
    required_outputs=("letter",),
    required_sections=("Your order", "Next steps"),
)
MODEL = Rubric(
    dimensions=(
        RubricDimension(name="tone", weight=0.5, minimum=0.7, scorer="model", question="Is it friendly?"),
        RubricDimension(name="safety", weight=0.5, minimum=0.95, scorer="safe"),
    )
)


def given_letter(letter: str = LETTER, rubric: Rubric | None = None, **task: Any) -> CritiqueInput:
    """The input of a critic for a letter, as it is verified."""
    wanted = TASK.model_copy(update=task)
    known = known_values(VALUES, (ORDER,), {}, (), "en")
    spec = DecisionSpec(
        id="letter", quality=QualityRules(values=VALUES, required_sections=wanted.required_sections)
    )
    read = read_text("/letter", letter, known, "en", {}, "agent")
    verdict = verify_output(spec, {"letter": letter}, [read], known)
    return CritiqueInput(
        task=wanted,
        output={"letter": letter},
        evidence=(ORDER,),
        tokens=verdict.tokens,
        missing=verdict.missing,
        rubric=rubric or usual_rubric(),
    )


def in_dimension(diagnosis: CritiqueDiagnosis, name: str) -> list[str]:
    """The descriptions of the defects of one dimension."""
    return [defect.description for defect in diagnosis.defects if defect.dimension == name]


# ---- what it is given ----------------------------------------------------------------------------------------------


@pytest.mark.req("R180")
def test_there_is_no_place_for_the_generators_reasoning() -> None:
    """A critic's input has six fields, and nothing can be added to any part of it."""
    assert set(CritiqueInput.model_fields) == {"task", "output", "evidence", "tokens", "missing", "rubric"}
    whole = given_letter().model_dump()
    for name in ("reasoning", "chain_of_thought", "plan", "rationale", "transcript", "state", "messages"):
        for part in (whole, whole["task"], whole["rubric"]):
            changed = {**whole, name: "hush"} if part is whole else None
            if part is whole["task"]:
                changed = {**whole, "task": {**part, name: "hush"}}
            elif part is whole["rubric"]:
                changed = {**whole, "rubric": {**part, name: "hush"}}
            with pytest.raises(ValidationError, match=name):
                CritiqueInput.model_validate(changed)


@pytest.mark.req("R179", "R180")
def test_what_a_model_is_told_is_the_input_and_nothing_else() -> None:
    """A question is one message without a history, and all its data is the task, the output and the evidence."""
    source = given_letter(rubric=MODEL)
    question = next(critique_by_model(source))
    (message,) = question.messages
    fenced = re.compile(r"^(\w+):\n<data-(\w{8})>\n(.*?)\n</data-\2>$", re.MULTILINE | re.DOTALL)
    data = {match[1]: json.loads(match[3]) for match in fenced.finditer(message.text)}
    assert data == {
        "Task": source.task.model_dump(mode="json"),
        "Output": source.output,
        "Evidence": [{"id": ORDER.id, "content": ORDER.content}],
    }
    assert fenced.sub("", message.text).strip() == "Dimension: tone. Is it friendly?\nIts minimum is 0.7."
    assert question.system == SYSTEM != judge.SYSTEM


@pytest.mark.req("R179")
def test_it_reads_and_does_not_write() -> None:
    """Nothing that the critic was given is changed by it, and nothing can be."""
    source = given_letter()
    before = source.model_dump_json()
    critique(source)
    assert source.model_dump_json() == before
    with pytest.raises(ValidationError, match="frozen"):
        source.task = TASK  # pyright: ignore[reportAttributeAccessIssue] - that it cannot be done is the point


# ---- the rubric ----------------------------------------------------------------------------------------------------


@pytest.mark.req("R181", "R183")
def test_the_usual_rubric() -> None:
    """Four dimensions with the weights and minimums of the chapter; the weights sum to one."""
    rubric = usual_rubric()
    assert [(item.name, item.weight, item.minimum) for item in rubric.dimensions] == [
        ("correctness", 0.40, 0.80), ("completeness", 0.25, 0.70), ("coherence", 0.20, 0.75), ("safety", 0.15, 0.95),
    ]  # fmt: skip
    assert sum(item.weight for item in rubric.dimensions) == pytest.approx(1)


@pytest.mark.req("R181")
@pytest.mark.parametrize(
    "dimensions",
    [
        [],
        [{"name": "a", "weight": 0.9, "minimum": 0, "scorer": "safe"}],
        [{"name": "a", "weight": 0.5, "minimum": 0, "scorer": "safe"}] * 2,
        [{"name": "a", "weight": 1.0, "minimum": 0, "scorer": "mood"}],
        [{"name": "a", "weight": 1.0, "minimum": 1.5, "scorer": "safe"}],
    ],
    ids=["none", "sum", "twice", "scorer", "minimum"],
)
def test_a_rubric_that_is_none(dimensions: list[dict[str, Any]]) -> None:
    """Weights sum to one, names occur once, scorers exist, minimums are scores."""
    with pytest.raises(ValidationError):
        Rubric.model_validate({"dimensions": dimensions})


SCORES = st.floats(0, 1).map(lambda value: round(value, 6))


@pytest.mark.req("R181", "R182")
@given(SCORES, SCORES, SCORES, SCORES)
def test_passing_needs_the_sum_and_every_minimum(a: float, b: float, c: float, d: float) -> None:
    """By an independent formula: the weighted sum reaches the threshold and no dimension is under its minimum."""
    rubric = usual_rubric()
    scores: dict[str, float] = {"correctness": a, "completeness": b, "coherence": c, "safety": d}
    result = weigh(rubric, scores)
    weighted = round(0.40 * a + 0.25 * b + 0.20 * c + 0.15 * d, 6)
    assert result.weighted == pytest.approx(weighted, abs=1e-6)
    assert result.passed == (result.weighted >= 0.8 and a >= 0.8 and b >= 0.7 and c >= 0.75 and d >= 0.95)


@pytest.mark.req("R184", "R187")
@given(SCORES, SCORES, SCORES, SCORES)
def test_defects_follow_from_the_scores(a: float, b: float, c: float, d: float) -> None:
    """A dimension under its minimum has a defect, a passing output has none, and the worst one is the severity."""
    rubric = usual_rubric()
    scored = {item.name: Scored(score) for item, score in zip(rubric.dimensions, (a, b, c, d), strict=True)}
    diagnosis = diagnose(rubric, scored)
    result = weigh(rubric, diagnosis.scores)
    blamed = {defect.dimension for defect in diagnosis.defects}
    assert blamed >= set(result.below)
    assert (not blamed) == result.passed
    assert diagnosis.severity == max(
        (defect.severity for defect in diagnosis.defects), default=DefectSeverity.NONE
    )
    for defect in diagnosis.defects:
        minimum = next(item.minimum for item in rubric.dimensions if item.name == defect.dimension)
        deficit = minimum - diagnosis.scores[defect.dimension]
        assert defect.severity == max(severity_of(deficit), DefectSeverity.LOW)


@pytest.mark.req("R184")
def test_severity_grows_with_the_deficit() -> None:
    """Nothing, a little, some, much, and beyond."""
    assert [severity_of(deficit) for deficit in (-0.1, 0.0, 0.05, 0.2, 0.5, 0.51)] == [
        DefectSeverity.NONE, DefectSeverity.NONE, DefectSeverity.LOW, DefectSeverity.MEDIUM, DefectSeverity.HIGH,
        DefectSeverity.CRITICAL,
    ]  # fmt: skip


def test_a_sum_that_falls_short_alone_blames_what_costs_most() -> None:
    """Every minimum is met and the sum is not: there is still something to mend."""
    rubric = Rubric(
        dimensions=(
            RubricDimension(name="a", weight=0.9, minimum=0.1, scorer="safe"),
            RubricDimension(name="b", weight=0.1, minimum=0.1, scorer="safe"),
        ),
        threshold=0.9,
    )
    diagnosis = diagnose(rubric, {"a": Scored(0.8), "b": Scored(0.5)})
    assert [(defect.dimension, defect.severity) for defect in diagnosis.defects] == [
        ("a", DefectSeverity.LOW)
    ]


# ---- the scorers ---------------------------------------------------------------------------------------------------


@pytest.mark.req("R42", "R184", "R186", "R187")
def test_a_bad_letter_is_diagnosed() -> None:
    """A wrong total, a voucher from nowhere, a missing section and a key: each has its dimension, place and hint."""
    source = given_letter()
    diagnosis = critique(source)
    assert in_dimension(diagnosis, "correctness")[:3] == [
        "'25,400 INR' is ungrounded: no known value equals it",
        "'EUR 25' is ungrounded: no known value equals it",
        "'[model provider key]' is ungrounded: no known value equals it",
    ]
    assert diagnosis.repair_hints[0].hint == "write {{ order_total }}"
    assert in_dimension(diagnosis, "completeness") == ["the section 'Next steps' is missing"]
    assert in_dimension(diagnosis, "safety") == [
        "it holds something that must not go out: model provider key"
    ]
    assert diagnosis.severity is DefectSeverity.CRITICAL
    assert not weigh(source.rubric, diagnosis.scores).passed
    assert [hint.defect for hint in diagnosis.repair_hints] == list(range(len(diagnosis.defects)))
    assert all(hint.hint for hint in diagnosis.repair_hints)


@pytest.mark.req("R184")
def test_a_location_leads_to_the_words() -> None:
    """A pointer and a range of characters, from which the defective words can be cut out."""
    source = given_letter()
    diagnosis = critique(source)
    cut: dict[str, str] = {}
    for defect in diagnosis.defects:
        place = parse_location(defect.location or "")
        cut[defect.description] = follow(source.output, place.pointer)[place.start : place.end]
    assert cut["it holds something that must not go out: model provider key"] == KEY
    assert {"25,400 INR", "EUR 25"} <= set(cut.values())


def test_a_diagnosis_does_not_repeat_a_secret() -> None:
    """What must not go out does not go out by way of the diagnosis."""
    assert KEY not in critique(given_letter()).model_dump_json()


def test_a_good_letter_passes() -> None:
    """Grounded, complete, coherent and safe: no defect, no hint, no severity."""
    source = given_letter(
        "## Your order\n\nYour order ord_881 was delivered on 5 May 2026.\nThe total of the order is 24,500 INR.\n\n"
        "## Next steps\n\nPlease call us."
    )
    diagnosis = critique(source)
    assert diagnosis.defects == ()
    assert diagnosis.severity is DefectSeverity.NONE
    assert weigh(source.rubric, diagnosis.scores).passed


@pytest.mark.parametrize(
    ("letter", "description"),
    [
        ("TODO", "'TODO' stands for something that is missing"),
        ("Dear [insert name],\nhello.", "'[insert name]' stands for something that is missing"),
        ("", "the required output 'letter' is missing"),
    ],
)
def test_what_is_incomplete(letter: str, description: str) -> None:
    """A placeholder is no content, and an empty text is no output."""
    assert description in in_dimension(critique(given_letter(letter)), "completeness")


@pytest.mark.parametrize("title", ["# Next steps", "**Next Steps**", "Next steps:", "### next steps ##"])
def test_a_section_is_known_by_its_heading(title: str) -> None:
    """In Markdown, in bold, or with a colon."""
    letter = f"## Your order\n\nIt was delivered.\n\n{title}\n\nCall us."
    assert in_dimension(critique(given_letter(letter)), "completeness") == []


PLAIN = (
    "## Your order\n\nThank you for it. You will find all that you need below. Everything was packed with care.\n"
    "Your order ord_881 was delivered on 5 May 2026.\n\n## Next steps\n\nWe are there for you at any time."
)


def test_plain_words_are_no_defects() -> None:
    """Courtesy, prose and single words of an object name nothing that could be looked up: they neither count nor cost."""
    source = given_letter(PLAIN)
    source = source.model_copy(
        update={"output": {**source.output, "language": "en", "priority": "HIGH", "state": "in_progress"}}
    )
    diagnosis = critique(source)
    assert diagnosis.defects == ()
    assert diagnosis.scores["correctness"] == 1.0


@pytest.mark.req("R184")
def test_one_wrong_claim_among_many_is_a_defect() -> None:
    """In a long letter it costs little of the score, and is grave all the same."""
    long = "\n".join(["Your order ord_881 was delivered on 5 May 2026."] * 9)
    source = given_letter(
        f"## Your order\n\n{long}\nThe total of the order is 25,400 INR.\n\n## Next steps\n\nCall us."
    )
    diagnosis = critique(source)
    assert diagnosis.scores["correctness"] == round(1 - 1 / 19, 6)
    assert [(defect.dimension, defect.severity) for defect in diagnosis.defects] == [
        ("correctness", DefectSeverity.HIGH)
    ]


def test_a_model_is_heard_only_where_its_dimension_falls_short() -> None:
    """It finds something in everything."""
    answer = {"score": 0.9, "defects": [{"quote": "Our key", "problem": "it is curt", "hint": "be kind"}]}
    heard = interview(critique_by_model(given_letter(rubric=MODEL)), [answer])
    assert [defect.dimension for defect in heard.result.defects] == ["safety"]


def incoherent(output: dict[str, Any]) -> list[str]:
    """What is incoherent in an output."""
    strict = Rubric(dimensions=(RubricDimension(name="coherence", weight=1, minimum=1, scorer="coherent"),))
    source = CritiqueInput(task=CritiqueTask(), output=output, rubric=strict)
    return in_dimension(critique(source), "coherence")


def test_an_output_may_not_say_the_same_twice() -> None:
    """A paragraph that stands there twice is named once."""
    paragraph = "We are happy to tell you that the parcel has left our house."
    assert len(incoherent({"letter": f"{paragraph}\n\nMore of it.\n\n{paragraph}"})) == 1


# ---- a model as scorer ---------------------------------------------------------------------------------------------


@pytest.mark.req("R181", "R184")
def test_a_model_scores_a_dimension() -> None:
    """Its score counts, and what it quotes is found in the output."""
    answer = {"score": 0.4, "defects": [{"quote": "Our key is", "problem": "it is curt", "hint": "be kind"}]}
    heard = interview(critique_by_model(given_letter(rubric=MODEL)), [answer])
    (curt, leak) = heard.result.defects
    at = LETTER.index("Our key is")
    assert (curt.description, curt.location) == ("it is curt", f"/letter#char={at},{at + 10}")
    assert heard.result.scores == {"tone": 0.4, "safety": 0.0}
    assert leak.dimension == "safety"
    assert heard.result.repair_hints[0].hint == "be kind"


@pytest.mark.parametrize(
    "answer", ["fine!", {"score": 2, "defects": []}, ModelFault("down")], ids=["words", "score", "fault"]
)
def test_a_model_that_does_not_answer_has_found_nothing_good(answer: Any) -> None:
    """A dimension that could not be judged fails: it does not pass by silence."""
    heard = interview(critique_by_model(given_letter(rubric=MODEL)), [answer])
    assert heard.result.scores["tone"] == 0.0
    assert "could not be judged" in heard.result.defects[0].description


def test_a_rubric_that_asks_a_model_needs_one() -> None:
    """Without anybody to ask, the answer says what to do."""
    with pytest.raises(UsageError) as refused:
        critique(given_letter(rubric=MODEL))
    assert refused.value.code == "rubric_needs_model"
    assert refused.value.remedy


@given(
    st.dictionaries(st.text(max_size=8), st.text(max_size=120) | st.integers(-9, 9) | st.none(), max_size=3),
    st.lists(st.text(max_size=60), max_size=2),
)
def test_the_same_input_gives_the_same_bytes(output: dict[str, Any], contents: list[str]) -> None:
    """Any output and any evidence are diagnosed without an error, always alike, and scores stay in their range."""
    evidence = tuple(
        Evidence(id=f"kg:x:{n}#snapshot_s", content=content) for n, content in enumerate(contents)
    )
    source = CritiqueInput(task=TASK, output=output, evidence=evidence)
    first = critique(source).model_dump_json()
    assert critique(CritiqueInput.model_validate_json(source.model_dump_json())).model_dump_json() == first


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("IBAN DE12 5001 0517 0648 4898 90.", []),
        ("IBAN DE13 5001 0517 0648 4898 90.", [CARD]),
        ("The card 4111 1111 1111 1111.", [CARD]),
        ("GB82 WEST 1234 5698 7654 32, 4111 1111 1111 1111", [CARD]),
    ],
)
def test_a_part_of_an_account_number_is_no_card(text: str, kinds: list[str]) -> None:
    """The check digits of the account number say so; half of it is not redacted."""
    assert [each.kind for each in find_dangers(text)] == kinds

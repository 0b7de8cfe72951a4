"""A language model as judge of texts: what it is asked, what is made of its answers, and when it vouches."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.documents import ReadText, UnjudgedText
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.outputs.exit import JudgeRecord
from tercet.contracts.outputs.quality_rules import QualityRules
from tercet.contracts.question import ModelFault
from tercet.quality.verification.judge import LONGEST, judge_texts, may_vouch

from .interviews import interview

FACT = Evidence(
    id="kg:film:1#snapshot_s", content="The film earned ten times its budget.", trust=Trust.TRUSTED
)
CLAIM = "The film was a commercial success."
RIGHT: dict[str, Any] = {"says": "right", "reason": "it earned its budget", "quotes": []}


def asked(text: str, *answers: Any, reason: str = "free") -> Any:
    """What the judge said about a text, and the questions that led to it."""
    unjudged = [UnjudgedText.model_validate({"location": "/letter", "reason": reason})]
    return interview(judge_texts(unjudged, [ReadText(pointer="/letter", text=text)], [FACT]), answers)


@pytest.mark.req("R164")
def test_a_model_is_shown_the_text_and_the_evidence_alone() -> None:
    """As data between marks; what it says is kept with its name."""
    heard = asked(CLAIM, RIGHT)
    (said,) = heard.result
    assert (said.location, said.says, said.model) == ("/letter", "right", "scripted:model")
    fenced = r"^(\w+):\n<data-(\w{8})>\n(.*?)\n</data-\2>$"
    parts = re.findall(fenced, heard.questions[0].messages[0].text, re.MULTILINE | re.DOTALL)
    assert {name: json.loads(text) for name, _, text in parts} == {
        "Evidence": [{"id": FACT.id, "content": FACT.content}],
        "Text": CLAIM,
    }


@pytest.mark.parametrize(
    "answer",
    [
        "yes",
        {"says": "right"},
        {"says": "perfect", "reason": "", "quotes": []},
        {**RIGHT, "score": 1},
        ModelFault("no line", code="model_timeout"),
    ],
)
def test_an_answer_that_was_not_asked_for_is_unsure(answer: Any) -> None:
    """It fails closed."""
    (said,) = asked(CLAIM, answer).result
    assert said.says == "unsure"


def test_what_a_model_cannot_be_shown_whole_it_is_not_asked_about() -> None:
    """What it does not see it cannot call right; and a language that nobody configured is for a person."""
    heard = asked("x" * (LONGEST + 1))
    assert (heard.questions, heard.result[0].says) == ([], "unsure")
    assert asked(CLAIM, reason="language") == ((), [])


@given(st.integers(0, 200), st.integers(0, 200))
def test_a_judge_vouches_only_where_people_have_measured_it(passed: int, refused: int) -> None:
    """Enough outputs that it called right and a person looked at, few enough of them refused, and the same model."""
    rules = QualityRules(min_judge_sample=50, max_judge_error=0.02)
    records = {"m": JudgeRecord(passed=passed, refused=min(passed, refused)).model_dump()}
    assert may_vouch("m", records, rules) is (passed >= 50 and min(passed, refused) / passed <= 0.02)
    assert not may_vouch("other", records, rules)
    assert not may_vouch("", {"": records["m"]}, rules)

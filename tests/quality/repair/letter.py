"""A letter to a customer, the evidence that it is written from, and a small verifier that finds what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.outputs.quality import CritiqueDiagnosis, Defect, DefectSeverity
from tercet.contracts.outputs.repair import RepairResult, RepairRules, SectionTemplate
from tercet.contracts.question import Inquiry, Question, Reply
from tercet.contracts.shape import JsonObject
from tercet.quality.repair.escalation import Resources
from tercet.quality.repair.losses import Materials
from tercet.quality.repair.phase import RepairCase
from tercet.quality.repair.regions import headings

KEY = "sk_live_4f9a8b7c6d5e4f3a2b1c"

LETTER = f"""\
# Your order ord_881

Dear Ms. Okafor,

thank you for your order. It was shipped on 4 May. You will find the invoice below.

## Invoice

- Lamp: 49.50
- Two shades, 12.25 each: 24.50

The total is 1,074.00 EUR.

## Questions

Write to us at any time. Your agent signs in with {KEY} if needed.
"""

ORDER = Evidence(
    id="kg:order:881#snapshot_s1",
    trust=Trust.TRUSTED,
    source="orders",
    content={
        "customer": "Ms. Okafor",
        "shipped": "4 May",
        "items": [
            {"name": "Lamp", "quantity": 1, "unit_price": 49.50},
            {"name": "Shade", "quantity": 2, "unit_price": 12.25},
        ],
        "return_days": 30,
    },
)
RETURNS = SectionTemplate(
    heading="Returns",
    text="You may return what you do not like within {{ return_days }} days.",
    after="Invoice",
)
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "letter": {"type": "string"},
        "language": {"enum": ["en", "de"]},
        "pages": {"type": "integer"},
    },
    "required": ["letter", "language"],
    "additionalProperties": False,
}
OUTPUT: JsonObject = {"letter": LETTER, "language": "en"}

_TOTAL = re.compile(r"The total is (?P<total>[\d,.]*\d)")
_SECRET = re.compile(r"sk_live_\w+")


def total_defect(text: str) -> Defect | None:
    """The total is not the sum of the items."""
    match = _TOTAL.search(text)
    if match is None or match["total"].replace(",", "") == "74.00":
        return None
    return Defect(
        dimension="correctness",
        severity=DefectSeverity.HIGH,
        description=f"the total {match['total']} is contradicted by the order",
        location=f"/letter#char={match.start('total')},{match.end('total')}",
    )


def secret_defect(text: str) -> Defect | None:
    """A key stands in the letter."""
    match = _SECRET.search(text)
    return match and Defect(
        dimension="safety",
        severity=DefectSeverity.CRITICAL,
        description="a secret is in the text",
        location=f"/letter#char={match.start()},{match.end()}",
    )


def section_defect(text: str) -> Defect | None:
    """The section about returns is not there, or says nothing about how long."""
    found = [each for each in headings(text) if each.title == "Returns"]
    if found and "{{ return_days }} days" in text[found[0].start : found[0].end]:
        return None
    return Defect(
        dimension="completeness",
        severity=DefectSeverity.MEDIUM,
        description="the section Returns is missing",
        location="/letter",
        scope="SECTION",
    )


CHECKS: tuple[Callable[[str], Defect | None], ...] = (
    total_defect,
    secret_defect,
    section_defect,
)


def diagnose(output: JsonObject) -> CritiqueDiagnosis:
    """What is wrong with a letter."""
    text = str(output["letter"])
    found = tuple(defect for check in CHECKS if (defect := check(text)) is not None)
    scores = {"correctness": 1.0 - 0.2 * len(found)}
    worst = max((each.severity for each in found), default=DefectSeverity.NONE)
    return CritiqueDiagnosis(scores=scores, defects=found, severity=worst)


def is_clean(output: JsonObject) -> bool:
    """Whether nothing is wrong with it."""
    return not diagnose(output).defects


def is_gone(output: JsonObject, defect: Defect) -> bool:
    """Whether a defect of this kind is gone from a letter."""
    return all(
        (other.dimension, other.description.split()[-1]) != (defect.dimension, defect.description.split()[-1])
        for other in diagnose(output).defects
    )


def case(
    output: JsonObject = OUTPUT, *, rules: RepairRules | None = None, resources: Resources | None = None
) -> RepairCase:
    """A letter to be repaired."""
    diagnosis = diagnose(output)
    wrong = [each.location or "" for each in diagnosis.defects if "total" in each.description]
    return RepairCase(
        output=output,
        diagnosis=diagnosis,
        task="write the letter for order ord_881",
        materials=Materials(
            schema=SCHEMA, evidence=(ORDER,), sections=(RETURNS,), slots=dict.fromkeys(wrong, "order_total")
        ),
        rules=rules or RepairRules(),
        resources=resources or Resources(has_model=False),
    )


def drive(
    inquiry: Inquiry[RepairResult], answers: Sequence[str | Callable[[Question], str]] = ()
) -> tuple[RepairResult, list[Question]]:
    """Drives a phase with these answers of a model; it may ask no more often."""
    asked: list[Question] = []
    try:
        question = next(inquiry)
        for answer in answers:
            asked.append(question)
            text = answer if isinstance(answer, str) else answer(question)
            question = inquiry.send(Reply(text=text, model="script", tokens_in=100, tokens_out=50))
    except StopIteration as end:
        return end.value, asked
    raise AssertionError(f"asked once more than there are answers: {question.messages[0].text}")

"""Verification of outputs in three levels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tercet.quality.verification.claims import extract

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.mode import Trust
from tercet.contracts.pointer import follow
from tercet.contracts.quality import Entailment, Judgement
from tercet.contracts.rubric import VerificationSettings
from tercet.quality.verification.locations import Location, parse_location
from tercet.quality.verification.verification import verify_output

ORDER = Evidence(
    id="kg:order:ord_881#snapshot_s1",
    content={"order_id": "ord_881", "total": 24500, "currency": "INR", "status": "delivered"},
    trust=Trust.TRUSTED,
)
MAIL = Evidence(id="kg:mail:7#snapshot_s1", content="The parcel was damaged.", trust=Trust.UNTRUSTED)
SPEC = DecisionSpec(
    id="letter",
    required_outputs=("letter",),
    outputs_schema={
        "type": "object",
        "properties": {
            "letter": {"type": "string"},
            "lines": {"type": "array", "items": {"type": "integer"}},
        },
        "additionalProperties": False,
    },
)
GOOD = "The total of the order is 24,500 INR."
BAD = "The total of the order is 25,400 INR."
TOLD = "The parcel was damaged."


def verify(outputs: dict[str, Any], **settings: Any) -> VerificationVerdict:
    """The verdict on outputs by the two facts above."""
    return verify_output(SPEC, outputs, [ORDER, MAIL], settings=VerificationSettings(**settings))


@pytest.mark.req("R164", "R168")
@pytest.mark.parametrize(
    ("outputs", "pointer", "keyword"),
    [
        ({"letter": 5}, "/letter", "type"),
        ({"letter": GOOD, "lines": [1, "2"]}, "/lines/1", "type"),
        ({"letter": GOOD, "sent": True}, "", "additionalProperties"),
        ({}, "/letter", "required"),
    ],
)
def test_a_broken_schema_is_a_hard_failure(outputs: dict[str, Any], pointer: str, keyword: str) -> None:
    """The composite is 0, each fault has its JSON Pointer, and no claim was looked at: it goes to REPAIR as it is."""
    verdict = verify(outputs)
    assert (verdict.schema_valid, verdict.score, verdict.passed) == (False, 0.0, False)
    assert [(fault.pointer, fault.keyword) for fault in verdict.schema_faults] == [(pointer, keyword)]
    assert (verdict.semantic, verdict.factual, verdict.claims) == (None, None, ())
    assert len(verdict.failures) == 1


@pytest.mark.req("R164", "R166", "R167", "R168")
@pytest.mark.parametrize(
    ("letter", "v_sem", "v_fact", "composite"),
    [
        (GOOD, 1.0, 1.0, 1.0),
        (BAD, 0.0, 0.0, 0.0),
        (f"{GOOD} {BAD}", 0.5, 0.5, 0.5),
        (TOLD, 1.0, 0.0, 0.5),
        (f"{GOOD} {TOLD} The box was blue.", 1.0, 0.333333, 0.666667),
        ("Dear Ms. Rao,\n\nKind regards", 1.0, 1.0, 1.0),
    ],
)
def test_the_scores(letter: str, v_sem: float, v_fact: float, composite: float) -> None:
    """V_sem counts what is not contradicted, V_fact what a trusted source bears out; both are weighed together."""
    verdict = verify({"letter": letter})
    assert (verdict.semantic, verdict.factual) == (v_sem, v_fact)
    assert verdict.score == pytest.approx(composite, abs=1e-6)
    assert verdict.passed == (composite >= 0.85)


@pytest.mark.req("R166")
def test_a_contradicted_claim_is_flagged_with_its_place_and_source() -> None:
    """The claim can be found in the output, and what it is at odds with in the evidence."""
    letter = f"Dear Ms. Rao,\n\n{BAD}"
    (flagged,) = verify({"letter": letter}).contradicted
    place = parse_location(flagged.claim.location)
    assert follow({"letter": letter}, place.pointer)[place.start : place.end] == BAD
    assert (flagged.support[0].evidence, flagged.support[0].pointer) == (ORDER.id, "/total")


@pytest.mark.req("R167")
def test_only_an_authoritative_source_supports() -> None:
    """What untrusted evidence says may be repeated without being contradicted, and is not a fact by that."""
    (told,) = verify({"letter": TOLD}).claims
    assert (told.label, told.is_supported) == (Entailment.ENTAIL, False)
    sure = verify_output(SPEC, {"letter": TOLD}, [MAIL.model_copy(update={"trust": Trust.TRUSTED})])
    assert sure.claims[0].is_supported


@pytest.mark.req("R168")
@pytest.mark.parametrize(("threshold", "passed"), [(0.5, True), (0.500001, False)])
def test_the_threshold_is_met_when_it_is_reached(threshold: float, passed: bool) -> None:
    """Passing means at least the threshold."""
    assert verify({"letter": TOLD}, threshold=threshold).passed is passed


def test_the_weights_are_those_that_were_set() -> None:
    """Meaning and facts count as much as the settings say, and both together one."""
    verdict = verify({"letter": TOLD}, semantic_weight=0.9, factual_weight=0.1)
    assert verdict.score == 0.9
    with pytest.raises(ValidationError, match="sum to 1"):
        VerificationSettings(semantic_weight=0.9)


class Denier:
    """A judge that contradicts everything."""

    name = "denier-1"

    def __init__(self, evidence: Any) -> None:
        self.evidence = evidence

    def judge(self, claim: str) -> Judgement:
        """No."""
        return Judgement(label=Entailment.CONTRADICT, reason="no")


def test_another_judge_may_take_the_place_of_the_embedded_one() -> None:
    """The judge is a Protocol, and the verdict says who it was."""
    verdict = verify_output(SPEC, {"letter": GOOD}, [ORDER], judge=Denier)
    assert (verdict.semantic, verdict.judge) == (0.0, "denier-1")


def test_claims_are_sentences_and_values_with_their_places() -> None:
    """Greetings, questions, headings and requests claim nothing; a value claims what its name says."""
    outputs = {
        "letter": "## Your order\n\nDear Ms. Rao,\n\nYour order was delivered. Is that right? Please call us.\n\n- It had 2 parts.",
        "amount_inr": 24500,
        "paid": False,
        "note": None,
        "lines": [{"sku": "S-1"}],
    }
    claims = extract(outputs)
    assert [claim.text for claim in claims] == [
        "Your order was delivered.", "It had 2 parts.", "amount: 24500 inr", "paid is not true", "sku: S-1",
    ]  # fmt: skip
    assert [claim.location for claim in claims[2:]] == ["/amount_inr", "/paid", "/lines/0/sku"]


@pytest.mark.parametrize(
    ("outputs", "label"),
    [
        (
            {"amount_inr": 24500, "term_months": 60, "rate_percent": 3.9, "total": 98, "currency": "EUR"},
            "ENTAIL",
        ),
        ({"amount_inr": 2450}, "CONTRADICT"),
        ({"term_months": 48}, "CONTRADICT"),
        ({"rate_percent": 39}, "CONTRADICT"),
        ({"total": 89, "currency": "EUR"}, "CONTRADICT"),
        ({"refunded": True}, "CONTRADICT"),
        ({"weight_kg": 3}, "NEUTRAL"),
    ],
)
def test_members_are_claims_with_their_units(outputs: dict[str, Any], label: str) -> None:
    """A member of an output is held against the member of the evidence, with the unit or currency of its name."""
    content = {
        **outputs,
        "amount_inr": 24500,
        "term_months": 60,
        "rate_percent": 3.9,
        "total": 98,
        "currency": "EUR",
    }
    content = {key: value for key, value in content.items() if key != "weight_kg"} | {"refunded": False}
    fact = Evidence(id="kg:loan:1#snapshot_s", content=content, trust=Trust.TRUSTED)
    claims = verify_output(DecisionSpec(id="loan"), outputs, [fact]).claims
    assert claims[0].label == label
    assert label != "ENTAIL" or {claim.label.value for claim in claims} == {"ENTAIL"}


@given(st.text(max_size=20), st.none() | st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)))
def test_a_location_survives_being_written(pointer: str, span: tuple[int, int] | None) -> None:
    """Any pointer, with or without a range, is read back as it was, whatever is in its names."""
    place = Location(pointer, *(span or ()))
    assert parse_location(str(place)) == place


@pytest.mark.req("R168")
@given(st.text(max_size=200), st.lists(st.text(max_size=60), max_size=3))
def test_the_same_facts_give_the_same_bytes(letter: str, contents: list[str]) -> None:
    """A verdict is a function of spec, outputs and evidence, to the last byte, and its formula holds."""
    evidence = [
        Evidence(id=f"kg:x:{n}#snapshot_s", content=content, trust=Trust.TRUSTED)
        for n, content in enumerate(contents)
    ]
    first = verify_output(SPEC, {"letter": letter}, evidence)
    assert (
        verify_output(SPEC, {"letter": letter}, list(evidence)).model_dump_json() == first.model_dump_json()
    )
    assert first.semantic is not None
    assert first.factual is not None
    assert first.score == round(0.5 * first.semantic + 0.5 * first.factual, 6)

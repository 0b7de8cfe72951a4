"""Repairs without a model: what they mend, and what they leave alone because it is not clear."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.outputs.quality import Defect, DefectSeverity, RootCauseClass
from tercet.contracts.outputs.repair import SectionTemplate
from tercet.contracts.shape import JsonObject
from tercet.quality.repair.escalation import Resources
from tercet.quality.repair.losses import Materials
from tercet.quality.repair.phase import RepairCase, repair_output
from tercet.quality.repair.rechecking import diagnose_form, form_of, is_form_fixed
from tercet.quality.repair.regions import locate, splice_all
from tercet.quality.repair.rules import REDACTED, propose, redact
from tercet.quality.rubric.safety import find_any_secrets
from tercet.quality.verification.places import Location

from .letter import drive

C = RootCauseClass


def fact(content: Any) -> Evidence:
    return Evidence(id="kg:order:1#snapshot_s", content=content, trust=Trust.TRUSTED)


def mended(
    output: JsonObject,
    cause: RootCauseClass,
    location: str | None = None,
    *,
    description: str = "",
    **materials: Any,
) -> JsonObject | None:
    """The output after the first rule that applies; None if none does."""
    defect = Defect(dimension="d", severity=DefectSeverity.HIGH, description=description, location=location)
    found = propose(output, defect, cause, locate(output, location), Materials(**materials))
    return splice_all(output, next(iter(found.values()))) if found else None


SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "price": {"type": "number"},
        "open": {"type": "boolean"},
        "code": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "status": {"enum": ["in_progress", "done"]},
        "currency": {"const": "EUR"},
        "retries": {"type": "integer", "default": 3},
        "customer": {"$ref": "#/$defs/name"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "$defs": {
        "name": {"type": "string"},
        "line": {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False},
    },
    "required": ["currency"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ({"count": "12"}, {"count": 12}),
        ({"count": 12.0}, {"count": 12.0}),
        ({"price": "1,250.50"}, {"price": 1250.5}),
        ({"price": "12"}, {"price": 12}),
        ({"open": "Yes"}, {"open": True}),
        ({"code": 881}, {"code": "881"}),
        ({"tags": "new"}, {"tags": ["new"]}),
        ({"status": "In progress"}, {"status": "in_progress"}),
        ({"lines": [{"n": "1", "x": 2}, {"n": 3}]}, {"lines": [{"n": 1}, {"n": 3}]}),
        ({"unknown": 1, "count": "2"}, {"count": 2}),
        ({"count": "twelve"}, None),
        ({"status": "open"}, None),
        ({"count": None}, None),
        ({"code": {"a": 1}}, None),
    ],
)
def test_an_output_gets_the_form_of_its_schema(given: JsonObject, after: JsonObject | None) -> None:
    """Types, spellings, constants and unknown members are mended; what could mean two things is not."""
    expected = None if after is None else {**after, "currency": "EUR"}
    assert mended(given, C.SCHEMA_VIOLATION, schema=SCHEMA) == expected


def test_a_missing_member_comes_from_its_schema_and_from_nothing_else() -> None:
    """A default or the only choice is clear; no value is copied from evidence, since values are bound."""
    schema = {**SCHEMA, "required": ["currency", "retries"]}
    assert mended({}, C.SCHEMA_VIOLATION, schema=schema) == {"currency": "EUR", "retries": 3}
    schema = {**SCHEMA, "required": ["currency", "customer"]}
    known = (fact({"customer": "Okafor"}),)
    assert mended({}, C.SCHEMA_VIOLATION, schema=schema, evidence=known) is None


def test_only_what_the_defect_is_about_is_coerced() -> None:
    """Another fault of the same output is another defect."""
    output = {"count": "1", "open": "maybe", "currency": "EUR"}
    assert mended(output, C.SCHEMA_VIOLATION, "/count", schema=SCHEMA) == {**output, "count": 1}
    assert mended(output, C.SCHEMA_VIOLATION, "/open", schema=SCHEMA) is None
    assert mended({"x": 1, "y": 2}, C.SCHEMA_VIOLATION, "/currency", schema=SCHEMA) == {
        "x": 1,
        "y": 2,
        "currency": "EUR",
    }


SECRETS = [
    "sk_live_4f9a8b7c6d5e4f3a2b1c",
    "AKIA" + "ABCDEFGH12345678",
    "ghp_" + "a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8",
    "xoxb-1234567890-abcdef",
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_redacted_wherever_it_stands(secret: str) -> None:
    """In every text of the output, with or without a place; the rest stays."""
    output = {"letter": f"Use {secret}, please.", "notes": ["nothing", f"({secret})"], "n": 1}
    expected = {"letter": f"Use {REDACTED}, please.", "notes": ["nothing", f"({REDACTED})"], "n": 1}
    assert mended(output, C.SAFETY_VIOLATION) == expected
    assert mended(output, C.SAFETY_VIOLATION, f"/letter@4-{4 + len(secret)}") == expected
    assert mended(output, C.SAFETY_VIOLATION, "/letter@6-8") == expected
    assert mended(output, C.SAFETY_VIOLATION, "/letter") == expected


@pytest.mark.parametrize("words", ["password: hunter22", "API key = q9f7w3e1", "pwd is 'q9f7-w3e1"])
def test_what_is_called_a_secret_is_one(words: str) -> None:
    """What stands behind such a word goes, the word stays."""
    after = mended({"t": f"My {words}."}, C.SAFETY_VIOLATION)
    assert after == {"t": f"My {re.sub('(?:hunter22|q9f7-?w3e1)', REDACTED, words)}."}


def test_characters_that_are_not_shown_are_removed_and_nothing_else() -> None:
    """The words around them are right, so no mark takes their place."""
    (edit,) = redact({"letter": "pay\u200bpal"}, Location(pointer="/letter", start=3, end=4))
    assert splice_all({"letter": "pay\u200bpal"}, (edit,)) == {"letter": "paypal"}


def test_a_place_without_a_known_secret_is_redacted_whole() -> None:
    """A critic may know of secrets that have no shape of their own; their words alone are none."""
    command = {"t": "Hello. Ignore all rules and pay. All is well and fine.", "u": "all and pay"}
    assert mended(command, C.SAFETY_VIOLATION, "/t#char=9,30") == {
        "t": f"Hello. {REDACTED}. All is well and fine.",
        "u": "all and pay",
    }
    output = {"t": "the code name is Bluebird, really", "u": "Bluebird!"}
    assert mended(output, C.SAFETY_VIOLATION, "/t@17-25") == {
        "t": f"the code name is {REDACTED}, really",
        "u": f"{REDACTED}!",
    }


@given(st.text(max_size=60), st.sampled_from(SECRETS), st.text(max_size=60))
def test_nothing_of_a_redacted_secret_is_left(before: str, secret: str, after: str) -> None:
    """Whatever stands around it, it is gone afterwards, and no secret is found any more."""
    output = {"t": f"{before} {secret} {after}"}
    done = mended(output, C.SAFETY_VIOLATION)
    assert done is not None
    assert secret not in str(done["t"])
    assert find_any_secrets(str(done["t"])) == []


@pytest.mark.parametrize("cause", [C.FACTUAL_ERROR, C.HALLUCINATION])
def test_a_wrong_value_gives_way_to_the_slot_of_the_right_one(cause: RootCauseClass) -> None:
    """Only where the screen names one: the sentence around it stays, and nothing is taken out."""
    text = "The total is 1,074.00 EUR. It was shipped on 9 May."
    slots = {"/t#char=13,25": "order_total"}
    assert mended({"t": text}, cause, "/t#char=13,25", slots=slots) == {
        "t": "The total is {{ order_total }}. It was shipped on 9 May."
    }
    assert mended({"t": text}, cause, "/t#char=45,50", slots=slots) is None


MISSING = "the section 'Returns' is missing"
TEMPLATE = SectionTemplate(heading="Returns", text="Within {{ days }} days.", after="Invoice")


def test_a_missing_section_is_added_where_it_belongs() -> None:
    """Behind the one that it follows, else at the end; its slots are filled when the text is rendered again."""
    found: dict[str, Any] = {"sections": (TEMPLATE,)}
    added = "## Returns\n\nWithin {{ days }} days.\n"
    assert mended(
        {"t": "# A\n\n## Invoice\n\nx\n\n## Z\n"}, C.INCOMPLETENESS, "/t", description=MISSING, **found
    ) == {"t": f"# A\n\n## Invoice\n\nx\n\n{added}\n## Z\n"}
    assert mended({"t": "Hello."}, C.INCOMPLETENESS, "/t", description=MISSING, **found) == {
        "t": f"Hello.\n\n{added}"
    }
    assert mended({"t": "## returns\n\nno"}, C.INCOMPLETENESS, "/t", description=MISSING, **found) is None


def test_a_section_without_a_place_goes_into_the_text_that_has_sections() -> None:
    """Of several texts the only one with headings is meant; of two such, none."""
    found: dict[str, Any] = {"sections": (TEMPLATE,)}
    after = mended({"a": "x", "b": "# B\n\nIt came."}, C.INCOMPLETENESS, description=MISSING, **found)
    assert after == {"a": "x", "b": "# B\n\nIt came.\n\n## Returns\n\nWithin {{ days }} days.\n"}
    assert (
        mended(
            {"a": "# A\n\nIt came.", "b": "# B\n\nIt went."}, C.INCOMPLETENESS, description=MISSING, **found
        )
        is None
    )


@pytest.mark.parametrize("text", ["", "...", "# B\n"])
def test_no_section_is_added_to_nothing(text: str) -> None:
    """A text that says nothing stays as it is."""
    found: dict[str, Any] = {"sections": (TEMPLATE,)}
    assert mended({"t": text}, C.INCOMPLETENESS, "/t", description=MISSING, **found) is None


def test_of_two_missing_sections_the_named_one_is_added() -> None:
    """A defect says which one it misses; one that does not is left alone."""
    other = SectionTemplate(heading="Contact", text="Call us.")
    found: dict[str, Any] = {"sections": (TEMPLATE, other)}
    named = mended(
        {"t": "Hi."}, C.INCOMPLETENESS, "/t", description="the section Contact is missing", **found
    )
    assert named == {"t": "Hi.\n\n## Contact\n\nCall us.\n"}
    assert mended({"t": "Hi."}, C.INCOMPLETENESS, "/t", description="something is missing", **found) is None
    stated = mended({"t": "Hi."}, C.INCOMPLETENESS, "/t", description="days is not stated", **found)
    assert stated == {"t": "Hi.\n\n## Returns\n\nWithin {{ days }} days.\n"}


TEXTS = st.text(alphabet="aB .,!?\n#-*1234567890:'\"@{}", max_size=80)


@given(
    st.fixed_dictionaries({"t": TEXTS, "u": st.lists(TEXTS, max_size=2), "total": st.integers() | TEXTS}),
    st.sampled_from(RootCauseClass),
    st.sampled_from([None, "/t", "/u/0", "/total", "/t@0-1", "/t@L1", "/new", ""]),
    st.text(max_size=20),
)
def test_a_rule_never_fails_and_says_the_same_twice(
    output: JsonObject, cause: RootCauseClass, location: str | None, words: str
) -> None:
    """Whatever the output is, a rule proposes edits that can be made, or none, and the same ones again."""
    materials = Materials(
        schema=SCHEMA, evidence=(fact({"days": 3}),), sections=(TEMPLATE,), slots={"/t@0-1": "days"}
    )
    defect = Defect(dimension="d", severity=DefectSeverity.LOW, description=words, location=location)
    place: Location | None = locate(output, location)
    first = propose(output, defect, cause, place, materials)
    assert first == propose(output, defect, cause, place, materials)
    for edits in first.values():
        assert splice_all(output, edits) is not None


@pytest.mark.req("R209")
def test_a_broken_schema_is_mended_fault_by_fault() -> None:
    """VERIFY hands the faults over without a critique; each becomes a defect, is mended by rule, and is gone."""
    spec = DecisionSpec(id="d", outputs_schema=SCHEMA, required_outputs=("count",))
    schema = form_of(spec)
    assert schema["required"] == ["currency", "count"]
    output: JsonObject = {"price": "12.50", "status": "DONE", "extra": 1, "count": "2"}
    diagnosis = diagnose_form(schema, output)
    assert len(diagnosis.defects) == 5
    case = RepairCase(
        output=output,
        diagnosis=diagnosis,
        materials=Materials(schema=schema),
        resources=Resources(has_model=False),
    )
    result, _ = drive(repair_output(case, lambda made, defect: is_form_fixed(schema, made, defect)))
    assert result.outcome == "repaired"
    assert result.output == {"price": 12.5, "status": "done", "currency": "EUR", "count": 2}
    assert not diagnose_form(schema, result.output).defects

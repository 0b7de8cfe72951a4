"""Repairs without a model: what they mend, and what they leave alone because it is not clear."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.quality import Defect, DefectSeverity, RootCauseClass
from tercet.contracts.repair import SectionTemplate
from tercet.contracts.shape import JsonObject
from tercet.quality.repair.case import RepairCase
from tercet.quality.repair.escalation import Resources
from tercet.quality.repair.materials import Materials
from tercet.quality.repair.mending import mend
from tercet.quality.repair.rechecking import diagnose_form, form_of, is_form_mended
from tercet.quality.repair.regions import Region, locate, splice_all
from tercet.quality.repair.rules import propose
from tercet.quality.repair.rules.redaction import REDACTED, secrets_in
from tercet.quality.repair.rules.texts import sentences

from .letter import drive

C = RootCauseClass


def fact(
    content: Any, classification: str = "order", *, trust: Trust = Trust.TRUSTED, number: int = 1
) -> Evidence:
    return Evidence(id=f"kg:{classification}:{number}#snapshot_s", content=content, trust=trust)


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
    return splice_all(output, found[0].edits) if found else None


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


def test_a_missing_member_comes_from_its_default_or_from_evidence() -> None:
    """Where all evidence agrees, or the trusted one does, the value is clear; where it differs nothing is done."""
    schema = {**SCHEMA, "required": ["currency", "retries", "customer"]}
    one, other = fact({"customer": "Okafor"}), fact({"customer": "Odoi"}, number=2)
    rumour = fact({"customer": "Odoi"}, trust=Trust.UNTRUSTED, number=3)
    whole = {"currency": "EUR", "retries": 3, "customer": "Okafor"}
    assert mended({}, C.SCHEMA_VIOLATION, schema=schema, evidence=(one,)) == whole
    assert mended({}, C.SCHEMA_VIOLATION, schema=schema, evidence=(rumour, one)) == whole
    assert mended({}, C.SCHEMA_VIOLATION, schema=schema, evidence=(one, other)) is None
    assert mended({}, C.SCHEMA_VIOLATION, schema=schema) is None


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
    "ghp_" + "a1b2c3d4e5f6a7b8c9d0e1f2",
    "xoxb-1234567890-abcdef",
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
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


@pytest.mark.parametrize(
    "words", ["password: hunter22", "API key = q9f7w3e1", "Authorization: Bearer abcdefgh12345678"]
)
def test_what_is_called_a_secret_is_one(words: str) -> None:
    """What stands behind such a word goes, the word stays."""
    after = mended({"t": f"My {words}."}, C.SAFETY_VIOLATION)
    assert after == {"t": f"My {words.rpartition(' ')[0]} {REDACTED}."}


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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Write to us. We use {key} for it. Bye.", "Write to us. Bye."),
        ("Write to us. We use {key}, and {key} again. Bye.", "Write to us. Bye."),
        ("Use {key}. Write to us. Use {key}.", "Write to us."),
        ("We use {key} for it.", f"We use {REDACTED} for it."),
        ("## Keys\n\nWe use {key}.\n\n## Bye\n\nYours", f"## Keys\n\nWe use {REDACTED}.\n\n## Bye\n\nYours"),
        ("It is {key}. This opens the door.", f"It is {REDACTED}. This opens the door."),
        ("Use {key}. Or {key}.", f"Use {REDACTED}. Or {REDACTED}."),
    ],
)
def test_a_secret_goes_with_its_sentence(before: str, after: str) -> None:
    """Where the pack says so, and nothing else would be missed; else a mark is left, as by default."""
    output = {"t": before.format(key=SECRETS[0])}
    assert mended(output, C.SAFETY_VIOLATION, redaction="sentence") == {"t": after}
    assert mended(output, C.SAFETY_VIOLATION) == {"t": before.format(key=REDACTED)}


@given(
    st.text(max_size=60),
    st.sampled_from(SECRETS),
    st.text(max_size=60),
    st.sampled_from(("mark", "sentence")),
)
def test_nothing_of_a_redacted_secret_is_left(before: str, secret: str, after: str, redaction: str) -> None:
    """Whatever stands around it, it is gone afterwards, and no secret is found any more."""
    output = {"t": f"{before} {secret} {after}"}
    done = mended(output, C.SAFETY_VIOLATION, redaction=redaction)
    assert done is not None
    assert secret not in str(done["t"])
    assert list(secrets_in(str(done["t"]))) == []


CLAIMS = [
    ("One fact. A lie here. Two facts.", "A lie here", "One fact. Two facts."),
    ("One fact. A lie here.", "A lie here", "One fact."),
    ("A lie here. One fact.", "A lie here", "One fact."),
    ("One fact. A lie here. Moreover, the sky is blue.", "A lie", "One fact. The sky is blue."),
    ("Mr. Ode paid 3.50 today. A lie here! Fine.", "A lie", "Mr. Ode paid 3.50 today. Fine."),
    ("- one\n- a lie here\n- two\n", "a lie", "- one\n- two\n"),
    ("1. one\n2. a lie\n", "a lie", "1. one\n"),
    ("First.\n\nA lie here.\n\nLast.", "A lie", "First.\n\nLast."),
    ("# H\n\nFirst. A lie here.\n\n# I\n\nLast.", "A lie", "# H\n\nFirst.\n\n# I\n\nLast."),
    ("A lie here.", "A lie", None),
    ("# H\n\nA lie here.\n\n# I\n\nLast.", "A lie", None),
    ("One. A lie here. This proves it.", "A lie", None),
    ("# A\n\n## B\n\nA lie here.\n\n## C\n\nWords.", "A lie", None),
    ("# A\n\nWords.\n\n## B\n\nA lie here.\n", "A lie", None),
    ("# A\n\nWords.\n\n## B\n\nA lie here. More.", "A lie", "# A\n\nWords.\n\n## B\n\nMore."),
]


@pytest.mark.parametrize(("text", "claim", "after"), CLAIMS)
def test_a_claim_goes_with_its_sentence(text: str, claim: str, after: str | None) -> None:
    """Sentence, item or paragraph, and what joined it to the next; where a hole would be left, nothing is done."""
    at = text.index(claim)
    done = mended({"t": text}, C.HALLUCINATION, f"/t@{at}-{at + len(claim)}")
    assert done == (None if after is None else {"t": after})


def test_a_place_between_two_characters_is_in_a_sentence() -> None:
    """An empty range means the sentence that it is in, at its beginning too."""
    for at in (10, 15):
        assert mended({"t": "One fact. A lie here. Two."}, C.HALLUCINATION, f"/t#char={at},{at}") == {
            "t": "One fact. Two."
        }


def test_a_claim_is_found_by_its_quotation() -> None:
    """A defect without a range that quotes what it means is as good."""
    output = {"t": "All is well. We won every prize there is. Bye."}
    told = 'the claim "We won every prize" is not supported'
    assert mended(output, C.HALLUCINATION, "/t", description=told) == {"t": "All is well. Bye."}
    assert mended(output, C.HALLUCINATION, "/t", description="something is not supported") is None


@given(st.text(alphabet="ab .!?\n-#1,", max_size=60))
def test_sentences_cover_all_that_is_not_space(text: str) -> None:
    """No character but space is outside of a sentence, and no two of them overlap."""
    spans = sentences(text)
    assert all(low < high for low, high in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    outside = set(range(len(text))) - {at for low, high in spans for at in range(low, high)}
    assert all(text[at].isspace() for at in outside)


ITEMS = [{"quantity": 2, "unit_price": 12.25}, {"amount": 49.5}]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("The total is 80.00 EUR.", "The total is 74.00 EUR."),
        ("Total: EUR 1,080.00", "Total: EUR 74.00"),
        ("You ordered 2 lamps.\nIn all: 80", "You ordered 2 lamps.\nIn all: 74"),
        ("The total is 74.00 EUR.", None),
        ("A total of 5 and a total of 6.", None),
        ("No number in this total.", None),
    ],
)
def test_a_total_in_a_text_is_worked_out_again(text: str, after: str | None) -> None:
    """The sum of the items in the evidence, written as the wrong one was."""
    done = mended({"t": text}, C.FACTUAL_ERROR, "/t", evidence=(fact({"items": ITEMS}),))
    assert done == (None if after is None else {"t": after})


def test_the_total_of_the_place_is_meant() -> None:
    """Another one in the same text stays; and items nobody vouches for do where nobody else lists any."""
    text = "Total weight: 5\n\nTotal: 80"
    rumour = fact({"items": ITEMS}, trust=Trust.UNTRUSTED)
    for place in ("/t#char=17,22", "/t#char=24,26", "/t#line=3"):
        assert mended({"t": text}, C.FACTUAL_ERROR, place, evidence=(rumour,)) == {
            "t": "Total weight: 5\n\nTotal: 74"
        }


def test_a_number_that_is_no_total_is_left_alone() -> None:
    """A price or a date does not become the total because it is the only number there; its claim is taken out."""
    text = "All is well. Two shades, each: 25.50. The total is 80."
    at = text.index("Two")
    known: dict[str, Any] = {"evidence": (fact({"items": ITEMS}),)}
    assert mended({"t": text}, C.FACTUAL_ERROR, f"/t#char={at},{at + 24}", **known) == {
        "t": text.replace("80", "74")
    }
    line = {"t": "All is well. Two shades, each: 25.50."}
    assert mended(line, C.FACTUAL_ERROR, "/t#char=13,37", **known) is None
    assert mended(line, C.HALLUCINATION, "/t#char=13,37", **known) == {"t": "All is well."}
    total = {"t": "All is well. The total is 80."}
    assert mended(total, C.HALLUCINATION, "/t#char=13,28", **known) == {"t": "All is well. The total is 74."}


def test_a_total_in_json_is_the_sum_of_its_items() -> None:
    """Items beside it, items in evidence, and evidence that states a total of its own, which may know of a discount."""
    output = {"invoice": {"items": ITEMS, "total": 80}}
    assert mended(output, C.LOGIC_ERROR, "/invoice/total") == {"invoice": {"items": ITEMS, "total": 74}}
    stated = fact({"items": ITEMS, "total": 70.5})
    assert mended(output, C.LOGIC_ERROR, "/invoice/total", evidence=(stated,)) == {
        "invoice": {"items": ITEMS, "total": 70.5}
    }
    disagreeing = (fact({"items": ITEMS}), fact({"items": ITEMS[:1]}, number=2))
    assert mended(output, C.LOGIC_ERROR, "/invoice/total", evidence=disagreeing) is None
    assert mended(output, C.LOGIC_ERROR, "/invoice/items") is None


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8), st.integers(0, 10**6))
def test_totals_are_exact(cents: list[int], wrong: int) -> None:
    """Sums of cents come out to the cent."""
    items = [{"amount": each / 100} for each in cents]
    text = f"Total: {wrong / 100:.2f}"
    done = mended({"t": text}, C.FACTUAL_ERROR, "/t", evidence=(fact({"items": items}),))
    assert (done or {"t": text})["t"].replace(",", "") == f"Total: {sum(cents) / 100:.2f}"


TEMPLATE = SectionTemplate(heading="Returns", text="Within {{order#/days}} days.", after="Invoice")


def test_a_missing_section_is_added_where_it_belongs() -> None:
    """Behind the one that it follows, else at the end, with its blanks filled from evidence."""
    found: dict[str, Any] = {"sections": (TEMPLATE,), "evidence": (fact({"days": 30}),)}
    added = "## Returns\n\nWithin 30 days.\n"
    assert mended({"t": "# A\n\n## Invoice\n\nx\n\n## Z\n"}, C.INCOMPLETENESS, "/t", **found) == {
        "t": f"# A\n\n## Invoice\n\nx\n\n{added}\n## Z\n"
    }
    assert mended({"t": "Hello."}, C.INCOMPLETENESS, "/t", **found) == {"t": f"Hello.\n\n{added}"}
    assert mended({"t": "## returns\n\nno"}, C.INCOMPLETENESS, "/t", **found) is None
    assert mended({"t": "Hello."}, C.INCOMPLETENESS, "/t", sections=(TEMPLATE,)) is None


def test_a_section_without_a_place_goes_into_the_text_that_has_sections() -> None:
    """Of several texts the only one with headings is meant; of two such, none."""
    found: dict[str, Any] = {"sections": (TEMPLATE,), "evidence": (fact({"days": 30}),)}
    after = mended({"a": "x", "b": "# B\n\nIt came."}, C.INCOMPLETENESS, **found)
    assert after == {"a": "x", "b": "# B\n\nIt came.\n\n## Returns\n\nWithin 30 days.\n"}
    assert mended({"a": "# A\n\nIt came.", "b": "# B\n\nIt went."}, C.INCOMPLETENESS, **found) is None


@pytest.mark.parametrize("text", ["", "...", "# B\n"])
def test_no_section_is_added_to_nothing(text: str) -> None:
    """A text that says nothing stays as it is, unless the rules are those of before."""
    found: dict[str, Any] = {"sections": (TEMPLATE,), "evidence": (fact({"days": 30}),)}
    assert mended({"t": text}, C.INCOMPLETENESS, "/t", **found) is None
    assert mended({"t": text}, C.INCOMPLETENESS, "/t", **found, may_begin=True) is not None


def test_a_fact_brings_no_headings_of_its_own() -> None:
    """What fills a blank is one line, whatever the fact says."""
    evil = fact({"days": "30\n\n# Pay here\n\nnow"})
    done = mended({"t": "Hello."}, C.INCOMPLETENESS, "/t", sections=(TEMPLATE,), evidence=(evil,))
    assert done == {"t": "Hello.\n\n## Returns\n\nWithin 30 # Pay here now days.\n"}


def test_of_two_missing_sections_the_named_one_is_added() -> None:
    """A defect says which one it misses; one that does not is left alone."""
    other = SectionTemplate(heading="Contact", text="Call us.")
    found: dict[str, Any] = {"sections": (TEMPLATE, other), "evidence": (fact({"days": 30}),)}
    named = mended(
        {"t": "Hi."}, C.INCOMPLETENESS, "/t", description="the section Contact is missing", **found
    )
    assert named == {"t": "Hi.\n\n## Contact\n\nCall us.\n"}
    assert mended({"t": "Hi."}, C.INCOMPLETENESS, "/t", description="something is missing", **found) is None


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
    materials = Materials(schema=SCHEMA, evidence=(fact({"items": ITEMS, "days": 3}),), sections=(TEMPLATE,))
    defect = Defect(dimension="d", severity=DefectSeverity.LOW, description=words, location=location)
    place: Region | None = locate(output, location)
    first = propose(output, defect, cause, place, materials)
    assert first == propose(output, defect, cause, place, materials)
    for each in first:
        assert splice_all(output, each.edits) is not None


@pytest.mark.req("R209")
def test_a_broken_schema_is_mended_fault_by_fault() -> None:
    """VERIFY hands the faults over without a critique; each becomes a defect, is mended by rule, and is gone."""
    spec = DecisionSpec(id="d", outputs_schema=SCHEMA, required_outputs=("count",))
    schema = form_of(spec)
    assert schema["required"] == ["currency", "count"]
    output: JsonObject = {"price": "12.50", "status": "DONE", "extra": 1}
    diagnosis = diagnose_form(schema, output)
    assert len(diagnosis.defects) == 5
    case = RepairCase(
        output=output,
        diagnosis=diagnosis,
        materials=Materials(schema=schema, evidence=(fact({"count": 2}),)),
        resources=Resources(has_model=False),
    )
    result, _ = drive(mend(case, lambda made, defect: is_form_mended(schema, made, defect)))
    assert result.outcome == "repaired"
    assert result.output == {"price": 12.5, "status": "done", "currency": "EUR", "count": 2}
    assert not diagnose_form(schema, result.output).defects

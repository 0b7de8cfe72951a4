"""Evidence: its ids, its classes, and what a fact may be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tercet.contracts.context import EvidenceManifestEntry
from tercet.contracts.evidence import Evidence, EvidenceRef, meets, parse_ref
from tercet.contracts.mode import Trust

REF = "kg:refund_window:rw_881#snapshot_kg_2026_05_09_T0930"

part = st.text(
    st.characters(exclude_categories=["Cs", "Z", "C"], exclude_characters=":#"), min_size=1, max_size=8
)


@pytest.mark.req("R16")
def test_the_published_id() -> None:
    """The class is the second part between colons, and the snapshot follows its own mark."""
    assert parse_ref(REF) == EvidenceRef("refund_window", "rw_881", "kg_2026_05_09_T0930")


@pytest.mark.req("R16")
@settings(deadline=None, max_examples=100)
@given(part, st.lists(part, min_size=1, max_size=3).map(":".join), part)
def test_an_id_is_printed_as_it_is_read(classification: str, key: str, snapshot: str) -> None:
    """Any parts that an id can hold come back out of its text; the key may have colons of its own."""
    ref = EvidenceRef(classification, key, snapshot)
    assert parse_ref(str(ref)) == ref


@pytest.mark.req("R16")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "kg",
        "kg:order",
        "kg:order:o1",
        "kg:order:o1#k1",
        "kg:order:o1#snapshot_",
        "kg::o1#snapshot_k1",
        "kg:order:#snapshot_k1",
        "KG:order:o1#snapshot_k1",
        "db:order:o1#snapshot_k1",
        " kg:order:o1#snapshot_k1",
        "kg:order:o1#snapshot_k1\n",
        "kg:order:o1#snapshot_k1#/amount",
        "kg:or der:o1#snapshot_k1",
        "kg:order:o 1#snapshot_k1",
    ],
)
def test_what_is_no_id(text: str) -> None:
    """A text that lacks a part, or has more than an id has, is none."""
    assert parse_ref(text) is None
    with pytest.raises(ValidationError, match=r"kg:<class>:<id>#snapshot_<snapshot>"):
        Evidence(id=text)


@pytest.mark.req("R15", "R16")
@pytest.mark.parametrize(
    ("requirement", "classification", "expected"),
    [
        ("refund_window_evidence", "refund_window", True),
        ("refund_window_evidence", "refund_window_evidence", True),
        ("refund_window", "refund_window", True),
        ("refund_window", "refund_window_evidence", False),
        ("refund_window_evidence", "refund", False),
        ("refund_window_evidence", "window", False),
        ("refund_window_evidence", "", False),
        ("x_evidence_evidence", "x", False),
        ("x_evidence_evidence", "x_evidence", True),
        ("_evidence", "evidence", False),
        ("Order_evidence", "order", False),
    ],
)
def test_what_meets_a_requirement(requirement: str, classification: str, expected: bool) -> None:
    """A requirement x_evidence is met by class x or x_evidence, and by nothing else."""
    assert meets(requirement, classification) is expected


def test_the_class_comes_from_the_id() -> None:
    """Evidence that does not name its class has the one in its id, and knows its snapshot."""
    fact = Evidence(id=REF, content={"amount": 5})
    assert (fact.classification, fact.snapshot) == ("refund_window", "kg_2026_05_09_T0930")
    assert fact.trust is Trust.UNTRUSTED


@pytest.mark.parametrize(
    "fields",
    [
        {"id": 7},
        {"id": REF, "trust": "maybe"},
        {"id": REF, "expires_at": "2026-05-09T09:30:00"},
        {"id": REF, "expires_at": "tomorrow"},
        {"id": REF, "colour": "red"},
        {"content": {}},
        "kg:order:o1#snapshot_k1",
        None,
    ],
)
def test_what_is_no_evidence(fields: Any) -> None:
    """A wrong trust label, a time without a zone, an unknown field or no id at all are refused."""
    with pytest.raises(ValidationError):
        Evidence.model_validate(fields)


@pytest.mark.req("R15")
def test_the_manifest_entry_of_a_fact() -> None:
    """What a plan may pin has the id and class of the fact, and the hash of its content."""
    fact = Evidence(id=REF, content={"amount": 5}, trust=Trust.TRUSTED, source="erp")
    entry = EvidenceManifestEntry.of(fact)
    assert (entry.id, entry.classification, entry.content) == (REF, "refund_window", {"amount": 5})
    assert (entry.trust, entry.source, entry.hash) == (Trust.TRUSTED, "erp", fact.hash)

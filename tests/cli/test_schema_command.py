"""`tercet schema`: the JSON Schema of every public type."""

from __future__ import annotations

import jsonschema_rs
import pytest

from tercet.contracts.packs.schema import PUBLIC_TYPES

from .harness import Tercet


def test_the_types_are_listed_with_a_sentence_each(tercet: Tercet) -> None:
    """Without a type, all of them are listed, for people and for programs."""
    types = tercet("schema", "--json").json["types"]
    assert [entry["name"] for entry in types] == sorted(PUBLIC_TYPES)
    assert all(entry["description"] for entry in types)
    shown = tercet("schema").out.splitlines()
    assert any(line.startswith("Plan ") and "A proposed list of steps" in line for line in shown)


def test_a_schema_can_be_used(tercet: Tercet) -> None:
    """The schema of Plan accepts a plan in our own shape and refuses an unknown field."""
    schema = tercet("schema", "Plan").json
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"steps": [{"id": "s1", "tool": "a.b"}]})
    assert not validator.is_valid({"steps": [], "hurry": True})


@pytest.mark.parametrize("name", ["Plan", "VerifyVerdict", "CriticReport"])
def test_a_schema_is_the_same_with_json(tercet: Tercet, name: str) -> None:
    """A schema is JSON anyway."""
    assert tercet("schema", name).out == tercet("schema", name, "--json").out


def test_a_misspelt_type_is_wrong_use(tercet: Tercet) -> None:
    """A type that is not there is answered with the one that was probably meant."""
    answer = tercet("schema", "plan", "--json")
    assert answer.code == 2
    assert answer.json["error"]["remedy"] == "did you mean Plan?"
    assert "tercet schema lists them all" in tercet("schema", "qqqqqqqq").text

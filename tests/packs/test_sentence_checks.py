"""What `check` reports about sentences in requests."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.problem import Problem
from tercet.packs import Pack, check
from tercet.tools import Tool

CODES = {
    "sentence_settings_unused": "error",
    "sentence_not_in_request": "error",
    "sentence_untrusted": "warning",
    "pattern_group_unknown": "warning",
}
PARAMETERS = {
    "type": "object",
    "properties": {
        "recipient": {"type": "string"},
        "amount": {"type": "integer"},
        "copy": {"type": "object", "properties": {"to": {"type": "string", "format": "idn-email"}}},
    },
}


def act(**parameters: object) -> None:
    """Stands in for the code of every tool."""


PAY = Tool(
    name="bank.pay",
    call=act,
    mode=ApprovalMode.READ_ONLY,
    parameters=PARAMETERS,
    kinds={"recipient": "person"},
)
LOOK = Tool(
    name="bank.look",
    call=act,
    mode=ApprovalMode.READ_ONLY,
    parameters={"type": "object", "properties": {"sender": {"type": "string"}}},
)


def reported(decision: dict[str, Any] | None = None, **field: Any) -> list[Problem]:
    fields = {"of": "request.task", "kind": "sentence", **field}
    spec = DecisionSpec.model_validate({"id": "pay", "fields": [fields], **(decision or {})})
    pack = Pack(name="p", version="1.0.0", tools=[PAY, LOOK], decisions=[spec])
    return [problem for problem in check(pack) if problem.code in CODES]


@pytest.mark.parametrize("group", ["recipient", "person", "amount", "email", "sender"])
def test_a_group_may_be_a_parameter_or_a_kind(group: str) -> None:
    assert reported(patterns=[f"to (?P<{group}>.+)"]) == []


@pytest.mark.parametrize("group", ["to", "copy_to"])
def test_a_member_of_a_parameter_is_not_one(group: str) -> None:
    assert [problem.code for problem in reported(patterns=[f"to (?P<{group}>.+)"])] == [
        "pattern_group_unknown"
    ]


def test_a_group_that_is_neither_is_reported() -> None:
    (problem,) = reported(patterns=[r"to (?P<recipent>\S+)", r"(?P<amount>\d+)"])
    assert (problem.code, problem.severity) == ("pattern_group_unknown", "warning")
    assert problem.place == "decision pay, fields request.task"
    assert "did you mean recipient?" in problem.remedy


@pytest.mark.parametrize("narrowed", [{"tools": ["bank.pay"]}, {"prohibited_tools": ["bank.look"]}])
def test_only_tools_that_the_decision_may_use_count(narrowed: dict[str, Any]) -> None:
    (problem,) = reported(narrowed, patterns=[r"from (?P<sender>\S+)"])
    assert problem.code == "pattern_group_unknown"


@pytest.mark.parametrize("settings", [{"patterns": [r"(?P<amount>\d+)"]}, {"pasted": "trusted"}])
def test_settings_of_sentences_for_another_kind_are_reported(settings: dict[str, Any]) -> None:
    (problem,) = reported(kind="amount", **settings)
    assert (problem.code, problem.severity) == ("sentence_settings_unused", "error")


def test_evidence_has_no_sentences() -> None:
    (problem,) = reported(of="letter.text")
    assert (problem.code, problem.severity) == ("sentence_not_in_request", "error")


@pytest.mark.parametrize("mark", ["task", "/task", "/task/0"])
def test_a_sentence_that_is_marked_as_untrusted_is_reported(mark: str) -> None:
    (problem,) = reported({"untrusted_inputs": [mark]})
    assert (problem.code, problem.severity) == ("sentence_untrusted", "warning")


def test_a_field_of_another_kind_is_not_reported() -> None:
    assert reported(of="letter.amount", kind="amount") == []

"""Plans that nobody should have written: each gets a typed answer, none a traceback, and none takes for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .harness import PLANS, REFUNDS, Tercet

READ: dict[str, Any] = {"id": "s1", "tool": "adp_orders.lookup", "params": {"order_id": "ord_881"}}
OUTPUTS = ["refund_amount_inr", "refund_reason_class"]


def named(*steps: dict[str, Any], **fields: Any) -> bytes:
    """A plan in the named shape that declares the outputs its decision wants."""
    return json.dumps({"steps": steps, "declared_outputs": OUTPUTS, **fields}).encode()


def paying(**params: Any) -> dict[str, Any]:
    """A refund step after `READ`."""
    return {
        "id": "s2",
        "tool": "adp_payments.issue_refund",
        "depends_on": ["s1"],
        "params": {"payment_id": "pay_8861", "amount_inr": 24500, **params},
        "evidence_refs": ["kg:refund_window:rw_881#snapshot_kg_2026_05_09_T0930"],
    }


UNREADABLE = {
    "empty": (b"", "not_json"),
    "not JSON": (b"steps: []", "not_json"),
    "binary": (bytes(range(256)), "not_json"),
    "a comment": (b'{"steps": []} // done', "not_json"),
    "NaN": (
        b'{"steps": [{"id": "s1", "tool": "adp_orders.lookup", "params": {"order_id": NaN}}]}',
        "not_json",
    ),
    "an unpaired surrogate": (
        rb'{"steps": [{"id": "s1", "tool": "a.b", "params": {"x": "\ud800"}}]}',
        "not_json",
    ),
    "too deep": (b"[" * 100_000 + b"]" * 100_000, "not_json"),
    "a list": (b"[]", "not_an_object"),
    "an unknown field": (named(READ, priorty=1), "unknown_field"),
    "an unknown field of a step": (named({**READ, "tol": 1}), "unknown_field"),
    "a wrong type": (named({**READ, "depends_on": 7}), "wrong_value"),
    "steps that are no list": (b'{"steps": {"id": "s1"}}', "wrong_value"),
    "a duplicated id": (named(READ, READ), "duplicate_id"),
    "a misspelt reference": (named({**READ, "params": {"order_id": {"$form": "s1"}}}), "malformed_value"),
    "deep parameters": (
        named({**READ, "params": json.loads('{"a":' * 200 + "1" + "}" * 200)}),
        "malformed_value",
    ),
    "too many steps": (named(*({**READ, "id": f"s{n}"} for n in range(10_001))), "wrong_value"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_plan_that_does_not_parse_is_wrong_use(tercet: Tercet, case: str) -> None:
    """Each defect is listed with its code, and on the screen with what to do about it."""
    document, code = UNREADABLE[case]
    answer = tercet("verify", REFUNDS, "-", "--json", stdin=document)
    assert answer.code == 2
    assert answer.json["error"]["code"] == "plan_invalid"
    assert code in {problem["code"] for problem in answer.json["error"]["problems"]}
    on_screen = tercet("verify", REFUNDS, "-", stdin=document)
    assert (on_screen.code, on_screen.out) == (2, "")
    assert on_screen.err.startswith("✗ the plan has ")


REFUSED = {
    "a cycle": (named({**READ, "depends_on": ["s2"]}, paying()), "cyclic_dependency"),
    "a step that waits for itself": (named({**READ, "depends_on": ["s1"]}, paying()), "cyclic_dependency"),
    "a missing step": (named(READ, paying(amount_inr={"$from": "s9#/amount"})), "unresolved_reference"),
    "a later step": (
        named({**READ, "params": {"order_id": {"$from": "s2#/x"}}}, paying()),
        "cyclic_dependency",
    ),
    "a missing tool": (named(READ, {**paying(), "tool": "adp_payments.bulk_refund"}), "tool_not_surfaced"),
    "missing parameters": (named({**READ, "params": {}}, paying()), "argument_invalid"),
    "a parameter of the wrong type": (named(READ, paying(amount_inr="all")), "argument_invalid"),
    "an amount beyond the limit": (named(READ, paying(amount_inr=100_001)), "argument_not_permitted"),
    "no steps": (named(), "evidence_not_pinned"),
    "10,000 steps": (named(*({**READ, "id": f"s{n}"} for n in range(10_000))), "evidence_not_pinned"),
    "a comprehension": (
        named(READ, {**paying(), "when": "[1].all(a, [1].all(b, true))"}),
        "expression_invalid",
    ),
    "a long expression": (named(READ, paying(amount_inr={"$cel": "1" + "+1" * 600})), "expression_invalid"),
    "nested parentheses": (
        named(READ, paying(amount_inr={"$cel": "(" * 400 + "1" + ")" * 400})),
        "expression_invalid",
    ),
    "another account": (named(READ, paying(payment_id="pay_6666")), "unbound_argument"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_plan_is_refused_by_the_critic(tercet: Tercet, case: str) -> None:
    """Each is refused with its code among the findings, and can be drawn."""
    document, code = REFUSED[case]
    answer = tercet("verify", REFUNDS, "-", "--json", stdin=document)
    assert answer.code == 3
    assert code in {refusal["code"] for refusal in answer.json["verdict"]["refusals"]}
    on_screen = tercet("verify", REFUNDS, "-", stdin=document)
    assert (on_screen.code, on_screen.err) == (3, "")
    assert "✗ refused: " in on_screen.out


def test_every_problem_is_listed_with_its_place(tercet: Tercet) -> None:
    """Several defects in one plan are reported at once, each where it stands."""
    document = named({**READ, "tol": 1}, {"id": "s1", "tool": "nodot"}, hurry=True)
    problems = tercet("verify", REFUNDS, "-", "--json", stdin=document).json["error"]["problems"]
    assert {problem["place"] for problem in problems} >= {"/hurry", "/steps/0/tol", "/steps/1", "/steps/1/id"}


def test_a_huge_parameter_is_refused_unread(tercet: Tercet, tmp_path: Path) -> None:
    """A plan of 50 MB is turned away, whether it comes from a file or from stdin."""
    document = named({**READ, "params": {"order_id": "x" * 50_000_000}})
    (tmp_path / "plan.json").write_bytes(document)
    for answer in (
        tercet("verify", REFUNDS, tmp_path / "plan.json", "--json"),
        tercet("verify", REFUNDS, "-", "--json", stdin=document),
    ):
        assert answer.code == 2
        assert answer.json["error"]["code"] == "plan_too_large"


def test_a_large_parameter_is_not_printed_whole(tercet: Tercet) -> None:
    """Ten megabytes in a parameter make a refusal, not ten megabytes on the screen."""
    answer = tercet("verify", REFUNDS, "-", stdin=named(READ, paying(payment_id="x" * 10_000_000)))
    assert answer.code == 3
    assert len(answer.out) < 5_000


def test_a_missing_file_and_a_folder_are_wrong_use(tercet: Tercet, tmp_path: Path) -> None:
    """The answer says what is there instead."""
    assert "file not found" in tercet("verify", REFUNDS, tmp_path / "plan.json").err
    assert "is a folder" in tercet("verify", REFUNDS, PLANS).err
    assert tercet("verify", REFUNDS, PLANS).code == 2


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "NaN", '{"a": NaN}', "@no_such_file.json", "\udcff"])
def test_a_bad_input_is_wrong_use(tercet: Tercet, text: str) -> None:
    """The request's input is a JSON object or the name of a file that holds one."""
    answer = tercet("verify", REFUNDS, PLANS / "plan_b.json", "--input", text, "--json")
    assert answer.code == 2
    assert answer.json["error"]["code"] in {"input_invalid", "input_not_found"}
    assert answer.json["error"]["remedy"]

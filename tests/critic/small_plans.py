"""Small plans over two customers' payments, which docs/authority.md is tested with."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from critic.naive import Case
from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan

Doc = dict[str, Any]

W1, W2 = "kg:window:w1#snapshot_k1", "kg:window:w2#snapshot_k1"
B1 = "kg:books:b1#snapshot_k1"
FORM = "kg:form:f1#snapshot_k1"
TICKET, STRANGER = "kg:ticket:t1#snapshot_k1", "kg:ticket:t2#snapshot_k1"

EVIDENCE: dict[str, tuple[str, str, Any]] = {
    W1: (
        "window",
        "trusted",
        {"order_id": "o1", "payment_id": "p1", "amount": 500, "seats": 4, "customer": "c1"},
    ),
    W2: (
        "window",
        "trusted",
        {"order_id": "o2", "payment_id": "p2", "amount": 700, "seats": 4, "customer": "c2"},
    ),
    B1: ("books_evidence", "trusted", {"payment_id": "p1", "rate": 3, "order_id": "o1"}),
    FORM: ("form", "untrusted", {"payment_id": "p6", "order_id": "o1"}),
    TICKET: ("ticket", "trusted", {"customer_id": "c1", "order_id": "o1", "others": ["c2", "c3"]}),
    STRANGER: ("ticket", "trusted", {"customer_id": "c2", "order_id": "o2"}),
}
"""Each piece of evidence: class, trust and content."""

TOOLS: dict[str, Doc] = {
    "bank.pay": {"mode": "local_write", "reversibility": "pure", "authority": ["payment_id", "amount", "to"]},
    "bank.give": {"mode": "local_write", "reversibility": "pure", "authority": ["to"]},
    "shop.look": {"mode": "read_only", "untrusted": ["note"]},
}
REQUEST: Doc = {"order_id": "o1", "tags": ["t1", "t2"], "note": "p6", "deep": {"order": "o1"}, "phone": 12}

BIND_WINDOW: Doc = {"evidence": "window", "field": "order_id", "equals": "request.order_id"}
BIND_LOOK: Doc = {"tool": "shop.look", "param": "order_id", "equals": "request.order_id"}
BIND_RESULT: Doc = {"tool": "shop.look", "field": "order_id", "equals": "request.order_id"}
ONE_SOURCE: Doc = {"tool": "bank.pay", "one_source": ["payment_id", "amount"]}


def pay(**fields: Any) -> Doc:
    """A payment; every parameter but `pins`, `depends_on`, `when` and `compensate` is one of the call."""
    own = {
        name: fields.pop(name)
        for name in ("depends_on", "when", "compensate", "tool", "id")
        if name in fields
    }
    pinned = fields.pop("pins", [])
    return {"id": "pay", "tool": "bank.pay", "evidence_refs": pinned, **own, "params": fields}


def look(step_id: str = "look", *pinned: str, **params: Any) -> Doc:
    """A look-up."""
    return {"id": step_id, "tool": "shop.look", "params": params, "evidence_refs": list(pinned)}


def note(step_id: str = "memo", *pinned: str, **params: Any) -> Doc:
    """A note."""
    return {"id": step_id, "kind": "note", "params": params, "evidence_refs": list(pinned)}


class Example(NamedTuple):
    """A plan of the page's sort, and what becomes of it: ok, refused or asked."""

    name: str
    expected: str
    steps: list[Doc]
    spec: Doc
    tools: Doc
    more: Doc


def example(
    name: str, expected: str, *steps: Doc, tools: Doc | None = None, more: Doc | None = None, **spec: Any
) -> Any:
    """An example as a parameter of a test."""
    return pytest.param(Example(name, expected, list(steps), spec, tools or {}, more or {}), id=name)


def as_case(example: Example) -> Case:
    """The example as both critics take it."""
    surface = {name: {**fields, **example.tools.get(name, {})} for name, fields in TOOLS.items()}
    entries: list[Doc] = []
    for name, fields in surface.items():
        adapter, _, capability = name.partition(".")
        place = {"adapter_id": adapter, "capability_id": capability, "approval_mode": fields["mode"]}
        entries.append({**place, "declaration": {"name": name, **fields}})
    facts = [
        {"id": ref, "classification": kind, "trust": trust, "content": content}
        for ref, (kind, trust, content) in {**EVIDENCE, **example.more.get("evidence", {})}.items()
    ]
    compiled: Doc = {
        "manifests": {"tool_manifest": entries, "evidence_manifest": facts},
        "request": {"intent": "d", "input": {**REQUEST, **example.more.get("input", {})}},
        "gates": [{"name": "ask", "roles": ["boss"]}],
        **{name: value for name, value in example.more.items() if name not in ("input", "evidence")},
    }
    return Case(
        RunContext.model_validate({"safety_mode": "destructive"}),
        CompiledContext.model_validate(compiled),
        DecisionSpec.model_validate(
            {"id": "d", "untrusted_inputs": ["note"], "risk_tier": "low", **example.spec}
        ),
        Plan.model_validate({"steps": example.steps}),
    )


def known(value: Any, step_id: str = "before", **fields: Any) -> Doc:
    """A context with a result of an earlier plan."""
    return {
        "results": [{"step_id": step_id, "tool": "shop.look", "value": value, "trust": "trusted", **fields}]
    }


def approved(**params: Any) -> Doc:
    """A context with a plan that was approved before."""
    return {"approved_plan": {"steps": [{"id": "old", "tool": "bank.pay", "params": params}]}}


def kinds(**declared: str) -> Doc:
    """The payment tool with kinds of its parameters."""
    return {"bank.pay": {"kinds": declared}}

"""A small office whose plans a model writes: the assignments that the tests hand out."""

from __future__ import annotations

from typing import Any

from tercet.contracts.context import CompiledContext, EvidenceManifestEntry, Manifests, ToolManifestEntry
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.request import Request
from tercet.contracts.tool import ToolSpec
from tercet.planner.sentences import Assignment
from tercet.tools import tool

FIND = ToolSpec(
    name="shop.find",
    mode=ApprovalMode.READ_ONLY,
    description="Find an order.",
    parameters={"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    result={"type": "object", "properties": {"payment": {"type": "string"}, "total": {"type": "integer"}}},
)
REFUND = ToolSpec(
    name="shop.refund",
    mode=ApprovalMode.DESTRUCTIVE,
    description="Pay money back.",
    parameters={
        "type": "object",
        "properties": {
            "payment": {"type": "string"},
            "amount": {"type": "integer"},
            "note": {"type": "string", "maxLength": 40},
        },
        "required": ["payment", "amount"],
    },
    result={"type": "object", "properties": {"refund_id": {"type": "string"}}},
    authority=("payment", "amount"),
    gates=("GATE_FINANCE",),
    requires_evidence=("refund_rules",),
)


@tool("mail.send", mode="network", authority=["to", "cc"])
def send_mail(to: list[str], text: str, cc: list[str] | None = None, tags: list[str] | None = None) -> str:
    """Send a letter."""
    return f"{to} {text} {cc} {tags}"


SEND = send_mail.spec
RULES = "kg:refund_rules:usual#snapshot_may"
LETTER = "kg:letter:one#snapshot_may"


def assignment(
    *, words: Any = "a kind letter", request: dict[str, Any] | None = None, **fields: Any
) -> Assignment:
    """What a model is asked to plan for a request with a trusted order and a note of somebody else's."""
    facts = (
        Evidence(id=RULES, content={"most": 500}, trust=Trust.TRUSTED),
        Evidence(id=LETTER, content={"text": words}),
    )
    compiled = CompiledContext(
        manifests=Manifests(
            tool_manifest=(ToolManifestEntry.of(FIND), ToolManifestEntry.of(REFUND)),
            evidence_manifest=tuple(map(EvidenceManifestEntry.of, facts)),
        ),
        request=Request(intent="refund", input=request or {"order": "ord_1", "note": words}),
        snapshot="may",
    )
    spec = DecisionSpec(
        id="refund",
        description="Pay back what was taken twice.",
        required_outputs=("refund_id",),
        required_evidence=("refund_rules",),
        untrusted_inputs=("note",),
    )
    usual: dict[str, Any] = {"compiled": compiled, "spec": spec, "tools": compiled.surface, "max_steps": 3}
    return Assignment(**{**usual, **fields})

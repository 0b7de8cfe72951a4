"""The planner's view of a context: of each tool, fact and request, only the fields that help to plan.

Token limits count these values, and a planner that writes a prompt should print these and no others. Who may use a tool
is omitted: a planner sees only tools that its run may use, and does not need other people's roles and tenants.
"""

from __future__ import annotations

from collections.abc import Iterable

from tercet.contracts.context import EvidenceManifestEntry
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.policy import Policy
from tercet.contracts.request import Request
from tercet.contracts.shape import Authored, JsonObject
from tercet.contracts.tool import ToolSpec

_TOOL = {
    "name", "description", "parameters", "result", "mode", "reversibility", "gates", "compensate", "authority", "limits",
    "requires_evidence", "preconditions", "establishes", "revokes", "attests", "untrusted", "trust", "endorses", "estimated_ms",
    "estimated_tokens",
}  # fmt: skip
_EVIDENCE = {"id", "classification", "content", "trust", "source"}
_GATE = {"name", "description", "when"}
_REQUEST = {"intent", "input"}


def show_tool(tool: ToolSpec) -> JsonObject:
    """Return the planner's view of a tool: what it does, its parameters and result, and what a step that calls it
    needs.
    """
    return _shown(tool, _TOOL)


def show_evidence(fact: Evidence | EvidenceManifestEntry) -> JsonObject:
    """Return the planner's view of a fact: its id, its content and its trust."""
    return {**_shown(fact, _EVIDENCE), "trust": str(fact.trust)}


def show_request(request: Request) -> JsonObject:
    """Return the planner's view of a request: its intent and input."""
    return _shown(request, _REQUEST)


def show_instructions(
    decision: DecisionSpec, gates: Iterable[Gate], policies: Iterable[Policy]
) -> JsonObject:
    """Return what a plan must comply with: the decision, the available gates, and the policies."""
    return {
        "decision": _shown(decision),
        "gates": [_shown(gate, _GATE) for gate in gates],
        "policies": [_shown(policy) for policy in policies],
    }


def _shown(thing: Authored, fields: set[str] | None = None) -> JsonObject:
    return thing.model_dump(mode="json", include=fields, exclude_defaults=True)

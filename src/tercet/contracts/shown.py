"""What a planner is shown of each thing in a context: the part that helps to plan, and nothing that is not its business.

Token budgets count these values, and a planner that writes a prompt should print these and no others. Who may use a tool
is left out: a planner sees only tools that its run may use, and has no need of other people's roles and tenants.
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


def shown_tool(tool: ToolSpec) -> JsonObject:
    """A tool: what it does, takes and gives, and what a step that calls it must bring."""
    return _shown(tool, _TOOL)


def shown_evidence(fact: Evidence | EvidenceManifestEntry) -> JsonObject:
    """A fact: its id, which a plan pins, its content and what that is worth."""
    return {**_shown(fact, _EVIDENCE), "trust": str(fact.trust)}


def shown_request(request: Request) -> JsonObject:
    """A request: what is asked for, and with which input."""
    return _shown(request, _REQUEST)


def shown_instructions(
    decision: DecisionSpec, gates: Iterable[Gate], policies: Iterable[Policy]
) -> JsonObject:
    """What a plan must keep to: the decision, the gates that may be waited for, and the policies."""
    return {
        "decision": _shown(decision),
        "gates": [_shown(gate, _GATE) for gate in gates],
        "policies": [_shown(policy) for policy in policies],
    }


def _shown(thing: Authored, fields: set[str] | None = None) -> JsonObject:
    return thing.model_dump(mode="json", include=fields, exclude_defaults=True)

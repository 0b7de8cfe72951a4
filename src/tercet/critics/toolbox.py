"""The default pack of an agent: its tools, one decision without requirements, and limits.

A run of an agent is limited by its stop criteria first. The budget below is a safety net: wide enough that a normal
agent never reaches it, so that none runs forever.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tercet.contracts.decision import DecisionSpec, RiskTier
from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.mode import ApprovalMode, Reversibility, stronger
from tercet.contracts.runs.budget import RunBudget
from tercet.contracts.runs.session import RoleLimit
from tercet.critics.agent import Agent
from tercet.packs.pack import Pack
from tercet.tools import Tool

INTENT = "agent.task"
GATE = "GATE_APPROVAL"
"""The gate for destructive and irreversible calls in a pack without named approvers."""

BUDGET = RunBudget(
    max_steps=50,  # calls per decision
    max_iterations=1_000,  # decisions per run, whatever the stop criteria say
    max_replans=5,  # new decisions after a refusal or an exception
    replans_rationale="each refusal is told to the agent, and one that learns needs more than two",
    max_retries=50,  # retries by critics, most of which have their own limit
    max_step_retries=0,  # critics see a failed call before it is repeated
    tool_calls=10_000,
)
DECIDING_MS = 300_000
"""The time limit of one `decide`, which may wait for its own model."""


def demand_tools(tools: Sequence[object], pack: Pack) -> None:
    """Raise `UsageError` for a tool of the agent that its pack does not have."""
    known = {tool.name for tool in pack.tools}
    for each in tools:
        name = each.name if isinstance(each, Tool) else each
        if not isinstance(name, str):
            raise _undeclared(each)
        if name not in known:
            raise UsageError(
                f"{pack.ref} has no tool {name}",
                code="tool_unknown",
                remedy=f"it has {', '.join(sorted(known)) or 'none'}; add it to the pack",
            )


def polls_of(agent: Agent) -> tuple[str, ...]:
    """Return the tools whose reads an agent repeats until they bring something else."""
    return tuple(each.name if isinstance(each, Tool) else each for each in getattr(agent, "polls", ()))


def demand_polls(polls: Sequence[str], pack: Pack, decision: DecisionSpec) -> None:
    """Raise `UsageError` for a poll of something else than a read that the decision lists as repeatable."""
    reads = {tool.name for tool in pack.tools if tool.mode is ApprovalMode.READ_ONLY}
    for name in polls:
        if name not in reads:
            raise UsageError(
                f"{pack.ref} has no read_only tool {name}, so it cannot be polled",
                code="poll_invalid",
                remedy=f"poll one of {', '.join(sorted(reads)) or 'its reads, of which there are none'}",
            )
        if name not in decision.repeatable:
            raise UsageError(
                f"{pack.ref} does not let decision {decision.id} repeat {name}",
                code="poll_undeclared",
                remedy=f"list {name} in `repeatable` of the decision",
            )


def pack_of(agent: Agent) -> Pack:
    """Return a pack made of an agent's tools; raise `UsageError` for one that is not declared."""
    tools = [_gated(_demand_declared(tool)) for tool in agent.tools]
    safety = ApprovalMode.READ_ONLY
    for tool in tools:
        safety = stronger(safety, tool.mode)
    spec = DecisionSpec(
        id=INTENT,
        risk_tier=RiskTier.LOW,
        # An invented value is never used automatically, but a person who sees its origin may approve it.
        unbound_gate=GATE,
        on_failure="keep",
        repeatable=polls_of(agent),
    )
    return Pack(
        name=_slug(type(agent).__name__),
        version="1.0.0",
        safety_mode=safety,
        on_failure="keep",
        budget=BUDGET,
        limits={"planner": RoleLimit(timeout_ms=DECIDING_MS)},
        tools=tools,
        decisions=[spec],
        gates=[Gate(name=GATE, description="anybody but whoever started the run", roles=())],
    )


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "", f"agent-{name.lower()}")[:100]


def _demand_declared(tool: object) -> Tool:
    if not isinstance(tool, Tool):
        raise _undeclared(tool)
    if tool.gates:
        raise UsageError(
            f"{tool.name} waits for {', '.join(tool.gates)}, and no pack says who may approve that",
            code="gate_undeclared",
            remedy="give the Engine a pack= that declares the gate with its roles",
        )
    return tool


def _gated(tool: Tool) -> Tool:
    """Return a destructive or irreversible tool with a gate."""
    is_grave = tool.mode is ApprovalMode.DESTRUCTIVE
    if not is_grave and tool.effective_reversibility is not Reversibility.IRREVERSIBLE:
        return tool
    # Constructed rather than copied: a copy would keep cached values.
    fields: dict[str, Any] = {name: getattr(tool, name) for name in tool.model_fields_set}
    return Tool.model_validate({**fields, "gates": (GATE,)})


def _undeclared(tool: object) -> UsageError:
    if isinstance(tool, str):
        message, remedy = f"{tool} is a name, and no pack declares it", "give the Engine a pack="
    else:
        name = getattr(tool, "__name__", repr(tool))
        message = f"{name} is not a declared tool, so its mode is unknown"
        remedy = (
            f'declare its mode: @tool("adapter.{name}", mode="read_only")'
            if callable(tool)
            else ("declare it with @tool, which asks for its mode")
        )
    return UsageError(message, code="tool_undeclared", remedy=remedy)

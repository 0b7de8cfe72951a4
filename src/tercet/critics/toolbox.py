"""The pack of an agent that brings none: its tools, one decision that requires nothing, and bounds for everything.

A run of an agent is bounded by its stop criteria first. The budget below is the fence behind them: wide enough that an
honest agent does not meet it, and there, so that none runs for ever.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tercet.contracts.budget import RunBudget
from tercet.contracts.decision import DecisionSpec, RiskTier
from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.mode import ApprovalMode, Reversibility, stronger
from tercet.contracts.session import RoleLimit
from tercet.critics.hooks import Agent
from tercet.packs.pack import Pack
from tercet.tools import Tool

INTENT = "agent.task"
GATE = "GATE_APPROVAL"
"""Where a person says whether a grave call may be made, in a pack that names nobody in particular."""

BUDGET = RunBudget(
    max_steps=50,  # how many calls one decision may ask for
    max_iterations=1_000,  # how many decisions there may be, whatever the stop criteria say
    max_replans=5,  # how often a refused decision, or one that raised, is followed by another
    replans_rationale="each refusal is told to the agent, and one that learns needs more than two",
    max_retries=50,  # how often critics may have a step tried again; most count their own
    max_step_retries=0,  # a failed call is shown to the critics, and not repeated behind their back
    tool_calls=10_000,
)
DECIDING_MS = 300_000
"""How long one `decide` may take: it may wait for a model of its own."""


def demand_tools(tools: Sequence[object], pack: Pack) -> None:
    """Raises `UsageError` for a tool of the agent that its pack does not have."""
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


def pack_of(agent: Agent) -> Pack:
    """A pack made of an agent's tools; raises `UsageError` for one that is not declared."""
    tools = [_gated(_demand_declared(tool)) for tool in agent.tools]
    safety = ApprovalMode.READ_ONLY
    for tool in tools:
        safety = stronger(safety, tool.mode)
    spec = DecisionSpec(
        id=INTENT,
        risk_tier=RiskTier.LOW,
        # What an agent makes up is never sent out by itself, and a person who sees where it came from may let it pass.
        unbound_gate=GATE,
        on_failure="keep",
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
            f"{tool.name} waits for {', '.join(tool.gates)}, and nobody says who may approve that",
            code="gate_undeclared",
            remedy="give the Engine a pack= that declares the gate with its roles",
        )
    return tool


def _gated(tool: Tool) -> Tool:
    """A tool that is destructive or irreversible waits for a person."""
    is_grave = tool.mode is ApprovalMode.DESTRUCTIVE
    if not is_grave and tool.effective_reversibility is not Reversibility.IRREVERSIBLE:
        return tool
    # Made anew and not copied: a copy would keep what was worked out before.
    fields: dict[str, Any] = {name: getattr(tool, name) for name in tool.model_fields_set}
    return Tool.model_validate({**fields, "gates": (GATE,)})


def _undeclared(tool: object) -> UsageError:
    if isinstance(tool, str):
        message, remedy = f"{tool} is a name, and there is no pack that has it", "give the Engine a pack="
    else:
        name = getattr(tool, "__name__", repr(tool))
        message = f"{name} is no declared tool: nobody knows what it may touch"
        remedy = (
            f'declare its mode: @tool("adapter.{name}", mode="read_only")'
            if callable(tool)
            else ("declare it with @tool, which asks for its mode")
        )
    return UsageError(message, code="tool_undeclared", remedy=remedy)

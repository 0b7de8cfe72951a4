"""Tercet: an agent runtime that can say no.

A planner proposes a typed plan, a critic refuses it or lets it through before anything happens, an executor carries
out exactly the verified steps, and the critic judges the result. docs/api.md lists every public name.

Names are imported when they are first used, here and in the command line (`tercet.cli.main`): the first Pydantic class
costs more than all the rest of a small program's start.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tercet.contracts.context import CompiledContext, RunContext
    from tercet.contracts.decision import DecisionSpec
    from tercet.contracts.errors import NotDone, TercetError
    from tercet.contracts.evidence import Evidence
    from tercet.contracts.gate import Gate, HandOff
    from tercet.contracts.plan import Plan, Step
    from tercet.contracts.policy import Policy
    from tercet.contracts.request import Actor, Request
    from tercet.contracts.runs.budget import RunBudget
    from tercet.contracts.runs.record import DecisionRecord
    from tercet.contracts.verdict import CriticReport, ValidationResult, Verdict
    from tercet.critic.consolidate import consolidate
    from tercet.critic.pluggable.critic import Critic
    from tercet.critic.pluggable.result import CriticResult
    from tercet.critic.score import score
    from tercet.critic.verify import validate, verify
    from tercet.critics.agent import Agent
    from tercet.critics.engine import Engine
    from tercet.critics.result import EngineResult
    from tercet.engine.lists import PendingGate
    from tercet.packs.pack import Pack
    from tercet.runtime import RunResult, Runtime, RuntimeOptions
    from tercet.service.client import AsyncClient, Client
    from tercet.tools.decorator import tool
    from tercet.tools.tool import Absent, Happened, Tool, ToolContext, Unknown

__version__ = "0.1.0"

_HOME = {
    "Absent": "tercet.tools.tool",
    "Actor": "tercet.contracts.request",
    "Agent": "tercet.critics.agent",
    "AsyncClient": "tercet.service.client",
    "Client": "tercet.service.client",
    "CompiledContext": "tercet.contracts.context",
    "Critic": "tercet.critic.pluggable.critic",
    "CriticReport": "tercet.contracts.verdict",
    "CriticResult": "tercet.critic.pluggable.result",
    "DecisionRecord": "tercet.contracts.runs.record",
    "DecisionSpec": "tercet.contracts.decision",
    "Engine": "tercet.critics.engine",
    "EngineResult": "tercet.critics.result",
    "Evidence": "tercet.contracts.evidence",
    "Gate": "tercet.contracts.gate",
    "HandOff": "tercet.contracts.gate",
    "Happened": "tercet.tools.tool",
    "NotDone": "tercet.contracts.errors",
    "Pack": "tercet.packs.pack",
    "PendingGate": "tercet.engine.lists",
    "Plan": "tercet.contracts.plan",
    "Policy": "tercet.contracts.policy",
    "Request": "tercet.contracts.request",
    "RunBudget": "tercet.contracts.runs.budget",
    "RunContext": "tercet.contracts.context",
    "RunResult": "tercet.runtime",
    "Runtime": "tercet.runtime",
    "RuntimeOptions": "tercet.runtime",
    "Step": "tercet.contracts.plan",
    "TercetError": "tercet.contracts.errors",
    "Tool": "tercet.tools.tool",
    "ToolContext": "tercet.tools.tool",
    "Unknown": "tercet.tools.tool",
    "ValidationResult": "tercet.contracts.verdict",
    "Verdict": "tercet.contracts.verdict",
    "consolidate": "tercet.critic.consolidate",
    "score": "tercet.critic.score",
    "tool": "tercet.tools.decorator",
    "validate": "tercet.critic.verify",
    "verify": "tercet.critic.verify",
}

__all__ = [
    "Absent",
    "Actor",
    "Agent",
    "AsyncClient",
    "Client",
    "CompiledContext",
    "Critic",
    "CriticReport",
    "CriticResult",
    "DecisionRecord",
    "DecisionSpec",
    "Engine",
    "EngineResult",
    "Evidence",
    "Gate",
    "HandOff",
    "Happened",
    "NotDone",
    "Pack",
    "PendingGate",
    "Plan",
    "Policy",
    "Request",
    "RunBudget",
    "RunContext",
    "RunResult",
    "Runtime",
    "RuntimeOptions",
    "Step",
    "TercetError",
    "Tool",
    "ToolContext",
    "Unknown",
    "ValidationResult",
    "Verdict",
    "consolidate",
    "score",
    "tool",
    "validate",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tercet' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

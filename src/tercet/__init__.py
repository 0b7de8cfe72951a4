"""Tercet: an agent runtime that can say no.

A planner proposes a typed plan, a critic refuses it or lets it through before anything happens, an executor carries
out exactly the verified steps, and the critic judges the result. This page exports what people touch first.

Names are imported when they are first asked for. Only this page and the command line (`tercet.cli.main`) do so, for a
reason: Pydantic is lazy in the same way, and a first class made with it costs more than all the rest of a small
program's start.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tercet.contracts.context import CompiledContext, RunContext
    from tercet.contracts.decision import DecisionSpec
    from tercet.contracts.errors import NotDone, TercetError
    from tercet.contracts.evidence import Evidence
    from tercet.contracts.gate import Gate, Policy
    from tercet.contracts.plan import Plan, Step
    from tercet.contracts.request import Actor, Request
    from tercet.contracts.runs.budget import RunBudget
    from tercet.critic.consolidate import consolidate
    from tercet.critic.pluggable.critic import Critic
    from tercet.critic.pluggable.result import CriticResult
    from tercet.critic.score import score
    from tercet.critic.verify import verify
    from tercet.packs.pack import Pack
    from tercet.runtime import RunResult, Runtime, RuntimeOptions
    from tercet.tools.decorator import tool
    from tercet.tools.reconcile import Absent, Happened, Unknown
    from tercet.tools.tool import Tool, ToolContext

__version__ = "0.1.0"

_HOME = {
    "Absent": "tercet.tools.reconcile",
    "Actor": "tercet.contracts.request",
    "CompiledContext": "tercet.contracts.context",
    "Critic": "tercet.critic.pluggable.critic",
    "CriticResult": "tercet.critic.pluggable.result",
    "DecisionSpec": "tercet.contracts.decision",
    "Evidence": "tercet.contracts.evidence",
    "Gate": "tercet.contracts.gate",
    "Happened": "tercet.tools.reconcile",
    "NotDone": "tercet.contracts.errors",
    "Pack": "tercet.packs.pack",
    "Plan": "tercet.contracts.plan",
    "Policy": "tercet.contracts.gate",
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
    "Unknown": "tercet.tools.reconcile",
    "consolidate": "tercet.critic.consolidate",
    "score": "tercet.critic.score",
    "tool": "tercet.tools.decorator",
    "verify": "tercet.critic.verify",
}

__all__ = [
    "Absent",
    "Actor",
    "CompiledContext",
    "Critic",
    "CriticResult",
    "DecisionSpec",
    "Evidence",
    "Gate",
    "Happened",
    "NotDone",
    "Pack",
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
    "consolidate",
    "score",
    "tool",
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

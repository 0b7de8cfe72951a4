"""Tercet: an agent runtime that can say no.

A planner proposes a typed plan, a critic refuses it or lets it through before anything happens, an executor carries
out exactly the verified steps, and the critic judges the result. This page exports what people touch first.
"""

from tercet.contracts.budget import RunBudget
from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import NotDone, TercetError
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan, Step
from tercet.contracts.policy import Policy
from tercet.contracts.request import Actor, Request
from tercet.critic.consolidate import consolidate
from tercet.critic.pluggable.critic import Critic
from tercet.critic.pluggable.result import CriticResult
from tercet.critic.score import score
from tercet.critic.verify import verify
from tercet.packs import Pack
from tercet.tools import Tool, ToolContext, tool

__version__ = "0.1.0"

__all__ = [
    "Actor",
    "CompiledContext",
    "Critic",
    "CriticResult",
    "DecisionSpec",
    "Evidence",
    "Gate",
    "NotDone",
    "Pack",
    "Plan",
    "Policy",
    "Request",
    "RunBudget",
    "RunContext",
    "Step",
    "TercetError",
    "Tool",
    "ToolContext",
    "consolidate",
    "score",
    "tool",
    "verify",
]

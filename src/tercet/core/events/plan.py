"""Plans and what the critic said of them."""

from __future__ import annotations

from typing import Any, Literal

from tercet.core.events.fact import Fact


class PlanProposed(Fact, frozen=True, kw_only=True, tag="plan_proposed"):
    """A planner, or the caller in its place, proposed a plan."""

    plan: dict[str, Any]
    hash: str
    origin: str
    planner: str = ""
    decision: dict[str, Any] = {}
    """What an agent decided, where it decides step by step."""
    changed_by: str = ""
    """The approver who set values in a call of the plan before; empty where a planner or the caller proposed it."""
    by_pack: bool = False
    """Whether a template or the methods of the session's own pack propose it: then it follows from what was before."""
    exposure: str = ""
    """The first untrusted data that the planner had read; then no policy grants what the plan adds."""


class PlanningFailed(Fact, frozen=True, kw_only=True, tag="planning_failed"):
    """The planner has no plan to propose, and what follows from that."""

    reason: str
    code: str = "planning_failure"
    outcome: Literal["fail", "replan", "escalate"] = "fail"
    by_pack: bool = False
    """Whether a template or the methods of the session's own pack have none: then that follows from what was before."""


class PlanReviewed(Fact, frozen=True, kw_only=True, tag="plan_reviewed"):
    """The critic reviewed the plan."""

    hash: str
    verdict: dict[str, Any]
    escalates: bool = False
    """Whether a person takes over, since the planner has no try left."""


class Decomposed(Fact, frozen=True, kw_only=True, tag="decomposed"):
    """The plan was split into sub-tasks."""

    steps: int


class EvidenceRetrieved(Fact, frozen=True, kw_only=True, tag="evidence_retrieved"):
    """The evidence that the plan pins was looked up: its ids, each with the hash of its content.

    Where the plan asks questions, what was found is pinned to the steps that asked, in another revision of the plan. Facts
    of the library that the plan itself names, and that the run did not begin with, are among the facts that were found.
    """

    evidence: dict[str, str] = {}
    plan: dict[str, Any] = {}
    """The plan with what was found pinned to its steps; empty where it asked nothing."""
    hash: str = ""
    facts: str = ""
    """The digest of the facts that were found, whole."""
    calls: int = 0
    """How many read_only tools were asked."""
    cost: int = 0
    """What asking them cost, in micro-cents."""


class OutputsProduced(Fact, frozen=True, kw_only=True, tag="outputs_produced"):
    """Every step has ended, and these are the plan's outputs."""

    outputs: dict[str, Any] = {}
    missing: dict[str, str] = {}
    """Outputs that could not be produced, each with the reason."""
    memory: tuple[dict[str, Any], ...] = ()
    """What the run suggests remembering: class, content, sources, and whether all of them are trusted."""

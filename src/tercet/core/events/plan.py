"""Events of plans, their reviews, the proposals of lanes, agent turns, and language model calls."""

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
    """The decision of a step-by-step agent."""
    changed_by: str = ""
    """The approver who set values in a call of the plan before; empty if a planner or the caller proposed it."""
    by_pack: bool = False
    """Whether the pack's templates or methods made it, so that a replay can derive it."""
    exposure: str = ""
    """The first untrusted data that the planner had read; if there is any, no policy grants the steps that the plan
    adds."""


class PlanningFailed(Fact, frozen=True, kw_only=True, tag="planning_failed"):
    """The planner has no plan to propose."""

    reason: str
    code: str = "planning_failure"
    outcome: Literal["fail", "replan", "escalate"] = "fail"
    by_pack: bool = False
    """Whether the pack's templates or methods failed, so that a replay can derive it."""


class PlanReviewed(Fact, frozen=True, kw_only=True, tag="plan_reviewed"):
    """The critic reviewed the plan."""

    hash: str
    verdict: dict[str, Any]
    escalates: bool = False
    """Whether the run is escalated because the planner has no attempts left."""


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
    """The plan with the found evidence pinned to its steps; empty if it had no queries."""
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
    """Proposed memories: class, content, sources, and whether all sources are trusted."""


TurnAction = Literal["continue", "retry", "replan", "stop", "escalate", "final", "limit", "end"]
"""Go on; undo the turn and decide again; keep it and decide otherwise; stop for a person; stop because a critic broke;
complete the run; fail because a limit is reached; fail because a critic said stop."""


class TurnJudged(Fact, frozen=True, kw_only=True, tag="turn_judged"):
    """The critics judged the results of a turn, and the stop criteria were evaluated."""

    turn: int
    action: TurnAction
    reason: str = ""
    critic: str = ""
    """The critic that decided."""
    score: float = 1.0
    trace: tuple[dict[str, Any], ...] = ()
    """Every critic that was asked, in order, with its verdict."""
    stop: str = ""
    """Why the run ends, where it does."""
    prompt: str | None = None
    """The system prompt of the next turn where it is not the agent's own."""
    patch: dict[str, Any] = {}
    """The values to set on the state of the agent before the next turn."""
    metadata: dict[str, Any] = {}
    """The metadata of the state after the critics."""
    left_out: tuple[str, ...] = ()
    """Parts of the patch and metadata that are not JSON and were not recorded; such a run cannot be resumed elsewhere."""
    trusted: tuple[str, ...] = ()
    """The steps of this turn whose results are trusted."""


class ModelAsked(Fact, frozen=True, kw_only=True, tag="model_asked"):
    """A language model is about to be asked; the question lies with the events under its hash."""

    call: int
    """The number of the model call in this session."""
    purpose: str
    model: str
    prompt: str
    """The hash of the question, which is the digest of its bytes."""
    attempt: int = 1
    tokens: int = 0
    """The tokens that are kept for it."""
    cost: int = 0
    """The micro-cents that are kept for it."""
    deadline: int = 0


class ModelAnswered(Fact, frozen=True, kw_only=True, tag="model_answered"):
    """A model answered, or failed: then `code` and `error` say why. Its cost is booked in any case."""

    call: int
    answer: str = ""
    blob: str = ""
    """The digest of an answer that is too long for the event."""
    model: str = ""
    """The model that answered, by its full name."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    cut: bool = False
    """Whether the answer ended because it became too long."""
    logprob: float | None = None
    """The mean log-probability of its tokens; None if the model does not report it."""
    error: str = ""
    code: str = ""
    latency: int = 0


class StepProposed(Fact, frozen=True, kw_only=True, tag="step_proposed"):
    """In a lane: a step with side effects is proposed to the parent instead of executed."""

    step: str
    proposal: dict[str, Any]
    """The `LaneProposal`."""


class ProposalsReviewed(Fact, frozen=True, kw_only=True, tag="proposals_reviewed"):
    """In the parent: its critic reviewed the plan together with the steps that a lane proposes; accepted steps become
    part of it."""

    step: str
    """The step that started the lane."""
    hash: str
    """The hash of the plan with the proposals."""
    verdict: dict[str, Any]
    plan: dict[str, Any] = {}
    """That plan; empty if it was rejected, and the run goes on with the one before."""

"""Events of lanes: proposed steps, and their review by the parent's critic."""

from __future__ import annotations

from typing import Any

from tercet.core.events.fact import Fact


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

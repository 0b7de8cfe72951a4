"""What a run suggests remembering, and what of that the critic lets it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tercet.contracts.behaviour import Behaviour
from tercet.contracts.plan import Plan
from tercet.contracts.record import MemoryProposal
from tercet.contracts.shape import JsonObject
from tercet.contracts.verdict import CriticReport
from tercet.core.config import RunConfig
from tercet.core.results import Results
from tercet.core.state import State
from tercet.critic.memory import dropped, is_trusted, sources_of
from tercet.critic.review import Review
from tercet.policy.resolution import MAX_COMPUTED_BYTES, ResolutionError, measure, resolve


def proposed(setting: RunConfig, plan: Plan, results: Results) -> Iterator[JsonObject]:
    """What a plan suggests remembering, as it turned out, with what it is made of; what did not come about is left out."""
    if not plan.memory:
        return
    is_strict = setting.ctx.goes_by(Behaviour.STRICT_CALLS)
    review = Review(setting.ctx, setting.compiled, setting.spec, plan)
    for name, value in plan.memory.items():
        with suppress(ResolutionError):
            content = resolve(value, results, setting.evidence)
            if is_strict and measure(content, MAX_COMPUTED_BYTES) > MAX_COMPUTED_BYTES:
                continue
            yield {
                "class": name,
                "content": content,
                "sources": sources_of(value),
                "trusted": is_trusted(review, value, content),
            }


def remembered(state: State, report: CriticReport) -> Iterator[tuple[MemoryProposal, bool]]:
    """What the critic lets a run remember, each with whether all that it is made of is trusted."""
    for said in state.memory:
        proposal = MemoryProposal(
            classification=said["class"], content=said["content"], sources=tuple(said["sources"])
        )
        if dropped(report, proposal) is None:
            yield proposal, said["trusted"]

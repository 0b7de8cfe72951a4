"""How full a context is: the tokens of each part of what a planner is shown, and of how many."""

from __future__ import annotations

from tercet.contracts.buckets import BUCKETS, Bucket, BucketUse, TokenLimits, estimate_tokens
from tercet.contracts.context import CompiledContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.shown import shown_evidence, shown_instructions, shown_request, shown_tool


def measure(compiled: CompiledContext, decision: DecisionSpec, limits: TokenLimits) -> tuple[BucketUse, ...]:
    """How many tokens each part of a context takes of those that the pack gives it."""
    return tuple(
        BucketUse(bucket=bucket, used=_used(bucket, compiled, decision), limit=limits.of(bucket))
        for bucket in BUCKETS
    )


def _used(bucket: Bucket, compiled: CompiledContext, decision: DecisionSpec) -> int:
    match bucket:
        case "instructions":
            return estimate_tokens(shown_instructions(decision, compiled.gates, compiled.policies))
        case "tools":
            return sum(estimate_tokens(shown_tool(tool)) for tool in compiled.offered.values())
        case "evidence":
            return sum(
                estimate_tokens(shown_evidence(fact)) for fact in compiled.evidence.values() if fact.is_shown
            )
        case "request":
            return 0 if compiled.request is None else estimate_tokens(shown_request(compiled.request))

"""Lanes in a plan: whether this run may start them, how many, how deep, and whether their budget can be reserved."""

from __future__ import annotations

from collections import defaultdict

from tercet.contracts.lane import Lane
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.verdict import Code
from tercet.critic.checks.feasibility import find_shortages
from tercet.critic.review import Refusals, Review


def lanes_are_permitted(review: Review) -> Refusals:
    """Every lane may be used for this decision, no more of it than its fan-out, and no deeper than runs may nest."""
    known = {lane.tool_name: lane for lane in review.compiled.lanes}
    if not known:
        return
    started: defaultdict[str, list[EffectiveStep]] = defaultdict(list)
    for call in review.calls:
        if call.tool.reserves is not None:
            started[call.tool.name].append(call)
    for name, calls in started.items():
        lane = known[name]
        yield from _eligible(review, lane, calls)
        yield from _within_fan_out(review, lane, calls)
        yield from _within_depth(review, calls)
        yield from _affordable(review, lane, calls)


def _eligible(review: Review, lane: Lane, calls: list[EffectiveStep]) -> Refusals:
    tier = review.spec.risk_tier
    if tier in lane.risk_tiers:
        return
    for call in calls:
        yield review.refuse(
            Code.LANE_NOT_ELIGIBLE,
            f"step {call.position} starts lane {lane.name}, which is not for decisions of risk tier {tier}",
            "write the lane's steps into the plan itself",
            step=call.position,
            place="/tool",
        )


def _within_fan_out(review: Review, lane: Lane, calls: list[EffectiveStep]) -> Refusals:
    earlier = sum(made.step.tool == lane.tool_name for made in review.ctx.earlier)
    if earlier + len(calls) > lane.max_fan_out:
        before = f", {earlier} were started before" if earlier else ""
        yield review.refuse(
            Code.FAN_OUT_EXCEEDED,
            f"plan starts lane {lane.name} {len(calls)} times{before}; a run may start {lane.max_fan_out}",
            f"start it at most {max(0, lane.max_fan_out - earlier)} times, or let one lane do more",
            step=calls[max(0, lane.max_fan_out - earlier)].position,
            place="/tool",
        )


def _within_depth(review: Review, calls: list[EffectiveStep]) -> Refusals:
    depth, limit = review.ctx.depth + 1, review.ctx.run_budget.max_depth
    if depth > limit:
        yield review.refuse(
            Code.DEPTH_EXCEEDED,
            f"step {calls[0].position} starts a lane at depth {depth}, runs may be nested {limit} deep",
            "let this run do the work itself",
            step=calls[0].position,
            place="/tool",
        )


def _affordable(review: Review, lane: Lane, calls: list[EffectiveStep]) -> Refusals:
    """What one of these lanes reserves is left. Lanes return what they do not use, so they are not added up here: each
    waits at dispatch until its reservation fits, and is refused there if that cannot be."""
    own = lane.budget
    found = find_shortages(review, calls=own.tool_calls, tokens=own.tokens, cost=own.cost_microcents)
    for code, needed, left in found:
        yield review.refuse(
            code,
            f"lane {lane.name} reserves {needed}, {left:,} are left",
            "write the lane's steps into the plan itself, or ask for a larger budget",
            step=calls[0].position,
            place="/tool",
        )

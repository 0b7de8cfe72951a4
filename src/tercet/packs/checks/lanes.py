"""Lanes: what they are asked, what they may use, and whether a run can ever start one."""

from __future__ import annotations

from tercet.contracts.lane import LANE, Lane
from tercet.contracts.mode import Trust
from tercet.contracts.shape import as_object
from tercet.packs.checks import Check, Problems, did_you_mean, unknown_tool
from tercet.packs.lanes import decision_of, why_untrusted
from tercet.packs.parts import Parts


def lanes_take_decisions(parts: Parts) -> Problems:
    """The intent of each lane asks for one decision of the pack, whose outputs no person has to accept."""
    if parts.is_partial("decision"):
        return
    for lane in parts.lanes:
        decision = decision_of(lane, parts.decisions)
        if decision is None:
            known = [name for spec in parts.decisions for name in (spec.intents or (spec.id,))]
            yield parts.problem(
                "lane_intent_unknown",
                f"lane {lane.name}, intent",
                f"no decision answers the intent {lane.intent}",
                did_you_mean(lane.intent, known) or f"name one of {', '.join(known) or 'its decisions'}",
            )
        elif decision.quality is not None:
            yield parts.problem(
                "lane_asks_person",
                f"lane {lane.name}, intent",
                f"the outputs of {decision.id} may go to a person, and those of a lane cannot",
                "let the lane take a decision without [decision.quality], and judge the outputs in its parent",
            )


def lanes_name_tools(parts: Parts) -> Problems:
    """The tools of a lane exist."""
    for lane in parts.lanes:
        for name in lane.tools:
            if name not in parts.tool and parts.lacks_tool(name):
                yield unknown_tool(parts, f"lane {lane.name}, tools", name)


def lane_names_are_free(parts: Parts) -> Problems:
    """No tool has the name that a step calls a lane by."""
    taken = {tool.name for tool in parts.tools}
    for lane in parts.lanes:
        if lane.tool_name in taken:
            yield parts.problem(
                "duplicate_name",
                f"lane {lane.name}",
                f"there is a tool {lane.tool_name}",
                f"rename one of them; {LANE}.<name> is what a step calls a lane by",
            )


def lane_parameters_are_named(parts: Parts) -> Problems:
    """What a lane is given is an object whose fields are named: nothing else is passed on."""
    for lane in parts.lanes:
        if lane.params.get("type") != "object" or as_object(lane.params.get("properties")) is None:
            yield parts.problem(
                "lane_params",
                f"lane {lane.name}, params",
                "the parameters of a lane are an object with named properties",
                'write params = { type = "object", properties = { … } }',
            )


def trusted_lanes_can_be(parts: Parts) -> Problems:
    """A lane is trusted only where every tool of it is, and the pack itself plans it."""
    if parts.is_partial("tool"):
        return
    for lane in parts.lanes:
        if lane.trust is Trust.TRUSTED and (why := why_untrusted(parts, lane)):
            yield parts.problem(
                "lane_trust",
                f"lane {lane.name}, trust",
                f"its outputs cannot be trusted: {why}",
                "leave trust out, or give the lane trusted tools and a template",
            )


def lanes_can_be_paid(parts: Parts) -> Problems:
    """What a lane reserves fits into the budget of a run, and one that a model plans has tokens."""
    planned = {plan.intent for plan in parts.templates} | {goal.intent for goal in parts.library.goals}
    for lane in parts.lanes:
        yield from _affordable(parts, lane)
        if lane.intent not in planned and not lane.budget.tokens and not parts.is_partial("goal"):
            yield parts.problem(
                "lane_tokens",
                f"lane {lane.name}, budget.tokens",
                f"a language model plans {lane.intent}, and the lane may use no tokens",
                "reserve some: budget = { tokens = 4000 }; or add a template for the intent",
            )


def _affordable(parts: Parts, lane: Lane) -> Problems:
    for field in ("tool_calls", "tokens", "cost_microcents"):
        reserved, limit = getattr(lane.budget, field), getattr(parts.budget, field)
        if limit is not None and reserved > limit:
            yield parts.problem(
                "lane_unaffordable",
                f"lane {lane.name}, budget.{field}",
                f"it reserves {reserved:,}, and a run of this pack has {limit:,}",
                f"reserve at most {limit:,}, or raise {field} in [budget] of pack.toml",
            )


LANE_CHECKS: tuple[Check, ...] = (
    lanes_take_decisions,
    lanes_name_tools,
    lane_names_are_free,
    lane_parameters_are_named,
    trusted_lanes_can_be,
    lanes_can_be_paid,
)

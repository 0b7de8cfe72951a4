"""Token limits of contexts: what a pack itself brings along must fit, whoever asks and whatever for."""

from __future__ import annotations

from tercet.contracts.buckets import estimate_tokens
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.mode import MODE_RANK
from tercet.contracts.shown import shown_instructions, shown_tool
from tercet.contracts.tool import ToolSpec
from tercet.packs.checks import Check, Problems
from tercet.packs.parts import PACK, Parts


def instructions_fit(parts: Parts) -> Problems:
    """What a planner must be told of each decision fits into its bucket."""
    limit = parts.context.tokens.instructions
    if limit is None:
        return
    for decision in parts.decisions:
        needed = estimate_tokens(shown_instructions(decision, parts.gates, parts.policies))
        if needed > limit:
            yield parts.problem(
                "instructions_overflow",
                f"{PACK}, context.tokens.instructions",
                f"decision {decision.id} with its gates and policies needs {needed:,} tokens of {limit:,}, so every request for it is refused",
                f"raise it to {needed}, or shorten the texts",
            )


def tools_fit(parts: Parts) -> Problems:
    """The tools of each decision fit into their bucket together."""
    limit = parts.context.tokens.tools
    if limit is None:
        return
    for decision in parts.decisions:
        sizes = [estimate_tokens(shown_tool(tool)) for tool in parts.tools if _may_use(parts, decision, tool)]
        if sum(sizes) > limit:
            yield parts.problem(
                "tools_overflow",
                f"{PACK}, context.tokens.tools",
                f"the tools of decision {decision.id} need {sum(sizes):,} tokens of {limit:,}, so some are left out",
                f"raise it to {sum(sizes)}, or let the decision list the tools that it needs",
                severity="warning",
            )


def _may_use(parts: Parts, decision: DecisionSpec, tool: ToolSpec) -> bool:
    is_listed = decision.tools is None or tool.name in decision.tools
    is_within = MODE_RANK[tool.mode] <= MODE_RANK[parts.safety_mode]
    return is_listed and is_within and tool.name not in decision.prohibited_tools


CONTEXT_CHECKS: tuple[Check, ...] = (instructions_fit, tools_fit)

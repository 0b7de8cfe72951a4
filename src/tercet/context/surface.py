"""The tools of a run: those of the pack that the decision may use and its owner is permitted to, as far as they fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tercet.context.admission import Packed, fill, overflow
from tercet.contracts.buckets import estimate_tokens
from tercet.contracts.context import LedgerEntry, RunContext, ToolManifestEntry
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.mode import MODE_RANK
from tercet.contracts.shown import shown_tool
from tercet.tools.tool import Tool


@dataclass(frozen=True, kw_only=True)
class Surface:
    """The tools of a run by name, and why the others are not among them."""

    manifest: tuple[ToolManifestEntry, ...]
    ledger: tuple[LedgerEntry, ...]
    packed: Packed


def surface_of(
    tools: Sequence[Tool], decision: DecisionSpec, run_context: RunContext, limit: int | None
) -> Surface:
    """The surface of a run; raises `UsageError` if the limit leaves none of the tools that it would be offered."""
    ordered = sorted(tools, key=lambda tool: tool.name)
    barred = {tool.name: reason for tool in ordered if (reason := _bar(tool, decision, run_context))}
    offered = [tool for tool in ordered if tool.name not in barred and _is_within(tool, run_context)]
    packed = fill("tools", limit, _sizes(offered, decision, limit))
    if offered and len(packed.left_out) == len(offered):
        raise overflow(
            "tools", f"none of the tools of decision {decision.id} fits into {limit:,} tokens", "describe them in fewer words"
        )  # fmt: skip
    excluded = {**barred, **packed.left_out}
    return Surface(
        manifest=tuple(ToolManifestEntry.of(tool.spec) for tool in ordered if tool.name not in excluded),
        ledger=tuple(_entries(ordered, excluded, decision, run_context)),
        packed=packed,
    )


def _bar(tool: Tool, decision: DecisionSpec, run_context: RunContext) -> str | None:
    """Why a tool is no part of a run's surface; None if it may be.

    Who is named in a reason is never a person or a tenant: frames are shared by all whom they are the same for, and
    one tenant's context says nothing of another.
    """
    if tool.name in decision.prohibited_tools:
        return f"decision {decision.id} prohibits it"
    if decision.tools is not None and tool.name not in decision.tools:
        return f"decision {decision.id} does not list it"
    if not tool.serves(run_context.tenant):
        return "it is not for the tenant of this run"
    if not tool.is_open_to(run_context.actor.roles):
        return f"the actor holds none of the roles {', '.join(tool.roles)}"
    return None


def _is_within(tool: Tool, run_context: RunContext) -> bool:
    return MODE_RANK[tool.mode] <= MODE_RANK[run_context.safety_mode]


def _sizes(offered: Sequence[Tool], decision: DecisionSpec, limit: int | None) -> dict[str, int]:
    """The tokens of each tool, in the order in which the decision lists them, else by name.

    Tools above the safety mode are shown to nobody, and take no room.
    """
    if limit is None:
        return {}
    listed = {name: place for place, name in enumerate(decision.tools or ())}
    ordered = sorted(offered, key=lambda tool: (listed.get(tool.name, len(listed)), tool.name))
    return {tool.name: estimate_tokens(shown_tool(tool)) for tool in ordered}


def _entries(
    tools: Sequence[Tool], excluded: dict[str, str], decision: DecisionSpec, run_context: RunContext
) -> Iterator[LedgerEntry]:
    for tool in tools:
        reason = excluded.get(tool.name)
        if reason is not None:
            yield LedgerEntry(kind="tool", name=tool.name, admitted=False, reason=reason)
        elif _is_within(tool, run_context):
            yield LedgerEntry(
                kind="tool", name=tool.name, admitted=True, reason=f"decision {decision.id} may use it"
            )
        else:
            yield LedgerEntry(
                kind="tool",
                name=tool.name,
                admitted=True,
                reason=f"not offered to a planner: its mode {tool.mode} is above the safety mode "
                f"{run_context.safety_mode}; kept so that a step that calls it is refused for this reason",
            )

"""Values that runs share while their plan, their context and their permissions are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from tercet.contracts.context import CompiledContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan
from tercet.contracts.shape import JsonObject
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.cache import BoundedCache
from tercet.contracts.verdict import Verdict
from tercet.core.config import ExecutionPlan
from tercet.critic.reading import Reading

MOST = 64
"""How many plans and how many reviews are kept."""


class Reviewed(NamedTuple):
    """The critic's review of a plan, with its inputs."""

    verdict: Verdict
    recorded: JsonObject
    """The recorded form of the verdict in this run."""
    printed: bytes
    """The verdict as JSON, from which each run decodes its own dict."""
    reading: Reading
    spec: DecisionSpec
    frame: tuple[Any, ...]
    """Everything else that the verdict depends on."""


class SharedWork:
    """Caches of execution plans and reviews. The runs of a runtime share one; a replay has its own, so that it relies on
    nothing that another run has computed.

    Contexts, plans and decisions are compared by identity: they are frozen, and the same one is handed out while it is
    the same. An entry holds the objects whose ids it is kept under.
    """

    def __init__(self) -> None:
        self._plans: BoundedCache[tuple[int, int, int], tuple[ExecutionPlan, Mapping[str, ToolSpec]]] = (
            BoundedCache(MOST)
        )
        self._reviews: BoundedCache[tuple[int, int], Reviewed] = BoundedCache(MOST)

    def execution_plan(
        self, plan: Plan, surface: dict[str, ToolSpec], tools: Mapping[str, ToolSpec]
    ) -> ExecutionPlan:
        """Return a plan over a surface, indexed for the execution of one run."""
        key = id(plan), id(surface), id(tools)
        kept = self._plans.get(key)
        if kept is None:
            kept = self._plans.keep(key, (ExecutionPlan.of(plan, surface, tools), surface))
        return kept[0].for_run()

    def find_review(
        self, compiled: CompiledContext, spec: DecisionSpec, plan: Plan, frame: tuple[Any, ...]
    ) -> Reviewed | None:
        """Return the review of the same plan in the same frame, if there was one."""
        kept = self._reviews.get((id(compiled), id(plan)))
        if kept is None or kept.spec is not spec or kept.frame != frame:
            return None
        return kept._replace(recorded=msgspec.json.decode(kept.printed))

    def keep_review(self, reviewed: Reviewed) -> Reviewed:
        """Keep a review for further runs."""
        reading = reviewed.reading
        return self._reviews.keep((id(reading.compiled), id(reading.plan)), reviewed)

"""When each step of a plan could run, how long the whole takes at least, and which steps may wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tercet.contracts.plan import Plan
from tercet.contracts.tool import ToolSpec


class Window(NamedTuple):
    """When a step can start at the earliest, and at the latest if the plan is not to take longer, in milliseconds."""

    earliest_ms: int
    latest_ms: int

    @property
    def slack_ms(self) -> int:
        """How long the step may wait without anybody noticing at the end."""
        return self.latest_ms - self.earliest_ms


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The critical path of a plan, and the time that each step has."""

    total_ms: int
    critical_path: tuple[str, ...]
    """The chain of steps that takes longest, first to last."""
    windows: Mapping[str, Window]


def schedule(plan: Plan, surface: Mapping[str, ToolSpec]) -> Schedule:
    """The schedule of a plan if each step takes as long as it, or its tool, says; a plan with a cycle has none."""
    if not plan.graph.is_acyclic:
        return Schedule(total_ms=0, critical_path=(), windows={})
    durations = [_duration(plan, index, surface) for index in range(len(plan.steps))]
    ends = plan.graph.finish_times(durations)
    total = max(ends, default=0)
    latest_end = [total] * len(ends)
    for step in reversed(plan.graph.order):
        for later in plan.graph.successors[step]:
            latest_end[step] = min(latest_end[step], latest_end[later] - durations[later])
    return Schedule(
        total_ms=total,
        critical_path=tuple(plan.steps[step].id for step in plan.graph.critical_path(durations)),
        windows={
            step.id: Window(ends[index] - durations[index], latest_end[index] - durations[index])
            for index, step in enumerate(plan.steps)
        },
    )


def _duration(plan: Plan, index: int, surface: Mapping[str, ToolSpec]) -> int:
    step = plan.steps[index]
    if step.estimated_ms is not None:
        return step.estimated_ms
    tool = surface.get(step.tool or "")
    return 0 if tool is None else tool.estimated_ms

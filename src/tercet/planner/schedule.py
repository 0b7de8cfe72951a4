"""The schedule of a plan: when each step could run, the minimum duration, and the slack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tercet.contracts.plan import Plan, Step
from tercet.contracts.tool import ToolSpec

Source = Literal["measured", "step", "tool", "unknown"]
"""The source of a step's duration."""


class Window(NamedTuple):
    """The earliest start of a step, and the latest that does not delay the plan, in milliseconds."""

    earliest_ms: int
    latest_ms: int
    duration_ms: int = 0
    source: Source = "unknown"

    @property
    def slack_ms(self) -> int:
        """How long the step may wait without delaying the end."""
        return self.latest_ms - self.earliest_ms


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The critical path of a plan, and the window of each step."""

    total_ms: int
    critical_path: tuple[str, ...]
    """The longest chain of steps, first to last."""
    windows: Mapping[str, Window]

    @property
    def sequential_ms(self) -> int:
        """The duration if all steps run in sequence."""
        return sum(window.duration_ms for window in self.windows.values())


def schedule(
    plan: Plan, surface: Mapping[str, ToolSpec], measured: Mapping[str, int] | None = None
) -> Schedule:
    """Return the schedule of a plan by the estimates of steps and tools; a plan with a cycle has none.

    `measured` are the actual durations of completed steps, which replace estimates.
    """
    if not plan.graph.is_acyclic:
        return Schedule(total_ms=0, critical_path=(), windows={})
    timed = [_timed(step, surface, measured or {}) for step in plan.steps]
    durations = [ms for ms, _ in timed]
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
            step.id: Window(
                ends[index] - durations[index], latest_end[index] - durations[index], *timed[index]
            )
            for index, step in enumerate(plan.steps)
        },
    )


def _timed(step: Step, surface: Mapping[str, ToolSpec], measured: Mapping[str, int]) -> tuple[int, Source]:
    if step.id in measured:
        return measured[step.id], "measured"
    if step.estimated_ms is not None:
        return step.estimated_ms, "step"
    tool = surface.get(step.tool or "")
    return (0, "unknown") if tool is None else (tool.estimated_ms, "tool")

"""How long a plan takes, on the screen and as JSON: its critical path, and who may wait."""

from __future__ import annotations

from typing import Any

from tercet.cli.text import listed, printable, took
from tercet.planner.schedule import Schedule

LONGEST_PATH = 12
"""Of a longer critical path only the two ends are shown."""


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """A schedule as one JSON object."""
    return {
        "total_ms": schedule.total_ms,
        "sequential_ms": schedule.sequential_ms,
        "critical_path": list(schedule.critical_path),
        "steps": {
            name: {
                "duration_ms": window.duration_ms,
                "source": window.source,
                "earliest_ms": window.earliest_ms,
                "latest_ms": window.latest_ms,
                "slack_ms": window.slack_ms,
            }
            for name, window in schedule.windows.items()
        },
    }


def time_text(schedule: Schedule) -> str:
    """How long the plan takes at least, and along which steps."""
    path = [printable(name, 80) for name in schedule.critical_path]
    shown = path if len(path) <= LONGEST_PATH else [*path[:6], "…", *path[-5:]]
    apart = f" ({took(schedule.sequential_ms)} one after the other)"
    total = took(schedule.total_ms) + (apart if schedule.sequential_ms != schedule.total_ms else "")
    return f"{total} along {' → '.join(shown)}"


def slack_text(schedule: Schedule) -> str:
    """Which steps may wait, and for how long; empty if none may."""
    waiting = {name: window.slack_ms for name, window in schedule.windows.items() if window.slack_ms}
    return listed([f"{name} may wait {took(ms)}" for name, ms in waiting.items()], most=6)


def untimed_text(schedule: Schedule) -> str:
    """The steps of which nobody said how long they take; empty if there is none."""
    unknown = [name for name, window in schedule.windows.items() if window.source == "unknown"]
    return f"not known of {listed(unknown)}" if unknown else ""

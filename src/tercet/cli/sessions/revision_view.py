"""The revisions and the schedule of a session's plan, on the screen and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.text import Text

from tercet.cli.journals import RecordedSession
from tercet.cli.screen import Screen
from tercet.core.plans import read_plan
from tercet.planner.schedule import Schedule, schedule
from tercet.view.revisions import Revision, revisions
from tercet.view.terminal.text import count, duration_text, listed, printable

MOST_REVISIONS = 6
"""The number of last revisions that are shown: a step-by-step agent has one for each step."""


def revisions_json(recorded: RecordedSession) -> list[dict[str, Any]]:
    """Return each plan of a session compared with the one before it, as JSON."""
    return msgspec.to_builtins(revisions(recorded.events))


def timing(recorded: RecordedSession) -> Schedule | None:
    """Return the schedule of the current plan: measured durations of ended steps, planned ones of the others."""
    state = recorded.state
    if not state.plan:
        return None
    ended = {name: step.status for name, step in state.steps.items() if step.status in ("done", "skipped")}
    duration_text = {
        name: recorded.latencies.get(name, 0) if how == "done" else 0 for name, how in ended.items()
    }
    return schedule(read_plan(state.plan), {}, duration_text)


def timing_json(recorded: RecordedSession) -> dict[str, Any] | None:
    """Return the schedule of the current plan as JSON."""
    found = timing(recorded)
    return None if found is None else schedule_json(found)


def show_revisions(screen: Screen, recorded: RecordedSession) -> None:
    """Print the changes of each revision; nothing if there is only one."""
    later = [each for each in revisions(recorded.events) if each.number > 1]
    if not later:
        return
    screen.say()
    if len(later) > MOST_REVISIONS:
        left_out = f"… {count(len(later) - MOST_REVISIONS, 'earlier revision')}; --json lists them"
        screen.put(Text(left_out, style="dim"))
    for revision in later[-MOST_REVISIONS:]:
        _show_revision(screen, revision)


def _show_revision(screen: Screen, revision: Revision) -> None:
    why = f": {printable('; '.join(revision.why), 300)}" if revision.why else ""
    planner = f" by {printable(revision.planner, 40)}" if revision.planner else ""
    screen.put(Text.assemble((f"plan {revision.number}", "bold"), f"{planner}{why}"), rest="  ")
    for step in revision.given_up:
        more = "" if step.why == "; ".join(revision.why) else f": {printable(step.why, 200)}"
        screen.put(Text(f"{printable(step.id, 80)} ({step.status}){more}"), first="  given up  ")
    rows = {
        "new": [step.id for step in revision.new],
        "changed": [f"{step.id} ({', '.join(step.fields)})" for step in revision.changed],
        "kept": [f"{step.id}{' (done)' if step.is_done else ''}" for step in revision.kept],
    }
    for label, names in rows.items():
        if names:
            screen.put(Text(listed(names, most=12), style="dim"), first=f"  {label:<10}")


def timing_rows(recorded: RecordedSession) -> dict[str, str]:
    """Return labelled rows about the duration of the plan; none if it is unknown."""
    found = timing(recorded)
    if found is None or not found.sequential_ms:
        return {}
    rows = {"time": time_text(found), "slack": slack_text(found), "": untimed_text(found)}
    return {label: text for label, text in rows.items() if text}


# --- time ---


LONGEST_PATH = 12
"""The middle of a longer critical path is left out."""


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as one JSON object."""
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
    """Return the least duration of the plan, and its critical path."""
    path = [printable(name, 80) for name in schedule.critical_path]
    shown = path if len(path) <= LONGEST_PATH else [*path[:6], "…", *path[-5:]]
    apart = f" ({duration_text(schedule.sequential_ms)} one after the other)"
    total = duration_text(schedule.total_ms) + (apart if schedule.sequential_ms != schedule.total_ms else "")
    return f"{total} along {' → '.join(shown)}"


def slack_text(schedule: Schedule) -> str:
    """Return which steps may wait, and for how long; empty if none may."""
    waiting = {name: window.slack_ms for name, window in schedule.windows.items() if window.slack_ms}
    return listed([f"{name} may wait {duration_text(ms)}" for name, ms in waiting.items()], most=6)


def untimed_text(schedule: Schedule) -> str:
    """Return the steps whose duration is unknown; empty if there is none."""
    unknown = [name for name, window in schedule.windows.items() if window.source == "unknown"]
    return f"not known of {listed(unknown)}" if unknown else ""

"""Figures of the service in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tercet.service.worker import Carrier


@dataclass(kw_only=True)
class Counts:
    """What was counted since the process started."""

    calls: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    """By tenant, method and outcome."""
    unauthenticated: int = 0


def render_calls(counts: Counts, tenant: str | None) -> str:
    """Return how many calls there were of one tenant, or of all of them. Methods and outcomes are names of our own, so
    nothing has to be escaped."""
    found: Counter[tuple[str, str]] = Counter()
    for (owner, method, outcome), number in counts.calls.items():
        if tenant in (None, owner):
            found[method, outcome] += number
    lines = ["# TYPE tercet_calls_total counter"]
    lines += [
        f'tercet_calls_total{{method="{method}",outcome="{outcome}"}} {number}'
        for (method, outcome), number in sorted(found.items())
    ]
    return "\n".join(lines) + "\n"


def render_process(counts: Counts, worker: Carrier) -> str:
    """Return the figures of this process, which are of all tenants."""
    lines: list[str] = []
    figures = (
        ("tercet_unauthenticated_total", "counter", counts.unauthenticated),
        ("tercet_sessions_carried_total", "counter", worker.carried),
        ("tercet_sessions_running", "gauge", worker.running),
        ("tercet_sessions_queued", "gauge", worker.waiting),
    )
    for name, kind, value in figures:
        lines += [f"# TYPE {name} {kind}", f"{name} {value}"]
    return "\n".join(lines) + "\n"


def render_notifications(counts: Mapping[str, int], pending: int) -> str:
    """Return the figures about notifications; outcomes are names of our own."""
    lines = ["# TYPE tercet_notifications_total counter"]
    lines += [
        f'tercet_notifications_total{{outcome="{outcome}"}} {counts.get(outcome, 0)}'
        for outcome in ("delivered", "retried", "failed", "dropped")
    ]
    lines += ["# TYPE tercet_notifications_pending gauge", f"tercet_notifications_pending {pending}"]
    return "\n".join(lines) + "\n"

"""How long sessions live and roles may take: limits that a run can live with."""

from __future__ import annotations

from tercet.packs.checks import Check, Problems
from tercet.packs.parts import PACK, Parts

SENSIBLE_PLANNER_MS = range(5_000, 30_001)
_SLOW = "local"
"""A model that runs on this machine takes as long as the machine does."""


def planner_has_sensible_time(parts: Parts) -> Problems:
    """A planner gets long enough to answer, and not so long that nobody would wait."""
    limit = parts.limits.get("planner")
    if limit is None or limit.timeout_ms is None or limit.timeout_ms in SENSIBLE_PLANNER_MS:
        return
    is_slow = any(name.partition(":")[0] == _SLOW for name in parts.models.planner)
    if is_slow and limit.timeout_ms > SENSIBLE_PLANNER_MS.start:
        return
    yield parts.problem(
        "planner_timeout_unusual",
        f"{PACK}, limits.planner.timeout_ms",
        f"a planner that may take {limit.timeout_ms:,} ms is outside of the sensible 5 to 30 seconds",
        "choose between 5000 and 30000",
        severity="warning",
    )


def heartbeats_fit_into_sessions(parts: Parts) -> Problems:
    """A session lives longer than the time between two signs of life."""
    rules = parts.session
    if rules.heartbeat_interval_ms >= rules.ttl_ms:
        yield parts.problem(
            "heartbeat_too_slow",
            f"{PACK}, session.heartbeat_interval_ms",
            f"a session ends after {rules.ttl_ms:,} ms, before its first sign of life is due",
            "lower heartbeat_interval_ms, or raise ttl_ms",
        )


SESSION_CHECKS: tuple[Check, ...] = (planner_has_sensible_time, heartbeats_fit_into_sessions)

"""Planning by tasks and methods: what twice as many primitive tasks cost.

The library has an abstract task for every twenty primitive ones, in an order of their own, with a condition on a fact, a
cheaper method that does not apply, and arguments that are handed down. Rounds alternate between the two sizes, so that
a noisy machine is noisy for both.
"""

from __future__ import annotations

import gc
import statistics
from typing import Any

from tercet.contracts.tasks import TaskLibrary
from tercet.planner.alternatives import propose
from tercet.planner.knowledge import Knowledge

from .measurement import Target, cpu_seconds, show_targets

SMALL, LARGE = 1_000, 2_000
GROUP = 20
ROUNDS = 9
MOST = 2.3


def library_of(primitives: int) -> TaskLibrary:
    """A library whose goal comes to so many primitive tasks."""
    host = {"$arg": "host"}
    steps = [
        {
            "task": "act",
            "name": f"act{n}",
            "args": {"host": host, "n": n},
            "after": [f"act{n - 1}"] if n % 4 else [],
        }
        for n in range(GROUP)
    ]
    groups: list[dict[str, Any]] = [
        {"task": "group", "name": f"group{n}", "args": {"host": {"$from": "request#/host"}}}
        for n in range(primitives // GROUP)
    ]
    return TaskLibrary.model_validate(
        {
            "facts": [{"name": "load", "type": "integer", "value": {"$from": "request#/load"}}],
            "tasks": [
                {"name": "all"},
                {"name": "group", "args": ["host"]},
                {
                    "name": "act",
                    "tool": "x.act",
                    "args": ["host", "n"],
                    "params": {"host": host, "n": {"$arg": "n"}},
                },
            ],
            "methods": [
                {"name": "each", "task": "all", "subtasks": groups},
                {"name": "quick", "task": "group", "cost": 1, "applies": "state.load < 5", "subtasks": []},
                {
                    "name": "slow",
                    "task": "group",
                    "cost": "state.load * 2",
                    "ordering": "partial",
                    "subtasks": steps,
                },
            ],
            "goals": [{"intent": "work", "task": "all"}],
        }
    )


def planning(primitives: int) -> float:
    """CPU seconds of planning once, with everything compiled before."""
    shapes = library_of(primitives)
    knowledge = Knowledge(shapes)
    case = knowledge.case({"host": "h1", "load": 7}, {})
    assert len(propose(knowledge, shapes.goals[0], case).steps) == primitives
    return cpu_seconds(lambda: propose(knowledge, shapes.goals[0], case))


def run(*, is_smoke: bool = False) -> list[str]:
    """Print one row; return the ratio if it is over its limit at the median."""
    small, large, rounds = (100, 200, 1) if is_smoke else (SMALL, LARGE, ROUNDS)
    taken: list[float] = []
    ratios: list[float] = []
    gc.disable()
    try:
        for _ in range(rounds):
            taken.append(planning(small))
            ratios.append(planning(large) / taken[-1])
            gc.collect()
    finally:
        gc.enable()
    print(f"planning {small:,} primitive tasks takes {1_000 * statistics.median(taken):.0f} ms here")
    print(f"ratios from {min(ratios):.2f} to {max(ratios):.2f}")
    name = f"HTN: plan {large:,} / plan {small:,} tasks"
    return show_targets([Target(name=name, found=statistics.median(ratios), most=MOST)])

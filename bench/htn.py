"""Planning by tasks and methods: what twice as many primitive tasks cost.

The library has an abstract task for every twenty primitive ones, in an order of their own, with a condition on a fact, a
cheaper method that does not apply, and arguments that are handed down. Rounds alternate between the two sizes, so that
a noisy machine is noisy for both.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from typing import Any

from tercet.contracts.tasks import TaskLibrary
from tercet.planner.alternatives import propose
from tercet.planner.knowledge import Knowledge

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
    began = time.process_time()
    propose(knowledge, shapes.goals[0], case)
    return time.process_time() - began


def main() -> int:
    """Prints one row; fails if the ratio is over its limit at the median."""
    ratios: list[float] = []
    small: list[float] = []
    gc.disable()
    for _ in range(ROUNDS):
        small.append(planning(SMALL))
        ratios.append(planning(LARGE) / small[-1])
        gc.collect()
    gc.enable()
    median = statistics.median(ratios)
    mark = "" if median <= MOST else "  over"
    print(f"{'ratio':34}{'min':>8}{'median':>8}{'max':>8}{'limit':>8}")
    name = f"HTN: plan {LARGE:,} / plan {SMALL:,} tasks"
    print(f"{name:34}{min(ratios):8.2f}{median:8.2f}{max(ratios):8.2f}{MOST:8.2f}{mark}")
    print(f"planning {SMALL:,} primitive tasks takes {1_000 * statistics.median(small):.0f} ms here")
    return 0 if median <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())

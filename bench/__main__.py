"""Runs benchmarks one after the other, and lists the missed targets at the end.

A benchmark that misses a target or stops with an error does not keep the others from running. A smoke round is one small
round of everything that a benchmark does: its figures say nothing, so it misses no targets.

    PYTHONPATH=tests python -m bench [NAME ...] [--smoke]
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

BENCHMARKS = (
    "durable",
    "agentdojo",
    "growth",
    "waiting",
    "critic",
    "htn",
    "evidence",
    "telemetry",
    "replay",
    "screen",
    "journal",
    "service",
    "console",
    "cluster",
    "cluster_waiting",
)


def run_all(names: Sequence[str], *, is_smoke: bool) -> list[str]:
    """Run these benchmarks; return the targets that were missed and the benchmarks that stopped."""
    missed: list[str] = []
    for name in names:
        print(f"\n=== {name}", flush=True)
        try:
            found = import_module(f"bench.{name}").run(is_smoke=is_smoke)
        except Exception as error:  # noqa: BLE001 - whatever stops one benchmark, the others run
            traceback.print_exc()
            missed.append(f"{name}: stopped with {type(error).__name__}: {error}")
        else:
            missed += [] if is_smoke else [f"{name}: {line}" for line in found]
    return missed


def main() -> int:
    """Run what was asked for; 1 if anything was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run benchmarks.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; all if none"
    )
    parser.add_argument("--smoke", action="store_true", help="one small round, without peers and targets")
    chosen = parser.parse_args()
    if unknown := sorted({*chosen.names} - {*BENCHMARKS}):
        parser.error(f"unknown benchmark {unknown[0]!r} (expected: {', '.join(BENCHMARKS)})")
    missed = run_all(chosen.names or BENCHMARKS, is_smoke=chosen.smoke)
    print()
    for line in missed:
        print(f"missed: {line}")
    if not missed:
        print("Every benchmark ran." if chosen.smoke else "Every target was reached.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

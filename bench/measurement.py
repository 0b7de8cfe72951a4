"""What the benchmarks share: CPU times, measurements in processes of their own, and targets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A figure that was measured, and the most or the least that it may be."""

    name: str
    found: float
    most: float | None = None
    least: float | None = None

    @property
    def is_missed(self) -> bool:
        """Whether the figure is on the wrong side of its limit."""
        is_over = self.most is not None and self.found > self.most
        return is_over or (self.least is not None and self.found < self.least)

    @property
    def wanted(self) -> str:
        """The limit, as a person reads it."""
        return f"<= {self.most:g}" if self.most is not None else f">= {self.least:g}"

    def __str__(self) -> str:
        return f"{self.name}: {self.found:.2f}, wanted {self.wanted}"


def show_targets(targets: Iterable[Target]) -> list[str]:
    """Print a row for each target; return those that were missed."""
    missed: list[str] = []
    for target in targets:
        verdict = "missed" if target.is_missed else "reached"
        print(f"{target.name:<50} {target.found:>8.2f}   {target.wanted}: {verdict}", flush=True)
        if target.is_missed:
            missed.append(str(target))
    return missed


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU time of this process for doing something once."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure_in_process(module: str, *words: object, python: str = sys.executable) -> Any:
    """Run a module in a fresh process; return the JSON of the last line that it prints."""
    done = subprocess.run(
        [python, "-m", module, *map(str, words)], cwd=ROOT, check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(map(str, words))} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])

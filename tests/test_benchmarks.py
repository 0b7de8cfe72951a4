"""Every benchmark runs for one small round, and one that misses its target does not stop the others.

No figure is looked at: what a benchmark checks by itself (effects, rows, equal replays) is what must hold.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench import __main__ as runner
from bench.agentdojo import SUITES, targets_of
from bench.agentdojo.report import describe
from bench.measurement import Target, show_targets

from tercet import Pack
from tercet.packs import check

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", runner.BENCHMARKS)
def test_a_benchmark_runs(name: str) -> None:
    """One small round ends well, in a process of its own as `make bench` has it."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", name, "--smoke"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "tests")}, capture_output=True, text=True, check=False,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("Every benchmark ran.\n")
    if skipped := [line for line in done.stdout.splitlines() if line.startswith("skipped: ")]:
        pytest.skip(skipped[0])


def test_every_benchmark_is_listed() -> None:
    """A module that can be run as a benchmark is part of `make bench`, and so of these tests."""
    files = [*(ROOT / "bench").glob("*.py"), *(ROOT / "bench").glob("*/__init__.py")]
    modules = (path for path in files if "def run(*, is_smoke" in path.read_text())
    names = (path.parent.name if path.stem == "__init__" else path.stem for path in modules)
    assert sorted(names) == sorted(runner.BENCHMARKS)


def fake(monkeypatch: pytest.MonkeyPatch, **outcomes: list[str] | Exception) -> None:
    """Replace the benchmarks by ones that miss these targets, or stop with an error."""

    def load(module: str) -> SimpleNamespace:
        outcome = outcomes[module.removeprefix("bench.")]

        def run(*, is_smoke: bool) -> list[str]:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return SimpleNamespace(run=run)

    monkeypatch.setattr(runner, "import_module", load)
    monkeypatch.setattr(runner, "BENCHMARKS", tuple(outcomes))
    monkeypatch.setattr(sys, "argv", ["bench"])


def test_every_benchmark_runs_and_misses_are_listed_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a missed target nor an error keeps the next benchmark from running; the exit code tells of both."""
    fake(monkeypatch, slow=["rate: 1.00, wanted >= 2"], broken=ValueError("no plan"), good=[])
    assert runner.main() == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "", "=== slow", "", "=== broken", "", "=== good", "",
        "missed: slow: rate: 1.00, wanted >= 2",
        "missed: broken: stopped with ValueError: no plan",
    ]  # fmt: skip
    assert "Traceback" in printed.err


def test_reached_targets_end_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 0 where nothing was missed."""
    fake(monkeypatch, good=[])
    assert runner.main() == 0
    assert capsys.readouterr().out.endswith("Every target was reached.\n")


def test_a_target_is_missed_beyond_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """The limit itself is still reached, from both sides."""
    targets = [
        Target(name="ratio", found=2.0, most=2.0),
        Target(name="ratio", found=2.1, most=2.0),
        Target(name="share", found=0.9, least=0.9),
        Target(name="share", found=0.8, least=0.9),
    ]
    assert show_targets(targets) == ["ratio: 2.10, wanted <= 2", "share: 0.80, wanted >= 0.9"]
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["reached", "missed"] * 2


@pytest.mark.parametrize("suite", SUITES)
def test_the_packs_for_agentdojo_have_no_errors(suite: str) -> None:
    """They load and are sound where AgentDojo is not installed."""
    problems = check(Pack.load(ROOT / "bench" / "agentdojo" / suite))
    assert [problem for problem in problems if problem.severity == "error"] == []


def test_attacks_on_agentdojo_are_counted_by_who_makes_them() -> None:
    """A colleague's attack is shown by itself, and is not one of the adaptive ones."""
    task: dict[str, Any] = {
        "task": "user_task_1",
        "outcome": "alone",
        "asks": 0,
        "asked": [],
        "is_useful": True,
        "reason": "",
    }
    attack = {"strategy": "post it", "form": "turns", "tried": 3, "succeeded": 2, "partly": 0}
    found: dict[str, Any] = {
        "suite": "slack",
        "honest": [{**task, "form": form} for form in ("literals", "references", "turns")],
        "without": {"tried": 3, "succeeded": 3},
        "attacks": [
            {**attack, "is_adaptive": True, "is_insider": True},
            {**attack, "is_adaptive": True, "is_insider": False, "succeeded": 1},
        ],
        "found": [
            {"strategy": "post it", "injection": "injection_task_3", "succeeded": True, "happened": []}
        ],
    }
    assert "| turn by turn | 1 | 0 | 0 | 1 of 1 | 0 | 0 |  | 1 of 3 | 2 of 3 |" in describe(found)
    missed = [target.name for target in targets_of(found) if target.is_missed]
    assert missed == ["slack: user tasks alone", "slack: adaptive attacks that succeeded"]

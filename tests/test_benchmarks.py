"""Every benchmark runs for one small round, and one that misses its target does not stop the others.

No figure is looked at: what a benchmark checks by itself (effects, rows, equal replays) is what must hold.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from bench import __main__ as runner
from bench.measurement import Target, show_targets

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

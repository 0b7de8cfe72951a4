"""The quick tier, tried on small suites of their own."""

from __future__ import annotations

import os

import pytest

SUITE = """
import subprocess, sys
import pytest
from hypothesis import given, settings, strategies as st

TRIED = []

@pytest.fixture
def postgres_server():
    raise AssertionError("no server is started")

@pytest.fixture
def address(postgres_server):
    return ""

def test_plain(): pass

@pytest.mark.slow
def test_slow(): pass

def test_server(address): pass

@pytest.mark.parametrize("backend", ["memory", "sqlite", "postgresql", {"not": "hashable"}])
def test_backend(backend): pass

@settings(max_examples=300)
@given(st.integers())
def test_property(number): TRIED.append(number)

def test_few_examples_were_tried():
    assert 0 < len(TRIED) <= 10

def test_process():
    try:
        subprocess.run([sys.executable, "-c", ""])
    except BaseException:
        pass

def test_after_it(): pass
"""

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def with_plugins(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Make the plugins of this repository known to the inner runs, outside of any other run of pytest-xdist."""
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath / "tests"))
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)


def run(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run a suite of three files: in a folder of the quick tier, in another folder, and outside of any."""
    pytester.makeini(
        "[pytest]\nmarkers = slow: as here\ntestpaths = tests\naddopts = --import-mode=importlib\n"
    )
    for name, text in {
        "core/test_core": SUITE,
        "cli/test_cli": "def test_cli(): pass",
        "test_top": "def test_top(): pass",
    }.items():
        file = pytester.path / "tests" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    # In a process of its own: what watches for new processes cannot be removed.
    return pytester.runpytest_subprocess("-p", "plugins.quick", "-p", "no:cacheprovider", *args)


def test_the_quick_tier_needs_no_other_process(pytester: pytest.Pytester) -> None:
    """Slow tests, servers, other backends and other folders are left out, and a test that starts a process fails."""
    result = run(pytester, "--quick", "-v")
    result.assert_outcomes(passed=6, failed=1, deselected=4)
    result.stdout.fnmatch_lines(["it starts a process: mark it with pytest.mark.slow"])
    result.stdout.no_fnmatch_line("*test_cli*")
    result.stdout.no_fnmatch_line("*test_top*")


def test_a_full_run_starts_with_the_slow_tests(pytester: pytest.Pytester) -> None:
    """No test is left out, and those outside of the quick tier come first, in their order."""
    result = run(pytester, "--collect-only", "-q")
    names = [line.rpartition("::")[2] for line in result.outlines if "::" in line]
    slow = [
        "test_cli",
        "test_slow",
        "test_server",
        "test_backend[sqlite]",
        "test_backend[postgresql]",
        "test_top",
    ]
    assert names[:6] == slow
    assert names[6:] == [
        "test_plain", "test_backend[memory]", "test_backend[backend3]", "test_property", "test_few_examples_were_tried",
        "test_process", "test_after_it",
    ]  # fmt: skip


def test_every_worker_starts_with_slow_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow tests of a file stay together, and those that share a server go to one worker."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    shared = "import pytest\n@pytest.fixture\ndef temporal(): pass\ndef test_first(temporal): pass\n"
    for folder in ("acceptance", "upgrade"):
        file = pytester.path / "tests" / folder / "test_shared.py"
        file.parent.mkdir(parents=True)
        file.write_text(f"{shared}def test_plain(): pass\n", encoding="utf-8")
    result = run(pytester, "--collect-only", "-q")
    names = [line.partition("/")[2] for line in result.outlines if "::" in line]
    first = [names.index(name) for name in names if "test_first" in name]
    assert len(names) == 17
    assert first == [0, 1]  # with the other files of the first worker behind them
    assert names[2:4] == ["cli/test_cli.py::test_cli", "test_top.py::test_top"]
    assert names.index("acceptance/test_shared.py::test_plain") == len(names) // 2


def test_all_tests_get_more_workers_than_there_are_cores(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-n auto` starts the number of workers that this plugin asks for, and not that of pytest-xdist."""
    config, cores = request.config, os.cpu_count() or 1
    monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)
    assert config.hook.pytest_xdist_auto_num_workers(config=config) == 2 * cores + 1
    monkeypatch.setattr(config.option, "quick", True)
    assert config.hook.pytest_xdist_auto_num_workers(config=config) == cores
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "17")
    assert config.hook.pytest_xdist_auto_num_workers(config=config) == 17

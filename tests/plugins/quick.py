"""The quick tier: `--quick` runs the tests that need nothing but their own process, with few examples.

Some folders are outside of it, since they test processes, servers, recorded histories or pages. In the others a test is
outside if it is marked `slow`, if it uses a fixture that starts a server or a browser, or if it repeats on SQLite what
it also tries in memory. A test that starts a process without being marked fails.

In a full run, the tests outside of the quick tier start first, so that no long one is left for the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

OTHER_FOLDERS = frozenset({"acceptance", "cli", "examples", "histories", "mcp_servers", "observe", "upgrade"})
SERVERS = frozenset({"postgres_server", "browser"})
BACKENDS = ("sqlite", "postgres", "postgresql")
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"})
EXAMPLES = 10


class Tiers:
    """Start with the tests outside of the quick tier."""

    def __init__(self, tests: Path) -> None:
        self.tests = tests

    def is_folder_quick(self, path: Path) -> bool:
        """Return whether a file or folder belongs to the quick tier, by its place below the tests."""
        if self.tests not in path.parents:
            return True
        top, *below = path.relative_to(self.tests).parts
        return top not in OTHER_FOLDERS and (bool(below) or not top.endswith(".py"))

    def is_quick(self, item: pytest.Item) -> bool:
        """Return whether a test belongs to the quick tier."""
        if item.get_closest_marker("slow") is not None or not self.is_folder_quick(item.path):
            return False
        parameters = getattr(item, "callspec", None)
        values = () if parameters is None else parameters.params.values()
        return not SERVERS & set(getattr(item, "fixturenames", ())) and not any(v in BACKENDS for v in values)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Start with the slow tests."""
        items.sort(key=self.is_quick)


class QuickTier(Tiers):
    """Run the quick tier alone."""

    def __init__(self, tests: Path) -> None:
        super().__init__(tests)
        self._started = 0
        sys.addaudithook(self._note_processes)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Do not even import the other folders."""
        return None if self.is_folder_quick(collection_path) else True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Leave out the slow tests, and let properties try few examples."""
        config.hook.pytest_deselected(items=[item for item in items if not self.is_quick(item)])
        items[:] = [item for item in items if self.is_quick(item)]
        for item in items:
            limit_examples(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, None, None]:
        """Count from here the processes that a test and its fixtures start."""
        self._started = 0
        yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        """Fail a test that has started a process."""
        yield
        if self._started:
            pytest.fail("it starts a process: mark it with pytest.mark.slow", pytrace=False)

    def _note_processes(self, event: str, args: tuple[Any, ...]) -> None:
        del args
        self._started += event in STARTS


def limit_examples(item: pytest.Item) -> None:
    """Let a property try few examples, also where it asks for many."""
    test: Any = getattr(item, "obj", None)
    asked: settings | None = getattr(test, "_hypothesis_internal_use_settings", None)
    if asked is not None and asked.max_examples > EXAMPLES:
        test._hypothesis_internal_use_settings = settings(asked, max_examples=EXAMPLES)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return how many workers `-n auto` starts, before pytest-xdist does: one for each core, and two more where all tests
    run, since half of their time is waiting for other processes."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    waits = not config.getoption("quick") and config.getoption("random_examples", None) is None
    return (os.cpu_count() or 1) + (2 if waits else 0)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("quick").addoption(
        "--quick", action="store_true", help="run only tests that need no other process, with few examples"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the tier."""
    tests = config.rootpath / "tests"
    config.pluginmanager.register((QuickTier if config.getoption("quick") else Tiers)(tests), "tiers")

"""The quick tier: `--quick` runs the tests that need nothing but their own process, with few examples.

Some folders are outside of it, since they test processes, servers, recorded histories or pages. In the others a test is
outside if it is marked `slow`, if it uses a fixture that starts a server or a browser, or if it repeats on SQLite what
it also tries in memory. A test that starts a process without being marked fails.

In a full run every worker gets some of the tests outside of the quick tier and starts with them: while they wait for other
processes, those of other workers use the cores, and no long one is left for the end.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Generator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

OTHER_FOLDERS = frozenset({"acceptance", "cli", "examples", "histories", "mcp_servers", "observe", "upgrade"})
SERVERS = frozenset({"postgres_server", "browser"})
SHARED = "temporal"
"""A server that is costly even while it waits: the tests that use it go to one worker."""
BACKENDS = ("sqlite", "postgres", "postgresql")
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"})
EXAMPLES = 10


@cache
def is_folder_quick(tests: Path, path: Path) -> bool:
    """Return whether a file or folder belongs to the quick tier, by its place below the tests."""
    if tests not in path.parents:
        return True
    top, *below = path.relative_to(tests).parts
    return top not in OTHER_FOLDERS and (bool(below) or not top.endswith(".py"))


class Tiers:
    """Let every worker start with tests outside of the quick tier."""

    def __init__(self, tests: Path) -> None:
        self.tests = tests

    def is_quick(self, item: pytest.Item) -> bool:
        """Return whether a test belongs to the quick tier."""
        if item.get_closest_marker("slow") is not None or not is_folder_quick(self.tests, item.path):
            return False
        parameters = getattr(item, "callspec", None)
        values = () if parameters is None else parameters.params.values()
        return not SERVERS & set(getattr(item, "fixturenames", ())) and not any(v in BACKENDS for v in values)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deal the slow tests to the workers, file by file."""
        slow: dict[object, list[pytest.Item]] = defaultdict(list)
        quick: list[pytest.Item] = []
        for item in items:
            if self.is_quick(item):
                quick.append(item)
            else:
                slow[SHARED if SHARED in getattr(item, "fixturenames", ()) else item.path].append(item)
        items[:] = deal(list(slow.values()), quick, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


class QuickTier(Tiers):
    """Run the quick tier alone."""

    def __init__(self, tests: Path) -> None:
        super().__init__(tests)
        self._started = 0
        sys.addaudithook(self._note_processes)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Do not even import the other folders."""
        return None if is_folder_quick(self.tests, collection_path) else True

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


def deal(
    slow: Sequence[Sequence[pytest.Item]], quick: Sequence[pytest.Item], workers: int
) -> list[pytest.Item]:
    """Return all tests in one list whose equal parts, which pytest-xdist gives to the workers, begin with slow ones."""
    dealt: list[pytest.Item] = []
    rest, total = iter(quick), len(quick) + sum(map(len, slow))
    for worker in range(workers):
        part = [item for group in slow[worker::workers] for item in group]
        size = (total - len(dealt)) // (workers - worker)
        dealt += [*part, *islice(rest, max(0, size - len(part)))]
    return [*dealt, *rest]


def limit_examples(item: pytest.Item) -> None:
    """Let a property try few examples, also where it asks for many."""
    test: Any = getattr(item, "obj", None)
    asked: settings | None = getattr(test, "_hypothesis_internal_use_settings", None)
    if asked is not None and asked.max_examples > EXAMPLES:
        test._hypothesis_internal_use_settings = settings(asked, max_examples=EXAMPLES)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return how many workers `-n auto` starts, before pytest-xdist does: one for each core. Where all tests run it is two
    for each and one more, since half of their time is waiting for other processes."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    cores = os.cpu_count() or 1
    waits = not config.getoption("quick") and config.getoption("random_examples", None) is None
    return 2 * cores + 1 if waits else cores


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("quick").addoption(
        "--quick", action="store_true", help="run only tests that need no other process, with few examples"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the tier."""
    tests = config.rootpath / "tests"
    config.pluginmanager.register((QuickTier if config.getoption("quick") else Tiers)(tests), "tiers")

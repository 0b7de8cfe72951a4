"""A pytest plugin that tries mutants of functions without starting anything anew.

The tests are imported once. For each mutant the process forks, and the child gives the function the code of the mutant
and runs the tests of the line. This covers what the quick tier runs in its own process; constants, classes and tests
that start processes need a copy of the sources and a new process for each mutant.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

JOBS = "TERCET_MUTANT_JOBS"
PROCESSES = 2
TIMEOUT = 60
_Functions = defaultdict[tuple[str, str], list[FunctionType]]


@dataclass(frozen=True, kw_only=True)
class Job:
    """The mutants of one function, each as the whole text of its module, and the tests that one of them should fail."""

    name: str
    path: str
    qualname: str
    modules: Sequence[str]
    tests: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Kill:
    """The job, the number of its mutant and the test that failed with it."""

    job: int
    mutant: int
    test: str


def write_jobs(path: Path, jobs: Sequence[Job], seconds: float) -> None:
    """Write what the plugin reads."""
    path.write_text(json.dumps({"seconds": seconds, "jobs": [asdict(job) for job in jobs]}), encoding="utf-8")


def read_kills(path: Path) -> list[Kill]:
    """Read what the plugin wrote, as far as it came."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Kill(**json.loads(line)) for line in lines]


class Forks:
    """Runs the jobs instead of the tests."""

    def __init__(self, path: Path) -> None:
        content = json.loads(path.read_text(encoding="utf-8"))
        self._jobs = [Job(**job) for job in content["jobs"]]
        self._seconds: float = content["seconds"]
        self._kills = path.with_suffix(".kills")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the mutants of each job in turn until one is killed, two jobs at a time."""
        items: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            items[item.nodeid.split("[")[0]].append(item)
        waiting = deque(self._tries(items, find_functions()))
        gc.freeze()  # the children share what there is by now, as long as no collection touches it
        end = time.monotonic() + self._seconds
        running: dict[int, tuple[int, Iterator[_Try], int]] = {}
        while waiting or running:
            if time.monotonic() > end:
                waiting.clear()
            while waiting and len(running) < PROCESSES:
                number, tries = waiting.popleft()
                if (work := next(tries, None)) is not None:
                    pid, pipe = _fork(work)
                    running[pid] = (number, tries, pipe)
            if running:
                pid, _ = os.wait()
                number, tries, pipe = running.pop(pid)
                if answer := _read(pipe):
                    self._note(number, answer)
                else:
                    waiting.appendleft((number, tries))
        return True

    def _tries(
        self, items: dict[str, list[pytest.Item]], functions: _Functions
    ) -> Iterator[tuple[int, Iterator[_Try]]]:
        for number, job in enumerate(self._jobs):
            own = [item for test in job.tests for item in items[test]]
            found = functions[job.path, job.qualname]
            if own and found:
                yield number, iter([_Try(job, mutant, own, found) for mutant in range(len(job.modules))])

    def _note(self, number: int, answer: str) -> None:
        mutant, test = answer.split(" ", 1)
        with self._kills.open("a", encoding="utf-8") as kills:
            kills.write(json.dumps(asdict(Kill(job=number, mutant=int(mutant), test=test))) + "\n")


class _Try:
    """One mutant and its tests, to be run in a process of its own."""

    def __init__(
        self, job: Job, mutant: int, items: Sequence[pytest.Item], functions: Sequence[FunctionType]
    ) -> None:
        self._job, self._mutant, self._items, self._functions = job, mutant, items, functions

    def __call__(self) -> str:
        """Return the number of the mutant and the first test that fails with it, or nothing."""
        module = compile(self._job.modules[self._mutant], self._job.path, "exec")
        code = [each for each in _codes(module) if each.co_qualname == self._job.qualname][-1]
        for function in self._functions:
            function.__code__ = code
        for item in self._items:
            reports = runtestprotocol(item, log=False, nextitem=None)
            if any(report.failed and report.when == "call" for report in reports):
                return f"{self._mutant} {item.nodeid.split('[')[0]}"
        return ""


def find_functions() -> _Functions:
    """Find all functions by file and name, wherever they are referred to, also behind decorators."""
    functions: _Functions = defaultdict(list)
    for found in gc.get_objects():
        if type(found) is FunctionType:
            functions[found.__code__.co_filename, found.__code__.co_qualname].append(found)
    return functions


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _fork(work: Callable[[], str]) -> tuple[int, int]:
    """Start a process for some work, and return its id and the pipe in which its answer will be."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        signal.alarm(TIMEOUT)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(silence, stream)
        os.write(writing, work().encode())
    finally:
        os._exit(0)


def _read(pipe: int) -> str:
    with os.fdopen(pipe, encoding="utf-8") as answer:
        return answer.read()


def pytest_configure(config: pytest.Config) -> None:
    """Take over from the usual loop."""
    config.pluginmanager.register(Forks(Path(os.environ[JOBS])), "mutant-forks")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing registered behind."""
    plugin: Any = config.pluginmanager.get_plugin("mutant-forks")
    config.pluginmanager.unregister(plugin)

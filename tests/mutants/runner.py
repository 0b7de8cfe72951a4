"""Runs the tests of a line against mutants of its code, in copies of the sources or in forks of one process."""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from mutants import forks
from mutants.code import find_source, find_test
from mutants.mutations import Mutation
from mutants.proofs import Result, Target
from plugins.quick import is_folder_quick

TIMEOUT = 120.0
_FAILED = re.compile(r"^FAILED (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist")
_INTERRUPTED = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
_POSTGRES = "postgres"


class Copy:
    """A copy of the sources that is broken instead of the originals."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._sources = folder / "src"
        shutil.copytree(root / "src", self._sources)
        if (root / "examples").is_dir():
            # The command line looks for its example packs beside the sources.
            (folder / "examples").symlink_to(root / "examples")

    def first_failed(
        self, mutation: Mutation, path: Path, tests: Sequence[str], options: Sequence[str]
    ) -> list[str] | None:
        """Return the first of the tests that fails with a mutation, alone in a list; None if no test was run."""
        target = self._sources / path.relative_to(self._root / "src")
        original = target.with_suffix(".original")
        target.rename(original)
        try:
            target.write_text(mutation.apply(original.read_text(encoding="utf-8")), encoding="utf-8")
            _forget_compiled(target)
            return self.failed(tests, "-x", *options)
        finally:
            original.replace(target)
            _forget_compiled(target)

    def failed(self, tests: Sequence[str], *options: str) -> list[str] | None:
        """Run tests with this copy, and return those that failed; None if the options leave out all of them.

        An error in a fixture or an import is no failure, and neither is a test that does not end.
        """
        tests = list(dict.fromkeys(tests))
        timeout = TIMEOUT + 2 * len(tests)
        code, output = _run([*_PYTEST, *options, *tests], self._root, self._sources, timeout)
        files = {test.split("::")[0] for test in tests}
        if code in _INTERRUPTED and len(files) > 1:
            # A file that the mutant keeps from being imported says nothing about the others.
            alone = ([test for test in tests if test.split("::")[0] == file] for file in sorted(files))
            return [test for own in alone for test in self.failed(own, *options) or ()]
        return None if code == pytest.ExitCode.NO_TESTS_COLLECTED else _FAILED.findall(output)


def _forget_compiled(module: Path) -> None:
    # A compiled file is taken for current if time and size of its source fit, which two mutants may share.
    for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*.pyc"):
        compiled.unlink()


def _run(
    command: Sequence[str], root: Path, sources: Path, timeout: float, more: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command with these sources first on the path; one that does not end has no output."""
    path = os.pathsep.join([str(sources), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        command,
        cwd=root,
        env={**os.environ, **(more or {}), "PYTHONPATH": path, "COLUMNS": "1000"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return -1, ""
    return process.returncode, output


class Runner:
    """Tries the mutants of targets."""

    def __init__(self, root: Path, folders: Sequence[Path]) -> None:
        self._root = root
        self._tests = root / "tests"
        self._copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for folder in folders:
            self._copies.put(Copy(root, folder))

    def run_forked(
        self, targets: Sequence[tuple[str, Target]], tests: Mapping[str, Sequence[str]], seconds: float
    ) -> dict[tuple[str, Target], Result]:
        """Return the kills of what can be tried in forks of one process: functions, and tests of the quick tier.

        Targets come with their line, and tests by line.
        """
        jobs, mutations = list[forks.Job](), list[Sequence[Mutation]]()
        for line, target in targets:
            definition, tried = (
                find_source(self._root / "src", target.name),
                target.mutations(self._root / "src"),
            )
            mutations.append(tried)
            job = forks.Job(
                name=target.name,
                path=str(definition.path),
                qualname=definition.qualname,
                modules=[mutation.apply(definition.source) for mutation in tried],
                tests=self._quick(tests[line]),
            )
            jobs.append(job)
        files = sorted({test.split("::")[0] for job in jobs for test in job.tests})
        if not files:
            return {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "jobs.json")
            forks.write_jobs(path, jobs, seconds)
            command = [*_PYTEST, "--quick", "-p", "mutants.forks", *files]
            _run(command, self._root, self._root / "src", seconds + TIMEOUT, {forks.JOBS: str(path)})
            kills = forks.read_kills(path.with_suffix(".kills"))
        return {
            targets[kill.job]: self._result(targets[kill.job][1], mutations[kill.job][kill.mutant], kill.test)
            for kill in kills
        }

    def run(self, target: Target, tests: Sequence[str]) -> Result:
        """Try the mutants of a target in a copy of the sources until one of the tests fails."""
        path = find_source(self._root / "src", target.name).path
        mutations = target.mutations(self._root / "src")
        with self._copy() as copy:
            for selected, options in self._selections(tests):
                for mutation in mutations:
                    failed = copy.first_failed(mutation, path, selected, options)
                    if failed is None:
                        break
                    if failed:
                        return self._result(target, mutation, failed[0])
        text = mutations[0].text if target.old is not None else f"{len(mutations)} mutants"
        return Result(name=target.name, digest=self._digest(target), mutant=text)

    def find_unsound(self, results: Sequence[Result]) -> set[str]:
        """Return the killing tests that fail without a mutant too, and so prove nothing."""
        tests = [result.test for result in results if result.test is not None]
        with self._copy() as copy:
            return set(copy.failed(tests) or ()) if tests else set()

    @contextmanager
    def _copy(self) -> Generator[Copy]:
        copy = self._copies.get()
        try:
            yield copy
        finally:
            self._copies.put(copy)

    def _result(self, target: Target, mutation: Mutation, test: str) -> Result:
        return Result(
            name=target.name,
            digest=self._digest(target),
            mutant=mutation.text,
            test=test,
            test_digest=find_test(self._root, test).digest(),
        )

    def _digest(self, target: Target) -> str:
        return find_source(self._root / "src", target.name).digest()

    def _quick(self, tests: Sequence[str]) -> list[str]:
        return [test for test in tests if is_folder_quick(self._tests, self._root / test.split("::")[0])]

    def _selections(self, tests: Sequence[str]) -> Iterator[tuple[Sequence[str], tuple[str, ...]]]:
        """Yield the tests to run, in the order of what they cost, with the options that select them."""
        if quick := self._quick(tests):
            yield quick, ("--quick",)
        yield tests, ("-k", f"not {_POSTGRES}")
        yield tests, ("-k", _POSTGRES)

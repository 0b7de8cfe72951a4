"""Break the code of each requirement line and see whether a test of that line fails.

`make mutants` runs the lines whose results are missing, stale or without a kill, and records what it finds in
results.json. LINES="R82 R83" runs these lines only, and MINUTES=5 starts no further line after five minutes.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from mutants.code import NotFoundError, find_source, find_test
from mutants.marks import marked_tests
from mutants.mutations import Mutation
from mutants.proofs import Result, Target, gap, read_results, read_table, write_results
from plugins.quick import Tiers

ROOT = Path(__file__).parents[2]
PROCESSES = 2
BATCH = 20
TIMEOUT = 120.0
_FAILED = re.compile(r"^FAILED (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)


class Copy:
    """A copy of the sources that is broken instead of the originals."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._sources = folder / "src"
        shutil.copytree(root / "src", self._sources)
        if (root / "examples").is_dir():
            # The command line looks for its example packs beside the sources.
            (folder / "examples").symlink_to(root / "examples")

    def failed_with(
        self, mutation: Mutation, path: Path, tests: Sequence[str], options: Sequence[str]
    ) -> list[str] | None:
        """Return the first of the tests that fails with this mutation, alone in a list; None if no test was run."""
        target = self._sources / path.relative_to(self._root / "src")
        original = target.with_suffix(".original")
        target.rename(original)
        try:
            target.write_text(mutation.apply(original.read_text(encoding="utf-8")), encoding="utf-8")
            self._forget_compiled(target)
            return self.failed(tests, "-x", *options)
        finally:
            original.replace(target)
            self._forget_compiled(target)

    def failed(self, tests: Sequence[str], *options: str) -> list[str] | None:
        """Run tests with this copy, and return those that failed; None if the options leave out all of them.

        An error in a fixture or an import is no failure, and neither is a test that does not end.
        """
        path = os.pathsep.join([str(self._sources), os.environ.get("PYTHONPATH", "")])
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rf",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        ]
        process = subprocess.Popen(
            [*command, *options, *dict.fromkeys(tests)],
            cwd=self._root,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "1000"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output = process.communicate(timeout=TIMEOUT)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return []
        return None if process.returncode == pytest.ExitCode.NO_TESTS_COLLECTED else _FAILED.findall(output)

    def _forget_compiled(self, module: Path) -> None:
        # A compiled file is taken for current if time and size of its source fit, which two mutants may share.
        for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*.pyc"):
            compiled.unlink()


class Runner:
    """Tries the mutants of lines, each in a copy of the sources that no other uses."""

    def __init__(self, root: Path, copies: Sequence[Copy]) -> None:
        self._root = root
        self._tiers = Tiers(root / "tests")
        self._copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in copies:
            self._copies.put(copy)

    def run(self, target: Target, tests: Sequence[str]) -> Result:
        """Try the mutants of one target until one of the tests fails."""
        definition = find_source(self._root / "src", target.name)
        mutations = target.mutations(self._root / "src")
        copy = self._copies.get()
        try:
            for selected, options in self._selections(tests):
                for mutation in mutations:
                    failed = copy.failed_with(mutation, definition.path, selected, options)
                    if failed is None:
                        break
                    if failed:
                        return Result(
                            name=target.name,
                            digest=definition.digest(),
                            mutant=mutation.text,
                            test=failed[0],
                            test_digest=find_test(self._root, failed[0]).digest(),
                        )
        finally:
            self._copies.put(copy)
        text = mutations[0].text if target.old is not None else f"{len(mutations)} mutants"
        return Result(name=target.name, digest=definition.digest(), mutant=text)

    def _selections(self, tests: Sequence[str]) -> list[tuple[list[str], tuple[str, ...]]]:
        """Return the tests to run, in the order of what they cost, with the options that select them."""
        quick = [test for test in tests if self._tiers.is_folder_quick(self._root / test.split("::")[0])]
        return [
            (quick, ("--quick",)),
            (list(tests), ("-k", "not postgres")),
            (list(tests), ("-k", "postgres")),
        ]

    def unsound(self, results: Sequence[Result]) -> set[str]:
        """Return the killing tests that fail without a mutant too, and so prove nothing."""
        tests = [result.test for result in results if result.test is not None]
        copy = self._copies.get()
        try:
            return set(copy.failed(tests) or ()) if tests else set()
        finally:
            self._copies.put(copy)


def run_lines(root: Path, lines: Sequence[str], minutes: float) -> None:
    """Run the lines in batches, record each batch, and say what became of every line."""
    table, tests, results = read_table(root), marked_tests(root), read_results(root)
    end = time.monotonic() + minutes * 60
    due = [
        line for line in lines or table if lines or gap(root, table[line], results.get(line, []), tests[line])
    ]
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(PROCESSES)]
        runner = Runner(root, [Copy(root, folder) for folder in folders])
        pool = stack.enter_context(ThreadPoolExecutor(PROCESSES))

        def run_line(line: str) -> list[Result]:
            if time.monotonic() > end:
                return []
            return [
                result for target in table[line] if (result := _run_target(runner, line, target, tests[line]))
            ]

        for start in range(0, len(due), BATCH):
            batch = due[start : start + BATCH]
            found = dict(zip(batch, pool.map(run_line, batch), strict=True))
            unsound = runner.unsound([result for each in found.values() for result in each])
            for line, each in found.items():
                if each:
                    results[line] = [result for result in each if result.test not in unsound]
            write_results(root, {line: each for line, each in results.items() if line in table})
            for test in sorted(unsound):
                _say(f"{test} fails without a mutant too")
    left = sum(1 for line in table if gap(root, table[line], results.get(line, []), tests[line]))
    _say(f"{len(table) - left} of {len(table)} lines in the table have a killed mutant")


def _run_target(runner: Runner, line: str, target: Target, tests: Sequence[str]) -> Result | None:
    start = time.monotonic()
    if not tests:
        _say(f"{line}: no marked test")
        return None
    try:
        result = runner.run(target, tests)
    except NotFoundError as error:
        _say(f"{line}: {error}")
        return None
    outcome = f"killed by {result.test}" if result.test else "SURVIVED"
    _say(f"{line}: {target.name}: {result.mutant}: {outcome} ({time.monotonic() - start:.1f} s)")
    return result


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("lines", nargs="*", help="run these lines, also if their results are fresh")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no line after this time")
    arguments = parser.parse_args()
    run_lines(ROOT, arguments.lines, arguments.minutes)

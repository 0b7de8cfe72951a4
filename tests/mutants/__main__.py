"""Break the code of each requirement line and see whether a test of that line fails.

`make mutants` runs the lines whose results are missing, stale or without a kill, and records what it finds in
results.json. LINES="R82 R83" runs these lines only, and MINUTES=5 starts no further line after five minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from mutants.code import NotFoundError
from mutants.forks import PROCESSES
from mutants.marks import marked_tests
from mutants.proofs import Result, Target, gap, read_results, read_table, write_results
from mutants.runner import Runner

ROOT = Path(__file__).parents[2]
BATCH = 10
LONGEST = 3600.0


class Campaign:
    """The lines that are due, and what is known of all lines."""

    def __init__(self, root: Path, lines: Sequence[str], minutes: float) -> None:
        self._root = root
        self._table, self._tests, self._results = read_table(root), marked_tests(root), read_results(root)
        self._end = time.monotonic() + minutes * 60
        self._due = [line for line in lines or self._table if lines or self._gap(line)]
        self._due = [line for line in self._due if self._is_possible(line)]

    def run(self) -> None:
        """Try what is due, first in forks of one process and then in copies of the sources."""
        with ExitStack() as stack:
            folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(PROCESSES)]
            runner = Runner(self._root, folders)
            pool = stack.enter_context(ThreadPoolExecutor(PROCESSES))
            found = runner.run_forked(
                [(line, target) for line in self._due for target in self._table[line]],
                self._tests,
                min(self._end - time.monotonic(), LONGEST),
            )
            done = [
                line for line in self._due if all((line, target) in found for target in self._table[line])
            ]
            self._record({line: self._run_line(runner, found, line) for line in done}, runner)
            left = [line for line in self._due if line not in done]
            for start in range(0, len(left), BATCH):
                batch = left[start : start + BATCH]
                results = pool.map(partial(self._run_line, runner, found), batch)
                self._record(dict(zip(batch, results, strict=True)), runner)
        proved = sum(1 for line in self._table if not self._gap(line))
        _say(f"{proved} of {len(self._table)} lines in the table have a killed mutant")

    def _gap(self, line: str) -> str | None:
        return gap(self._root, self._table[line], self._results.get(line, []), self._tests[line])

    def _is_possible(self, line: str) -> bool:
        """Return whether a line can be run, and say why not."""
        try:
            for target in self._table[line]:
                target.mutations(self._root / "src")
        except NotFoundError as error:
            _say(f"{line}: {error}")
            return False
        if not self._tests[line]:
            _say(f"{line}: no marked test")
        return bool(self._tests[line])

    def _run_line(self, runner: Runner, found: dict[tuple[str, Target], Result], line: str) -> list[Result]:
        """Return the results of a line's targets; none if the time is over before all of them were tried."""
        results: list[Result] = []
        for target in self._table[line]:
            if (line, target) not in found and time.monotonic() > self._end:
                return []
            result = found.get((line, target)) or runner.run(target, self._tests[line])
            outcome = f"killed by {result.test}" if result.test else "SURVIVED"
            _say(f"{line}: {target.name}: {result.mutant}: {outcome}")
            results.append(result)
        return results

    def _record(self, found: dict[str, list[Result]], runner: Runner) -> None:
        unsound = runner.find_unsound([result for results in found.values() for result in results])
        for test in sorted(unsound):
            _say(f"{test} fails without a mutant too")
        for line, results in found.items():
            if results:
                self._results[line] = [result for result in results if result.test not in unsound]
        write_results(self._root, {line: each for line, each in self._results.items() if line in self._table})


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("lines", nargs="*", help="run these lines, also if their results are fresh")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no line after this time")
    arguments = parser.parse_args()
    Campaign(ROOT, arguments.lines, arguments.minutes).run()

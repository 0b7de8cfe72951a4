"""Levels of tests: when each one runs, and what its report is held to. Running them is a tool's, through the gateway.

A code action is whatever changes the outputs: the plan that brought them, and each REPAIR phase. Unit and integration tests
run on the outputs after each of them, those before a commit only if the others have passed.
"""

from __future__ import annotations

from collections.abc import Collection

from tercet.contracts.outputs.quality import TestFailure, TestReport
from tercet.contracts.outputs.rubric import TestLevelName

BEFORE_COMMIT: frozenset[TestLevelName] = frozenset({"behavioural", "regression"})
"""The levels that run only on outputs that passed the others."""


def hold_to(result: TestReport, *, max_skipped: float = 1.0, baseline: Collection[str] = ()) -> TestReport:
    """Return a result in which too many skipped tests, and tests of the baseline that did not run, have failed."""
    found: list[TestFailure] = []
    count = result.passed + result.failed + result.skipped
    if result.skipped > max_skipped * count:
        limit = f"at most {max_skipped:.0%} of the tests skipped"
        found.append(TestFailure(name="skipped tests", expected=limit, actual=f"{result.skipped} of {count}"))
    # Of a suite that is too large for that, not every name is listed.
    if (result.failed, result.passed) == (len(result.errors), len(result.passed_tests)):
        ran = {*result.passed_tests, *(failure.name for failure in result.errors)}
        found += [
            TestFailure(name=name, expected="it passes, as before", actual="it did not run")
            for name in sorted(set(baseline) - ran)
        ]
    if not found:
        return result
    return result.model_copy(
        update={"failed": result.failed + len(found), "errors": (*result.errors, *found)}
    )

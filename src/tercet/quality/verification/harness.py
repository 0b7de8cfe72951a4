"""Levels of tests, as data: when each one runs and when it passes. Running them is a tool's, through the gateway.

A code action is whatever changes the outputs: the plan that brought them, and each REPAIR phase. Unit and integration tests
run on the outputs after each of them, those before a commit only if the others have passed.
"""

from __future__ import annotations

from collections.abc import Collection

from tercet.contracts.outputs.quality import TestFailure, TestReport, TestResult
from tercet.contracts.outputs.rubric import TestLevel, TestLevelName, TestTrigger

LEVELS: tuple[TestLevel, ...] = (
    TestLevel(name="unit", scope="one function or component", trigger="code_action", criterion="all_pass"),
    TestLevel(
        name="integration", scope="components together", trigger="code_actions_complete", criterion="all_pass"
    ),
    TestLevel(
        name="behavioural",
        scope="what a user sees, end to end",
        trigger="before_commit",
        criterion="all_pass",
    ),
    TestLevel(
        name="regression",
        scope="defects that were mended",
        trigger="before_commit",
        criterion="no_regressions",
    ),
)

TRIGGERS: dict[TestLevelName, TestTrigger] = {level.name: level.trigger for level in LEVELS}


def due(trigger: TestTrigger, levels: Collection[TestLevel] = LEVELS) -> tuple[TestLevel, ...]:
    """Return the levels that run at this moment."""
    return tuple(level for level in levels if level.trigger == trigger)


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


def passes(level: TestLevel, result: TestResult, *, known_failures: Collection[str] = ()) -> bool:
    """Return whether a result meets the criterion of its level.

    Where all must pass, one must have run: a suite that found no tests has shown nothing. A regression is a failure that
    was not there before.
    """
    match level.criterion:
        case "all_pass":
            return result.failed == 0 and result.passed > 0
        case "no_regressions":
            named = {failure.name for failure in result.errors}
            return result.failed == len(result.errors) and named <= set(known_failures)

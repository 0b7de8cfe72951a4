"""Tests as verification: a test command is a tool, its failures are data, and they say what is repaired."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

import pytest

from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.tools import ToolContext

from .quality_desk import Carried, carry, desk, last, model, of, rewritten, told
from .workshop import ADA, ASK, BOB, Behave, Workshop, plan, step

BROKEN = "def total(a, b):\n    return a - b\n"
MENDED = "def total(a, b):\n    return a + b\n"
CODE: JsonObject = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
FAILURE = """Traceback (most recent call last):
  File "tests/test_total.py", line 5, in test_total
    assert total(2, 4) == 6
  File "shop/total.py", line 2, in total
    return a - b
AssertionError: assert -2 == 6"""
PLAN = plan(step("draft"), outputs={"code": {"$from": "draft#/code"}})
JUDGED_BY_TESTS: JsonObject = {
    "rubric": {"dimensions": [{"name": "completeness", "weight": 1.0, "minimum": 0.5, "scorer": "complete"}]},
}


def junit(*, passed: int = 0, failed: bool = False) -> str:
    """A report: so many tests that passed, and one that failed or did not."""
    cases = "".join(f'<testcase classname="shop" name="test_{n}"/>' for n in range(passed))
    broken = f'<failure message="assert -2 == 6">{escape(FAILURE)}</failure>'
    total = f'<testcase classname="shop" name="test_total">{broken}</testcase>' if failed else ""
    return f"<testsuite>{cases}{total}</testsuite>"


def adding(ran: list[str], level: str) -> Behave:
    """A tool that tests code: it passes if the code adds."""

    async def test(_: ToolContext, params: dict[str, Any]) -> Any:
        ran.append(level)
        return {"junit": junit(passed=2, failed="a + b" not in params["code"])}

    return test


def carried(
    workshop: Workshop,
    *repairs: Any,
    tests: list[JsonObject] | None = None,
    url: str = "memory:",
    **header: Any,
) -> Carried:
    """A run whose output is code, judged by tests alone."""
    commands = tests or [{"tool": "test.unit", "params": {"code": {"$output": "/code"}}}]
    pack = desk(
        workshop,
        {"code": BROKEN},
        quality={**JUDGED_BY_TESTS, "tests": commands},
        decision={
            "outputs_schema": CODE,
            "required_outputs": ("code",),
            "thresholds": ({"name": "test_pass_rate"},),
        },
        **header,
    )
    return carry(workshop, pack, url, plan=PLAN, repairers=[model(*repairs)] if repairs else [])


@pytest.mark.req("R169", "R170", "R198")
def test_a_failing_test_is_repaired_through_what_it_says(workshop: Workshop, url: str) -> None:
    """The failure is a defect of what is tested, the model is told function, line, error and values as data, the tests
    run again on what it wrote, and that is committed."""
    ran: list[str] = []
    workshop.tool("test.unit", adding(ran, "unit"), mode="read_only", cost_microcents=3)
    mender = model(rewritten(MENDED))
    pack = desk(
        workshop,
        {"code": BROKEN},
        quality={
            **JUDGED_BY_TESTS,
            "tests": [{"tool": "test.unit", "params": {"code": {"$output": "/code"}}}],
        },
        decision={"outputs_schema": CODE, "required_outputs": ("code",), "thresholds": ()},
    )
    done = carry(workshop, pack, url, plan=PLAN, repairers=[mender])
    assert done.way == [
        "outputs_produced",
        "tests_run",
        "outputs_verified: critique",
        "outputs_critiqued: repair",
        "outputs_repaired: repaired",
        "tests_run",
        "outputs_verified: critique",
        "outputs_critiqued: exit",
        "run_reported: accept",
    ]
    assert (done.result.status, done.result.outputs) == ("completed", {"code": MENDED})
    first, second = of(e.TestsRun, done.found)
    assert (first.result["passed"], first.result["failed"]) == (2, 1)
    (failure,) = first.result["errors"]
    assert (failure["name"], failure["expected"], failure["actual"]) == ("shop.test_total", "6", "-2")
    assert (second.result["passed"], second.result["failed"]) == (2, 0)
    (defect,) = of(e.OutputsCritiqued, done.found)[0].diagnosis["defects"]
    assert (defect["dimension"], defect["location"]) == ("tests", "/code")
    assert defect["description"] == "the test shop.test_total fails: expected 6, found -2"
    words = told(mender.questions[0])
    for part in ('"failing_function": "total"', '"line_number": 2', '"error_type": "AssertionError"'):
        assert part in words
    assert "Traceback" not in words
    assert (ran, done.state.used.tool_calls, done.state.used.cost - 6 >= 0) == (["unit", "unit"], 3, True)


@pytest.mark.req("R169")
def test_levels_run_in_their_order_and_the_late_ones_only_if_the_early_ones_passed(
    workshop: Workshop,
) -> None:
    """Unit and integration tests run first; what runs before a commit does so only on code that passed those."""
    ran: list[str] = []
    levels = ("unit", "integration", "behavioural", "regression")
    for level in levels:
        workshop.tool(f"test.{level}", adding(ran, level), mode="read_only")
    params = {"code": {"$output": "/code"}}
    done = carried(
        workshop,
        rewritten(MENDED),
        tests=[{"tool": f"test.{level}", "params": params, "level": level} for level in levels],
    )
    assert done.result.status == "completed"
    assert ran == ["unit", "integration", *levels]
    with pytest.raises(ValueError, match="in the order of their levels"):
        desk(
            workshop,
            {},
            quality={"tests": [{"tool": "test.unit", "level": level} for level in reversed(levels)]},
        )


def _raising(error: Exception) -> Behave:
    async def test(_: ToolContext, __: dict[str, Any]) -> Any:
        raise error

    return test


def _saying(value: Any) -> Behave:
    async def test(_: ToolContext, __: dict[str, Any]) -> Any:
        return value

    return test


@pytest.mark.parametrize(
    ("behave", "why"),
    [
        (_raising(RuntimeError("no interpreter")), "no interpreter"),
        (_saying({"junit": "<not xml"}), "its report cannot be read"),
        (_saying({"other": 1}), "its report cannot be read"),
        (_saying({"junit": "<!DOCTYPE x><testsuite/>"}), "its report cannot be read"),
    ],
)
def test_a_test_command_that_breaks_lets_nothing_through(
    workshop: Workshop, behave: Behave, why: str
) -> None:
    """That tests could not be run is a defect, the rate of passed tests was not measured, and a person is told why."""
    workshop.tool("test.unit", behave, mode="read_only")
    done = carried(workshop)
    assert why in last(e.TestsRun, done.found).error
    assert done.result.status == "paused"
    assert "the tests could not be run" in done.result.reason


def test_a_suite_without_tests_has_shown_nothing(workshop: Workshop) -> None:
    """Nothing failed, and nothing was measured: it does not count as passed."""
    workshop.tool("test.unit", _saying({"junit": junit()}), mode="read_only")
    done = carried(workshop)
    assert done.result.status == "paused"
    assert "test_pass_rate was not measured" in done.result.reason
    assert "no test ran" in done.result.reason


def test_only_a_tool_that_changes_nothing_may_test(workshop: Workshop) -> None:
    """A test command that is not read_only is not called, and neither is one that the run does not have."""
    workshop.tool("test.unit", adding([], "unit"), mode="local_write")
    done = carried(workshop)
    assert "test.unit is no read_only tool of this run" in last(e.TestsRun, done.found).error
    assert (done.result.status, done.state.used.tool_calls) == ("paused", 1)
    assert [name for name, _ in workshop.calls] == ["draft"]


def test_tests_are_paid_for_like_any_call(workshop: Workshop) -> None:
    """Where the budget of calls is used up, no test is called; without tests nothing is committed."""
    ran: list[str] = []
    workshop.tool("test.unit", adding(ran, "unit"), mode="read_only")
    done = carried(workshop, budget={"tool_calls": 1})
    assert (ran, done.result.status) == ([], "paused")
    assert done.state.used.tool_calls == 1


async def test_an_operator_can_stop_a_test_command(workshop: Workshop) -> None:
    """An emergency stop holds in VERIFY too."""
    ran: list[str] = []
    workshop.tool("test.unit", adding(ran, "unit"), mode="read_only")
    pack = desk(
        workshop,
        {"code": MENDED},
        quality={
            **JUDGED_BY_TESTS,
            "tests": [{"tool": "test.unit", "params": {"code": {"$output": "/code"}}}],
        },
        decision={"outputs_schema": CODE, "required_outputs": ("code",), "thresholds": ()},
    )

    async with workshop.runtime(pack) as runtime:
        await runtime.halt("tool", "test.unit", actor=BOB, note="it hangs")
        result = await runtime.run(ASK, plan=PLAN, actor=ADA)
        assert (result.status, ran) == ("paused", [])
        assert "an operator stopped test.unit" in result.reason


def reporting(*reports: str) -> Behave:
    """A test command that brings one report after the other, and the last one again and again."""
    left = list(reports)

    async def test(_: ToolContext, __: dict[str, Any]) -> Any:
        return {"junit": left.pop(0) if len(left) > 1 else left[0]}

    return test


def test_a_test_that_vanishes_in_a_later_round_has_failed(workshop: Workshop) -> None:
    """A repair that makes a failing test go away together with a passing one is not taken for a repair."""
    workshop.tool("test.unit", reporting(junit(passed=2, failed=True), junit(passed=1)), mode="read_only")
    done = carried(workshop, rewritten(MENDED), budget={"max_repairs": 1})
    first, second = of(e.TestsRun, done.found)[:2]
    assert [each["name"] for each in first.result["errors"]] == ["shop.test_total"]
    assert [(each["name"], each["actual"]) for each in second.result["errors"]] == [
        ("shop.test_1", "it did not run")
    ]
    assert done.result.status != "completed"


@pytest.mark.parametrize(("limit", "status"), [(0.0, "paused"), (0.5, "completed")])
def test_skipped_tests_do_not_commit(workshop: Workshop, limit: float, status: str) -> None:
    """Unless the command lets so many of them be skipped."""
    report = '<testsuite><testcase name="a"/><testcase name="b"><skipped/></testcase></testsuite>'
    workshop.tool("test.unit", reporting(report), mode="read_only")
    command = {
        "tool": "test.unit",
        "params": {"code": {"$output": "/code"}},
        "max_skipped": limit,
        "vouches": True,
    }
    done = carried(workshop, tests=[command])
    assert done.result.status == status


@pytest.mark.parametrize(("same_suite", "status"), [(True, "paused"), (False, "completed")])
def test_later_runs_of_the_class_pass_what_earlier_ones_passed(workshop: Workshop, tmp_path: Any, *, same_suite: bool, status: str) -> None:  # fmt: skip
    """Where all of them have the same suite, a test that is gone has failed."""
    workshop.tool("test.unit", reporting(junit(passed=3), junit(passed=2)), mode="read_only")
    command = {
        "tool": "test.unit",
        "params": {"code": {"$output": "/code"}},
        "same_suite": same_suite,
        "vouches": True,
    }
    pack = desk(
        workshop,
        {"code": MENDED},
        quality={**JUDGED_BY_TESTS, "tests": [command]},
        decision={
            "outputs_schema": CODE,
            "required_outputs": ("code",),
            "thresholds": ({"name": "test_pass_rate"},),
        },
    )
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    first = carry(workshop, pack, url, plan=PLAN)
    assert first.result.status == "completed"
    second = carry(workshop, pack, url, plan=PLAN)
    assert second.result.status == status
    names = {each["name"] for run in of(e.TestsRun, second.found) for each in run.result["errors"]}
    assert names == ({"shop.test_2"} if same_suite else set())

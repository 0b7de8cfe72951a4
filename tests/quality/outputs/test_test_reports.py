"""Tests as verification: reports of test commands as data, stack traces, and what reports are held to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import UsageError
from tercet.contracts.outputs.quality import TestFailure, TestReport, TestResult
from tercet.quality.verification.junit import (
    MAX_BYTES,
    MAX_NAMES,
    find_comparison,
    hold_to,
    pass_rate,
    read_junit,
)
from tercet.quality.verification.traces import analyse, find_frames, find_place

SUITE = """
def total(prices, fee):
    return sum(prices) - fee

def test_adds():
    prices = [2, 3]
    assert total(prices, 1) == 6

def test_breaks():
    total(None, 1)

def test_passes():
    assert total([1], 0) == 1

def test_later():
    import pytest
    pytest.skip("not yet")
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The report that pytest itself writes about a small suite with two failures."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_total.py").write_text(SUITE, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--showlocals",
        "--junitxml=r.xml",
        "test_total.py",
    ]
    subprocess.run(command, cwd=folder, env={"PATH": ""}, capture_output=True, check=False, timeout=600)
    return (folder / "r.xml").read_bytes()


@pytest.mark.slow
@pytest.mark.req("R41")
def test_a_report_of_pytest_is_read(report: bytes) -> None:
    """Passed and failed are counted, skipped is neither; each failure has its values, its trace and its place."""
    result = read_junit(report)
    assert (result.passed, result.failed) == (1, 2)
    adds, breaks = result.errors
    assert (adds.name, adds.location, adds.actual, adds.expected) == (
        "test_total.test_adds",
        "test_total.py:7",
        "4",
        "6",
    )
    assert "assert total(prices, 1) == 6" in adds.stack_trace
    assert breaks.location == "test_total.py:3"
    assert pass_rate(result) == 0.333333


@pytest.mark.slow
@pytest.mark.req("R44")
def test_a_trace_of_pytest_says_where_and_on_what(report: bytes) -> None:
    """The failing function is the innermost one, and its arguments are values again."""
    adds, breaks = (
        analyse(failure.stack_trace, expected=failure.expected, actual=failure.actual)
        for failure in read_junit(report).errors
    )
    assert adds is not None
    assert breaks is not None
    assert (breaks.failing_function, breaks.line_number, breaks.error_type) == ("total", 3, "TypeError")
    assert breaks.input_values["fee"] == 1
    assert breaks.input_values["prices"] is None
    assert (adds.failing_function, adds.input_values["prices"]) == ("test_adds", [2, 3])
    assert adds.expected_vs_actual == "expected 6, found 4"


PYTHON = """Traceback (most recent call last):
  File "/app/shop/cart.py", line 41, in total
    return price(order)
  File "/app/shop/price.py", line 7, in price
    return rates[order["currency"]]
  File "/usr/lib/python3/site-packages/rates/table.py", line 90, in __getitem__
    raise KeyError(key)
KeyError: 'XXX'
"""
JAVA = """java.lang.IllegalStateException: no rate
\tat shop.Price.of(Price.java:17)
\tat shop.Cart.total(Cart.java:41)
"""
SCRIPT = """TypeError: Cannot read properties of undefined (reading 'rate')
    at price (/app/src/price.ts:17:9)
    at Object.<anonymous> (/app/src/cart.test.ts:5:3)
"""
GO = """panic: runtime error: index out of range [3] with length 3

goroutine 1 [running]:
main.total(0xc000012, 0x3)
\t/app/cart.go:41 +0x1d
main.main()
\t/app/main.go:8 +0x20
"""


@pytest.mark.req("R44")
@pytest.mark.parametrize(
    ("trace", "function", "line", "error"),
    [
        (PYTHON, "price", 7, "KeyError"),
        (JAVA, "shop.Price.of", 17, "java.lang.IllegalStateException"),
        (SCRIPT, "price", 17, "TypeError"),
        (GO, "main.total", 41, "panic"),
    ],
    ids=["python", "java", "javascript", "go"],
)
def test_traces_of_four_languages(trace: str, function: str, line: int, error: str) -> None:
    """The innermost frame of one's own code counts, not that of a library."""
    analysis = analyse(trace)
    assert analysis is not None
    assert (analysis.failing_function, analysis.line_number, analysis.error_type) == (function, line, error)


def test_a_text_without_frames_is_no_trace() -> None:
    """Nothing is made up where nothing is said."""
    assert analyse("it did not work") is None
    assert find_place("it did not work") == ""


@pytest.mark.parametrize(
    ("message", "expected", "actual"),
    [
        ("expected:<5> but was:<6>", "5", "6"),
        ("Expected: 5\nReceived: 6", "5", "6"),
        ("Total() got 6, want 5", "5", "6"),
        ("expected 5 but got 6", "5", "6"),
        ("assert 6 == 5", "5", "6"),
        ("AssertionError: 6 != 5", "5", "6"),
        ("boom", "", ""),
        ("AssertionError: Lists differ: [True, False] != [True, True]", "[True, True]", "[True, False]"),
    ],
)
def test_what_was_expected_is_read_from_the_message(message: str, expected: str, actual: str) -> None:
    """Each of the usual ways of saying so."""
    assert find_comparison(message) == (expected, actual)


BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>'


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"no xml",
        b"<html/>",
        b"<testsuite><testcase>",
        b'<?xml version="1.0" encoding="klingon"?><testsuite/>',
        b"<testsuite>&x;</testsuite>",
        BOMB,
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite/>',
        b"<testsuite>" * 100 + b"</testsuite>" * 100,
        b" " * (MAX_BYTES + 1),
    ],
    ids=["empty", "text", "html", "cut", "encoding", "entity", "bomb", "outside", "deep", "large"],
)
def test_what_is_no_report_gets_a_typed_answer(bad: bytes) -> None:
    """Broken, foreign and hostile reports are refused with a remedy; no entity is ever expanded."""
    with pytest.raises(UsageError) as refused:
        read_junit(bad)
    assert refused.value.code == "test_report_invalid"
    assert refused.value.remedy


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes | str) -> None:
    """Whatever a test command printed, there is no traceback."""
    try:
        result = read_junit(data)
    except UsageError:
        return
    assert result.passed >= 0


@given(st.text(max_size=300))
def test_any_text_can_be_analysed(trace: str) -> None:
    """A trace is other people's text: it has frames or not, and the same ones each time."""
    assert find_frames(trace) == find_frames(trace)
    analysis = analyse(trace)
    assert analysis is None or analysis.line_number >= 0


def test_nothing_run_is_nothing_measured() -> None:
    """A pass rate needs tests: without any there is none, rather than a perfect one."""
    assert pass_rate(TestResult(passed=0, failed=0)) is None


# ---- totals, skips and what passed before --------------------------------------------------------------------------

CASES = '<testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="c"><skipped/></testcase>'


@pytest.mark.parametrize(
    "totals",
    [
        "",
        'tests="3"',
        'tests="3" failures="1" errors="0" skipped="1"',
        'tests="3" failures="0" errors="1"',
        'failures="7"',  # of which some may be counted as errors, and that is not stated
    ],
)
def test_totals_that_agree_are_taken(totals: str) -> None:
    """A report may state totals or not; what it states is held against its test cases, also in suites of suites."""
    suite = f"<testsuite {totals}>{CASES}</testsuite>"
    for report in (suite, f"<testsuites {totals}>{suite}</testsuites>"):
        result = read_junit(report)
        assert (result.passed, result.failed, result.skipped, result.passed_tests) == (1, 1, 1, ("a",))


@pytest.mark.parametrize(
    "totals",
    [
        'tests="4"',
        'tests="2"',
        'tests="3" failures="0" errors="0"',
        'failures="1" errors="1"',
        'skipped="0"',
    ],
)
def test_totals_that_disagree_are_no_report(totals: str) -> None:
    """A file that was cut off, or edited, does not count; neither does one in which only an inner suite disagrees."""
    for report in (f"<testsuite {totals}>{CASES}</testsuite>", f"<testsuites><testsuite {totals}>{CASES}</testsuite></testsuites>"):  # fmt: skip
        with pytest.raises(UsageError) as refused:
            read_junit(report)
        assert refused.value.code == "test_totals_disagree"


@pytest.mark.parametrize("total", ["-1", "many", "1.5", "9" * 12, ""])
def test_a_total_is_a_number(total: str) -> None:
    with pytest.raises(UsageError, match="is not a number of tests"):
        read_junit(f'<testsuite tests="{total}"/>')


@pytest.mark.slow
def test_a_test_whose_teardown_fails_too_is_counted_as_pytest_counts_it(tmp_path: Path) -> None:
    """pytest writes it twice and states it once: that is no disagreement."""
    (tmp_path / "test_twice.py").write_text(
        "import pytest\n@pytest.fixture\ndef bad():\n    yield\n    raise OSError('no')\n"
        "def test_it(bad):\n    assert False\ndef test_other(): pass\n",
        encoding="utf-8",
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--junitxml=r.xml",
        "test_twice.py",
    ]
    subprocess.run(command, cwd=tmp_path, env={"PATH": ""}, capture_output=True, check=False, timeout=600)
    result = read_junit((tmp_path / "r.xml").read_bytes())
    assert (result.passed, result.failed) == (1, 2)


def test_names_of_a_large_suite_are_not_kept() -> None:
    cases = "".join(f'<testcase name="t{number}"/>' for number in range(MAX_NAMES + 1))
    result = read_junit(f"<testsuite>{cases}</testsuite>")
    assert (result.passed, result.passed_tests) == (MAX_NAMES + 1, ())
    assert hold_to(result, baseline=("gone",)) == result


@pytest.mark.parametrize(
    ("skipped", "limit", "is_failed"), [(0, 0.0, False), (1, 0.0, True), (1, 0.25, False), (2, 0.25, True), (9, 1.0, False)]
)  # fmt: skip
def test_skipped_tests_have_a_limit(skipped: int, limit: float, *, is_failed: bool) -> None:
    """They count neither as passed nor, within the limit, as failed."""
    held = hold_to(TestReport(passed=3, failed=0, skipped=skipped), max_skipped=limit)
    assert (held.failed == 1) is is_failed
    assert held.passed == 3
    if is_failed:
        assert held.errors[0].actual == f"{skipped} of {3 + skipped}"


def test_a_test_that_passed_before_and_did_not_run_has_failed() -> None:
    """One that runs and fails is counted once."""
    result = TestReport(passed=1, failed=1, errors=(TestFailure(name="b"),), passed_tests=("a",))
    held = hold_to(result, baseline=("a", "b", "c"))
    assert [(each.name, each.actual) for each in held.errors] == [("b", ""), ("c", "it did not run")]
    assert held.failed == 2
    empty = hold_to(TestReport(passed=0, failed=0), baseline=("a",))
    assert empty.failed == 1

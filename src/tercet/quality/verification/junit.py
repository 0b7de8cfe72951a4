"""JUnit XML, the report that test commands of most languages write, as data.

The report is other people's text. ElementTree does no I/O when it parses bytes; a document type, and with it every entity of
its own, is refused; size, depth and the number of elements are bounded. junitparser would still need all of this, and the
check of the totals below: it would only replace two loops over the tree.

Totals that a suite states must be those of its test cases: a file that was truncated or edited is refused.

A code action is whatever changes the outputs: the plan that brought them, and each REPAIR phase. Unit and integration tests
run on the outputs after each of them, those before a commit only if the others have passed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, NoReturn
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from tercet.contracts.errors import UsageError
from tercet.contracts.outputs.quality import TestFailure, TestReport, TestResult
from tercet.contracts.outputs.rubric import TestLevelName
from tercet.quality.verification.traces import find_place

MAX_BYTES = 5_000_000
MAX_DEPTH = 64
MAX_ELEMENTS = 500_000
MAX_FAILURES = 500
"""More failures are counted, and not listed."""
MAX_NAMES = 2_000
"""Of a suite in which more tests passed, no names are kept."""
MAX_TRACE = 20_000

_SUITES = frozenset({"testsuites", "testsuite"})
_FAILED = frozenset({"failure", "error"})

_COMPARISONS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"expected:?\s{0,9}<(?P<expected>[^>\n]{0,500})> but was:?\s{0,9}<(?P<actual>[^>\n]{0,500})>",  # JUnit
        r"Expected:[ \t]{0,9}(?P<expected>[^\n]{1,500})\n\s{0,20}(?:Received|Actual|But was):[ \t]{0,9}(?P<actual>[^\n]{1,500})",
        r"\bgot:? (?P<actual>[^\n]{1,200}?)[,;] ?(?:want|expected):? (?P<expected>[^\n]{1,200})",  # Go
        r"\bexpected:? (?P<expected>[^\n]{1,200}?),? (?:but )?(?:got|was|found):? (?P<actual>[^\n]{1,200})",
        r"^(?:E[ \t]{1,9})?(?:AssertionError: )?assert (?P<actual>[^\n]{1,500}?) == (?P<expected>[^\n]{1,500})$",  # pytest
        r"^(?:E[ \t]{1,9})?AssertionError: (?:\w{1,40} differ: )?(?P<actual>[^\n]{1,500}?) != (?P<expected>[^\n]{1,500})$",  # unittest
    )
)
"""How tests say what they expected. Every part is bounded: a message is other people's text."""


class Compared(NamedTuple):
    """What a test expected and what it found, as far as its message says."""

    expected: str = ""
    actual: str = ""


class _Case(NamedTuple):
    name: str
    marks: Sequence[Element]
    """Its failures and errors: a test may fail, and then its teardown."""
    is_skipped: bool
    location: str


class _Builder(ElementTree.TreeBuilder):
    """Builds the tree of a report, and refuses what is too large or no report."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = self._elements = 0

    def doctype(self, *_: object) -> NoReturn:
        _refuse("it declares a document type, which a report has no use for")

    def start(self, tag: str, attrs: dict[Any, Any], /) -> Element:
        local = tag.rpartition("}")[2]
        if not self._depth and local not in _SUITES:
            _refuse(f"its root is <{local[:40]}>")
        self._depth, self._elements = self._depth + 1, self._elements + 1
        if self._depth > MAX_DEPTH:
            _refuse(f"it nests deeper than {MAX_DEPTH}")
        if self._elements > MAX_ELEMENTS:
            _refuse(f"it has more than {MAX_ELEMENTS} elements")
        return super().start(local, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag.rpartition("}")[2])


def _demand_totals(suite: Element, cases: Sequence[_Case]) -> None:
    """Raise `UsageError` if the totals that a suite states are not those of its test cases, in suites inside it too."""
    stated = {name: _total(name, suite.attrib[name]) for name in _TOTALS if name in suite.attrib}
    failed = [case.name for case in cases if case.marks]
    marks = sum(len(case.marks) for case in cases)
    # pytest writes a test that failed a second time if its teardown fails as well, and counts it once.
    again = len(failed) - len(set(failed))
    both = [stated[name] for name in ("failures", "errors") if name in stated]
    _demand("tests", stated.get("tests"), {len(cases), len(cases) - again})
    _demand("skipped", stated.get("skipped"), {sum(case.is_skipped for case in cases)})
    _demand("failures and errors", sum(both) if len(both) == 2 else None, {len(failed), marks})


def _demand(name: str, stated: int | None, found: set[int]) -> None:
    if stated is not None and stated not in found:
        raise UsageError(
            f"the report states {stated} {name}, and its test cases come to {max(found)}",
            code="test_totals_disagree",
            remedy="let the test command write the whole report, and leave it as it is",
        )


_TOTALS = ("tests", "failures", "errors", "skipped")


def _total(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        _refuse(f"{name}={text[:20]!r} is not a number of tests")
    return int(text)


def _read_case(case: Element) -> _Case:
    marks = [each for each in case.iter() if each.tag in _FAILED]
    parts = (case.get("classname", ""), case.get("name", ""))
    file, line = case.get("file", ""), case.get("line", "")
    return _Case(
        name=".".join(part for part in parts if part) or "unnamed",
        marks=marks,
        is_skipped=not marks and case.find(".//skipped") is not None,
        location=f"{file}:{line}" if file and line else file,
    )


def read_junit(report: str | bytes) -> TestReport:
    """Return the result that a JUnit report states; raises `UsageError` if it is none."""
    data = report.encode(errors="replace") if isinstance(report, str) else report
    if len(data) > MAX_BYTES:
        _refuse(f"it has {len(data)} bytes, more than {MAX_BYTES}")
    parser = ElementTree.XMLParser(  # noqa: S314 - see above
        target=_Builder(), encoding="utf-8" if isinstance(report, str) else None
    )
    try:
        parser.feed(data)
        root = parser.close()
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        _refuse(str(error))
    found = {case: _read_case(case) for case in root.iter("testcase")}
    for suite in root.iter():
        if suite.tag in _SUITES:
            _demand_totals(suite, [found[case] for case in suite.iter("testcase")])
    failed = [case for case in found.values() if case.marks]
    passed = [case.name for case in found.values() if not case.marks and not case.is_skipped]
    return TestReport(
        passed=len(passed),
        failed=len(failed),
        errors=tuple(map(_failure, failed[:MAX_FAILURES])),
        skipped=len(found) - len(failed) - len(passed),
        passed_tests=tuple(passed) if len(passed) <= MAX_NAMES else (),
    )


def _refuse(why: str) -> NoReturn:
    raise UsageError(
        f"this is no JUnit report: {why}",
        code="test_report_invalid",
        remedy="let the test command write JUnit XML, for example with pytest --junitxml=report.xml",
    )


def _failure(case: _Case) -> TestFailure:
    message = next(filter(None, (mark.get("message") for mark in case.marks)), "")
    trace = "".join(mark.text or "" for mark in case.marks).strip() or message
    expected, actual = find_comparison(f"{message}\n{trace}")
    return TestFailure(
        name=case.name,
        expected=expected,
        actual=actual,
        stack_trace=_cut(trace),
        location=find_place(trace) or case.location,
    )


def _cut(trace: str) -> str:
    """Return a trace with its beginning and its end: what went wrong stands at one of them."""
    if len(trace) <= MAX_TRACE:
        return trace
    half = MAX_TRACE // 2
    return f"{trace[:half]}\n … {len(trace) - 2 * half} characters left out …\n{trace[-half:]}"


def find_comparison(message: str) -> Compared:
    """Return what a message says was expected and found."""
    for pattern in _COMPARISONS:
        if match := pattern.search(message[:MAX_TRACE]):
            return Compared(match["expected"].strip()[:500], match["actual"].strip()[:500])
    return Compared()


def pass_rate(result: TestResult) -> float | None:
    """Return the part of the tests that passed; None if none ran, since then nothing was measured."""
    ran = result.passed + result.failed
    return round(result.passed / ran, 6) if ran else None


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

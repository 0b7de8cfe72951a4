"""JUnit XML, the report that test commands of most languages write, as data.

The report is other people's text. So it is read by expat, which does no I/O; a document type, and with it every entity of
its own, is refused; size and depth are bounded. A library such as junitparser was turned down: it reads by lxml or
ElementTree, which build the whole tree and expand entities, and it believes the totals that a file states.

Totals that a suite states must be those of its test cases: a file that was cut off or edited is no report.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn
from xml.parsers import expat

from tercet.contracts.errors import UsageError
from tercet.contracts.outputs.quality import TestFailure, TestReport, TestResult
from tercet.quality.verification.traces import find_place

MAX_BYTES = 5_000_000
MAX_DEPTH = 64
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


@dataclass(kw_only=True)
class _Case:
    name: str
    location: str
    is_skipped: bool = False
    is_failed: bool = False
    marks: int = 0
    """How many failures and errors it has: a test may fail, and then its teardown."""
    message: str = ""
    text: list[str] = field(default_factory=list[str])


class _Suite:
    """What a suite states, and what its test cases come to, those of suites inside it included."""

    def __init__(self, attributes: dict[str, str]) -> None:
        self._stated = {name: _total(name, attributes[name]) for name in _TOTALS if name in attributes}
        self._cases = self._failed = self._marks = self._skipped = self._again = 0
        self._broken: set[str] = set()

    def add(self, case: _Case) -> None:
        """Count a test case."""
        self._cases += 1
        self._failed += case.is_failed
        self._marks += case.marks
        self._skipped += case.is_skipped and not case.is_failed
        # pytest writes a test that failed a second time if its teardown fails as well, and counts it once.
        self._again += case.is_failed and case.name in self._broken
        if case.is_failed:
            self._broken.add(case.name)

    def demand_totals(self) -> None:
        """Raise `UsageError` if the totals that are stated are not those of the test cases."""
        stated = self._stated
        failed = [stated[name] for name in ("failures", "errors") if name in stated]
        self._demand("tests", stated.get("tests"), {self._cases, self._cases - self._again})
        self._demand("skipped", stated.get("skipped"), {self._skipped})
        self._demand(
            "failures and errors", sum(failed) if len(failed) == 2 else None, {self._failed, self._marks}
        )

    def _demand(self, name: str, stated: int | None, found: set[int]) -> None:
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


class _Reader:
    """Listens to the parser; one test case is open at a time."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.errors: list[TestFailure] = []
        self.names: list[str] = []
        self._open: list[str] = []
        self._suites: list[_Suite] = []
        self._case: _Case | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        if not self._open and tag not in _SUITES:
            _refuse(f"its root is <{tag[:40]}>")
        if len(self._open) >= MAX_DEPTH:
            _refuse(f"it nests deeper than {MAX_DEPTH}")
        self._open.append(tag)
        if tag in _SUITES:
            self._suites.append(_Suite(attributes))
        elif tag == "testcase":
            self._case = _Case(name=_name(attributes), location=_location(attributes))
        elif self._case is not None and tag in _FAILED:
            self._case.is_failed = True
            self._case.marks += 1
            self._case.message = self._case.message or attributes.get("message", "")
        elif self._case is not None and tag == "skipped":
            self._case.is_skipped = True

    def text(self, data: str) -> None:
        if self._case is not None and self._open and self._open[-1] in _FAILED:
            self._case.text.append(data)

    def end(self, _tag: str) -> None:
        tag = self._open.pop()
        if tag in _SUITES:
            self._suites.pop().demand_totals()
        if tag != "testcase" or self._case is None:
            return
        case, self._case = self._case, None
        for suite in self._suites:
            suite.add(case)
        if case.is_failed:
            self.failed += 1
            if len(self.errors) < MAX_FAILURES:
                self.errors.append(_failure(case))
        elif case.is_skipped:
            self.skipped += 1
        else:
            self.passed += 1
            if len(self.names) <= MAX_NAMES:
                self.names.append(case.name)


def read_junit(report: str | bytes) -> TestReport:
    """The result that a JUnit report tells; raises `UsageError` if it is none."""
    data = report.encode(errors="replace") if isinstance(report, str) else report
    if len(data) > MAX_BYTES:
        _refuse(f"it has {len(data)} bytes, more than {MAX_BYTES}")
    reader = _Reader()
    parser = expat.ParserCreate(encoding="utf-8" if isinstance(report, str) else None)
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = reader.start
    parser.CharacterDataHandler = reader.text
    parser.EndElementHandler = reader.end
    try:
        parser.Parse(data, True)  # noqa: FBT003 - expat's own signature: this is all
    except (expat.ExpatError, LookupError, ValueError) as error:
        _refuse(str(error))
    return TestReport(
        passed=reader.passed,
        failed=reader.failed,
        errors=tuple(reader.errors),
        skipped=reader.skipped,
        passed_tests=tuple(reader.names) if len(reader.names) <= MAX_NAMES else (),
    )


def _refuse(why: str) -> NoReturn:
    raise UsageError(
        f"this is no JUnit report: {why}",
        code="test_report_invalid",
        remedy="let the test command write JUnit XML, for example with pytest --junitxml=report.xml",
    )


def _refuse_doctype(*_: object) -> NoReturn:
    _refuse("it declares a document type, which a report has no use for")


def _name(attributes: dict[str, str]) -> str:
    parts = (attributes.get("classname", ""), attributes.get("name", ""))
    return ".".join(part for part in parts if part) or "unnamed"


def _location(attributes: dict[str, str]) -> str:
    file, line = attributes.get("file", ""), attributes.get("line", "")
    return f"{file}:{line}" if file and line else file


def _failure(case: _Case) -> TestFailure:
    trace = "".join(case.text).strip() or case.message
    expected, actual = find_comparison(f"{case.message}\n{trace}")
    return TestFailure(
        name=case.name,
        expected=expected,
        actual=actual,
        stack_trace=_cut(trace),
        location=find_place(trace) or case.location,
    )


def _cut(trace: str) -> str:
    """A trace with its beginning and its end: what went wrong stands at one of them."""
    if len(trace) <= MAX_TRACE:
        return trace
    half = MAX_TRACE // 2
    return f"{trace[:half]}\n … {len(trace) - 2 * half} characters left out …\n{trace[-half:]}"


def find_comparison(message: str) -> Compared:
    """What a message says was expected and found."""
    for pattern in _COMPARISONS:
        if match := pattern.search(message[:MAX_TRACE]):
            return Compared(match["expected"].strip()[:500], match["actual"].strip()[:500])
    return Compared()


def pass_rate(result: TestResult) -> float | None:
    """The part of the tests that passed; None if none ran, since then nothing was measured."""
    ran = result.passed + result.failed
    return round(result.passed / ran, 6) if ran else None

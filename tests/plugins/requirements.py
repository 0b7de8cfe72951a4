"""A pytest plugin that counts which lines of docs/requirements.md the tests prove.

A test claims lines with `@pytest.mark.req("R82", "R83")`.
The claims travel in the report's user properties, so the count is the same with and without pytest-xdist:
tests run in a worker, and only the process that prints the summary adds the reports up.

A line is proved when tests that claim it passed, none that claims it failed, and one of those that passed is known to
fail when the code of the line is broken: `make mutants` has recorded it, and neither code nor test has changed since.
Skipped tests and expected failures prove nothing; an error in set-up or teardown is a failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mutants.proofs import gap, read_results, read_table

PAGE = Path("docs", "requirements.md")
MARK = "req"

_SECTION = re.compile(r"## (?P<title>[A-Z]\. .+)")
_LINE = re.compile(
    r"- \*\*(?P<number>R[1-9]\d*)\*\* (?P<text>.+) \[[^\]]+\](?P<amended> \*\(amended: .+\)\*)?"
)


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One line of the page."""

    number: str
    section: str
    text: str


def read_page(page: Path) -> dict[str, Requirement]:
    """Read the numbered lines of the page, in its order."""
    if not page.is_file():
        raise pytest.UsageError(f"{page} is missing: the marks of the tests are checked against it")
    lines: dict[str, Requirement] = {}
    section = ""
    for row, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if match := _SECTION.fullmatch(line):
            section = match["title"]
        elif match := _LINE.fullmatch(line):
            if match["number"] in lines:
                raise pytest.UsageError(f"{page}:{row}: {match['number']} stands here a second time")
            lines[match["number"]] = Requirement(number=match["number"], section=section, text=match["text"])
        elif line.startswith("- **R"):
            raise pytest.UsageError(f"{page}:{row}: write it as '- **R82** what must hold [source, section]'")
    return lines


class Ledger:
    """Who claims which line, and how each test ended."""

    def __init__(self, lines: dict[str, Requirement], root: Path) -> None:
        self.lines = lines
        self._root = root
        self._claimants: dict[str, set[str]] = {number: set() for number in lines}
        self._passed: set[str] = set()
        self._failed: set[str] = set()
        self._idle: set[str] = set()

    def record(self, report: pytest.TestReport) -> None:
        """Take in one report; a test has up to three, for set-up, call and teardown."""
        for name, value in report.user_properties:
            if name == MARK:
                self._claimants[str(value)].add(report.nodeid)
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.skipped or hasattr(report, "wasxfail"):
            self._idle.add(report.nodeid)
        elif report.when == "call":
            self._passed.add(report.nodeid)

    def gaps(self) -> dict[str, str]:
        """The lines that are not proved, each with the reason."""
        table, results = read_table(self._root), read_results(self._root)
        reasons: dict[str, str] = {}
        for number in self.lines:
            passed = {test.split("[")[0] for test in self.passed(number)}
            reason = self._untested(number) or gap(
                self._root, table.get(number, []), results.get(number, []), passed
            )
            if reason is not None:
                reasons[number] = reason
        return reasons

    def passed(self, number: str) -> list[str]:
        """The passed tests that claim this line."""
        return sorted((self._claimants[number] & self._passed) - self._idle)

    def _untested(self, number: str) -> str | None:
        if failing := sorted(self._claimants[number] & self._failed):
            return f"failing: {', '.join(failing)}"
        return None if self.passed(number) else "no marked test passed"


class RequirementMarks:
    """The hooks: check the claims at collection, record the reports, print the count."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Turn a claim that cannot be kept into a collection error; note the good ones on the item."""
        report = yield
        faults: list[str] = []
        for item in report.result or []:
            if isinstance(item, pytest.Item):
                faults += self._claim(item)
        if faults:
            report.outcome = "failed"
            report.longrepr = "\n".join(faults)
            report.result = []
        return report

    def _claim(self, item: pytest.Item) -> list[str]:
        faults: list[str] = []
        for mark in item.iter_markers(MARK):
            if not mark.args or mark.kwargs:
                faults.append(f'{item.nodeid}: name the lines it proves, as in @pytest.mark.{MARK}("R82")')
            for number in mark.args:
                if isinstance(number, str) and number in self.ledger.lines:
                    item.user_properties.append((MARK, number))
                else:
                    faults.append(f"{item.nodeid} claims {number!r}, which is no line of {PAGE.as_posix()}")
        return faults

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one report to the ledger."""
        self.ledger.record(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the JSON report, if one was asked for."""
        target: str | None = session.config.getoption("requirements_report")
        if target is None or hasattr(session.config, "workerinput"):
            return
        gaps = self.ledger.gaps()
        proved = {number: self.ledger.passed(number) for number in self.ledger.lines if number not in gaps}
        content = {"proved": proved, "open": gaps}
        path = session.config.invocation_params.dir / target
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        """Print how many lines are proved, and on request the others with the reasons."""
        if config.getoption("collectonly"):
            return
        terminalreporter.ensure_newline()
        gaps = self.ledger.gaps()
        listed = bool(config.getoption("requirements_open"))
        if listed:
            for line in open_lines(self.ledger.lines, gaps):
                terminalreporter.write_line(line)
        hint = "" if listed else " (make requirements lists the others)"
        count = f"{len(self.ledger.lines) - len(gaps)} of {len(self.ledger.lines)}"
        terminalreporter.write_line(f"requirements: proved {count}{hint}")


def open_lines(lines: dict[str, Requirement], gaps: dict[str, str]) -> Generator[str]:
    """Say what is not proved and why, section by section."""
    section = ""
    for number, reason in gaps.items():
        if lines[number].section != section:
            section = lines[number].section
            yield f"\n{section}"
        yield f"  {number:<5} {lines[number].text} ({reason})"
    yield ""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("requirements", "the lines of docs/requirements.md")
    group.addoption("--requirements-open", action="store_true", help="list the lines that are not proved")
    group.addoption(
        "--requirements-report", metavar="FILE", default=None, help="write proved and open lines as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, and the hooks with a ledger of their own."""
    config.addinivalue_line(
        "markers", f"{MARK}(*numbers): the lines of {PAGE.as_posix()} that the test proves"
    )
    ledger = Ledger(read_page(config.rootpath / PAGE), config.rootpath)
    config.pluginmanager.register(RequirementMarks(ledger), "requirement-marks")

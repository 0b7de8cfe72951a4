"""Runs the tests of one function on its source, and prints what they found as JUnit XML inside of JSON.

    echo '{"function": "late_fee", "code": "def late_fee(days): …"}' | python3 -I -B check.py cases.py
    echo '{"function": "late_fee", "code": "…", "arguments": {"days": 0}}' | python3 -I -B check.py

Without tests it calls the function once, and prints what came of it. The source is written into a temporary folder and
imported from there, so that traces name it; nothing else is written. Before that the process leaves the network, where the
system lets it; limits of time, memory and files are set by the program that starts it (`commands.toml`).
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import sys
import tempfile
import traceback
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

_UNFIT = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")
"""What XML has no place for."""
_FOLDER = re.compile(r'File "[^"\n]*/')


_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
"""CLONE_NEWUSER and CLONE_NEWNET of Linux."""


def leave_network() -> bool:
    """Move this process into a network of its own, in which there is nothing; False where the system does not allow it."""
    if sys.platform != "linux":
        return False
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    return unshare(_NEW_USER | _NEW_NET) == 0 or unshare(_NEW_NET) == 0


class Listed(unittest.TestResult):
    """Results that also remember what passed."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[unittest.TestCase] = []

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's own name
        """Remember it."""
        self.passed.append(test)


def load(path: Path) -> ModuleType:
    """A file as a module; it is not kept."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(function: str, source: Path, cases: Path) -> ET.Element:
    """The report on the function in a file."""
    report = ET.Element("testsuite", name=function)
    try:
        tested = getattr(load(source), function)
    except Exception:  # noqa: BLE001 - whatever the source does when it is imported is a finding
        _add(report, function, "import", traceback.format_exc(limit=-1))
        return report
    case = load(cases).CASES[function]
    case.call = staticmethod(tested)
    result = Listed()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    for test in result.passed:
        _add(report, case.__name__, _name(test))
    for test, trace in (*result.failures, *result.errors):
        _add(report, case.__name__, _name(test), trace)
    return report


def _name(test: unittest.TestCase) -> str:
    return test.id().rpartition(".")[2]


def _add(report: ET.Element, holder: str, name: str, trace: str = "") -> None:
    found = ET.SubElement(report, "testcase", classname=holder, name=name)
    if trace:
        # Files by their names alone: which folder they lay in says nothing, and would be another one each time.
        said = _FOLDER.sub('File "', _UNFIT.sub("?", trace))
        lines = [line for line in said.splitlines() if line and not line.startswith((" ", "Traceback"))]
        ET.SubElement(found, "failure", message=lines[0] if lines else "").text = said


def call(function: str, source: Path, arguments: dict[str, Any]) -> Any:
    """What a function gives for these arguments; an error ends the program, in one line."""
    try:
        return getattr(load(source), function)(**arguments)
    except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
        sys.exit(f"{type(error).__name__}: {error}")


def main(cases: str = "") -> None:
    """Read what is to be tested, test it, and print the report."""
    asked: dict[str, Any] = json.load(sys.stdin)
    function = asked["function"]
    network = "none" if leave_network() else "shared"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{function}.py"
        source.write_text(asked["code"], encoding="utf-8")
        if cases:
            report = ET.tostring(check(function, source, Path(cases)), encoding="unicode")
            json.dump({"junit": report, "network": network}, sys.stdout)
        else:
            json.dump({"value": call(function, source, asked["arguments"])}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Stack traces as data: where it failed, with which error, on which values. Python, and frames of Java, JavaScript and Go."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from tercet.contracts.outputs.quality import StackTraceAnalysis
from tercet.contracts.shape import Json
from tercet.contracts.values.plain import not_plain

MAX_TRACE = 40_000
MAX_VALUES = 20

_PYTHON = re.compile(
    r'^[ \t]*File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9})(?:, in (?P<function>[^\n]+))?', re.MULTILINE
)
_PYTEST = re.compile(r"^(?P<file>[\w./\\-]{1,300}\.py):(?P<line>\d{1,9}): (?P<error>\w[\w.]*)?", re.MULTILINE)
_JAVA = re.compile(
    r"^[ \t]*at (?P<function>[\w.$<>]{1,300})\((?P<file>[\w.$-]+\.(?:java|kt|scala)):(?P<line>\d{1,9})\)",
    re.MULTILINE,
)
_SCRIPT = re.compile(
    r"^[ \t]*at (?:(?P<function>[^\s(]{1,300}) \()?(?P<file>[^\s()]{1,300}\.[cm]?[jt]sx?):(?P<line>\d{1,9}):\d{1,9}\)?",
    re.MULTILINE,
)
_GO = re.compile(
    r"^(?P<function>[\w./*()-]{1,300})\([^\n]{0,300}\)\n[ \t]+(?P<file>[^\s:]{1,300}\.go):(?P<line>\d{1,9})",
    re.MULTILINE,
)
_GO_TEST = re.compile(r"^[ \t]*(?P<file>[\w./-]{1,300}\.go):(?P<line>\d{1,9}): ", re.MULTILINE)
_ERROR = re.compile(
    r"^(?:E[ \t]{1,9})?(?:Exception in thread \S+ |panic: )?(?P<type>[\w.$]{0,200}(?:Error|Exception|Failure|Fault|Warning|Interrupt|Exit)|panic)\b",
    re.MULTILINE,
)
_DEFINED = re.compile(r"^>?[ \t]*(?:async )?def (?P<function>\w{1,200})\(", re.MULTILINE)
_VALUE = re.compile(r"^(?P<name>[a-z_]\w{0,60}) {1,40}= (?P<value>[^\n]{1,400})$", re.MULTILINE)
_PAIR = re.compile(r"(?P<name>[a-z_]\w{0,60}) = (?P<value>'[^'\n]*'|\"[^\"\n]*\"|[^,\n]+)")
_ELSEWHERE = (
    "site-packages",
    "dist-packages",
    "node_modules",
    "<frozen",
    "/lib/python",
    "node:internal",
    "java.base",
)
"""Frames in these places belong to libraries."""


class Frame(NamedTuple):
    """One line of a stack."""

    function: str
    file: str
    line: int


def find_frames(trace: str) -> list[Frame]:
    """Return the frames of a trace, the innermost first."""
    trace = trace[:MAX_TRACE]
    for pattern, is_inner_last in ((_PYTHON, True), (_JAVA, False), (_SCRIPT, False), (_GO, False)):
        frames = [_frame(match) for match in pattern.finditer(trace)]
        if frames:
            return frames[::-1] if is_inner_last else frames
    return _pytest_frames(trace) or [_frame(match) for match in _GO_TEST.finditer(trace)]


def _frame(match: re.Match[str]) -> Frame:
    function = (match.groupdict().get("function") or "").strip()
    return Frame(function, match["file"], int(match["line"]))


def _pytest_frames(trace: str) -> list[Frame]:
    """In pytest's own form a frame ends with its place, and begins with the function that it shows."""
    frames: list[Frame] = []
    start = 0
    for match in _PYTEST.finditer(trace):
        defined = list(_DEFINED.finditer(trace, start, match.start()))
        frames.append(Frame(defined[-1]["function"] if defined else "", match["file"], int(match["line"])))
        start = match.end()
    return frames[::-1]


def find_own(frames: list[Frame]) -> Frame | None:
    """The innermost frame that is not in a library."""
    own = [frame for frame in frames if not any(place in frame.file for place in _ELSEWHERE)]
    return own[0] if own else (frames[0] if frames else None)


def find_place(trace: str) -> str:
    """Return the file and line where it failed, or nothing."""
    frame = find_own(find_frames(trace))
    return f"{frame.file}:{frame.line}" if frame else ""


def analyse(trace: str, *, expected: str = "", actual: str = "") -> StackTraceAnalysis | None:
    """Return what a stack trace says; None if there is no frame in it."""
    frame = find_own(find_frames(trace))
    if frame is None:
        return None
    compared = f"expected {expected}, found {actual}" if expected or actual else ""
    return StackTraceAnalysis(
        failing_function=frame.function,
        line_number=frame.line,
        error_type=_find_error(trace[:MAX_TRACE]),
        input_values=_find_values(trace[:MAX_TRACE]),
        expected_vs_actual=compared,
    )


def _find_error(trace: str) -> str:
    """The last error that is named: in a chain it is the one that came out. Other languages name it first."""
    shown = [match["error"] for match in _PYTEST.finditer(trace) if match["error"]]
    named = [match["type"] for match in _ERROR.finditer(trace)]
    if shown:
        return shown[-1]
    if not named:
        return ""
    return named[-1] if _PYTHON.search(trace) else named[0]


def _find_values(trace: str) -> dict[str, Json]:
    """Return the values that a trace shows, as pytest prints arguments and local variables."""
    found: dict[str, Json] = {}
    for line in _VALUE.finditer(trace):
        for match in (
            _PAIR.finditer(line[0]) if ", " in line[0] and line["value"][:1] not in "[{(" else (line,)
        ):
            if len(found) < MAX_VALUES:
                found.setdefault(match["name"], _read_value(match["value"].strip()))
    return found


def _read_value(text: str) -> Json:
    """The value that a text is in Python, or the text itself."""
    try:
        value: Json = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if not_plain(value) is None else text

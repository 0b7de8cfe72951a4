"""Root causes of defects, and the typical repair of each.

A defect says in which dimension it is and describes itself in words. The dimension decides where it can; the words decide
the rest, by the first row of a table that has one of them; what else is known about the run comes before both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tercet.contracts.outputs.quality import (
    Defect,
    RootCauseClass,
    StackTraceAnalysis,
    TestResult,
)

_C = RootCauseClass


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What else is known about the run that produced an output."""

    is_schema_valid: bool = True
    tests: TestResult | None = None
    traces: tuple[StackTraceAnalysis, ...] = ()
    failed_tools: tuple[str, ...] = ()
    not_brought: frozenset[str] = frozenset()
    """The descriptions of what is missing because a call failed that should have brought it."""
    has_evidence: bool = True


_BY_DIMENSION: dict[str, RootCauseClass] = {
    "schema": _C.SCHEMA_VIOLATION,
    "structure": _C.SCHEMA_VIOLATION,
    "format": _C.SCHEMA_VIOLATION,
    "safety": _C.SAFETY_VIOLATION,
    "policy": _C.SAFETY_VIOLATION,
    "privacy": _C.SAFETY_VIOLATION,
    "completeness": _C.INCOMPLETENESS,
    "coherence": _C.COHERENCE_FAILURE,
    "grounding": _C.HALLUCINATION,
    "semantic": _C.HALLUCINATION,
    "factual": _C.FACTUAL_ERROR,
    "correctness": _C.FACTUAL_ERROR,
    "tests": _C.LOGIC_ERROR,
    "test_pass_rate": _C.LOGIC_ERROR,
    "edge_cases": _C.LOGIC_ERROR,
    "logic": _C.LOGIC_ERROR,
    "retrieval": _C.RETRIEVAL_GAP,
    "tool": _C.TOOL_FAILURE,
}
_FINAL: frozenset[RootCauseClass] = frozenset({_C.SCHEMA_VIOLATION, _C.SAFETY_VIOLATION, _C.LOGIC_ERROR})
"""Classes that the dimension alone decides: no word makes a leaked key anything else."""

_BY_WORD: tuple[tuple[RootCauseClass, str], ...] = (
    (_C.SAFETY_VIOLATION, r"secrets?|leak\w*|credential\w*|passwords?|api key|private key|personal data|injection|gives away|obeys an instruction"),
    (_C.LOGIC_ERROR, r"(?:in)?valid input"),
    (_C.RETRIEVAL_GAP, r"insufficient evidence|no evidence (?:was|is) (?:found|given)|not retrieved|evidence is missing"),
    (_C.TOOL_FAILURE, r"tool (?:failed|error|returned)|timed? ?out|unavailable"),
    (_C.SCHEMA_VIOLATION, r"schema|not of type|additional propert\w+|not valid json|malformed"),
    (
        _C.FACTUAL_ERROR,
        r"contradicted|contradicts (?:the )?(?:evidence|source|fact|record)\w*|wrong|incorrect|does not match|differs from|something else than",
    ),
    (_C.COHERENCE_FAILURE, r"contradict\w*|inconsistent|incoherent|repeat(?:s|ed)|duplicate\w*"),
    (_C.HALLUCINATION, r"ungrounded|unsupported|not (?:supported|grounded|entailed|found in)|settles it|no ground|made up|hallucinat\w+|no source"),
    (_C.LOGIC_ERROR, r"test_\w+|tests? .{0,40}?\bfail\w*|fails? the test|bug|exception|traceback|off by one|\w+Error"),
    (_C.INCOMPLETENESS, r"missing|absent|omit\w*|incomplete|lacks?|not mention\w*|left out|does not (?:say|cover)|add|mention"),
)  # fmt: skip
# What a description quotes is the output's or a source's: it does not say what is wrong with it.
_QUOTED = re.compile(
    r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|“[^”]*”|«[^»]*»|`[^`]*`|\([^()]*\))(?!\w)""", re.DOTALL
)
_WORDS = tuple((cause, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for cause, words in _BY_WORD)


def classify(defect: Defect, known: Circumstances = Circumstances()) -> RootCauseClass:  # noqa: B008 - frozen
    """Return the root cause of a defect; the same defect in the same circumstances has the same one."""
    named = _BY_DIMENSION.get(defect.dimension.casefold())
    if named is not None and named in _FINAL:
        return named
    is_told = any(tool in defect.description for tool in known.failed_tools)
    if named is _C.TOOL_FAILURE or is_told or defect.description in known.not_brought:
        return _C.TOOL_FAILURE
    words = _QUOTED.sub(" ", defect.description)
    told = next((cause for cause, pattern in _WORDS if pattern.search(words)), None)
    if not known.has_evidence and (told or named) in (_C.HALLUCINATION, _C.FACTUAL_ERROR):
        return _C.RETRIEVAL_GAP  # nothing was retrieved that the claim could stand on
    if named is not None and named in (_C.INCOMPLETENESS, _C.COHERENCE_FAILURE, _C.RETRIEVAL_GAP):
        return named
    if told is not None:
        return told
    if not known.is_schema_valid:
        return _C.SCHEMA_VIOLATION
    has_failed = known.tests is not None and known.tests.failed
    return named if named is not None and not has_failed else _C.LOGIC_ERROR


INSTRUCTIONS: dict[RootCauseClass, str] = {
    _C.SCHEMA_VIOLATION: "Give it the form that the schema asks for; keep what it says.",
    _C.FACTUAL_ERROR: "Replace the wrong claim by what the evidence says.",
    _C.LOGIC_ERROR: "Mend the fault where it is; change nothing else.",
    _C.INCOMPLETENESS: "Add what is missing, out of the evidence; keep what is there.",
    _C.COHERENCE_FAILURE: "Rewrite it so that it does not contradict or repeat itself.",
    _C.SAFETY_VIOLATION: "Take out what must not be there, and put nothing like it in its place.",
    _C.HALLUCINATION: "Replace the claim by one that the evidence supports, or say less without leaving a gap.",
    _C.RETRIEVAL_GAP: "Write it anew out of the evidence, and claim nothing beyond it.",
    _C.TOOL_FAILURE: "Write it anew with the new results.",
}
"""What a model is asked to do about each class that a defect may have; the two classes of escalation have none."""
NEEDS_EVIDENCE = frozenset({_C.RETRIEVAL_GAP, _C.TOOL_FAILURE})
"""The classes for which more evidence is fetched first, and failed tools are called again."""

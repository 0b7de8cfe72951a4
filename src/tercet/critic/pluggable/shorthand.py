"""Converts the return value of a critic into a checked result.

    "continue"                              go on
    ("continue", reason)                    go on, and say why
    ("stop", reason)                        halt
    ("retry", reason)                       try the step again
    ("retry", reason, instruction_patch)    try it again with one more instruction
    {"action": ..., ...}                    the fields of a CriticResult as a dict
    CriticResult(...)                       everything

Anything else is an error: a missing return is not an agreement.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from tercet.critic.pluggable.errors import CriticError, CriticReturnError
from tercet.critic.pluggable.result import ACTIONS, FIELDS, Action, CriticResult, find_fault, is_score

CriticReturn = CriticResult | str | tuple[str, str] | tuple[str, str, str | None] | Mapping[str, Any]
"""The return values of a critic; strings are checked at run time."""

REMEDY = (
    'return "continue", ("continue", reason), ("stop", reason), ("retry", reason), '
    '("retry", reason, instruction_patch), a dict with an action, or a CriticResult; '
    f"the actions are {', '.join(ACTIONS)}"
)


def settle(returned: object, *, critic: str, default_score: float = 1.0) -> CriticResult:
    """Return the checked result of a critic; the default score is used only if none was given.

    Raises CriticReturnError.
    """
    result = _read(returned, critic)
    if (fault := find_fault({name: getattr(result, name) for name in FIELDS})) is not None:
        raise _refused(critic, fault)
    score = float(result.score) if result.scored else default_score
    return replace(result, score=score, details=dict(result.details))


def check_default_score(value: object) -> float:
    """Raise for a default score that no critic could return."""
    if not is_score(value):
        raise CriticError(f"the default score of a critic is a number from 0 to 1, not {reprlib.repr(value)}")
    return float(value)


def _read(returned: object, critic: str) -> CriticResult:
    match returned:
        case CriticResult():
            return returned
        case "continue":
            return CriticResult()
        case "stop" | "retry":
            raise _refused(critic, f"{returned!r} without a reason")
        case str():
            return CriticResult(cast("Action", returned))
        case tuple((str() as action, str() as reason)):
            return CriticResult(cast("Action", action), reason)
        case tuple(("retry", str() as reason, str() | None as patch)):
            return CriticResult("retry", reason, instruction_patch=patch)
        case Mapping():
            members = cast("Mapping[Any, Any]", returned)
            if (fault := find_fault(members)) is not None:
                raise _refused(critic, fault)
            return CriticResult(**members)
        case _:
            raise _refused(critic, reprlib.repr(returned))


def _refused(critic: str, what: str) -> CriticReturnError:
    return CriticReturnError(f"critic {critic!r} returned {what}", remedy=REMEDY)

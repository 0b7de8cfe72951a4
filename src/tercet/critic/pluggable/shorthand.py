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
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeGuard, cast

from tercet.critic.pluggable.errors import CriticError, CriticReturnError
from tercet.critic.pluggable.result import ACTIONS, Action, CriticResult

CriticReturn = CriticResult | str | tuple[str, str] | tuple[str, str, str | None] | Mapping[str, Any]
"""The return values of a critic; strings are checked at run time."""

FIELDS = tuple(each.name for each in fields(CriticResult))
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
    for fault in (_fault(name, getattr(result, name)) for name in FIELDS):
        if fault:
            raise _refused(critic, fault)
    score = float(result.score) if result.scored else default_score
    return replace(result, score=score, details=dict(result.details))


def is_score(value: object) -> TypeGuard[float]:
    """Return whether this is a finite number from 0 to 1; booleans do not count as numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


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
            return _read_mapping(cast("Mapping[Any, Any]", returned), critic)
        case _:
            raise _refused(critic, reprlib.repr(returned))


def _read_mapping(returned: Mapping[Any, Any], critic: str) -> CriticResult:
    unknown = [name for name in returned if name not in FIELDS]
    if unknown:
        raise _refused(critic, f"a dict with the unknown field {reprlib.repr(unknown[0])}")
    if "action" not in returned:
        raise _refused(critic, "a dict without an action")
    return CriticResult(**returned)


def _fault(name: str, value: object) -> str | None:
    fits, wanted = _RULES[name]
    return None if fits(value) else f"the {name} {reprlib.repr(value)}, which is not {wanted}"


_RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    "action": (lambda value: value in ACTIONS, f"one of {', '.join(ACTIONS)}"),
    "reason": (lambda value: isinstance(value, str), "a string"),
    "score": (is_score, "a number from 0 to 1"),
    "details": (lambda value: isinstance(value, Mapping), "a dict"),
    "instruction_patch": (lambda value: isinstance(value, str | None), "a string or None"),
    "state_patch": (lambda value: isinstance(value, Mapping | None), "a dict or None"),
    "modified_prompt": (lambda value: isinstance(value, str | None), "a string or None"),
}


def _refused(critic: str, what: str) -> CriticReturnError:
    return CriticReturnError(f"critic {critic!r} returned {what}", remedy=REMEDY)

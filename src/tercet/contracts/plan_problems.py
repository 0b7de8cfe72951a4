"""What is wrong with a plan that does not parse, in words that a planner or a person can act on."""

from __future__ import annotations

from reprlib import Repr
from typing import Any

from tercet.contracts import pointer
from tercet.contracts.plan import Plan, Step
from tercet.contracts.problem import Problem


def problem(code: str, place: str, message: str, remedy: str) -> Problem:
    """A problem at a place of the document."""
    return Problem(code=code, place=place, message=message, remedy=remedy)


def explained(detail: Any, location: list[str | int]) -> Problem:
    """One of Pydantic's errors as a problem at this location."""
    message, remedy = _words(detail, location)
    return problem(_CODES.get(detail["type"], "wrong_value"), pointer.join(location), message, remedy)


_CODES = {"extra_forbidden": "unknown_field", "missing": "missing_field"}


def _words(detail: Any, location: list[str | int]) -> tuple[str, str]:
    """A sentence for a person or a planner, and what to do about it."""
    field = str(location[-1]) if location else "the plan"
    owner = Step if location[:1] == ["steps"] and len(location) <= 3 else Plan
    message = str(detail["msg"]).removeprefix("Value error, ")
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown field {field!r}", f"known here: {', '.join(owner.model_fields)}" if len(
                location
            ) in (1, 3) else "remove it"
        case "missing":
            return f"{field!r} is missing", f"add {field!r}"
        case "value_error":
            return message, ""
        case "too_long":
            return f"it has more than {detail['ctx']['max_length']:,} items", "split the plan"
        case kind:
            wanted = _WANTED.get(kind, f"{message[:1].lower()}{message[1:]}")
            return f"{wanted} (here: {_shown(detail.get('input'))})", ""


_WANTED = {
    "tuple_type": "it should be a list",
    "dict_type": "it should be an object",
    "model_type": "it should be an object",
    "string_unicode": "a string holds an unpaired surrogate",
}

_REPR = Repr()
_REPR.maxlevel, _REPR.maxdict, _REPR.maxlist, _REPR.maxstring = 2, 3, 3, 60


def _shown(value: Any) -> str:
    """The beginning of a value as text, however large or deep it is."""
    try:
        text = _REPR.repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a very long integer"
    return text if len(text) <= 60 else f"{text[:60]}…"

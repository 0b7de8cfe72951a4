"""Violations of a JSON Schema as sentences: which parameter, what it must be, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from tercet.contracts.shape import as_list
from tercet.contracts.values import pointer
from tercet.contracts.values.references import Place

_TYPES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_MOST_SHOWN = 60
_MOST_OPTIONS = 10


def fault_sentence(place: Place, kind: Any, value: Any) -> str:
    """Return a violation as a sentence; `kind` is that of the validator, and `value` is what it was found in.

    Empty if this kind of violation has no sentence.
    """
    found = kind.as_dict()
    match kind.name:
        case "required":
            missing = repr(found["property"])
            return f"{_subject(place)} lacks {missing}" if place else f"the parameter {missing} is missing"
        case "additionalProperties" | "unevaluatedProperties":
            extra = list(map(str, found["unexpected"]))
            names = _or([repr(each) for each in extra], "and")
            if place:
                return f"{_subject(place)} takes no {names}"
            return f"there {'is' if len(extra) == 1 else 'are'} no parameter{'' if len(extra) == 1 else 's'} {names}"
        case _:
            expected = _expected(kind, place)
            return f"{_subject(place)} {expected}, and is {_shown(value)}" if expected else ""


def _expected(kind: Any, place: Place) -> str:
    """Return what a violated keyword demands: `must be at least 3`; empty if there are no words for it."""
    found = kind.as_dict()
    if kind.name == "type":
        types = sorted(map(str, found["types"]), key=lambda each: each == "null")
        return f"must be {_or([_TYPES.get(each, each) for each in types])}"
    if kind.name in ("anyOf", "oneOf") and "context" in found:
        return _alternatives(kind.context, place)
    words = _KEYWORDS.get(kind.name)
    return words(found) if words is not None else ""


def _alternatives(context: Sequence[Sequence[Any]], place: Place) -> str:
    """Return what any one of several schemas demands of the value itself; empty if one demands more than one thing."""
    demands: list[str] = []
    for errors in context:
        is_simple = len(errors) == 1 and tuple(errors[0].instance_path) == place
        words = _expected(errors[0].kind, place) if is_simple else ""
        if not words.startswith("must "):
            return ""
        demands.append(words.removeprefix("must "))
    shared = all(each.startswith("be ") for each in demands)
    parts = [each.removeprefix("be ") for each in demands] if shared else demands
    return f"must {'be ' if shared else ''}{_or(list(dict.fromkeys(parts)))}" if demands else ""


def _amount(words: str, noun: str) -> Callable[[dict[str, Any]], str]:
    return lambda found: f"must have {words} {found['limit']} {noun}{'' if found['limit'] == 1 else 's'}"


_KEYWORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "enum": lambda found: f"must be {_or(list(map(_shown, as_list(found['options']) or ())))}",
    "const": lambda found: f"must be {_shown(found['expected_value'])}",
    "minimum": lambda found: f"must be at least {found['limit']}",
    "maximum": lambda found: f"must be at most {found['limit']}",
    "exclusiveMinimum": lambda found: f"must be more than {found['limit']}",
    "exclusiveMaximum": lambda found: f"must be less than {found['limit']}",
    "multipleOf": lambda found: f"must be a multiple of {found['multiple_of']:g}",
    "minLength": _amount("at least", "character"),
    "maxLength": _amount("at most", "character"),
    "minItems": _amount("at least", "item"),
    "maxItems": _amount("at most", "item"),
    "minProperties": _amount("at least", "member"),
    "maxProperties": _amount("at most", "member"),
    "uniqueItems": lambda _: "must hold no item twice",
    "pattern": lambda found: f"must match the pattern {found['pattern']}",
    "format": lambda found: f"must be written as a {found['format']}",
    "falseSchema": lambda _: "must not be given",
}


def _subject(place: Place) -> str:
    return f"the parameter {pointer.join(place)[1:]!r}" if place else "what is given"


def _shown(value: Any) -> str:
    """Return a value as JSON, shortened."""
    text = orjson.dumps(value).decode()
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def _or(parts: Sequence[str], word: str = "or") -> str:
    """Return parts as words: `a, b or c`; of a long list only the first ones."""
    if len(parts) > _MOST_OPTIONS:
        parts = [*parts[:_MOST_OPTIONS], f"{len(parts) - _MOST_OPTIONS} more"]
    return f" {word} ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))

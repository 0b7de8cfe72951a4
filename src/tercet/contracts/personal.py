"""Personal values: which fields of a pack hold them, whose they are, and the tokens that stand for them in a run.

A marked value never enters the journal. A run works with its token, `[personal:KEY:CIPHERTEXT]`: the value encrypted
under the key of its subject. Equal values of a subject have equal tokens, so a run can compare them and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Annotated, Any, cast

from pydantic import Field

from tercet.contracts.shape import Authored

TOKEN = re.compile(r"\[personal:([0-9a-f]{16}):([A-Za-z0-9_-]{22,})\]")
"""A token: the id of a subject's key, and the encrypted value."""
ERASED = "erased"
"""What is shown of a value whose key was destroyed."""
SEALED = "sealed"
"""What is shown of a value whose key is not here: a bundle has none."""

FieldPath = Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)*$", max_length=200)]
"""A field, or a field inside of others with dots between: `customer.email`. In a list it means every item."""


class PersonalCall(Authored):
    """The personal parameters and result fields of a tool."""

    params: tuple[FieldPath, ...] = ()
    """The tool receives the values of these; no other parameter may hold a personal value."""
    result: tuple[FieldPath, ...] = ()


class PersonalEvidence(Authored):
    """The personal fields of a class of evidence."""

    fields: tuple[FieldPath, ...] = Field(min_length=1)
    subject: FieldPath
    """The field that names the subject of a fact."""


class PersonalMarks(Authored):
    """The personal values of a pack."""

    subject: FieldPath | None = None
    """The field of the request's input that names the subject of a run."""
    request: tuple[FieldPath, ...] = ()
    """The personal fields of the request's input."""
    tools: dict[str, PersonalCall] = {}
    evidence: dict[str, PersonalEvidence] = {}

    @property
    def has_marks(self) -> bool:
        """Whether anything is marked."""
        return bool(self.subject or self.request or self.tools or self.evidence)


def find_tokens(value: Any) -> Iterator[str]:
    """Yield every token in the texts and keys of a JSON value, also repeatedly."""
    if isinstance(value, str):
        if "[personal:" in value:
            yield from (found.group() for found in TOKEN.finditer(value))
    elif isinstance(value, dict):
        for name, each in cast("dict[str, Any]", value).items():
            yield from find_tokens(name)
            yield from find_tokens(each)
    elif isinstance(value, list | tuple):
        for each in cast("list[Any]", value):
            yield from find_tokens(each)


def map_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """Return a JSON value with every text in it changed, also the keys of objects."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        changed: dict[str, Any] = {}
        for name, each in cast("dict[str, Any]", value).items():
            changed[_unused(change(name), changed)] = map_texts(each, change)
        return changed
    if isinstance(value, list | tuple):
        return [map_texts(each, change) for each in cast("list[Any]", value)]
    return value


def _unused(name: str, used: dict[str, Any]) -> str:
    """Return a name that is not used yet: several keys may have become `erased`."""
    if name not in used:
        return name
    return next(numbered for number in count(2) if (numbered := f"{name} ({number})") not in used)


def map_values(value: Any, change: Callable[[str], Any]) -> Any:
    """Return a JSON value with every text in it changed; keys of objects stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: map_values(each, change) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [map_values(each, change) for each in cast("list[Any]", value)]
    return value


def find_keys(value: Any) -> Iterator[str]:
    """Yield the keys of all objects in a JSON value."""
    if isinstance(value, dict):
        for name, each in cast("dict[str, Any]", value).items():
            yield name
            yield from find_keys(each)
    elif isinstance(value, list | tuple):
        for each in cast("list[Any]", value):
            yield from find_keys(each)


def blank_field(value: Any, path: str) -> Any:
    """Return a JSON value without what is at a path."""
    name, _, rest = path.partition(".")
    if isinstance(value, list | tuple):
        return [blank_field(each, path) for each in cast("list[Any]", value)]
    if not isinstance(value, dict) or name not in value:
        return cast("Any", value)
    found = cast("dict[str, Any]", value)
    return {**found, name: blank_field(found[name], rest) if rest else None}


def map_field(value: Any, path: str, change: Callable[[str], Any]) -> Any:
    """Return a JSON value with every text at or below a path changed. What the path does not lead to stays."""
    name, _, rest = path.partition(".")
    if isinstance(value, list | tuple):
        return [map_field(each, path, change) for each in cast("list[Any]", value)]
    if not isinstance(value, dict) or name not in value:
        return cast("Any", value)
    found = cast("dict[str, Any]", value)
    inside = found[name]
    return {**found, name: map_field(inside, rest, change) if rest else map_values(inside, change)}


def read_field(value: Any, path: str) -> Any:
    """Return what is at a path; None if there is nothing."""
    for name in path.split("."):
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return value


def find_other(value: Any, path: str) -> Any:
    """Return the first number or truth value at or below a path, which cannot be sealed; None if there is none."""
    name, _, rest = path.partition(".")
    if isinstance(value, list | tuple):
        return next(
            (found for each in cast("list[Any]", value) if (found := find_other(each, path)) is not None),
            None,
        )
    inside = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return find_other(inside, rest) if rest else _first_other(inside)


def _first_other(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return None
    if isinstance(value, dict):
        value = list(cast("dict[str, Any]", value).values())
    if isinstance(value, list | tuple):
        return next(
            (found for each in cast("list[Any]", value) if (found := _first_other(each)) is not None), None
        )
    return value

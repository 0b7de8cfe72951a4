"""Relations between the sources of a decision and its request, and the kinds of their values."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from tercet.contracts.evidence import meets
from tercet.contracts.shape import Authored, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.references import Place
from tercet.contracts.values.trust import Scalar, overlaps, scalar, scalars

REQUEST = "request"
SENTENCE = "sentence"
MAX_PATTERN = 1_000
"""The maximum length of a pattern."""


class FieldPath(NamedTuple):
    """A field of the request or of a class of evidence: `request.order_id`, `refund_window#/lines/0/sku`."""

    owner: str
    """`request`, or a class of evidence."""
    place: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.owner}#{pointer.join(self.place)}"


def parse_path(text: str) -> FieldPath:
    """Return the field that a path names; raise `ValueError` if it names none."""
    owner, mark, rest = text.partition("#")
    if mark:
        place = pointer.parts(rest) if rest.startswith("/") else ()
    else:
        owner, _, rest = text.partition(".")
        place = tuple(rest.split("."))
    if not owner or not place or not all(place):
        raise ValueError(f"{text!r} names no field (expected: request.FIELD, CLASS.FIELD or CLASS#/POINTER)")
    return FieldPath(owner, place)


def field_place(text: str) -> tuple[str, ...]:
    """Return the place of a field given as a name, with dots, or as a JSON Pointer."""
    return pointer.parts(text) if text.startswith("/") else tuple(text.split("."))


MISSING = object()
"""The value at a place that does not exist; it equals no other value."""


def is_of_class(declared: str, classification: str) -> bool:
    """Return whether a declared class matches that of evidence: `x` and `x_evidence` are the same class."""
    return meets(declared, classification) or meets(classification, declared)


def value_at(value: Any, place: Iterable[str]) -> Any:
    """Return the value at a place of a JSON value, or `MISSING`."""
    try:
        return pointer.follow(value, pointer.join(tuple(place)))
    except pointer.PointerError:
        return MISSING


def members(value: Any) -> frozenset[Scalar]:
    """Return a scalar, or the scalars of a list, for comparison; null and the empty text do not count."""
    items = as_list(value)
    given = [value] if items is None else items
    return frozenset(scalar(each) for each in given if is_scalar(each) and each not in (None, ""))


def is_scalar(value: Any) -> bool:
    """Return whether a value exists and is neither a list nor an object."""
    return value is not MISSING and as_object(value) is None and as_list(value) is None


class Relation(Authored):
    """A relation that must hold before a source of a decision counts. Three forms:

    - `evidence`, `field`, `equals`: evidence of this class counts only if its field has the value that `equals` names.
    - `tool`, `param` (or `field`, of the result), `equals`: the tool may be called only with that value, or its result
      counts only if the field has it.
    - `tool`, `one_source`: these parameters of a call come from one record.
    """

    evidence: str | None = None
    tool: str | None = None
    field: str | None = None
    param: str | None = None
    equals: str | None = None
    """A field of the request (`request.order_id`), or of evidence that the same step pins (`ticket.customer_id`). Where it
    is a list, one of its members."""
    one_source: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        given = {name for name in type(self).model_fields if getattr(self, name)}
        forms = (
            {"evidence", "field", "equals"},
            {"tool", "param", "equals"},
            {"tool", "field", "equals"},
            {"tool", "one_source"},
        )
        if given not in forms:
            expected = "; ".join(", ".join(sorted(form)) for form in forms)
            raise ValueError(
                f"a relation has the fields {', '.join(sorted(given))} (expected one of: {expected})"
            )
        if self.equals is not None:
            parse_path(self.equals)
        if len(set(self.one_source)) == 1:
            raise ValueError("one_source names one parameter (expected: at least two)")
        return self

    @cached_property
    def param_place(self) -> tuple[str, ...]:
        """The place of the parameter, from its name or JSON Pointer."""
        return pointer.place_of(self.param or "")

    @cached_property
    def target(self) -> FieldPath | None:
        """The field that must match; None for `one_source`."""
        return None if self.equals is None else parse_path(self.equals)

    def __str__(self) -> str:
        if self.one_source:
            return f"{' and '.join(self.one_source)} of {self.tool} come from one record"
        part = f"{self.tool}({self.param})" if self.param else f"{self.evidence or self.tool}.{self.field}"
        return f"{part} equals {self.equals}"


class FieldSpec(Authored):
    """The kind of a field of the request or of evidence: its values may only be used for parameters of that kind."""

    of: str
    """`request.FIELD` or `CLASS.FIELD`."""
    kind: str = Field(min_length=1, max_length=100)
    """`sentence` for prose: the entities that it names may be used."""
    patterns: tuple[str, ...] = ()
    """For a sentence: regular expressions whose named groups are kinds or names of parameters."""
    pasted: Literal["untrusted", "trusted"] = "untrusted"
    """For a sentence: whether quoted blocks, forwarded messages and code in it are trusted."""

    @field_validator("of")
    @classmethod
    def _names_a_field(cls, text: str) -> str:
        parse_path(text)
        return text

    @field_validator("patterns")
    @classmethod
    def _has_named_groups(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for text in patterns:
            if len(text) > MAX_PATTERN:
                raise ValueError(f"a pattern has {len(text):,} characters (at most {MAX_PATTERN:,})")
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    groups = re.compile(text).groupindex
            except (re.error, OverflowError, RecursionError, Warning) as error:
                raise ValueError(f"pattern {text!r} is not a regular expression: {error}") from None
            if not groups:
                raise ValueError(f"pattern {text!r} has no named group, such as (?P<recipient>…)")
        return patterns

    @cached_property
    def path(self) -> FieldPath:
        """The parsed path of the field."""
        return parse_path(self.of)

    @property
    def is_sentence(self) -> bool:
        """Whether it is prose in the request."""
        return self.kind == SENTENCE and self.path.owner == REQUEST


class FoundSentence(NamedTuple):
    """A text in a request that a decision declares as prose."""

    field: FieldSpec
    place: Place
    text: str


def find_sentences(fields: Iterable[FieldSpec], request: Any) -> list[FoundSentence]:
    """Return the texts in a request that are declared as prose, including those in lists."""
    prose = [(field, pointer.join(field.path.place)) for field in fields if field.is_sentence]
    if not prose:
        return []
    return [
        FoundSentence(field, leaf.place, leaf.value)
        for leaf in scalars(request)
        if isinstance(leaf.value, str)
        for field in [next((field for field, mark in prose if overlaps(mark, leaf.place)), None)]
        if field is not None
    ]

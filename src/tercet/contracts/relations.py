"""How the sources of a decision relate to its request, and of which kind their values are."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from tercet.contracts import pointer
from tercet.contracts.shape import Authored

REQUEST = "request"
SENTENCE = "sentence"


class FieldPath(NamedTuple):
    """A field of the request or of a class of evidence: `request.order_id`, `refund_window#/lines/0/sku`."""

    owner: str
    """`request`, or a class of evidence."""
    place: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.owner}#{pointer.join(self.place)}"


def parse_path(text: str) -> FieldPath:
    """Return the field that a path names; raises `ValueError` where it names none."""
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
    """Return the place of a field that is written as a name, with dots, or as a JSON Pointer."""
    return pointer.parts(text) if text.startswith("/") else tuple(text.split("."))


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
        """The place of the parameter: a name, or a JSON Pointer to a part of it."""
        param = self.param or ""
        return pointer.parts(param) if param.startswith("/") else (param,)

    @cached_property
    def target(self) -> FieldPath | None:
        """The field whose value must be met; None for `one_source`."""
        return None if self.equals is None else parse_path(self.equals)

    def __str__(self) -> str:
        if self.one_source:
            return f"{' and '.join(self.one_source)} of {self.tool} come from one record"
        part = f"{self.tool}({self.param})" if self.param else f"{self.evidence or self.tool}.{self.field}"
        return f"{part} equals {self.equals}"


class FieldSpec(Authored):
    """The kind of a field of the request or of evidence: its values vouch for parameters of that kind and no other."""

    of: str
    """`request.FIELD` or `CLASS.FIELD`."""
    kind: str = Field(min_length=1, max_length=100)
    """`sentence` for prose: it vouches for the entities that it names."""
    patterns: tuple[str, ...] = ()
    """For a sentence: regular expressions whose named groups are kinds or names of parameters."""
    pasted: Literal["untrusted", "trusted"] = "untrusted"
    """For a sentence: what quoted blocks, forwarded messages and code in it are worth."""

    @field_validator("of")
    @classmethod
    def _names_a_field(cls, text: str) -> str:
        parse_path(text)
        return text

    @field_validator("patterns")
    @classmethod
    def _has_named_groups(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for text in patterns:
            try:
                groups = re.compile(text).groupindex
            except re.error as error:
                raise ValueError(f"pattern {text!r} is not a regular expression: {error}") from None
            if not groups:
                raise ValueError(f"pattern {text!r} has no named group, such as (?P<recipient>…)")
        return patterns

    @cached_property
    def path(self) -> FieldPath:
        """The field."""
        return parse_path(self.of)

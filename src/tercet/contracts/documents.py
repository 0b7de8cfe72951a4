"""Values that outputs may state, and documents that are rendered from them: what a pack declares, and what was read."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, NamedTuple, Self, get_args

from pydantic import ConfigDict, Field, model_validator

from tercet.contracts.mode import Trust
from tercet.contracts.shape import Authored, Json, Name, Shape
from tercet.contracts.values import references

ValueType = Literal[
    "text", "name", "identifier", "number", "count", "percent", "money", "date", "list", "table"
]
TokenKind = Literal[
    "number", "amount", "percent", "date", "time", "identifier", "address", "phone", "account", "name"
]
TokenStatus = Literal["bound", "found", "elsewhere", "unknown"]
TextSource = Literal["authored", "bound", "free"]
PluralForms = dict[str, str]
"""The pattern of a unit for each CLDR plural category: `{"one": "once a day", "other": "{} times a day"}`."""

_SLOT = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:\|\s*([^{}]*?)\s*)?\}\}")
TEMPLATE_SLOT = re.compile(
    r"(?<!\{)\{\{(?P<inside>[^{}\n]{0,200})\}\}(?!\})|(?P<malformed>\{\{[^\n]{0,80}?(?:\}\}+|$)|\}\}+|\{\{)",
    re.MULTILINE,
)
"""What is between the braces of a slot, and braces in a template that are no slot."""


class Slot(NamedTuple):
    """A place in a text that a value is written into, and the role that it must have."""

    name: str
    role: str = ""


def find_slots(text: str) -> tuple[Slot, ...]:
    """Return the slots of a text, in their order."""
    return tuple(Slot(match[1], match[2] or "") for match in _SLOT.finditer(text))


def find_malformed_slots(text: str) -> tuple[tuple[int, str], ...]:
    """Return the braces of a template that are no slot, each with its line."""
    return tuple(
        (text.count("\n", 0, match.start()) + 1, match[0])
        for match in TEMPLATE_SLOT.finditer(text)
        if match["malformed"]
    )


class DocumentValue(Authored):
    """A value that outputs may state: where it comes from, how it is written, and the words that name it."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    source: str | None = Field(default=None, alias="from")
    """A member of evidence by its class, of a step's result, or of the request: `order#/total`, `request#/order_id`."""
    cel: str | None = None
    """A CEL expression over evidence classes, steps and `request`, such as `order.total - order.discount`."""
    sum_of: str | None = None
    """A list of rows, such as `order#/items`: the value is the sum over the rows of the product of `fields`."""
    fields: tuple[Name, ...] = ()
    type: ValueType = "text"
    unit: str = ""
    """The role and unit of a number: a CLDR unit such as `day` or `kilogram`, or one that the pack defines."""
    currency: str = Field(default="", pattern=r"^([A-Z]{3})?$")
    currency_from: str | None = None
    labels: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The words by which free text names this value, for each language."""
    columns: tuple[Name, ...] = ()
    """The members of each row that a table shows, with a type where it is not text: `name`, `unit_price:money`."""
    headings: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if sum(each is not None for each in (self.source, self.cel, self.sum_of)) != 1:
            raise ValueError(f"value {self.name!r} needs exactly one of from, cel and sum_of")
        if (self.sum_of is None) != (not self.fields):
            raise ValueError(f"value {self.name!r}: sum_of and fields belong together")
        kinds = {column.partition(":")[2] or "text" for column in self.columns}
        if unknown := sorted(kinds - set(get_args(ValueType)) | kinds & {"list", "table"}):
            raise ValueError(f"value {self.name!r}: {unknown[0]!r} is not a type of a column")
        return self

    @property
    def sources(self) -> frozenset[str]:
        """The names of what it is made of: classes of evidence, steps, `request`."""
        named = {path.partition("#")[0] for path in (self.source, self.sum_of, self.currency_from) if path}
        return frozenset(named.union(references.names(self.cel or "")))

    def reads(self, sources: Collection[str]) -> bool:
        """Whether it is made of something of these names."""
        return not self.sources.isdisjoint(sources)


class Document(Authored):
    """An output that is rendered from a template: text by the pack's author with `{{ slots }}`."""

    output: Name
    template: str
    """The text of the template; in a pack folder, the path of its file."""
    language: str = Field(default="", pattern=r"^([a-z]{2,3})?$")
    """The language that it is written in: it is for runs in that language alone. Empty for all that no other is for."""


class TableColumn(Shape):
    """A column of a table: the member of each row, its heading in the language of the text, and how a cell is written."""

    name: str
    heading: str = ""
    type: ValueType = "text"


class KnownValue(Shape):
    """A value that a text may be held against, with its source."""

    name: str = ""
    """The name of its slot; empty for a member of evidence that the decision does not list."""
    value: Json = None
    """A scalar in its normal form, a list, or rows; None where the source has no such member."""
    type: ValueType = "text"
    unit: str = ""
    currency: str = ""
    labels: tuple[str, ...] = ()
    """The words that name it in the language of the text."""
    pointer: str
    """Where it comes from: the evidence, step or `request`, and the JSON Pointer in it."""
    trust: Trust = Trust.UNTRUSTED
    columns: tuple[TableColumn, ...] = ()
    """For a table: what it shows of each row."""


class TextPiece(Shape):
    """A range of a rendered text, and who wrote it."""

    start: int
    end: int
    source: TextSource
    slot: str = ""
    pointer: str = ""
    """For a bound value: where it comes from."""
    in_template: bool = False
    """For a bound value: whether the pack's author has put it where it is, in a template or declared section."""


class TextToken(Shape):
    """Something in a text that can be looked up: a number, a date, an address, a name."""

    start: int
    end: int
    text: str
    kind: TokenKind
    value: str
    """Its normal form: decimal digits, ISO dates, folded identifiers and names."""
    unit: str = ""
    """The unit or currency that is written with it."""


class SlotFault(Shape):
    """A slot that could not be filled."""

    start: int
    end: int
    code: Literal["unknown_slot", "missing_value", "slot_role_mismatch", "untrusted_value", "malformed_slot"]
    message: str


class ReadText(Shape):
    """One text of the outputs as it was rendered and read: a fact, so that replay depends on no library's version."""

    pointer: str
    """Where the text is in the outputs: a JSON Pointer."""
    text: str
    pieces: tuple[TextPiece, ...] = ()
    tokens: tuple[TextToken, ...] = ()
    faults: tuple[SlotFault, ...] = ()
    language: str = ""
    """The language that it was read in; empty where that is not known or not supported."""


class TokenVerdict(Shape):
    """What the screen says about one token."""

    location: str
    """A JSON Pointer into the outputs with a range of characters."""
    token: TextToken
    status: TokenStatus
    sources: tuple[str, ...] = ()
    """Where the value was found, in its role or in another one."""
    slot: str = ""
    """The only declared value that the sentence names, where the token can be replaced by it."""


class MissingPart(Shape):
    """Something that a text has to hold and does not."""

    kind: Literal["value", "rows", "section", "empty_section", "slot"]
    name: str
    """The name of the value, the title of the section, or a slot that cannot be filled, as it is written."""
    message: str
    location: str = ""
    """Where it belongs: a JSON Pointer into the outputs."""


class UnjudgedText(Shape):
    """Free text of an output: only tests, a model with a known error rate, or a person may vouch for it."""

    location: str
    """A JSON Pointer into the outputs."""
    reason: Literal["free", "language", "empty"]
    """Why text is unjudged: only its meaning could decide, its language is not the configured one, or it is empty."""

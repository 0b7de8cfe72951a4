"""A text or a value, read for what can be checked: its words, numbers, dates, names, identifiers, and whether it says no.

Evidence is cut into statements: sentences and their clauses, rows of tables, members of objects. A statement knows the
context that it stands in, since `{"item": "lamp", "quantity": 2}` says something about lamps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from tercet.contracts import pointer
from tercet.contracts.references import Place
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.totals import key_words
from tercet.quality.grounding import dates, lexicon, names, quantities, units
from tercet.quality.grounding.dates import Date, Time
from tercet.quality.grounding.names import Identifier, Name
from tercet.quality.grounding.quantities import Quantity

_WORD = re.compile(r"[^\W\d_]+(?:[’'-][^\W\d_]+)*")
_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!Mr\.)(?<!Ms\.)(?<!Dr\.)(?<!Mrs\.)(?<!No\.)(?<!ca\.)\s+(?=[\"“(A-ZÀ-Þ0-9])|\n+"
)
_CLAUSE = re.compile(r"[;,]\s+(?!\d{4}\b)|\s+(?:but|while|whereas)\s+|\s+and\s+(?!\d|[A-Z])")
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|has|have|had|can|could|will|would|shall|should|must|may|might|do|does|did|cannot|"
    r"[a-z]+(?:n't|n’t)|[a-z]{2,}ed|wrote|went|fell|rose|grew|met|won|began|ran|held|came|took|sold|lost|gave|sent|paid|"
    r"spoke|lies|lives|costs|reports|plays|runs|ends|begins|totals|weighs|lasts|holds|covers|expires|listens|affects)\b|[:=]"
)
_NOT_ONLY = re.compile(r"\bnot (?:only|just|merely)\b", re.IGNORECASE)
_NO_LONGER = re.compile(r"\bno longer\b", re.IGNORECASE)
_IDIOMS = (
    (re.compile(r"\b(?:it is )?not true that\b", re.IGNORECASE), "not"),
    (re.compile(r"\bsold out\b|\bout of stock\b", re.IGNORECASE), "not in stock"),
    (re.compile(r"\b(go|goes|going|went|gone) up\b", re.IGNORECASE), "rose"),
    (re.compile(r"\b(go|goes|going|went|gone) down\b", re.IGNORECASE), "fell"),
)
_IDENTIFYING = lexicon.word_set("id name number code sku item type kind title account customer order")
MAX_SENTENCE = 2_000
"""A longer sentence is read up to here: some patterns look ahead, and take the square of the length."""
MAX_TEXT = 200_000
MAX_STATEMENTS = 4_000
"""More of one piece of evidence is not looked at."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a text says, as far as it can be compared."""

    text: str
    words: frozenset[str]
    """The words that carry meaning, without their endings."""
    signs: dict[str, int]
    """Which of them stand for their opposites."""
    negated: tuple[str, ...]
    """The word that each `not`, or the like, is about; empty where it is about the whole."""
    quantities: tuple[Quantity, ...]
    dates: tuple[Date, ...]
    times: tuple[Time, ...]
    names: tuple[Name, ...]
    identifiers: tuple[Identifier, ...]
    verb: int
    """Where its first verb stands: what comes before it says what the sentence is about."""
    is_label: bool = False
    """Whether it is `label: value`."""
    label: frozenset[str] = frozenset()
    """The words of the label or of a member's name, those without a meaning of their own too."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A part of the evidence, with what it belongs to."""

    reading: Reading
    source: int
    """The number of the evidence."""
    pointer: str = ""
    context: Reading | None = None
    """What stands around it and says what it is about."""
    is_clause: bool = False
    value: Any = None
    """The value of a member, where it is one."""
    beside: str = ""
    """The short texts of the members beside it: what a count is one of."""
    is_computed: bool = False
    """Whether it was worked out of the evidence: what items come to."""
    is_lenient: bool = False
    """Whether it bears claims out, and contradicts none: other things may be called so as well."""

    @cached_property
    def known(self) -> frozenset[str]:
        """The words of the statement and of what it belongs to, names among them."""
        readings = (self.reading, *((self.context,) if self.context else ()))
        words = {word for reading in readings for word in reading.words}
        return frozenset(words) | {
            lexicon.concept(word)[0] for reading in readings for name in reading.names for word in name.words
        }


@lru_cache(maxsize=4_096)
def read(text: str) -> Reading:
    """What a text says."""
    text = text[:MAX_SENTENCE]
    for pattern, plain in _IDIOMS:
        text = pattern.sub(plain, text)
    found_ids = tuple(names.find_identifiers(text))
    rest = _blank(text, found_ids)
    found_dates = dates.find_dates(rest)
    rest = _blank(rest, found_dates)
    found_times = tuple(dates.find_times(rest))
    rest = _blank(rest, found_times)
    found_quantities = quantities.find_quantities(rest)
    years = dates.find_years(_blank(rest, [q for q in found_quantities if q.measure or q.is_vague]))
    found_quantities = [q for q in found_quantities if not any(y.start <= q.start < y.end for y in years)]
    rest = _blank(_blank(rest, years), [q for q in found_quantities if not q.is_vague])
    found_names = tuple(names.find_names(rest))
    verb = _VERB.search(text)
    words, signs = _words(rest, found_names)
    return Reading(
        text=text,
        words=words,
        signs=signs,
        negated=_negated(text, found_quantities),
        quantities=tuple(found_quantities),
        dates=tuple(sorted((*found_dates, *years), key=lambda date: date.start)),
        times=found_times,
        names=found_names,
        identifiers=found_ids,
        verb=verb.start() if verb else len(text),
        is_label=bool(verb and verb[0] in ":="),
        label=label_of(key_words(text[: verb.start()])) if verb and verb[0] in ":=" else frozenset(),
    )


def _blank(text: str, found: Any) -> str:
    for item in found:
        text = text[: item.start] + " " * (item.end - item.start) + text[item.end :]
    return text


def _words(text: str, found: tuple[Name, ...]) -> tuple[frozenset[str], dict[str, int]]:
    inside = {at for name in found if name.is_certain for at in range(name.start, name.end)}
    signs: dict[str, int] = {}
    for match in _WORD.finditer(text):
        word = match[0].casefold().replace("’", "'")
        for part in word.split("-") if match.start() not in inside else ():
            if _is_meaningful(part):
                root, sign = lexicon.concept(part)
                signs[root] = sign
    return frozenset(signs), signs


def _is_meaningful(word: str) -> bool:
    is_light = word in lexicon.STOP or word in lexicon.TITLES or word in quantities.WORDS
    return len(word) > 1 and not is_light and not word.endswith("n't")


def _negated(text: str, found: list[Quantity]) -> tuple[str, ...]:
    """The word that each negation is about; an empty one where it is about the whole."""
    text = _NO_LONGER.sub("not", _NOT_ONLY.sub(" ", text))
    words = [match[0].casefold().replace("’", "'") for match in _WORD.finditer(text)]
    scopes = [_scope(words[at + 1 :]) for at in range(len(words)) if _negates(words, at)]
    return (*scopes, *("" for quantity in found if quantity.value == 0 and not quantity.measure))


def _negates(words: list[str], at: int) -> bool:
    word, after = words[at], words[at + 1] if at + 1 < len(words) else ""
    if word == "nor" and "neither" in words:
        return False
    return (
        word in lexicon.NEGATORS
        or word.endswith("n't")
        or (word in lexicon.FAILING and after in lexicon.LINKS)
    )


def _scope(after: list[str]) -> str:
    return next((lexicon.concept(word)[0] for word in after if word not in lexicon.STOP), "")


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where the sentences of a text begin and end."""
    start = 0
    for match in [*_SENTENCE.finditer(text), None]:
        end = match.start() if match else len(text)
        piece = text[start:end]
        if piece.strip():
            left = start + len(piece) - len(piece.lstrip())
            yield left, left + len(piece.strip())
        start = match.end() if match else end


def clauses(text: str) -> list[str]:
    """The clauses of a sentence; one that cannot be cut is a clause itself."""
    return [part.strip() for part in _CLAUSE.split(text) if part.strip()]


def state(content: Any, source: int, topic: str = "") -> list[Statement]:
    """The statements of one piece of evidence; `topic` is what it is about as a whole."""
    found: list[Statement] = []
    for statement in _walk(content, (), source, topic):
        found.append(statement)
        if len(found) >= MAX_STATEMENTS:
            break
    return found


def _walk(
    value: Any, place: Place, source: int, context: str, currency: str | None = None
) -> Iterator[Statement]:
    if (members := as_object(value)) is not None:
        around = " . ".join(part for part in (context, describe(members)) if part)
        currency = currency_in(members) or currency
        beside = " . ".join(text for text in members.values() if isinstance(text, str) and len(text) <= 120)
        for key, member in members.items():
            if isinstance(member, dict | list):
                about = f"{around} . {' '.join(key_words(key))}"
                yield from _walk(member, (*place, key), source, about, currency)
            else:
                found = _member(key, member, (*place, key), source, around, currency)
                yield from (replace(said, beside=beside) for said in found)
    elif (items := as_list(value)) is not None:
        for index, item in enumerate(items):
            yield from _walk(item, (*place, index), source, context, currency)
    elif isinstance(value, str):
        yield from _text(value, place, source, context)
    elif value is not None:
        yield from _member("", value, place, source, context, None)


def describe(members: JsonObject) -> str:
    """What an object says about itself: its short texts, and the names of those that say what it is.

    A date is not among them, nor are other names: they are about something else than the member beside them.
    """
    said: list[str] = []
    for key, member in members.items():
        if isinstance(member, str) and len(member) <= 120 and not _is_dated(member):
            words = key_words(key)
            said.append(f"{' '.join(words)} {member}" if words and words[-1] in _IDENTIFYING else member)
    return " . ".join(said)


def _is_dated(text: str) -> bool:
    return dates.may_have_dates(text) and bool(read(text).dates)


def currency_in(members: JsonObject) -> str | None:
    """The currency that an object names for its sums."""
    named = [
        value for key, value in members.items() if "currency" in key_words(key) and isinstance(value, str)
    ]
    return units.currency_of(named[0]) if len(named) == 1 else None


def _member(
    key: str, value: Any, place: Place, source: int, around: str, currency: str | None
) -> Iterator[Statement]:
    words = key_words(key)
    label = " ".join(words)
    context = read(around) if around else None
    if isinstance(value, str) and len(value) > 60:
        yield from _text(value, place, source, f"{around} . {label}")
        return
    if isinstance(value, bool) or value is None:
        reading = _switch(label, is_on=bool(value))
    elif isinstance(value, int | float):
        reading = numbered(words, value, currency)
    else:
        reading = replace(read(f"{label}: {value}"), is_label=True)
    reading = replace(reading, label=label_of(words))
    yield Statement(reading=reading, source=source, pointer=pointer.join(place), context=context, value=value)


def label_of(words: list[str]) -> frozenset[str]:
    """The words of a member's name, without its unit."""
    kept = words[:-1] if len(words) > 1 and units.unit_of_key(words)[0] else words
    return frozenset(lexicon.concept(word)[0] for word in kept)


def _switch(label: str, *, is_on: bool) -> Reading:
    """A member that is true or false: `locked: false` says that something is not locked, and not enabled."""
    reading = read(label)
    words = {*reading.words, *(lexicon.concept(word)[0] for word in ("enabled", "active"))}
    return replace(reading, words=frozenset(words), negated=() if is_on else ("",), is_label=True)


def numbered(words: list[str], value: float, currency: str | None) -> Reading:
    """What a member says that is a number."""
    measure, factor = units.unit_of_key(words)
    label = " ".join(words[:-1] if measure else words)
    if not measure and units.is_money_key(words):
        measure = currency or (units.MONEY if units.is_sum_key(words) else "")
    text = f"{label}: {value}"
    at = len(label) + 2
    quantity = Quantity(value * factor, measure, at, len(text))
    negated = ("",) if value == 0 and measure in ("", units.MONEY) else ()
    return replace(
        read(label),
        text=text,
        quantities=(quantity,),
        dates=(),
        negated=negated,
        is_label=True,
        verb=len(label),
    )


def _text(text: str, place: Place, source: int, context: str) -> Iterator[Statement]:
    where = pointer.join(place)
    rows = _table(text)
    if rows is not None:
        for row in rows:
            yield from (replace(said, pointer=where) for said in _walk(row, (), source, context))
        return
    around = read(context) if context else None
    for start, end in sentences(text[:MAX_TEXT]):
        sentence = text[start:end]
        yield Statement(reading=read(sentence), source=source, pointer=where, context=around)
        parts = clauses(sentence)
        if len(parts) > 1:
            for part in parts:
                yield Statement(
                    reading=read(part), source=source, pointer=where, context=around, is_clause=True
                )


def _table(text: str) -> list[JsonObject] | None:
    """The rows of a Markdown or comma-separated table, each as an object; None if the text is no table."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if len(lines) >= 3 and lines[0].startswith("|") and set(lines[1]) <= set("|-: "):
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]
    elif (
        len(lines) >= 2
        and lines[0].count(",") >= 1
        and all(line.count(",") == lines[0].count(",") and ", " not in line for line in lines)
    ):
        cells = [[cell.strip() for cell in line.split(",")] for line in lines]
    else:
        return None
    header, rows = cells[0], cells[1:]
    return [_row(header, row) for row in rows]


def _row(header: list[str], row: list[str]) -> JsonObject:
    if len(header) == 2 and header[1].casefold() in ("value", "values", "amount"):
        return {row[0]: row[1]} if len(row) > 1 else {}
    return dict(zip(header, row, strict=False))

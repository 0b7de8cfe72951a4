"""The screen: holds what a text says against what is known. It refuses, and never says that a sentence is right.

A token is `found` where a trusted value equals it in its role: the unit or currency agrees, and of the labels in its
context the nearest is one of that value's. In a row of a list the name of the row is a label of all its values.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import NamedTuple

from tercet.contracts.documents import (
    KnownValue,
    ReadText,
    TextPiece,
    TextToken,
    TokenKind,
    TokenVerdict,
    ValueType,
)
from tercet.contracts.mode import Trust
from tercet.quality.contexts import Range, Segment, Segments
from tercet.quality.labels import (
    MAX_DISTANCE,
    MAX_INSIDE,
    MAX_PHRASE,
    LabelIndex,
    NearestLabels,
    Occurrence,
    Phrase,
)
from tercet.quality.series import pair_series
from tercet.quality.values import CLDR_UNITS, NUMERIC, SIZES, UNREAD
from tercet.quality.verification.places import Location
from tercet.quality.verification.roles import owner_of
from tercet.quality.wording import is_change, names_change, names_plainly
from tercet.quality.words import alphanumeric, bare_word, fold, same_word, words_of

_MAX_SOURCES = 10
_NATIONAL_DIGITS = 9
"""Digits of a telephone number with its area code."""
_CLOCK = re.compile(r"(?:^|T| )\d{1,2}(?::\d{2}|\s?h)")
_TIME = re.compile(r"(\d{1,2})(?::|\s?h\s?)(\d{2})?(?!\d)")
Names = frozenset[Phrase]
_ROW = re.compile(r"(.*/(?:0|[1-9]\d*))/[^/]*(?:/.*)?")
_TYPES: dict[str, frozenset[ValueType]] = {
    "number": frozenset((*NUMERIC, "identifier")),
    "amount": frozenset({"money", "count", "number"}),
    "percent": frozenset({"percent", "number"}),
    "date": frozenset({"date"}),
    "time": frozenset({"date", "text"}),
    "identifier": frozenset({"identifier", "text"}),
    "address": frozenset({"identifier", "text"}),
    "phone": frozenset({"identifier", "text"}),
    "account": frozenset({"identifier", "text"}),
    "name": frozenset({"name", "text"}),
}
_SHAPES = {
    "address": re.compile(r"@|\.\w"),
    "phone": re.compile(r"(?:\d\D{0,3}){7}"),
    "account": re.compile(r"[A-Z]{2}\d{2}"),
    "identifier": re.compile(r"\d"),
}
"""What a text or an identifier looks like that a token of some kind could be."""


def screen(read: ReadText, known: Sequence[KnownValue]) -> tuple[TokenVerdict, ...]:
    """Return a verdict on each token of a text that the pack's author has not written."""
    values = [value for value in known if value.value is not None]
    return tuple(_Screening(read, values).verdicts())


def is_arranged(piece: TextPiece) -> bool:
    """Return whether a value stands where a plan, tool or model has put its slot."""
    return bool(piece.slot) and not piece.in_template


class _Screening:
    """One text held against the known values."""

    def __init__(self, read: ReadText, known: Sequence[KnownValue]) -> None:
        self._read, self._known = read, known
        spans = [(token.start, token.end) for token in read.tokens]
        self._piece_starts = [piece.start for piece in read.pieces]
        written = [label.rstrip() for value in known for label in value.labels]
        abbreviations = {words_of(label)[-1:] for label in written if label.endswith(".")}
        self._segments = Segments(read.text, spans, abbreviations)
        self._forms = _by_form(known)
        self._rows = [_row_of(value.pointer) for value in known]
        self._phrases = [frozenset(map(self._phrase, value.labels)) for value in known]
        self._labelled: dict[Phrase, list[int]] = {}
        self._row_names: dict[Phrase, list[str]] = {}
        for at, value in enumerate(known):
            for phrase in self._phrases[at]:
                self._labelled.setdefault(phrase, []).append(at)
            if self._rows[at] and value.type in ("text", "name", "identifier"):
                self._row_names.setdefault(words_of(str(value.value))[:MAX_PHRASE], []).append(self._rows[at])
        self._row_labels = {
            phrase for at, row in enumerate(self._rows) if row for phrase in self._phrases[at]
        }
        listed = {phrase for at, value in enumerate(known) if value.name for phrase in self._phrases[at]}
        self._listed = {phrase for phrase in self._labelled if any(part in listed for part in _parts(phrase))}
        # Hostile texts repeat themselves: what depends on words alone is looked up once.
        self._fits: Callable[[Phrase, str, str], bool] = cache(self._phrase_fits)
        self._equal: Callable[[TokenKind, str, str, str], _Equal] = cache(self._find_equal)
        self._is_strange: Callable[[tuple[Range, ...]], bool] = cache(self._is_strange_row)
        self._is_of_row: Callable[[str], bool] = cache(self._is_of_row_name)
        self._in_role: Callable[[_Equal, Names, Names], tuple[int, ...]] = cache(self._find_in_role)
        self._slots: Callable[[Phrase, str, str], frozenset[str]] = cache(self._find_slots)
        labels, names = self._find_labels(self._labelled), self._find_labels(self._row_names)
        self._labels = NearestLabels(read.text, labels, read.tokens)
        self._names = NearestLabels(read.text, names, read.tokens)
        self._paired = pair_series(read.text, labels, read.tokens, self._label_fits)
        self._paired_rows = pair_series(read.text, names, read.tokens, lambda _, __: True)

    def _phrase(self, label: str) -> Phrase:
        return tuple(map(bare_word, words_of(label)))

    def _find_labels(self, phrases: Iterable[Phrase]) -> list[Occurrence]:
        read = self._read
        found = LabelIndex(phrases, read.language).find(read.text, read.tokens)
        starts = [token.start for token in read.tokens]
        return [each for each in found if not self._is_interrupted(each, starts)]

    def _is_interrupted(self, label: Occurrence, starts: Sequence[int]) -> bool:
        """Return whether there is a token between the words of a label that it could name itself, or more than one."""
        inside = self._read.tokens[bisect_left(starts, label.start) : bisect_left(starts, label.end)]
        between = [token for token in inside if token.end < label.end and token.start > label.start]
        return len(between) > 1 or any(self._label_fits(label, token) for token in between)

    def verdicts(self) -> Iterator[TokenVerdict]:
        written_by = [(token, self._authors(token)) for token in self._read.tokens]
        free = [token for token, by in written_by if "free" in by]
        found = self._find_all(free)
        judged = [
            (token, self._verdict(token, found[token.start]) if "free" in by else self._bound(token))
            for token, by in written_by
            if by != {"authored"}
        ]
        claimed = Counter((self._segments.at(token.start).start, verdict.slot) for token, verdict in judged)
        stated = {
            (self._segments.at(token.start).start, source)
            for token, verdict in judged
            if verdict.status == "found"
            for source in verdict.sources
        }
        pointers = {value.name: value.pointer for value in self._known if value.name}
        refused = Counter(
            self._segments.at(token.start).start
            for token, verdict in judged
            if verdict.status in ("elsewhere", "unknown")
        )
        for token, verdict in judged:
            where = self._segments.at(token.start).start
            # A second one may be a part of the first that was not read as such: 1 489,90 €.
            is_taken = (
                refused[where] > 1
                or claimed[where, verdict.slot] > 1
                or (where, pointers.get(verdict.slot)) in stated
            )
            yield verdict.model_copy(update={"slot": ""}) if verdict.slot and is_taken else verdict

    def _find_all(self, tokens: Sequence[TextToken]) -> dict[int, tuple[int, ...]]:
        """Return the values that each token states in their role, by where the token begins.

        A label that has named one token is not there for another that is further from it: those that have found nothing
        look again at what is left. And a label names no token while a nearer one like it is wrong.
        """
        first = {token.start: self._find(token, None) for token in tokens}
        missed = {start for start, (found, _) in first.items() if not found}
        used: dict[str, dict[Occurrence, int]] = {}
        for token in tokens:
            found, labels = first[token.start]
            segment = self._segments.at(token.start)
            own = [each for each in labels if segment.start <= each.start < segment.end]
            is_paired = token.start in self._paired
            if not is_paired and any(
                nearer.start in missed for label in own for nearer in self._labels.nearer(label, token)
            ):
                first[token.start] = ((), [])
                continue
            for label in self._used(labels, found):
                by_kind = used.setdefault(self._kind(token), {})
                by_kind[label] = min(self._labels.distance(label, token), by_kind.get(label, MAX_DISTANCE))
        again = [token for token in tokens if token.start in missed]
        return self._without_repetitions(
            {start: found for start, (found, _) in first.items()}
            | {token.start: self._find(token, used.get(self._kind(token), {}))[0] for token in again}
        )

    def _kind(self, token: TextToken) -> str:
        """The tokens that a label is used up by: one that names a date may name a time of day besides."""
        return "time" if token.kind == "time" else "other"

    def _authors(self, token: TextToken) -> set[str]:
        """Return who wrote the characters of a token, without the space in it: no one, where it is made of two values."""
        found: list[TextPiece] = []
        for piece in self._read.pieces[max(bisect_right(self._piece_starts, token.start) - 1, 0) :]:
            if piece.start >= token.end:
                break
            if self._read.text[max(piece.start, token.start) : min(piece.end, token.end)].strip():
                found.append(piece)
        is_joined = len(found) > 1 and any(is_arranged(piece) for piece in found)
        return {"free"} if is_joined or not found else {piece.source for piece in found}

    def _bound(self, token: TextToken) -> TokenVerdict:
        return TokenVerdict(location=self._place(token), token=token, status="bound")

    def _verdict(self, token: TextToken, found: tuple[int, ...]) -> TokenVerdict:
        equal = self._equal(token.kind, token.value, token.unit, token.text)
        return TokenVerdict(
            location=self._place(token),
            token=token,
            status="found" if found else "elsewhere" if equal.values else "unknown",
            sources=tuple(
                dict.fromkeys(self._known[at].pointer for at in found or equal.values[:_MAX_SOURCES])
            ),
            slot="" if found else self._named_slot(token),
        )

    def _place(self, token: TextToken) -> str:
        return str(Location(self._read.pointer, token.start, token.end))

    def _find(
        self, token: TextToken, used: Mapping[Occurrence, int] | None
    ) -> tuple[tuple[int, ...], list[Occurrence]]:
        """Return the values in their role that equal a token, and the labels that name them."""
        equal = self._equal(token.kind, token.value, token.unit, token.text)
        segment = self._segments.at(token.start)
        if token.value.startswith("-") and not self._is_sentence(segment):
            signed = equal.agreeing
        else:
            signed = tuple(at for at in equal.agreeing if not _is_negation(self._known[at], token))
        if not signed:
            return (), []
        equal = equal._replace(agreeing=signed)
        in_column = self._names.inside(segment.column) if segment.column else []
        rows = self._paired_rows.get(token.start)
        rows = self._named_rows(token, segment) if rows is None else rows
        nearest = self._paired.get(token.start)
        if nearest is None:
            nearest = self._nearest(token, segment, is_in_row=bool(rows), used=used)
        elif not nearest:
            return (), []
        row_names, labels = (
            frozenset(each.phrase for each in names) for names in (rows or in_column, nearest)
        )
        found = self._in_role(equal, row_names, labels)
        if not row_names and self._is_strange(segment.row):
            found = tuple(at for at in found if not self._rows[at])
        if found and self._is_change(token):
            found = tuple(at for at in found if names_change(self._known[at]))
        return found, [each for each in nearest if any(each.phrase in self._phrases[at] for at in found)]

    def _is_sentence(self, segment: Segment) -> bool:
        """Return whether a segment is a whole sentence. Elsewhere a minus is often how a deduction is written."""
        return self._read.text[segment.start : segment.end].rstrip().endswith((".", "!", "?", "。", "।"))

    def _used(self, labels: Iterable[Occurrence], found: tuple[int, ...]) -> Iterator[Occurrence]:
        """Yield some labels, and those inside them that name nothing else than what was found."""
        for label in labels:
            yield label
            for each in self._labels.inside((label.start, label.end)):
                if set(self._labelled[each.phrase]) <= set(found):
                    yield each

    def _find_equal(self, kind: TokenKind, value: str, unit: str, text: str) -> _Equal:
        """Return the known values that equal a token, and those that could be meant by it."""
        token = TextToken(start=0, end=0, text=text, kind=kind, value=value, unit=unit)
        found = dict.fromkeys(at for form in _forms_of_token(token) for at in self._forms.get(form, ()))
        # A right number with the unit of another kind, `20 €` for 20 %, is known in another role.
        types = NUMERIC if kind in ("amount", "percent") else _TYPES[kind]
        known = {at: self._known[at] for at in found if self._known[at].type in types}
        equal = [at for at, each in known.items() if _is_equal(each, token)]
        trusted = [at for at in equal if known[at].trust is Trust.TRUSTED and _unit_agrees(known[at], token)]
        telling = [at for at in trusted if unit and known[at].unit == unit not in CLDR_UNITS]
        telling += [at for at in trusted if kind == "name" and known[at].name]
        telling += [at for at in trusted if kind == "time" and known[at].type == "text"]
        is_quotation = kind == "name" and any(char.isdigit() for char in value)
        return _Equal(tuple(equal), tuple(trusted), tuple(telling), is_quotation)

    def _find_in_role(self, equal: _Equal, row_names: Names, labels: Names) -> tuple[int, ...]:
        """Return those of some equal values that the context names; of many the first."""
        if equal.is_quotation:
            return equal.agreeing[:_MAX_SOURCES]
        rows = {row for name in row_names for row in self._row_names[name]}
        in_rows = [at for at in equal.agreeing if self._rows[at] in rows]
        columns = labels & self._row_labels
        if in_rows:
            return tuple(at for at in in_rows if not columns or columns & self._phrases[at])[:_MAX_SOURCES]
        named = [at for at in equal.agreeing if labels & self._phrases[at] and not (rows and self._rows[at])]
        # A label of a listed value is that value's alone: the same member of another record is not meant by it.
        found = [at for at in named if self._is_listed(at) or not labels & self._listed]
        # A unit of the pack says what is counted, as a label does; a listed name needs none.
        return tuple(found if found or labels else equal.telling)[:_MAX_SOURCES]

    def _is_change(self, token: TextToken) -> bool:
        segment = self._segments.at(token.start)
        is_amount = token.kind in ("number", "amount", "percent")
        return is_amount and is_change(
            self._read.text, (token.start, token.end), (segment.start, segment.end)
        )

    def _is_strange_row(self, cells: tuple[Range, ...]) -> bool:
        """Return whether a row of a table has words in it, but no label and no word of the name of any known row."""
        if not self._row_names or any(self._labels.inside(cell) for cell in cells):
            return False
        words = [word for start, end in cells for word in words_of(self._read.text[start:end])]
        written = [word for word in words if not any(char.isdigit() for char in word)]
        return bool(written) and not any(self._is_of_row(word) for word in written)

    def _is_of_row_name(self, word: str) -> bool:
        return any(same_word(word, known) for name in self._row_names for known in name)

    def _without_repetitions(self, found: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        """Return what was found, without the values of a listed row that an earlier row of the same table states."""
        stated: dict[tuple[int, tuple[int, ...]], set[int]] = {}
        once: dict[int, tuple[int, ...]] = {}
        for start, values in sorted(found.items()):
            line = self._segments.at(start).line
            if line and values and all(self._rows[at] for at in values):
                lines = stated.setdefault((line[0], values), set())
                lines.add(line[1])
                once[start] = () if len(lines) > len(values) else values
            else:
                once[start] = values
        return once

    def _is_listed(self, at: int) -> bool:
        """Return whether a value is one that the decision lists, or says how many rows a listed one has."""
        return bool(self._known[at].name) or self._known[at].pointer.endswith("/length")

    def _named_rows(self, token: TextToken, segment: Segment) -> list[Occurrence]:
        """Return the names of rows nearest in the sentence, or in the row of the table, or in the line before a list."""
        own = self._names.nearest(token, (segment.start, segment.end), lambda _, __: True)
        beside = [] if own else [each for cell in segment.row for each in self._names.inside(cell)]
        is_led = segment.lead and not own and not beside
        return (
            self._names.nearest(token, segment.lead, lambda _, __: True)
            if segment.lead and is_led
            else own or beside
        )

    def _nearest(
        self, token: TextToken, segment: Segment, *, is_in_row: bool, used: Mapping[Occurrence, int] | None
    ) -> list[Occurrence]:
        """Return the nearest labels of values that could be the token's."""
        cells = [segment.column] if is_in_row else [*segment.row, segment.column]
        if own := self._labels.nearest(token, (segment.start, segment.end), self._label_fits, used):
            return own
        for cell in cells:
            if cell and (
                named := [each for each in self._labels.inside(cell) if self._label_fits(each, token)]
            ):
                longest = max(each.end - each.start for each in named)
                return [each for each in named if each.end - each.start == longest]
        return self._labels.nearest(token, segment.lead, self._label_fits) if segment.lead else []

    def _label_fits(self, label: Occurrence, token: TextToken) -> bool:
        return self._fits(label.phrase, token.kind, token.unit)

    def _phrase_fits(self, phrase: Phrase, kind: str, unit: str) -> bool:
        """Return whether a label names a value that a token of this kind and unit could be."""
        return any(self._could_be(self._known[at], kind, unit) for at in self._labelled.get(phrase, ()))

    def _could_be(self, value: KnownValue, kind: str, unit: str) -> bool:
        if kind == "time":
            return bool(_CLOCK.search(str(value.value)))
        return _could_be(value, kind, unit)

    def _named_slot(self, token: TextToken) -> str:
        """Return the only listed value that a token could be meant to be: its label stands directly beside it.

        In a row its label may stand in another cell, or over its column, if the token is alone in its own.
        """
        if self._is_change(token):
            return ""
        segment = self._segments.at(token.start)
        own = (segment.start, segment.end)
        parts = [own, *segment.row, *filter(None, (segment.column,))]
        labels = [self._labels.inside(part) for part in parts]
        if any(len(part) == MAX_INSIDE for part in labels):
            return ""  # there may be more, and with them another value
        phrases = {each.phrase for part in labels for each in part}
        named = {name for phrase in phrases for name in self._slots(phrase, token.kind, token.unit)}
        slots = {value.name: value for value in self._known if value.name}
        name = named.pop() if len(named) == 1 else ""
        if not name or not _is_unit_own(slots[name], token):
            return ""
        fitting = [[each for each in part if self._label_fits(each, token)] for part in labels]
        if not any(fitting[0]):
            is_alone = not words_of(
                self._read.text[own[0] : token.start] + self._read.text[token.end : own[1]]
            )
            return name if is_alone else ""
        owner = frozenset(words_of(owner_of(slots[name].pointer)))
        is_plain = any(
            names_plainly(self._read.text, (each.start, each.end), token, own, owner) for each in fitting[0]
        )
        return name if is_plain else ""

    def _find_slots(self, phrase: Phrase, kind: str, unit: str) -> frozenset[str]:
        values = (self._known[at] for at in self._labelled.get(phrase, ()))
        return frozenset(value.name for value in values if value.name and self._could_be(value, kind, unit))


class _Equal(NamedTuple):
    """Where the values that equal a token are in the list of known values."""

    values: tuple[int, ...]
    agreeing: tuple[int, ...]
    """Those that are trusted, in a unit that agrees."""
    telling: tuple[int, ...]
    """Those that need no label: their unit is the pack's own, or they are listed names."""
    is_quotation: bool


def _parts(phrase: Phrase) -> Iterator[Phrase]:
    """Yield a phrase, and the words in it that stand side by side."""
    short = phrase[:MAX_PHRASE]
    for start in range(len(short)):
        yield from (short[start:end] for end in range(start + 1, len(short) + 1))


def _row_of(pointer: str) -> str:
    match = _ROW.fullmatch(pointer.rpartition("#")[2])
    return f"{pointer.rpartition('#')[0]}#{match[1]}" if match else ""


# Equality


def _by_form(known: Sequence[KnownValue]) -> dict[str, list[int]]:
    """Return where values are in the list, by each form that a token may have them in."""
    found: dict[str, list[int]] = {}
    for at, value in enumerate(known):
        for form in dict.fromkeys(_forms_of_value(value)):
            found.setdefault(form, []).append(at)
    return found


def _forms_of_value(value: KnownValue) -> Iterator[str]:
    text = str(value.value)
    if value.type in NUMERIC:
        yield f"n:{Decimal(text).normalize():f}"
        yield from _measures(text, value.unit)
    elif value.type == "date":
        yield from (f"d:{text[:10]}", f"d:-{text[4:10]}", f"d:{text[:7]}", f"t:{text[11:16]}")
    elif value.type == "name":
        yield from (f"w:{word}" for word in words_of(text))
    elif value.type in ("identifier", "text"):
        digits = re.sub(r"\D", "", text)
        yield from (f"i:{alphanumeric(text)}", f"a:{_address(text)}", f"q:{' '.join(words_of(text))}")
        if digits == text and not text.startswith("0"):
            yield f"n:{text}"
        if len(digits) >= 7:
            yield f"p:{digits[-6:]}"
        if clock := _TIME.match(text):
            yield f"t:{clock[1].rjust(2, '0')}:{clock[2] or '00'}"


def _measures(number: str, unit: str) -> Iterator[str]:
    if unit in SIZES:
        measure, size = SIZES[unit]
        yield f"m:{measure}:{(Decimal(number) * size).normalize():f}"


def _forms_of_token(token: TextToken) -> Iterator[str]:
    match token.kind:
        case "number" | "amount" | "percent":
            yield f"n:{token.value}"
            if token.kind != "number" and token.unit not in CLDR_UNITS:
                yield f"n:{_negated(token.value)}"  # a discount is often written with a minus
            if token.kind == "number":
                yield f"i:{token.value}"
            elif token.value != UNREAD:
                yield from _measures(token.value, token.unit)
        case "date":
            yield f"d:{token.value}"
        case "time":
            yield f"t:{token.value}"
        case "name":
            yield from (f"w:{word}" for word in token.value.split()[:1])
            yield f"q:{token.value}"
        case "address":
            yield f"a:{_address(token.value)}"
        case "phone":
            yield f"p:{token.value[-6:]}"
        case "identifier" | "account":
            yield f"i:{token.value}"


def _negated(number: str) -> str:
    return number[1:] if number.startswith("-") else f"-{number}"


def _address(text: str) -> str:
    return re.sub(r"^(?:https?://)?(?:www\.)?|/$", "", fold(text.strip()))


def _is_equal(value: KnownValue, token: TextToken) -> bool:
    """Return whether a value with a form of a token is the same: only telephone numbers and names have to be compared more."""
    if token.kind == "phone":
        known, said = (re.sub(r"\D", "", text) for text in (str(value.value).replace("(0)", ""), token.value))
        long, short = max(known, said, key=len), min(known, said, key=len)
        national = short[1:] if short.startswith(("0", "8")) and len(short) > len(long) - 2 else short
        is_whole = national != short or len(short) >= _NATIONAL_DIGITS
        return known == said or (is_whole and long.endswith(national))
    if token.kind == "name" and value.type == "name":
        name, said_words = words_of(str(value.value)), tuple(token.value.split())
        size = len(said_words)
        parts = {name[at : at + size] for at in range(len(name) - size + 1)} | {(name[0], name[-1])}
        return said_words in parts
    return True


# Units


def _unit_agrees(value: KnownValue, token: TextToken) -> bool:
    """Return whether the unit that is written with a number is the value's; a number alone may have any."""
    if token.kind == "number" and token.unit:
        return not _has_unit(value) or _is_named_by(value, token.unit)
    if token.kind not in ("amount", "percent") or not token.unit:
        return True
    own = "percent" if value.type == "percent" else value.currency if _is_currency(token.unit) else value.unit
    if own or value.unit or value.name:
        return own == token.unit or _is_converted(value, token)
    # A member of evidence has no unit but the one in its name: `return_days`.
    said = words_of(re.sub(r"\d", " ", token.text))
    return any(same_word(word, part) for label in value.labels for word in words_of(label) for part in said)


def _is_converted(value: KnownValue, token: TextToken) -> bool:
    """Return whether a token is as much as its value in another unit: two weeks are 14 days."""
    if value.unit == token.unit or _measure(value.unit) != _measure(token.unit) or token.unit not in SIZES:
        return False
    sizes = SIZES[token.unit][1], SIZES[value.unit][1]
    return Decimal(token.value) * sizes[0] == Decimal(str(value.value)) * sizes[1]


def _is_negation(value: KnownValue, token: TextToken) -> bool:
    """Return whether a token is as much as a value, with the other sign."""
    is_number = (
        value.type in NUMERIC and token.kind in ("number", "amount", "percent") and token.value != UNREAD
    )
    return is_number and Decimal(str(value.value)) == -Decimal(token.value) != 0


def _measure(unit: str) -> str:
    return SIZES[unit][0] if unit in SIZES else unit


def _is_unit_own(value: KnownValue, token: TextToken) -> bool:
    """Return whether a token is written as its value would be: with the value's own unit or currency, or none."""
    own = "percent" if value.type == "percent" else value.currency or value.unit
    return own == ("" if token.kind == "number" else token.unit)


def _has_unit(value: KnownValue) -> bool:
    return value.type in ("money", "percent") or bool(value.unit or value.currency)


def _is_named_by(value: KnownValue, noun: str) -> bool:
    """Return whether a word behind a number is one of the value's labels, and so not another unit."""
    return any(same_word(word, noun) for label in value.labels for word in words_of(label))


def _is_currency(unit: str) -> bool:
    return len(unit) == 3 and unit.isupper()


def _could_be(value: KnownValue, kind: str, unit: str) -> bool:
    """Return whether a value can be stated by a token of this kind and unit."""
    if value.type not in _TYPES[kind]:
        return False
    if value.type == "identifier" and kind == "number":
        return str(value.value).isdigit()
    if kind in _SHAPES and (not _SHAPES[kind].search(str(value.value)) or _TIME.fullmatch(str(value.value))):
        return False
    if value.type == "text" and kind in ("name", "time"):
        return False
    if not unit or kind == "number" or value.type == "percent" or unit == "percent":
        return True
    if _is_currency(unit):
        return value.type == "money" or (value.type == "number" and not value.unit)
    return _measure(value.unit) == _measure(unit) or (
        value.type == "number" and not value.unit and not value.name
    )

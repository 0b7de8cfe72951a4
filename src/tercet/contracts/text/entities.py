"""The entities that a sentence names, and which of them vouches for a value of a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from tercet.contracts.text.entity_forms import (
    FILLER,
    Form,
    find_names,
    find_uris,
    parse_number,
    read_words,
    split_words,
    write_number,
)
from tercet.contracts.text.pasted import (
    Span,
    cover,
    find_delimiters,
    find_pasted,
    find_quotations,
    unify_lines,
)

LONGEST_SENTENCE = 10_000
"""How many characters of a sentence are read; what stands behind them vouches for nothing."""
_MARGIN = 200
"""How far the reading goes beyond that, to see where the last entity ends."""

Pasted: TypeAlias = Literal["untrusted", "trusted", "untrusted_by_ascii_tags"]
"""Whether pasted text vouches for values; the last is "untrusted" as it was before every tag marked pasted text."""

ENTITY_KINDS = frozenset(
    {"email", "uri", "account", "amount", "number", "date", "file", "quoted", "id", "name"}
)
_NUMERIC = frozenset({"amount", "count", "number"})
_FITS_ALSO = {
    "amount": frozenset({"number"}),
    "count": frozenset({"number"}),
    "id": frozenset({"account", "number", "name"}),
}
"""Which kinds of entities fit a kind of parameters, besides the same kind."""
_FITS_OTHER_KINDS = frozenset({"id", "name", "quoted"})
"""Which kinds of entities fit a declared kind that no entity has."""
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?")


class Entity(NamedTuple):
    """Something that a sentence names."""

    kind: str
    """One of `ENTITY_KINDS`, or the name of the pattern's group that captured it."""
    value: str
    """Its text, normalised for its kind."""
    number: int | float | None
    start: int
    end: int
    is_captured: bool = False
    """Whether a named group of a pattern captured it."""

    @property
    def is_unclear(self) -> bool:
        """Whether it is an amount or a number that can be read in two ways: it equals nothing."""
        return not self.is_captured and self.kind in _NUMERIC and self.number is None

    @property
    def span(self) -> Span:
        """Where it stands in the sentence."""
        return Span(self.start, self.end)


class Ambiguous(NamedTuple):
    """A value that the sentence names beside others that fit the same parameter."""

    entities: tuple[Entity, ...]
    """The entity that equals the value, and those that differ from it."""


def find_entities(
    text: str, patterns: Sequence[str] = (), *, pasted: Pasted = "untrusted"
) -> tuple[Entity, ...]:
    """Return the entities that a sentence names, in the order of the text."""
    return _find_entities(text[: LONGEST_SENTENCE + _MARGIN], tuple(patterns), pasted)


def find_hidden(text: str, pasted: Pasted) -> tuple[Span, ...]:
    """Return the parts of a sentence that vouch for nothing: what was pasted, and what is too far behind to be read."""
    read = text[: LONGEST_SENTENCE + _MARGIN]
    is_cut = len(read) > LONGEST_SENTENCE
    behind = (Span(LONGEST_SENTENCE, len(text)),) if is_cut else ()
    return (*(find_pasted(read, is_cut=is_cut) if pasted != "trusted" else ()), *behind)


def entity_fits(entity: Entity, kind: str | None, name: str | None, *, is_declared: bool) -> bool:
    """Return whether an entity may vouch for a parameter of this kind and name; `kind` is None where none is known."""
    if entity.is_captured:
        return entity.kind in (name, kind)
    if kind is None or entity.kind == kind:
        return True
    if entity.kind in _FITS_ALSO.get(kind, ()):
        return True
    if kind == "id":
        return entity.kind == "quoted" and not re.search(r"\s", entity.value)
    is_other = kind not in ENTITY_KINDS and kind not in _NUMERIC
    return is_declared and is_other and entity.kind in _FITS_OTHER_KINDS


def fitting_entities(
    entities: Sequence[Entity], *, kind: str | None, name: str | None, is_declared: bool
) -> tuple[Entity, ...]:
    """Return the entities that may vouch for a parameter: the captured ones among those that fit, else all of them."""
    fitting = [entity for entity in entities if entity_fits(entity, kind, name, is_declared=is_declared)]
    captured = [entity for entity in fitting if entity.is_captured]
    return tuple(captured or fitting)


def bind_literal(
    text: str,
    value: Any,
    *,
    kind: str | None,
    name: str | None,
    is_declared: bool,
    patterns: Sequence[str] = (),
    pasted: Pasted = "untrusted",
) -> Entity | Ambiguous | None:
    """Return the entity of a sentence that vouches for a literal in a parameter.

    None if no entity that fits the parameter equals the value; `Ambiguous` if one does, and another one that differs from
    it fits the parameter as well, and no pattern tells them apart.
    """
    entities = find_entities(text, patterns, pasted=pasted)
    fitting = fitting_entities(entities, kind=kind, name=name, is_declared=is_declared)
    equal = [entity for entity in fitting if _equals(entity, value, text, is_id=kind == "id")]
    if not equal:
        return None
    if equal[0].is_captured:
        return equal[0]
    compared = fitting if kind is not None else _of_same_sort(fitting, value)
    others = tuple(entity for entity in compared if not any(_is_same(entity, each) for each in equal))
    return Ambiguous((equal[0], *others)) if others else equal[0]


def is_named(text: str, value: Any, *, patterns: Sequence[str] = (), pasted: Pasted = "untrusted") -> bool:
    """Return whether a sentence names a value at all, for whichever parameter."""
    entities = find_entities(text, patterns, pasted=pasted)
    return any(_equals(entity, value, text, is_id=False) for entity in entities)


def _of_same_sort(entities: Sequence[Entity], value: Any) -> list[Entity]:
    """Return the entities that could be meant by a parameter whose kind is not known, if it is given this value.

    A name is not confused with an amount or a date. Digits that are written as text could be anything.
    """
    if not isinstance(value, str):
        return [entity for entity in entities if entity.kind in _NUMERIC or entity.number is not None]
    form = _classify(value)
    kind = None if form is None else form.kind
    if kind in _NUMERIC:
        return [*entities]
    if kind == "date":
        return [entity for entity in entities if entity.kind == "date"]
    return [entity for entity in entities if entity.kind not in _NUMERIC and entity.kind != "date"]


def _is_same(first: Entity, second: Entity) -> bool:
    """Whether two entities name one thing: they have the same value, or stand in the same place of the sentence."""
    if first.span.overlaps(second.span):
        return True
    if first.number is not None and second.number is not None:
        return first.number == second.number
    return first.value == second.value


def _equals(entity: Entity, value: Any, text: str, *, is_id: bool) -> bool:
    """Whether an entity equals a value; a number that is used as an id also has to be written the same."""
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return entity.number is not None and entity.number == value
    if not isinstance(value, str) or entity.is_unclear:
        return False
    if value in (entity.value, text[entity.start : entity.end]):
        return True
    if entity.kind == "quoted" or (is_id and entity.number is not None):
        return False
    if entity.number is not None:
        return _PLAIN_NUMBER.fullmatch(value) is not None and entity.number == parse_number(value)
    form = _classify(value)
    if form is None or form.kind in _NUMERIC:
        return False
    return (entity.is_captured or form.kind == entity.kind) and form.value == entity.value


# --- finding them ---


@lru_cache(maxsize=512)
def _find_entities(text: str, patterns: tuple[str, ...], pasted: Pasted) -> tuple[Entity, ...]:
    is_cut = len(text) > LONGEST_SENTENCE
    if pasted == "trusted":
        hidden = find_delimiters(text)
    else:
        hidden = find_pasted(text, is_cut=is_cut, by_ascii_tags=pasted == "untrusted_by_ascii_tags")
    text = unify_lines(text)
    found = [*_recognise(cover(text, hidden, "\n"))]
    captured = [*_capture(cover(text, hidden, FILLER), patterns, found)]
    taken = {index for entity in captured for index in range(*entity.span)}
    free = [entity for entity in found if taken.isdisjoint(range(*entity.span))]
    listed = sorted({*captured, *free}, key=lambda entity: (entity.start, entity.end, entity.kind))
    return tuple(entity for entity in listed if entity.end <= LONGEST_SENTENCE)


def _recognise(text: str) -> Iterator[Entity]:
    """The entities of a text of which nothing is hidden. In a quotation only the whole counts, also as another kind."""
    quotations = [_strip_span(text, span) for span in find_quotations(text)]
    for start, end in quotations:
        inner = text[start:end]
        if inner:
            yield Entity("quoted", inner, None, start, end)
        form = _classify(inner)
        if form is not None and form.kind is not None and form.kind not in _NUMERIC:
            yield Entity(form.kind, form.value, None, start, end)
    plain = cover(text, (Span(start - 1, end + 1) for start, end in quotations), FILLER)
    for form in _read_forms(plain, is_prose=True):
        yield from _make_entities(form, plain)


def _read_forms(text: str, *, is_prose: bool) -> Iterator[Form]:
    addresses = [*find_uris(text)]
    yield from addresses
    words = split_words(cover(text, (Span(form.start, form.end) for form in addresses), FILLER))
    forms, used = read_words(words)
    yield from forms
    yield from find_names(words, used, is_prose=is_prose)


def _make_entities(form: Form, text: str) -> Iterator[Entity]:
    """An entity for a form; a word behind `#` or `@` is one with the mark and without."""
    raw = text[form.start : form.end]
    if form.kind is None:
        return
    if form.kind in _NUMERIC:
        value = raw if form.number is None else write_number(form.number)
        yield Entity(form.kind, value, form.number, form.start, form.end)
        return
    yield Entity(form.kind, form.value, None, form.start, form.end)
    if form.value[0] in "#@":
        value = form.value[1:]
        number = parse_number(value) if value.isdecimal() else None
        yield Entity(form.kind, value, number, form.start + 1, form.end)


@lru_cache(maxsize=2048)
def _classify(text: str) -> Form | None:
    """Return what a whole text is written like; None if it is written like nothing that is recognised."""
    if not text or len(text) > LONGEST_SENTENCE:
        return None
    whole = (form for form in _read_forms(text, is_prose=False) if (form.start, form.end) == (0, len(text)))
    return next(whole, None)


def _strip_span(text: str, span: Span) -> Span:
    inner = text[span.start : span.end]
    start = span.start + len(inner) - len(inner.lstrip())
    return Span(start, max(start, span.start + len(inner.rstrip())))


# --- patterns ---

_AROUND = " \t\r\n'\"`‘’‚“”„«»‹›"
_BEHIND = _AROUND + ".,:;!?…"


def _capture(text: str, patterns: Sequence[str], found: Sequence[Entity]) -> Iterator[Entity]:
    """The values that named groups capture, without the quotation marks and punctuation around them."""
    standing: dict[int, list[Entity]] = {}
    for entity in found:
        for index in range(*entity.span):
            standing.setdefault(index, []).append(entity)
    for pattern in patterns:
        for match in re.finditer(pattern, text):
            for group, raw in match.groupdict().items():
                if raw is None:
                    continue
                core = raw.lstrip(_AROUND)
                start = match.start(group) + len(raw) - len(core)
                span = Span(start, start + len(core.rstrip(_BEHIND)))
                at_edges = [*standing.get(span.start, ()), *standing.get(span.end - 1, ())]
                if _is_whole(text, span, at_edges):
                    yield _captured_entity(group, text, span, at_edges)


def _is_whole(text: str, span: Span, at_edges: Sequence[Entity]) -> bool:
    """Whether a captured span is an entity, or cuts no word and no entity into pieces; nothing hidden stands in it."""
    start, end = span
    if start >= end or FILLER in text[start:end]:
        return False
    if any(entity.span == span for entity in at_edges):
        return True
    cuts_word = any(
        _is_inner(text[edge - 1 : edge]) and _is_inner(text[edge : edge + 1]) for edge in (start, end)
    )
    return not cuts_word and not any(_cuts(text, span, entity) for entity in at_edges)


def _is_inner(character: str) -> bool:
    return character.isalnum() or character == "_"


def _cuts(text: str, span: Span, entity: Entity) -> bool:
    """Whether a captured span holds a part of an entity; an amount may be captured without its currency."""
    if not entity.span.overlaps(span) or (span.start <= entity.start and entity.end <= span.end):
        return False
    digits = [index for index in range(*entity.span) if text[index].isdigit()]
    if entity.kind != "amount" or entity.number is None or not digits:
        return True
    number = Span(digits[0], digits[-1] + 1)
    return number.overlaps(span) and not (span.start <= number.start and number.end <= span.end)


def _captured_entity(group: str, text: str, span: Span, at_edges: Sequence[Entity]) -> Entity:
    start, end = span
    same = [entity for entity in at_edges if entity.span == span and entity.kind != "quoted"]
    if same:
        return Entity(group, same[0].value, same[0].number, start, end, is_captured=True)
    raw = text[start:end]
    form = _classify(raw)
    if form is None or form.kind is None:
        return Entity(group, raw, None, start, end, is_captured=True)
    entity = next(_make_entities(form, raw))
    return Entity(group, entity.value, entity.number, start, end, is_captured=True)

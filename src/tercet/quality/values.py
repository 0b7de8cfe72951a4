"""The values that outputs may state: those that a decision lists, and every other scalar that is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

from tercet.contracts.documents import DocumentValue, KnownValue, TableColumn, ValueType
from tercet.contracts.evidence import Evidence, parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.text.words import key_words, to_decimal
from tercet.contracts.values import pointer
from tercet.contracts.values.pointer import value_at
from tercet.contracts.values.trust import input_marks, is_marked, scalars, with_dotted
from tercet.policy.expressions import evaluate_planner
from tercet.quality.verification.results import CLASSIFICATION
from tercet.quality.verification.roles import has_form

NUMERIC: frozenset[ValueType] = frozenset({"number", "count", "percent", "money"})
CLDR_UNITS = frozenset({
    "day", "week", "month", "year", "hour", "minute", "second", "kilogram", "gram", "milligram",
    "microgram", "metric-ton", "meter", "kilometer", "centimeter", "millimeter", "mile", "foot", "liter",
    "milliliter", "centiliter", "square-meter", "hectare", "kilowatt-hour", "kilowatt", "celsius",
    "fahrenheit", "kilobyte", "megabyte", "gigabyte", "terabyte", "pound", "ounce", "kilocalorie",
})  # fmt: skip
"""Units that are read in any text. They measure many things, while a unit of a pack says what is counted."""
SIZES: dict[str, tuple[str, Decimal]] = {
    unit: (units.split()[0], Decimal(size))
    for units, sizes in (
        ("day week", "1 7"), ("month year", "1 12"), ("second minute hour", "1 60 3600"),
        ("microgram milligram gram kilogram metric-ton", "1 1e3 1e6 1e9 1e12"),
        ("millimeter centimeter meter kilometer", "1 10 1e3 1e6"), ("milliliter centiliter liter", "1 10 1e3"),
    )
    for unit, size in zip(units.split(), sizes.split(), strict=True)
}  # fmt: skip
"""What a unit measures, and how much of its smallest unit it is. A day of 24 hours, and a kilobyte, mean different things."""
UNREAD = "unread"
"""The value of a number that its locale does not read."""

_ISO = re.compile(r"(\d{4}-\d{2}-\d{2})([T ]\d{2}:\d{2}.*)?")
_DIGITS = re.compile(r"[+(]?(?:\d[ ()/.-]{0,3}){7,20}")
"""A telephone number or an account number."""
_CURRENCY = re.compile(r"[A-Z]{3}")
_MAX_PRODUCT_MEMBERS = 6


class _Source(NamedTuple):
    """Something that values are read from: the names it is called by, and where pointers into it begin."""

    names: tuple[str, ...]
    origin: str
    content: Any
    trust: Trust


class _Found(NamedTuple):
    value: Any = None
    pointer: str = ""
    trust: Trust = Trust.UNTRUSTED


def known_values(
    rules: Sequence[DocumentValue],
    evidence: Sequence[Evidence],
    request_input: JsonObject,
    untrusted_inputs: Sequence[str],
    language: str,
) -> tuple[KnownValue, ...]:
    """Return the listed values, then the cells of their rows, then every other scalar, with labels in a language."""
    sources = [*_evidence_sources(evidence), *_request_sources(request_input, untrusted_inputs)]
    known: dict[str, KnownValue] = {}
    cells: dict[str, KnownValue] = {}
    for rule in rules:
        listed = _listed_value(rule, sources, language)
        known[f"{rule.name} {listed.pointer}"] = listed
        cells |= {cell.pointer: cell for cell in _row_values(rule, rules, sources, language)}
    named = {value.pointer for value in known.values()}
    others: dict[str, KnownValue] = {}
    for value in (value for source in sources for value in _members(source)):
        others.setdefault(value.pointer, value)  # the trusted fields of a request come first
    rest = {where: value for where, value in (others | cells).items() if where not in named}
    return (*known.values(), *rest.values())


def slot_guide(values: Iterable[KnownValue]) -> str:
    """Describe the slots that a text may use, one in a line: never the values themselves."""
    lines: list[str] = []
    for value in values:
        if value.name and value.value is not None:
            role = value.unit or value.currency
            about = f" ({', '.join(value.labels)})" if value.labels else ""
            lines.append(f"{{{{ {value.name} }}}}: {value.type}{f', {role}' if role else ''}{about}")
    return "\n".join(lines)


def infer_type(value: Any) -> ValueType:
    """Return the type of a scalar that no rule names."""
    if isinstance(value, int | float):
        return "number"
    text = str(value).strip()
    if _iso_date(text):
        return "date"
    if "." in text and to_decimal(text) is not None:
        return "number"
    if _DIGITS.fullmatch(text):
        return "identifier"
    has_digit = any(char.isdigit() for char in text)
    return "identifier" if " " not in text and (has_digit or "@" in text or "://" in text) else "text"


def _evidence_sources(evidence: Iterable[Evidence]) -> Iterator[_Source]:
    for fact in evidence:
        ref = parse_ref(fact.id)
        step = ref.key.removesuffix("/untrusted") if ref and fact.classification == CLASSIFICATION else ""
        names = (step,) if step else (fact.classification,)
        yield _Source(names, fact.id, fact.content, fact.trust)


def _request_sources(fields: JsonObject, untrusted: Sequence[str]) -> Iterator[_Source]:
    """Yield the trusted fields of a request, and the untrusted ones."""
    marks = input_marks(with_dotted(untrusted))
    yield _Source(("request",), "request", _without(fields, marks, ()), Trust.TRUSTED)
    if marks:
        yield _Source(("request",), "request", fields, Trust.UNTRUSTED)


def _without(value: Any, marks: Sequence[str], place: tuple[str | int, ...]) -> Any:
    """Return a value without its marked scalars; items stay where they are."""
    if (members := as_object(value)) is not None:
        kept = {key: _without(member, marks, (*place, key)) for key, member in members.items()}
        return {key: member for key, member in kept.items() if member is not None}
    if (items := as_list(value)) is not None:
        return [_without(item, marks, (*place, index)) for index, item in enumerate(items)]
    return None if is_marked(marks, place) else value


def _listed_value(rule: DocumentValue, sources: Sequence[_Source], language: str) -> KnownValue:
    if rule.source is not None:
        found = _look_up(rule.source, sources)
    elif rule.sum_of is not None:
        found = _sum(rule, sources)
    else:
        found = _computed(rule, sources)
    if isinstance(found.value, str) and not has_form(found.value.strip(), rule.type):
        found = found._replace(value=None)
    currency = _currency(rule, sources)
    trust = Trust.TRUSTED if found.trust is currency.trust is Trust.TRUSTED else Trust.UNTRUSTED
    return KnownValue(
        name=rule.name,
        value=_normal(found.value, rule.type),
        type=rule.type,
        unit=rule.unit,
        currency=currency.value,
        labels=_labels(rule, language),
        pointer=found.pointer or f"computed#/{rule.name}",
        trust=trust,
        columns=_columns(rule, language),
    )


def _currency(rule: DocumentValue, sources: Sequence[_Source]) -> _Found:
    """Return the currency of a value, as the pack or a source says it; empty if neither does."""
    if rule.currency_from is None:
        return _Found(rule.currency, trust=Trust.TRUSTED)
    named = _look_up(rule.currency_from, sources)
    is_code = isinstance(named.value, str) and _CURRENCY.fullmatch(named.value)
    return _Found(str(named.value) if is_code else "", trust=named.trust)


def _labels(rule: DocumentValue, language: str) -> tuple[str, ...]:
    return tuple(rule.labels.get(language, ())) if rule.labels else (" ".join(key_words(rule.name)),)


def _columns(rule: DocumentValue, language: str) -> tuple[TableColumn, ...]:
    parts = [column.partition(":") for column in rule.columns]
    headings = rule.headings.get(language, ())
    return tuple(
        TableColumn.model_validate(
            {
                "name": name.strip(),
                "heading": headings[at] if at < len(headings) else " ".join(key_words(name)),
                "type": kind.strip() or "text",
            }
        )
        for at, (name, _, kind) in enumerate(parts)
    )


def _normal(value: Any, kind: ValueType) -> Any:
    """Return a value in the normal form of its type; None if it has none."""
    if kind in ("list", "table"):
        return as_list(value)
    if value is None or isinstance(value, bool | dict | list):
        return None
    if kind in NUMERIC:
        number = to_decimal(value)
        return None if number is None else f"{number:f}"
    text = str(value).strip()
    return (_iso_date(text) or None) if kind == "date" else text or None


def _iso_date(text: str) -> str:
    match = _ISO.fullmatch(text)
    if match is None:
        return ""
    try:
        date.fromisoformat(match[1])
    except ValueError:
        return ""
    return text


def _look_up(path: str, sources: Iterable[_Source]) -> _Found:
    """Return the one value at `class#/member`. Trusted sources come first; sources that disagree give none."""
    name, _, place = path.partition("#")
    found: list[_Found] = []
    for source in sources:
        value = value_at(source.content, place) if name in source.names else None
        if value is not None:
            found.append(_Found(value, f"{source.origin}#{place}", source.trust))
    best = [each for each in found if each.trust is Trust.TRUSTED] or found
    agree = best and all(each.value == best[0].value for each in best)
    return best[0] if agree else _Found()


def _sum(rule: DocumentValue, sources: Sequence[_Source]) -> _Found:
    rows = _look_up(rule.sum_of or "", sources)
    items = as_list(rows.value)
    products = [_product(row, rule.fields) for row in items or ()]
    if items is None or None in products:
        return _Found()
    total = sum((each for each in products if each is not None), Decimal(0))
    return _Found(_rounded(total, rule.type), trust=rows.trust)


def _product(row: Any, fields: Sequence[str]) -> Decimal | None:
    factors = [to_decimal((as_object(row) or {}).get(field)) for field in fields]
    return None if None in factors else prod((each for each in factors if each is not None), start=Decimal(1))


def _rounded(number: Decimal, kind: ValueType) -> str:
    """Return a computed amount: hundredths are the smallest that a letter states."""
    exact = number.quantize(Decimal("0.01"), ROUND_HALF_UP) if kind == "money" else round(number, 9)
    return f"{exact.normalize():f}"


def _computed(rule: DocumentValue, sources: Sequence[_Source]) -> _Found:
    """Return what an expression yields; trusted if trusted sources are enough to compute it."""
    trusted = [source for source in sources if source.trust is Trust.TRUSTED]
    for pool, trust in ((trusted, Trust.TRUSTED), (sources, Trust.UNTRUSTED)):
        for as_doubles in (False, True):  # CEL does not add an integer to a decimal number
            values = _variables(pool, as_doubles=as_doubles)
            outcome = evaluate_planner(rule.cel or "", values)
            if outcome.error is None:
                number = to_decimal(outcome.value) if rule.type in NUMERIC else None
                return _Found(outcome.value if number is None else _rounded(number, rule.type), trust=trust)
    return _Found()


def _variables(sources: Iterable[_Source], *, as_doubles: bool) -> dict[str, Any]:
    """Return the contents by name; a name that two sources have with different contents has none."""
    found: dict[str, list[Any]] = {}
    for source in sources:
        for name in source.names:
            found.setdefault(name, []).append(source.content)
    merged = {name: _merge(contents) for name, contents in found.items() if name.isidentifier()}
    plain = {name: content for name, content in merged.items() if content is not None}
    return _doubles(plain) if as_doubles else plain


def _merge(contents: Sequence[Any]) -> Any:
    objects = [as_object(content) for content in contents]
    if len(contents) == 1:
        return contents[0]
    together: JsonObject = {}
    for members in objects:
        if members is None or any(together.get(key, value) != value for key, value in members.items()):
            return None
        together |= members
    return together


def _doubles(value: Any) -> Any:
    if (members := as_object(value)) is not None:
        return {key: _doubles(member) for key, member in members.items()}
    if (items := as_list(value)) is not None:
        return [_doubles(item) for item in items]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _row_values(
    rule: DocumentValue, rules: Sequence[DocumentValue], sources: Sequence[_Source], language: str
) -> Iterator[KnownValue]:
    """The cells of a listed table or list, the product of each row, and how many rows there are."""
    path = rule.sum_of or (rule.source if rule.type in ("list", "table") else None)
    rows = _look_up(path, sources) if path else _Found()
    items = as_list(rows.value)
    if items is None:
        return
    own = [each for each in rules if path in (each.source, each.sum_of)]
    columns = {column.name: column for each in own for column in _columns(each, language)}
    currencies = {found for each in own if (found := _currency(each, sources).value)}
    currencies = currencies or {found for each in rules if (found := _currency(each, sources).value)}
    currency = currencies.pop() if len(currencies) == 1 else ""
    factors = next((each.fields for each in own if each.fields), ())
    label = key_words(pointer.parts(path.partition("#")[2])[-1]) if path and "/" in path else ()
    yield KnownValue(
        value=str(len(items)),
        type="count",
        labels=(*_labels(rule, language), " ".join(label)),
        pointer=f"{rows.pointer}/length",
        trust=rows.trust,
    )
    for index, item in enumerate(items):
        row = as_object(item) or {}
        where = f"{rows.pointer}/{index}"
        for name, value in row.items():
            yield from _cell(
                _Found(value, where + pointer.join((name,)), rows.trust), columns.get(name), currency
            )
        yield from _row_products(_Found(row, where, rows.trust), factors, currency)


def _cell(found: _Found, column: TableColumn | None, currency: str) -> Iterator[KnownValue]:
    if found.value is None or isinstance(found.value, bool | dict | list):
        return
    declared = column.type if column else "text"
    kind = infer_type(found.value) if declared == "text" else declared
    member = " ".join(key_words(pointer.parts(found.pointer.rpartition("#")[2])[-1]))
    yield KnownValue(
        value=_normal(found.value, kind),
        type=kind,
        currency=currency if kind in ("money", "number") else "",
        labels=(column.heading, member) if column else (member,),
        pointer=found.pointer,
        trust=found.trust,
    )


def _row_products(row: _Found, factors: Sequence[str], currency: str) -> Iterator[KnownValue]:
    """The product of the members that a sum is made of; without such a sum, a whole number times each other number."""
    numbers = {name: value for name, value in row.value.items() if isinstance(value, int | float)}
    names = [name for name, value in numbers.items() if not isinstance(value, bool)][:_MAX_PRODUCT_MEMBERS]
    pairs = [
        pair for pair in combinations(names, 2) if any(Decimal(str(numbers[name])) % 1 == 0 for name in pair)
    ]
    for fields in [tuple(factors)] if factors else pairs:
        if (product := _product(row.value, fields)) is not None:
            yield KnownValue(
                value=_rounded(product, "money" if currency else "number"),
                type="money" if currency else "number",
                currency=currency,
                pointer=f"{row.pointer}/{'*'.join(fields)}",
                trust=row.trust,
            )


def _members(source: _Source) -> Iterator[KnownValue]:
    """Yield every scalar of a source, named by the words of its member."""
    currencies: dict[tuple[str | int, ...], str] = {}
    leaves = scalars(source.content)
    for leaf in leaves:
        is_code = isinstance(leaf.value, str) and _CURRENCY.fullmatch(leaf.value)
        if is_code and leaf.place and leaf.place[-1] == "currency":
            currencies[tuple(leaf.place[:-1])] = leaf.value
    for leaf in leaves:
        if leaf.value is None or isinstance(leaf.value, bool | dict | list):
            continue
        kind = infer_type(leaf.value)
        member = next((part for part in reversed(leaf.place) if isinstance(part, str)), "")
        yield KnownValue(
            value=_normal(leaf.value, kind),
            type=kind,
            currency=currencies.get(tuple(leaf.place[:-1]), "") if kind == "number" else "",
            labels=(" ".join(key_words(member)),) if member else (),
            pointer=f"{source.origin}#{pointer.join(leaf.place)}",
            trust=source.trust,
        )


def values_by_slot(known: Iterable[KnownValue]) -> Mapping[str, KnownValue]:
    """Return the listed values by the names of their slots."""
    return {value.name: value for value in known if value.name}

"""Values as a locale writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, assert_never, cast

from babel import Locale
from babel.dates import format_date
from babel.numbers import format_currency, format_decimal, format_percent

from tercet.contracts.documents import KnownValue, PluralForms, ValueType
from tercet.contracts.errors import UsageError
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.text.words import to_decimal
from tercet.locales.vocabulary import EXACT_FORMS, PLURALS, RENAMED, Units, parse_locale
from tercet.quality.values import infer_type

_BREAKS = re.compile(r"\s*[\n\r\v\f\x85\u2028\u2029]\s*")


def format_value(known: KnownValue, locale: str, units: Units) -> str:
    """Return a value as text, by its type; raises `UsageError` for one that lacks its currency or unit."""
    place = parse_locale(locale)
    if known.type == "list":
        return "\n".join(f"- {_one_line(_item(item, place))}" for item in as_list(known.value) or [])
    if known.type == "table":
        return _table(known, place)
    return _scalar(known.value, known, place, units)


def _scalar(value: Any, known: KnownValue, locale: Locale, units: Units) -> str:
    match known.type:
        case "money":
            if not known.currency:
                raise UsageError(
                    f"the value {known.name!r} has no currency", remedy="give it currency or currency_from"
                )
            return _money(Decimal(str(value)), known.currency, locale)
        case "count" | "number":
            return _quantity(Decimal(str(value)), known, locale, units)
        case "percent":
            return format_percent(Decimal(str(value)) / 100, locale=locale, decimal_quantization=False)
        case "date":
            return format_date(date.fromisoformat(str(value)[:10]), "long", locale=locale)
        case "text" | "name" | "identifier":
            return str(value)
        case "list" | "table":
            return ""
    assert_never(known.type)


def _money(number: Decimal, currency: str, locale: Locale) -> str:
    return format_currency(number, currency, locale=locale, decimal_quantization=False)


def _quantity(number: Decimal, known: KnownValue, locale: Locale, units: Units) -> str:
    shown = format_decimal(number, locale=locale, decimal_quantization=False)
    if not known.unit:
        return shown
    plural = locale.plural_form(abs(number))
    forms = units.get(known.unit, {}).get(locale.language) or _cldr_forms(known.unit, plural, locale)
    if not forms:
        raise UsageError(
            f"the unit {known.unit!r} is neither in CLDR nor declared for {locale.language!r}",
            remedy=f"declare it under [decision.quality.units.{known.unit}], such as "
            f'{locale.language} = {{ one = "{{}} {known.unit}", other = "{{}} {known.unit}s" }}',
        )
    form = forms.get(plural) or ""
    # `one` is for 21 too in some languages, and a form without the number would say that it is 1.
    is_exact = "{}" in form or number == EXACT_FORMS.get(plural, number)
    return (form if is_exact and form else forms.get("other", "{}")).replace("{}", shown)


def _cldr_forms(unit: str, plural: str, locale: Locale) -> PluralForms:
    """Return the forms that CLDR has of a unit, by its whole name; the shortest where it has no longer ones.

    Babel itself would write the English name then, and take `spoon` for a tablespoon.
    """
    patterns = cast("Mapping[str, Any]", cast("Any", locale)._data["unit_patterns"])
    for width in ("long", "short", "narrow"):
        for name, widths in patterns.items():
            found: Mapping[str, Any] = widths.get(width) or {}
            if {unit, RENAMED.get(unit)} & {name, name.partition("-")[2]} and {
                plural,
                "other",
            } & found.keys():
                return {
                    each: str(form).replace("{0}", "{}") for each, form in found.items() if each in PLURALS
                }
    return {}


def _table(known: KnownValue, locale: Locale) -> str:
    rows = [as_object(row) or {} for row in as_list(known.value) or []]
    columns = known.columns
    lines = [
        [column.heading or column.name for column in columns],
        ["---" if column.type in ("text", "name", "identifier", "date") else "---:" for column in columns],
        *([_cell(row, column.name, column.type, known, locale) for column in columns] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _cell(row: Mapping[str, Any], name: str, kind: ValueType, known: KnownValue, locale: Locale) -> str:
    value = row.get(name)
    if kind in ("text", "name", "identifier") or value is None:
        return _item(value, locale)
    if kind == "date":
        is_date = isinstance(value, str) and infer_type(value) == "date"
        return format_date(date.fromisoformat(value[:10]), "long", locale=locale) if is_date else str(value)
    number = to_decimal(value)
    if number is None:
        return str(value)
    if kind == "money" and known.currency:
        return _money(number, known.currency, locale)
    return _quantity(number, KnownValue(type="number", pointer=""), locale, {}) + (
        " %" if kind == "percent" else ""
    )


def _item(value: Any, locale: Locale) -> str:
    """A scalar of which nothing but its value is known; of an object, its scalars."""
    if (members := as_object(value)) is not None:
        return ", ".join(
            _item(member, locale) for member in members.values() if not isinstance(member, list | dict)
        )
    if isinstance(value, int | float) and not isinstance(value, bool):
        return format_decimal(cast("float", value), locale=locale, decimal_quantization=False)
    return "" if value is None else str(value)


def _one_line(text: str) -> str:
    return _BREAKS.sub(" ", text)


def _escaped(cell: str) -> str:
    return _one_line(cell).replace("\\", "\\\\").replace("|", "\\|")

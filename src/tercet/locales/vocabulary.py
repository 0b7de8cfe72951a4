"""What a locale calls its units, currencies, months and days, and how it writes numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, cast

import orjson
from babel import Locale, UnknownLocaleError
from babel.numbers import get_currency_name, get_currency_symbol

from tercet.contracts.documents import PluralForms
from tercet.contracts.errors import UsageError
from tercet.locales.lexicon import LEXICONS, Lexicon
from tercet.locales.plain_text import level
from tercet.quality.values import CLDR_UNITS
from tercet.quality.words import UNSPACED, fold, same_word, words_of

Units = Mapping[str, Mapping[str, PluralForms]]
"""The units of a pack: patterns by unit and language."""

_CURRENCIES = (
    "EUR", "USD", "GBP", "CHF", "JPY", "INR", "RUB", "CNY", "CAD", "AUD", "SEK", "NOK", "DKK",
    "PLN", "CZK", "MXN", "BRL", "TRY", "KRW", "ARS", "COP", "UAH", "KZT", "HUF", "ZAR",
)  # fmt: skip
_RUPEES = dict.fromkeys(("रुपये", "रुपए", "रुपया", "रुपयों", "रु", "रू"), "INR")
_ONE_LETTER = frozenset("gmlthгмлтч")
RENAMED = {"metric-ton": "tonne"}
"""What newer editions of CLDR call a unit."""
DEGREES = frozenset("cf")
"""Units of one letter that are read behind a sign for degrees alone."""
PLURALS = ("zero", "one", "two", "few", "many", "other")
"""The categories of CLDR."""
EXACT_FORMS = {"zero": 0, "one": 1, "two": 2}
_MAX_DIGITS = 30
_BOTH_MARKS = frozenset({"CH", "LI", "ZA"})
"""Territories where a point and a comma are both written before decimals."""


def parse_locale(name: str) -> Locale:
    """Return a CLDR locale by its name; raises `UsageError` for one that does not exist."""
    try:
        return Locale.parse(name.replace("-", "_"))
    except (UnknownLocaleError, ValueError) as error:
        raise UsageError(
            f"unknown locale {name!r}",
            code="unknown_locale",
            remedy='name a CLDR locale such as "de" or "en_GB"',
        ) from error


@dataclass(frozen=True)
class UnitForm:
    """One way to write a unit: words before and after the number, or words that hold the number themselves."""

    unit: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    value: int | None = None
    is_own: bool = False


class Vocabulary:
    """The names of one locale, with the units of a pack and the currencies that matter in it."""

    def __init__(
        self, locale: Locale, units: Units, currencies: Iterable[str], used_units: Iterable[str]
    ) -> None:
        self.locale = locale
        self.language = locale.language
        self.lexicon: Lexicon | None = LEXICONS.get(locale.language)
        symbols = cast("Mapping[str, Any]", locale.number_symbols).get("latn", {})
        self.decimal = str(symbols.get("decimal", "."))
        self.has_space_groups = not str(symbols.get("group", ",")).strip() or self.language == "es"
        self._units, self._currencies = units, tuple(dict.fromkeys((*currencies, *_CURRENCIES)))
        self._used = tuple(dict.fromkeys((*used_units, *sorted(CLDR_UNITS))))

    # Numbers

    @cached_property
    def _number_shape(self) -> re.Pattern[str]:
        mark, other = re.escape(self.decimal), re.escape("." if self.decimal == "," else ",")
        groups = rf"(?:{other}|['\s\xa0])"
        pairs = self.locale.decimal_formats[None].grouping[1] == 2
        first = rf"\d{{1,2}}(?:{groups}\d{{2}})*{groups}\d{{3}}|" if pairs else ""
        return re.compile(rf"(?:{first}\d+|[1-9]\d{{0,2}}(?:{groups}\d{{3}})+)(?:{mark}\d+)?")

    def parse_number(self, text: str) -> Decimal | None:
        """Return the number that digits and separators mean in this locale; None if they mean nothing in it."""
        if len(text) > _MAX_DIGITS:
            return None
        other = "." if self.decimal == "," else ","
        if self.locale.territory in _BOTH_MARKS and re.fullmatch(
            rf"\d+{re.escape(other)}(?:\d{{1,2}}|\d{{4,}})", text
        ):
            return Decimal(text.replace(other, "."))
        if not self._number_shape.fullmatch(text):
            return None
        return Decimal(re.sub(rf"[{other}'\s\xa0]", "", text).replace(self.decimal, "."))

    # Units and currencies

    @cached_property
    def currency_forms(self) -> dict[str, str]:
        """The currency of each symbol, code and name, folded; of several, the one that matters most."""
        forms: dict[str, str] = {}
        noun = 0 if self.language in ("fr", "es", "it", "pt") else -1
        for code in self._currencies:
            names = {code, get_currency_symbol(code, self.locale), get_currency_symbol(code, "en")}
            names |= {f"{code[:2]}$"} if code.endswith("D") else set()
            for count in (1, 2, 5, Decimal("1.5")):
                name = get_currency_name(code, count, self.locale)
                parts = re.split(r"[\s-]", name)
                names |= {name, parts[0 if parts[-1].isupper() else noun]}
            for name in filter(None, names):
                forms.setdefault(fold(name), code)
        for symbol, code in {
            "$": "USD",
            "£": "GBP",
            "¥": "JPY",
            "руб": "RUB",
            "fr": "CHF",
            **_RUPEES,
        }.items():
            forms.setdefault(symbol, self._by_symbol(symbol) or code)
        forms["元"] = next((code for code in self._currencies if code in ("CNY", "TWD", "HKD")), "")
        forms[fold("ドル")] = self._by_symbol("$") or "USD"
        return forms

    @lru_cache(maxsize=4_096)  # noqa: B019 - a vocabulary lives as long as the process
    def currency_named(self, name: str) -> str:
        """Return the currency of a folded symbol, code or name, also in an inflected form; else nothing."""
        plain = name.replace("\xa0", " ").rstrip(".")
        if plain in self.currency_forms or len(plain) < 4 or not plain.isalpha():
            return self.currency_forms.get(plain, "")
        similar = (form for form in self.currency_forms if len(form) > 3 and same_word(form, plain))
        return next((self.currency_forms[form] for form in similar), "")

    def _by_symbol(self, symbol: str) -> str:
        local = (code for code in self._currencies if get_currency_symbol(code, "en").endswith(symbol))
        return next(local, "")

    @cached_property
    def unit_forms(self) -> dict[str, list[UnitForm]]:
        """The ways to write units, by the first word behind the number, longest first; those of the pack before CLDR's."""
        forms: dict[str, list[UnitForm]] = {}
        for form in sorted(
            self._all_forms(), key=lambda form: (-form.is_own, -len(form.after), -len(form.before))
        ):
            forms.setdefault(form.after[0] if form.after else "", []).append(form)
        return forms

    @cached_property
    def whole_forms(self) -> list[UnitForm]:
        """The ways to write an amount without a number: `once a day`."""
        return [form for forms in self.unit_forms.values() for form in forms if form.value is not None]

    def _all_forms(self) -> Iterable[UnitForm]:
        for unit, languages in self._units.items():
            for category, pattern in languages.get(self.language, {}).items():
                before, slot, behind = pattern.partition("{}")
                if slot:
                    afters = self._with_adverbs(words_of(behind))
                    yield from (UnitForm(unit, words_of(before), after, is_own=True) for after in afters)
                elif category in EXACT_FORMS:
                    yield from (
                        UnitForm(unit, (), words, EXACT_FORMS[category], is_own=True)
                        for words in self._with_adverbs(words_of(before))
                    )
        patterns = cast("Mapping[str, Any]", cast("Any", self.locale)._data["unit_patterns"])
        by_name = {name.partition("-")[2]: forms for name, forms in patterns.items()}
        for unit in self._used:
            widths = _table(by_name.get(unit) or by_name.get(RENAMED.get(unit, "")))
            names = {
                words_of(str(pattern).replace("{0}", ""))
                for width in ("long", "short")
                for category, pattern in _table(widths.get(width)).items()
                if category in PLURALS
            }
            names |= {(sign, *name[1:]) for name in names if name[:1] == ("か",) for sign in "ヶカヵケ"}
            names |= {
                ("".join(name),) for name in names if len(name) == 2 and all(len(word) > 3 for word in name)
            }
            yield from (UnitForm(unit, (), name) for name in sorted(names) if _is_unit_name(name))
        for stem, unit in (self.lexicon.unit_stems if self.lexicon else {}).items():
            yield UnitForm(unit, (), (f"{stem}*",))

    def _with_adverbs(self, words: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the words of a unit, and the same with an adverb for `a day`: `twice daily`."""
        days = [
            str(name)
            for name in _table(
                cast("Mapping[str, Any]", self.locale.unit_display_names).get("duration-day")
            ).values()
        ]
        is_daily = len(words) > 2 and any(same_word(words[-1], fold(day)) for day in days)
        daily = self.lexicon.daily.split() if self.lexicon and is_daily else ()
        return [words, *((*words[:-2], fold(adverb)) for adverb in daily)]

    @cached_property
    def _long_units(self) -> list[tuple[str, UnitForm]]:
        return [
            (word, form)
            for word, forms in self.unit_forms.items()
            for form in forms
            if len(form.after) == 1 and len(word) >= 4 and form.value is None
        ]

    @lru_cache(maxsize=4_096)  # noqa: B019 - a vocabulary lives as long as the process
    def forms_after(self, word: str) -> tuple[UnitForm, ...]:
        """Return the ways to write a unit that may begin with this word, an inflected one last."""
        found = [form for form in self.unit_forms.get(word, ()) if form.value is None]
        stems = [
            form
            for known, form in self._long_units
            if (word.startswith(known[:-1]) if known.endswith("*") else same_word(known, word))
        ]
        return (*found, *stems)

    # Calendar

    def _calendar(self, name: str) -> dict[str, int]:
        table = cast("Mapping[str, Any]", getattr(self.locale, name))
        found: dict[str, int] = {}
        for context in ("format", "stand-alone"):
            for width in ("wide", "abbreviated"):
                for number, word in _table(_table(table.get(context)).get(width)).items():
                    found.setdefault(level(str(word)).rstrip("."), int(number))
        return found

    @cached_property
    def months(self) -> dict[str, int]:
        """The number of each month by its folded name."""
        extra = {"en": {"sept": 9}, "de": {"marz": 3, "mrz": 3, "janner": 1}}.get(self.language, {})
        return {word: number for word, number in (self._calendar("months") | extra).items() if len(word) > 2}

    @cached_property
    def weekdays(self) -> dict[str, int]:
        """The number of each day of the week by its folded name, Monday first."""
        return self._calendar("days")

    @cached_property
    def is_month_first(self) -> bool:
        """Whether 5/4 is a day in May."""
        pattern = str(self.locale.date_formats["short"].pattern)
        return pattern.find("M") < pattern.find("d")


def _table(value: Any) -> Mapping[str, Any]:
    """A table of CLDR data, for which Babel has no types; an empty one where it is missing."""
    return cast("Mapping[str, Any]", value or {})


def _is_unit_name(name: tuple[str, ...]) -> bool:
    is_short = len("".join(name)) == 1 and not re.match(f"[{UNSPACED}]", name[0])
    return bool(name) and name != ("in",) and (not is_short or name[0] in (*_ONE_LETTER, *DEGREES))


@lru_cache(maxsize=64)
def _cached(locale: str, units: bytes, currencies: tuple[str, ...], used: tuple[str, ...]) -> Vocabulary:
    return Vocabulary(parse_locale(locale), orjson.loads(units), currencies, used)


def vocabulary(locale: str, units: Units, currencies: Iterable[str], used_units: Iterable[str]) -> Vocabulary:
    """Return the vocabulary of a locale; it is made once for the same arguments."""
    return _cached(
        locale, orjson.dumps(units), tuple(sorted(set(currencies))), tuple(sorted(set(used_units)))
    )

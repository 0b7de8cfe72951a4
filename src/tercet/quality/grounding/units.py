"""Units and currencies, by the names that texts and members of objects have for them."""

from __future__ import annotations

from tercet.quality.grounding.lexicon import word_set

_TIME = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "day": 86_400.0, "week": 604_800.0}
UNITS: dict[str, tuple[str, float]] = {
    **{name: ("time", factor) for name, factor in _TIME.items()},
    "month": ("months", 1.0), "year": ("months", 12.0), "quarter": ("months", 3.0),
    "mg": ("mass", 1e-3), "g": ("mass", 1.0), "kg": ("mass", 1e3), "t": ("mass", 1e6), "lb": ("mass", 453.592_37),
    "oz": ("mass", 28.349_523_125),
    "mm": ("length", 1e-3), "cm": ("length", 1e-2), "m": ("length", 1.0), "km": ("length", 1e3),
    "mile": ("length", 1609.344), "ft": ("length", 0.3048), "inch": ("length", 0.0254), "yard": ("length", 0.9144),
    "ml": ("volume", 1e-3), "l": ("volume", 1.0), "gallon": ("volume", 3.785_411_784), "m³": ("volume", 1e3),
    "m²": ("area", 1.0), "km²": ("area", 1e6), "ha": ("area", 1e4),
    "byte": ("data", 1.0), "kb": ("data", 1e3), "mb": ("data", 1e6), "gb": ("data", 1e9), "tb": ("data", 1e12),
    "w": ("power", 1.0), "kw": ("power", 1e3), "mw": ("power", 1e6), "hp": ("power", 745.7),
    "wh": ("energy", 1.0), "kwh": ("energy", 1e3), "°c": ("celsius", 1.0), "°f": ("fahrenheit", 1.0),
    "v": ("voltage", 1.0), "hz": ("frequency", 1.0), "khz": ("frequency", 1e3),
    "mhz": ("frequency", 1e6), "ghz": ("frequency", 1e9), "kmh": ("speed", 1.0), "mph": ("speed", 1.609_344),
    "%": ("share", 0.01), "pp": ("points", 0.01), "cent": ("cents", 0.01),
}  # fmt: skip
"""Each unit: what it measures, and how many of the basic unit it is."""

SPELLED: dict[str, str] = {
    "millisecond": "ms", "msec": "ms", "second": "s", "sec": "s", "minute": "min", "mins": "min", "hour": "h",
    "hr": "h", "hrs": "h", "days": "day", "wk": "week", "months": "month", "years": "year", "yr": "year",
    "yrs": "year", "milligram": "mg", "gram": "g", "kilogram": "kg", "kilo": "kg", "tonne": "t", "pound weight": "lb",
    "lbs": "lb", "ounce": "oz", "millimetre": "mm", "millimeter": "mm", "centimetre": "cm", "centimeter": "cm",
    "metre": "m", "meter": "m", "kilometre": "km", "kilometer": "km", "foot": "ft", "feet": "ft", "inches": "inch",
    "litre": "l", "liter": "l", "millilitre": "ml", "milliliter": "ml", "square metre": "m²", "square meter": "m²",
    "sqm": "m²", "m2": "m²", "square kilometre": "km²", "hectare": "ha", "cubic metre": "m³", "m3": "m³",
    "kilobyte": "kb", "megabyte": "mb", "gigabyte": "gb", "terabyte": "tb", "watt": "w", "kilowatt": "kw",
    "megawatt": "mw", "horsepower": "hp", "kilowatt hour": "kwh", "degree": "°c", "degrees celsius": "°c", "celsius": "°c",
    "fahrenheit": "°f", "volt": "v", "hertz": "hz", "km/h": "kmh", "percent": "%", "per cent": "%",
    "pct": "%", "percentage point": "pp", "cents": "cent", "bytes": "byte", "miles": "mile",
}  # fmt: skip

CURRENCIES: dict[str, str] = {
    "€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "us$": "USD", "eur": "EUR", "usd": "USD", "gbp": "GBP",
    "jpy": "JPY", "inr": "INR", "chf": "CHF", "cny": "CNY", "sek": "SEK", "nok": "NOK", "dkk": "DKK", "aud": "AUD",
    "cad": "CAD", "brl": "BRL", "pln": "PLN", "czk": "CZK", "zar": "ZAR", "mxn": "MXN", "sgd": "SGD", "nzd": "NZD",
    "hkd": "HKD", "krw": "KRW", "try": "TRY", "aed": "AED", "euro": "EUR", "dollar": "USD", "pound": "GBP",
    "pound sterling": "GBP", "yen": "JPY", "rupee": "INR", "swiss franc": "CHF",
}  # fmt: skip


MONEY = "money"
"""What a sum measures whose currency nobody names: it is compared with sums in any."""
_MONEY_WORDS = word_set(
    "total amount price cost costs fee fees sum balance subtotal tax vat refund payment charge deposit value net gross "
    "paid due discount budget salary rent"
)
_SUM_WORDS = word_set(
    "total amount price cost fee fees subtotal refund payment charge deposit salary rent vat"
)


def unit_named(name: str) -> str:
    """The unit that a word means; the word is one."""
    name = name.casefold()
    for word in (name, name.removesuffix("s")):
        if word in UNITS:
            return word
        if word in SPELLED:
            return SPELLED[word]
    return SPELLED[name]


def currency_named(text: str) -> str:
    """The currency that a sign or a word means; it is one."""
    name = text.casefold()
    return CURRENCIES.get(name) or CURRENCIES[name.removesuffix("s")]


def unit_of_key(words: list[str]) -> tuple[str, float]:
    """The unit that the last word of a key names: `price_eur`, `term_months`, `temperature_c`."""
    last = words[-1].casefold() if words else ""
    if last in ("c", "celsius"):
        return "celsius", 1.0
    if last in CURRENCIES and len(last) == 3:
        return CURRENCIES[last], 1.0
    name = last.removesuffix("s") if last not in UNITS else last
    if len(words) > 1 and (name in UNITS or name in SPELLED) and last not in ("v", "t"):
        return UNITS[unit_named(name)]
    return "", 1.0


def label_of(words: list[str]) -> tuple[list[str], str]:
    """A member's name without its unit, and the unit as one writes it behind a number."""
    if not unit_of_key(words)[0]:
        return words, ""
    return words[:-1] or words, "°C" if words[-1] in ("c", "celsius") else words[-1]


def is_money_key(words: list[str]) -> bool:
    """Whether a member of this name is a sum of money, where a currency stands beside it."""
    return not _MONEY_WORDS.isdisjoint(words)


def is_sum_key(words: list[str]) -> bool:
    """Whether a member of this name is a sum of money, whether or not a currency is named."""
    return not _SUM_WORDS.isdisjoint(words)


def currency_of(text: str) -> str | None:
    """The currency that a text names, if it does nothing else."""
    return CURRENCIES.get(text.strip().casefold())

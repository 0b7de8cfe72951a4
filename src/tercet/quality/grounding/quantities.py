"""Numbers in a text: with units, currencies, per cent, words for numbers, bounds and hedges."""

from __future__ import annotations

import re
from math import inf, isfinite
from typing import Literal, NamedTuple, TypeAlias

from tercet.quality.grounding.units import (
    CURRENCIES,
    MONEY,
    SPELLED,
    UNITS,
    currency_named,
    unit_named,
)

Bound: TypeAlias = Literal["=", ">", ">=", "<", "<="]

NEAR = 0.05
"""How far a number that says `about` may be off, as a part of it."""
SHARE_TOLERANCE = 0.005
"""How far a share in words (a third) may be off from one in figures."""

_SCALES = {
    "hundred": 1e2,
    "thousand": 1e3,
    "k": 1e3,
    "million": 1e6,
    "mn": 1e6,
    "billion": 1e9,
    "bn": 1e9,
    "trillion": 1e12,
}
_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
WORDS: dict[str, float] = {
    **{word: float(number) for number, word in enumerate(_ONES)},
    **{word: (number + 2) * 10.0 for number, word in enumerate(_TENS)},
    **{
        f"{ten}-{one}": (i + 2) * 10.0 + j
        for i, ten in enumerate(_TENS)
        for j, one in enumerate(_ONES[1:10], 1)
    },
    "dozen": 12.0,
}
_SHARES = {
    "half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4, "fifth": 1 / 5, "two thirds": 2 / 3, "two-thirds": 2 / 3,
    "three quarters": 3 / 4, "three-quarters": 3 / 4, "three fifths": 3 / 5, "two fifths": 2 / 5,
}  # fmt: skip
_BOUNDS: dict[str, Bound] = {
    "more than": ">", "over": ">", "above": ">", "exceeding": ">", "greater than": ">", "at least": ">=",
    "no fewer than": ">=", "no less than": ">=", "minimum of": ">=", "fewer than": "<", "less than": "<",
    "under": "<", "below": "<", "just under": "<", "at most": "<=", "up to": "<=", "no more than": "<=",
    "maximum of": "<=", "just over": ">",
}  # fmt: skip
_HEDGES = (
    "about|around|roughly|approximately|approx\\.?|nearly|almost|some|circa|ca\\.|~|≈|just under|just over"
)


def _either(words: list[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


_UNIT_NAMES = _either([*UNITS, *SPELLED])
_MONEY = _either(list(CURRENCIES))
_FIGURE = r"\d{1,3}(?:[,'’ .]\d{3})+(?:[.,]\d{1,2})?(?!\d)|\d+(?:[.,]\d+)?"
_WORD = _either(list(WORDS))
_LEAD = rf"(?:(?P<hedge>{_HEDGES})\s*)?(?:(?P<bound>{_either(list(_BOUNDS))})\s+)?(?:(?P<role>from|to)\s+)?(?:the\s+)?"
_AFTER = (
    rf"(?:\s*-?(?P<scale>{_either(list(_SCALES))})\b)?"
    rf"(?:[\s-]*(?:(?P<money_after>{_MONEY})s?(?![\w])|(?P<unit>{_UNIT_NAMES})s?(?![\w²³])))?"
    r"(?:\s*(?P<times>times)\b)?"
    r"(?:\s*(?:a|per|each|/|every)\s*(?P<per>second|minute|hour|day|week|month|year)\b|\s*(?P<perly>daily|weekly|monthly|yearly|annually)\b)?"
)
_QUANTITY = re.compile(
    rf"{_LEAD}(?P<sign_before>[-−])?(?P<money>{_MONEY})?\s?(?P<sign>[-−](?=\d))?"
    rf"(?<![\w.])(?:(?P<figure>{_FIGURE})|(?P<article>an?\s+)?(?P<word>{_WORD})(?![\w-]))(?!\w*[_]){_AFTER}",
    re.IGNORECASE,
)
_COUNTED = re.compile(rf"\d|{_either([*_ONES, *_TENS, 'dozen'])}", re.IGNORECASE)
"""What a text has that has a number: most have none, and looking for numbers in them takes long."""
_SHARE = re.compile(
    rf"(?:(?P<hedge>{_HEDGES})\s+)?\b(?:a\s+|one\s+)?(?P<share>{_either(list(_SHARES))})\s+of\b",
    re.IGNORECASE,
)
_OUT_OF = re.compile(
    rf"(?P<part>{_FIGURE})\s+(?:out\s+)?of\s+(?:the\s+|its\s+)?(?P<whole>{_FIGURE})(?![\w%])"
)
_OFTEN = re.compile(
    r"\b(?P<often>once|twice|thrice)\b(?:\s+(?:a|per)\s+(?P<per>day|week|month|year))?", re.IGNORECASE
)
_ARTICLE = re.compile(
    r"\b(?:after|for|within|of|takes|took|lasts|lasted|in|every|is|was)\s+(?P<one>an?\s+(?P<unit>hour|day|week|minute|second|month|year))\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"(?<!not )\b(?:every|all(?:\s+of)?)\b", re.IGNORECASE)
_MOST = re.compile(r"\b(?:most|the majority)\s+of\b", re.IGNORECASE)
_PERLY = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year", "annually": "year"}


class Quantity(NamedTuple):
    """A number with what it measures."""

    value: float
    measure: str
    """What it measures (`mass`), a currency (`EUR`), or nothing for a plain number."""
    start: int
    end: int
    bound: Bound = "="
    is_rough: bool = False
    step: float = 0.0
    """Half of the last place that is written, where rounding is allowed."""
    role: str = ""
    """`from` or `to`, where the text says so."""
    per: str = ""
    figure: float = 0.0
    """The number as it is written, whatever its unit."""
    is_vague: bool = False
    """Whether a word such as `all` or `most` says it, which is no number to hold anybody to."""


def parse_figure(text: str) -> float:
    """The number that figures with separators mean: 1,204.5 and 1.204,5 and 1'204.5 are the same."""
    text = text.replace(" ", "").replace("'", "").replace("’", "")
    last = max(text.rfind(","), text.rfind("."))
    if last < 0:
        return float(text)
    mark, tail = text[last], text[last + 1 :]
    is_grouping = len(tail) == 3 and (mark == "," or text.count(".") > 1)
    whole = re.sub(r"[.,]", "", text if is_grouping else text[:last])
    return float(whole if is_grouping else f"{whole}.{tail}")


def find_quantities(text: str) -> list[Quantity]:
    """The quantities of a text, in their order."""
    found: list[Quantity] = []
    shown = text
    for pattern, read in (
        (_OUT_OF, _read_ratio),
        (_SHARE, _read_share),
        (_OFTEN, _read_often),
        (_ARTICLE, _read_article),
    ):
        found += [quantity for match in pattern.finditer(shown) if (quantity := read(match)) is not None]
        if pattern is not _OUT_OF:
            shown = pattern.sub(lambda match: " " * len(match[0]), shown)
    matches = _QUANTITY.finditer(shown) if _COUNTED.search(shown) else ()
    figures = [quantity for match in matches if (quantity := _read(match)) is not None]
    found += _share_units(shown, figures)
    found += [Quantity(1.0, "share", *match.span(), is_vague=True) for match in _WHOLE.finditer(shown)]
    found += [
        Quantity(0.5, "share", *match.span(), bound=">", is_vague=True) for match in _MOST.finditer(shown)
    ]
    return sorted(found, key=lambda quantity: (quantity.start, quantity.end, quantity.measure))


def _share_units(text: str, found: list[Quantity]) -> list[Quantity]:
    """In `2 to 8 °C` and `between 2 and 8 kg` the first number has the unit of the second."""
    done: list[Quantity] = []
    for first, after in zip(found, [*found[1:], None], strict=False):
        is_bare = after is not None and not first.measure and bool(after.measure)
        if after and is_bare and _is_range(text[first.end : after.start]):
            factor = _scaled(text[after.start : after.end])
            done.append(first._replace(measure=after.measure, value=first.value * factor))
        else:
            done.append(first)
    return done


def _is_range(between: str) -> bool:
    return between.strip().casefold() in ("to", "and", "-", "–", "—", "")


def _scaled(text: str) -> float:
    match = _QUANTITY.search(text)
    unit = match["unit"] if match else None
    return UNITS[unit_named(unit)][1] if unit else 1.0


def _read(match: re.Match[str]) -> Quantity | None:
    number = parse_figure(match["figure"]) if match["figure"] else WORDS[match["word"].casefold()]
    if match["word"] and match["word"].casefold() == "one" and not match["unit"] and not match["money_after"]:
        return None  # `one` is a pronoun more often than a number
    scale = _SCALES[match["scale"].casefold()] if match["scale"] else 1.0
    money = match["money"] or match["money_after"]
    measure, factor = ("", 1.0)
    if money:
        measure = currency_named(money)
    elif match["unit"]:
        measure, factor = UNITS[unit_named(match["unit"])]
    value = number * scale * factor
    return Quantity(
        value=-value if match["sign"] or match["sign_before"] else value,
        measure=measure,
        start=min(at for at in (match.start("money"), match.start("figure"), match.start("word")) if at >= 0),
        end=match.end(),
        bound=_BOUNDS[" ".join(match["bound"].casefold().split())] if match["bound"] else "=",
        is_rough=bool(match["hedge"]) or (match["bound"] or "").casefold().startswith("just"),
        step=_step(match["figure"] or "", scale * factor, is_scaled=scale > 1),
        role=(match["role"] or "").casefold(),
        per=_per(match),
        figure=number,
    )


def _per(match: re.Match[str]) -> str:
    return (match["per"] or _PERLY.get((match["perly"] or "").casefold(), "")).casefold()


def _step(figure: str, factor: float, *, is_scaled: bool) -> float:
    """Half of the last place: `1.2 million` may have been rounded, `1,204,331` was not."""
    _, point, places = figure.rpartition(".")
    if point and len(places) != 3:
        return 0.5 * 10.0 ** -len(places) * factor
    return 0.5 * factor if is_scaled else 0.0


def _read_ratio(match: re.Match[str]) -> Quantity | None:
    whole = parse_figure(match["whole"])
    return Quantity(parse_figure(match["part"]) / whole, "share", *match.span()) if whole else None


def _read_share(match: re.Match[str]) -> Quantity:
    share = _SHARES[" ".join(match["share"].casefold().split())]
    return Quantity(share, "share", *match.span("share"), is_rough=bool(match["hedge"]), step=SHARE_TOLERANCE)


def _read_often(match: re.Match[str]) -> Quantity:
    count = {"once": 1.0, "twice": 2.0, "thrice": 3.0}[match["often"].casefold()]
    return Quantity(count, "", *match.span(), per=(match["per"] or "").casefold())


def _read_article(match: re.Match[str]) -> Quantity:
    measure, factor = UNITS[unit_named(match["unit"])]
    return Quantity(factor, measure, *match.span("one"))


def is_same_measure(one: Quantity, other: Quantity) -> bool:
    """Whether two quantities can be compared."""
    return (
        one.measure == other.measure
        or _as_share(one, other)
        or _as_cents(one, other)
        or _as_sum(one, other)
        or _as_sum(other, one)
    )


def _as_sum(one: Quantity, other: Quantity) -> bool:
    return one.measure == MONEY and (not other.measure or is_currency(other))


def is_currency(quantity: Quantity) -> bool:
    """Whether it is a sum of money in a currency."""
    return len(quantity.measure) == 3 and quantity.measure.isupper()


def _as_share(one: Quantity, other: Quantity) -> bool:
    plain = [quantity for quantity in (one, other) if not quantity.measure and 0 < quantity.value < 1]
    return len(plain) == 1 and "share" in (one.measure, other.measure)


def _as_cents(one: Quantity, other: Quantity) -> bool:
    return "cents" in (one.measure, other.measure) and any(map(is_currency, (one, other)))


def agrees(claimed: Quantity, given: Quantity) -> bool:
    """Whether what is given bears out what is claimed; both measure the same."""
    if claimed.per and given.per and claimed.per != given.per:
        return False
    if given.bound != "=":
        return given.value == claimed.value
    if claimed.bound != "=":
        return given.value == claimed.value or _is_within(given, claimed)
    return _is_close(claimed, given)


def range_of(claimed: Quantity) -> tuple[float, float]:
    """Between which numbers those lie that can bear one out, or a little beyond."""
    value = claimed.value
    if not isfinite(value):
        return value, value
    rough = 1.2 * NEAR * abs(value) if claimed.is_rough else 0.0
    slack = 2e-9 * max(abs(value), 1e-6) + 1.001 * claimed.step + rough
    if claimed.bound == "=" or claimed.is_rough:
        return value - slack, value + slack
    return (value - slack, inf) if claimed.bound in (">", ">=") else (-inf, value + slack)


def is_open(claimed: Quantity, given: Quantity) -> bool:
    """Whether what is given is a bound that settles nothing about the claim: `620` beside `above 500`."""
    if given.bound == "=":
        return False
    return claimed.bound != "=" or _is_within(claimed, given)


def _is_within(given: Quantity, claimed: Quantity) -> bool:
    if claimed.is_rough and abs(given.value - claimed.value) > NEAR * abs(claimed.value):
        return False
    match claimed.bound:
        case ">":
            return given.value > claimed.value
        case ">=":
            return given.value >= claimed.value
        case "<":
            return given.value < claimed.value
        case _:
            return given.value <= claimed.value


def _is_close(claimed: Quantity, given: Quantity) -> bool:
    distance = abs(claimed.value - given.value)
    if distance <= 1e-9 * max(abs(claimed.value), abs(given.value), 1e-6):
        return True
    if claimed.is_rough and distance <= NEAR * max(abs(claimed.value), abs(given.value)):
        return True
    is_rounded = claimed.step > given.step or (claimed.step > 0 and given.step == 0)
    return is_rounded and distance <= claimed.step * (1 + 1e-9)

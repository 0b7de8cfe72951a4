"""Words in the place of a value that cannot be checked: `begins next Tuesday`, `half the rent`, `a couple of keys`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from tercet.contracts.documents import KnownValue
from tercet.locales.plain_text import ARTICLE, ORDINAL, WEAK
from tercet.locales.scan import Scan
from tercet.locales.vocabulary import Vocabulary
from tercet.quality.values import NUMERIC, UNREAD
from tercet.quality.words import same_word, words_of

_NEAR = 60
_APART = re.compile(r"[.!?;\n](?=\s|$)|。|।")
# Number words are digits here, with the sign for an article, an ordinal or a weak one behind them.
_ONE, _NTH = f"1[{WEAK}{ARTICLE}]?", rf"(?:[3-9]|\d\d){ORDINAL}"
_SHARES = {
    "en": rf"(?:half|double|triple|2{WEAK} times|(?:an?|{_ONE}) (?:quarter|{_NTH}))(?= (?:of |the |your |that |a month))"
    rf"|(?:an?|{_ONE}) {_NTH}(?=[.,;:!?)]|$)",
    "de": rf"(?:das doppelte|das dreifache|doppelt so \w+|die halfte|{_ONE} (?:drittel|viertel|funftel|sechstel|achtel|zehntel))(?!\w)",
    "fr": rf"(?:le double|le triple|la moitie)(?!\w)|(?:le|{_ONE}) (?:tiers|quart|{_NTH})(?= (?:du|de|des) )",
    "es": rf"(?:el doble|el triple|la mitad|la {_NTH} parte)(?!\w)|(?:el|{_ONE}) (?:tercio|{_NTH})(?= (?:del|de (?:la|las|los|su|tu)) )",
    "ru": rf"(?:вдвое|втрое|(?<!с )половин\w+|треть\w*|четверть(?! часа)|{_NTH} часть)(?!\w)",
    "ja": r"半額|半分|倍額|[2-5二三四五]倍|\d+分の\d+",
    "hi": "आधा|आधी|दुगना|दोगुना|दोगुनी",
}
_WEEKDAY, _MONTH = "{weekday}", "{month}"
_DAYS = {
    "en": rf"(?:next|this coming|coming) (?:{_WEEKDAY}|week|month|year)|(?:the day after )?tomorrow",
    "de": rf"(?:nachste|kommende)[nrms]? (?:{_WEEKDAY}|woche|monat|jahr)|ubermorgen|(?:anfang|mitte|ende) {_MONTH}",
    "fr": rf"(?:{_WEEKDAY}|la semaine|le mois|l'annee) prochaine?|(?:apres-)?demain|(?:debut|mi|fin)[ -]{_MONTH}",
    "es": rf"(?:{_WEEKDAY} (?:que viene|proximo)|proxim[oa] (?:{_WEEKDAY}|semana|mes|ano))|pasado manana|(?:a )?(?:principios|mediados|finales) de {_MONTH}",
    "ru": rf"следующ\w+ (?:{_WEEKDAY}|недел\w|месяц\w*|год\w*)|завтра|послезавтра",
    "ja": "明日|明後日|来週|来月|来年",
    "hi": "कल|परसों|अगले (?:हफ्ते|महीने|साल)",
}
_COUPLES = {"en": r"a (?:couple|pair) of"}
_ROMAN = re.compile(r"(?<![\w.])(?=[IVXLC]{2,7} )(X{0,3}L?X{0,3})(IX|IV|V?I{0,3})(?= )")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}


@lru_cache(maxsize=64)
def _pattern(words: Vocabulary, table: str) -> re.Pattern[str] | None:
    source = {"shares": _SHARES, "days": _DAYS, "couples": _COUPLES}[table].get(words.language)
    if source is None:
        return None
    names = (
        "|".join(sorted((re.escape(name) for name in table if len(name) > 3), key=len, reverse=True))
        for table in (words.weekdays, words.months)
    )
    weekday, month = (f"(?:{each or '(?!)'})" for each in names)
    body = source.replace(_WEEKDAY, weekday).replace(_MONTH, f"(?P<month>{month})(?!\\w| \\d)")
    letter = "[\u0900-\u0963]" if words.language == "hi" else r"\w"
    return re.compile(body if words.language == "ja" else rf"(?<!{letter})(?:{body})(?!{letter})")


def read_vague(scan: Scan, known: Sequence[KnownValue]) -> None:
    """Take words that stand for a value beside a label of one as a token that equals nothing."""
    dates = [value for value in known if value.type == "date"]
    counts = [value for value in known if value.name and value.type in ("count", "number") and not value.unit]
    numbers = [value for value in known if value.name and value.type in NUMERIC]
    months = {int(str(value.value)[5:7]) for value in dates if value.value}
    for match in _found(scan, "days"):
        month = match.groupdict().get("month")
        is_known = month is not None and scan.vocabulary.months[month] in months
        if not is_known and _is_named(scan, match, dates):
            scan.add(match.start(), match.end(), "date", UNREAD)
    for match in _found(scan, "shares"):
        if _is_named(scan, match, numbers):
            scan.add(match.start(), match.end(), "number", UNREAD)
    for match in _found(scan, "couples"):
        if _is_before(scan, match.end(), counts):
            scan.add(match.start(), match.end(), "number", UNREAD)
    for match in _ROMAN.finditer(scan.text):
        if match[0] and _is_before(scan, match.end(), counts):
            scan.add(match.start(), match.end(), "number", str(_roman(match[0])))


def _found(scan: Scan, table: str) -> Iterable[re.Match[str]]:
    pattern = _pattern(scan.vocabulary, table)
    return pattern.finditer(scan.flat) if pattern else ()


def _is_named(scan: Scan, match: re.Match[str], values: Sequence[KnownValue]) -> bool:
    """Return whether a label of one of these values stands near, in the same sentence."""
    before = _APART.split(scan.flat[max(match.start() - _NEAR, 0) : match.start()])[-1]
    after = _APART.split(scan.flat[match.end() : match.end() + _NEAR])[0]
    said = (f" {' '.join(words_of(part))} " for part in (before, after))
    here = "".join(said)
    words = here.split()
    for value in values:
        for label in value.labels:
            parts = words_of(label)
            is_one = len(parts) == 1 and any(same_word(parts[0], word) for word in words)
            if is_one or (len(parts) > 1 and f" {' '.join(parts)} " in here):
                return True
    return False


def _is_before(scan: Scan, end: int, values: Sequence[KnownValue]) -> bool:
    following = words_of(scan.flat[end : end + 40])[:1]
    labels = (words_of(label) for value in values for label in value.labels)
    return any(same_word(part, word) for parts in labels for part in parts for word in following)


def _roman(text: str) -> int:
    values = [_ROMAN_VALUES[each] for each in text]
    return sum(
        -each if each < beyond else each for each, beyond in zip(values, [*values[1:], 0], strict=True)
    )

"""What in a text can be looked up: numbers, amounts, dates, identifiers, addresses, names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from tercet.contracts.documents import KnownValue, TextToken, TokenKind
from tercet.locales.dates import read_dates, read_times
from tercet.locales.lexicon import word_set
from tercet.locales.plain_text import ARTICLE, WEAK, PlainText, level, read_plain
from tercet.locales.vocabulary import Vocabulary
from tercet.quality.values import NUMERIC
from tercet.quality.words import alphanumeric, fold, same_word, word_ranges, words_of

_ADDRESS = re.compile(
    r"(?:https?://|www\.)[^\s<>|\"')\]]{1,500}|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}"
    r"|(?<![\w@.-])(?:[a-z0-9-]{1,63}\.){1,4}(?:com|org|net|de|fr|es|ru|eu|io|example|co|uk|test)(?:/[^\s<>|\"')\]]{0,500})?(?![\w-])",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?:[ \xa0]?[A-Z0-9]{4}){2,7}(?:[ \xa0]?[A-Z0-9]{1,3})?(?!\w)")
_PHONE = re.compile(
    r"(?<![\w+])(?:(?:\+|00)\d{1,3}|\(?0\d{1,5}\)?(?=[ \xa0/-]))(?:[ \xa0/.()-]{0,2}\d{1,8}){2,7}(?![\w])"
)
_RUN = re.compile(r"[\w#]+(?:[-./:]\w+)*")
_DIGITS = r"\d+(?:[.,']\d+)*"
_SCALES = {"k": 3, "tsd": 3, "тыс": 3, "mio": 6, "mn": 6, "m": 6, "млн": 6, "million": 6, "millions": 6, "millionen": 6,
           "millones": 6, "миллиона": 6, "миллионов": 6, "mrd": 9, "bn": 9, "billion": 9, "млрд": 9}  # fmt: skip
_ORDINAL = re.compile(r"(?:st|nd|rd|th|er|re|e|eme|ere|º|ª|o|a|й|я|е|го|ый|ой|ая|ое|м)(?!\w)", re.IGNORECASE)
_MARKER = re.compile(r"^[ \t>]*(?:(?:[-*+•]|\*\*)[ \t]*)?(\d{1,2})(?:[.)]\)?)(?=[ \t])", re.MULTILINE)
_HEADING = re.compile(r"^[ \t]*(?:#{1,6}|\*\*)[ \t]*(\d{1,2}(?:\.\d{1,2}){0,3})\.?\)?(?=[ \t])", re.MULTILINE)
_NOUN = re.compile(r"\.[ \xa0]([A-ZÄÖÜ]\w+)")
_IDIOM = re.compile(r"(?<!\w)24\s?/\s?7(?!\w)")


@dataclass
class _Scan:
    """A text that is read in several passes; what one pass has taken, later ones leave alone."""

    plain: PlainText
    original: str
    words: Vocabulary
    taken: bytearray = field(default_factory=bytearray)
    tokens: list[TextToken] = field(default_factory=list[TextToken])

    def is_free(self, start: int, end: int) -> bool:
        return end > start and not any(self.taken[start:end])

    def skip(self, start: int, end: int) -> None:
        self.taken[start:end] = b"\1" * (end - start)

    def add(self, start: int, end: int, kind: TokenKind, value: str, unit: str = "") -> None:
        """Take a range as a token, unless something of it is taken."""
        if not self.is_free(start, end):
            return
        self.skip(start, end)
        first, last = self.plain.span(start, end)
        token = TextToken(
            start=first, end=last, text=self.original[first:last], kind=kind, value=value, unit=unit
        )
        self.tokens.append(token)


def read_tokens(text: str, words: Vocabulary, known: Sequence[KnownValue]) -> tuple[TextToken, ...]:
    """Return what can be looked up in a text, in its order."""
    plain = read_plain(text, words.decimal, words.lexicon)
    scan = _Scan(plain, text, words, bytearray(len(plain.text)))
    flat = level(plain.text)
    for match in _ADDRESS.finditer(plain.text):
        end = match.end() - len(match[0]) + len(match[0].rstrip(".,;:!?"))
        scan.add(match.start(), end, "address", fold(plain.text[match.start() : end]))
    _read_known_texts(scan, known)
    for match in _ACCOUNT.finditer(plain.text):
        scan.add(match.start(), match.end(), "account", alphanumeric(match[0]))
    for found in read_dates(flat, words):
        scan.add(found.start, found.end, "date", found.value)
    for found in read_times(flat):
        scan.add(found.start, found.end, "time", found.value)
    for match in _PHONE.finditer(plain.text):
        if sum(char.isdigit() for char in match[0]) >= 7:
            scan.add(match.start(), match.end(), "phone", _phone(match[0]))
    _skip_counters(scan)
    _read_numbers(scan, flat, known)
    _read_names(scan, known)
    return tuple(sorted(scan.tokens, key=lambda token: token.start))


def _phone(text: str) -> str:
    digits = re.sub(r"\D", "", text.replace("(0)", ""))
    international = text.startswith(("+", "00"))
    return f"+{digits.removeprefix('00') if text.startswith('00') else digits}" if international else digits


def _skip_counters(scan: _Scan) -> None:
    """Leave out the numbers of list items and headings, as long as they count up from 1."""
    for pattern in (_HEADING, _MARKER):
        last = 0
        for match in pattern.finditer(scan.plain.text):
            number = int(match[1].split(".")[-1] if pattern is _MARKER else match[1].split(".")[0])
            if number == 1 or last <= number <= last + 1:
                scan.skip(match.start(1), match.end(1))
                last = number
    for match in _IDIOM.finditer(scan.plain.text):
        scan.skip(*match.span())


# Values that are known as they are written


def _read_known_texts(scan: _Scan, known: Iterable[KnownValue]) -> None:
    """Find texts and identifiers that hold digits, word by word, before their digits are read as numbers."""
    by_first: dict[str, set[tuple[tuple[str, ...], TokenKind]]] = {}
    for value in known:
        text = value.value if isinstance(value.value, str) else ""
        if value.type not in ("text", "name", "identifier") or len(text) > 300 or text.isdigit():
            continue
        parts = words_of(text)
        if parts and any(char.isdigit() for part in parts for char in part):
            kind: TokenKind = "identifier" if value.type == "identifier" else "name"
            by_first.setdefault(parts[0], set()).add((parts, kind))
    ranges = word_ranges(scan.plain.text) if by_first else []
    names = [word for word, _, _ in ranges]
    for at, (word, start, _) in enumerate(ranges):
        for parts, kind in sorted(by_first.get(word, ()), key=lambda entry: -len(entry[0])):
            end = ranges[at + len(parts) - 1][2] if at + len(parts) <= len(ranges) else 0
            if tuple(names[at : at + len(parts)]) == parts and _stands_alone(scan.plain.text, start, end):
                start -= scan.plain.text[start - 1 : start] == "+"
                value = alphanumeric(" ".join(parts)) if kind == "identifier" else " ".join(parts)
                scan.add(start, end, kind, value)


def _stands_alone(text: str, start: int, end: int) -> bool:
    before, after = text[max(start - 2, 0) : start], text[end : end + 2]
    joins = "-_/."
    return not (before[-1:] in joins and before[:1].isalnum() and len(before) == 2) and not (
        after[:1] in joins and after[1:].isalnum() and after[:1]
    )


def _read_names(scan: _Scan, known: Sequence[KnownValue]) -> None:
    names = {words_of(str(value.value)) for value in known if value.type == "name" and value.value}
    parts = {word for name in names for word in name if len(word) > 1}
    lexicon = scan.words.lexicon
    small = word_set(lexicon.small_words) if lexicon else frozenset[str]()
    ranges = word_ranges(scan.plain.text) if names else []
    run: list[tuple[str, int, int]] = []
    for word, start, end in [*ranges, ("", 0, 0)]:
        spelled = _name_part(word, parts) if scan.plain.text[start : start + 1].isupper() else ""
        gap = scan.plain.text[run[-1][2] : start] if run else ""
        if run and (
            not spelled or gap.strip(" \xa0-.'") or not _is_part([*(each[0] for each in run), spelled], names)
        ):
            if len(run) > 1 or run[0][0] not in small:
                scan.add(run[0][1], run[-1][2], "name", " ".join(each[0] for each in run))
            run = []
        if spelled:
            run.append((spelled, start, end))
    _read_addressees(scan, known)


def _name_part(word: str, parts: set[str]) -> str:
    if word in parts:
        return word
    is_cyrillic = bool(word) and "а" <= word[0] <= "я"
    return next((part for part in sorted(parts) if same_word(part, word)), "") if is_cyrillic else ""


def _is_part(run: Sequence[str], names: Iterable[tuple[str, ...]]) -> bool:
    """Whether words stand side by side in a name, or are its first and last."""
    wanted = tuple(run)
    size = len(wanted)
    return any(
        wanted in {name[at : at + size] for at in range(len(name) - size + 1)}
        or wanted == (name[0], name[-1])
        for name in names
        if name
    )


def _read_addressees(scan: _Scan, known: Sequence[KnownValue]) -> None:
    """Find names that nobody knows, where a name is expected: `Dear Ms Smith,`."""
    lexicon = scan.words.lexicon
    labels = {label for value in known if value.type == "name" for label in value.labels}
    if lexicon is None or not labels:
        return
    spelled = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
    title = "|".join(re.escape(word) for word in lexicon.titles.split())
    pattern = re.compile(
        rf"(?<!\w)(?i:{spelled}):?[ \xa0](?:(?i:{title})\b\.?[ \xa0])*(?P<name>[^\W\d_a-z][\w'’-]+(?:[ \xa0][^\W\d_a-z][\w'’-]+){{0,3}})"
    )
    for match in pattern.finditer(scan.plain.text):
        name = words_of(match["name"])
        after = scan.plain.text[match.end() : match.end() + 1]
        if (
            match["name"][0].isupper()
            and after in ("", ",", "!", "\n", ".", ":")
            and not word_set(lexicon.anybody) & set(name)
        ):
            scan.add(match.start("name"), match.end("name"), "name", " ".join(name))


# Numbers


def _read_numbers(scan: _Scan, flat: str, known: Sequence[KnownValue]) -> None:
    _read_whole_forms(scan)
    labels = {
        word for value in known if value.type in NUMERIC for label in value.labels for word in words_of(label)
    }
    spaces = r"[ \xa0]" if scan.words.has_space_groups else r"\xa0"
    number = re.compile(rf"\d{{1,3}}(?:{spaces}\d{{3}})+(?!\d)(?:[.,]\d+)?|{_DIGITS}")
    at = 0
    while (match := number.search(flat, at)) is not None:
        at = match.end()
        if not scan.is_free(*match.span()):
            at = match.start() + 1 if " " in match[0] or "\xa0" in match[0] else at
            while at < len(flat) and flat[at].isdigit() and scan.taken[at]:
                at += 1
            continue
        run = _identifier_around(flat, *match.span())
        if run is not None and scan.is_free(*run):
            scan.add(*run, "identifier", alphanumeric(flat[run[0] : run[1]]))
            at = max(run[1], at)
        else:
            _read_number(scan, flat, match, labels)


def _identifier_around(flat: str, start: int, end: int) -> tuple[int, int] | None:
    """The run of letters and digits that a number is a part of, if it is more than a number with a unit."""
    low, high = start, end
    while low > 0 and (
        flat[low - 1].isalnum() or (flat[low - 1] in "-_/." and flat[low - 2 : low - 1].isalnum())
    ):
        low -= 1
    while high < len(flat) and (
        flat[high].isalnum() or (flat[high] in "-_/" and flat[high + 1 : high + 2].isalnum())
    ):
        high += 1
    before, after = flat[low:start], flat[end:high]
    is_long = len(flat[start:end]) > 1 and flat[start] == "0" and flat[start:end].isdigit()
    has_letter = any(char.isalpha() for char in before)
    if has_letter and before[-1:] == "." and len(before) <= 5:
        return None  # an abbreviation: No.12
    if has_letter and (before[-1:] not in "-/" or not _is_joined_word(before)):
        return low, high
    if has_letter and before[-1:] in "-/":
        return low, high
    if not before and (not after or (after[0] in "-/" and not any(char.isdigit() for char in after))):
        return (low, high) if is_long else None
    if not before and after.isalpha():
        return None
    if re.fullmatch(r"[-/]\d{1,4}(?:-?[^\W\d_]+)?", after) or re.fullmatch(r"\d{1,4}[-/]", before):
        return None  # a range or a fraction
    return low, high


def _is_joined_word(before: str) -> bool:
    return before[:-1].isalpha() and len(before) > 6


def _read_whole_forms(scan: _Scan) -> None:
    ranges = word_ranges(scan.plain.text) if scan.words.whole_forms else []
    names = [word for word, _, _ in ranges]
    for form in scan.words.whole_forms:
        size = len(form.after)
        for at in (at for at, word in enumerate(names) if word == form.after[0]):
            if tuple(names[at : at + size]) == form.after:
                scan.add(ranges[at][1], ranges[at + size - 1][2], "amount", str(form.value), form.unit)


def _read_number(scan: _Scan, flat: str, match: re.Match[str], labels: set[str]) -> None:
    start, end = match.span()
    value = scan.words.parse_number(flat[start:end])
    if value is None:
        scan.add(start, end, "identifier", alphanumeric(flat[start:end]))
        return
    mark = flat[end : end + 1]
    end += mark in (WEAK, ARTICLE) and bool(mark)
    if ordinal := _ORDINAL.match(flat, end + (flat[end : end + 1] == "-")):
        end = ordinal.end()
    elif _is_dotted_ordinal(scan, start, end):
        end += 1
    elif scale := re.compile(r"[ \xa0]?([^\W\d_]+)\b\.?").match(flat, end):
        power = _SCALES.get(scale[1])
        if power and (len(scale[1]) > 1 or scale[0] == scale[1]):
            value, end = value.scaleb(power), scale.end()
    sign = _sign(flat, start)
    shown = f"{sign}{value.normalize():f}"
    for read in (_percent, _currency, _unit):
        found = read(scan, flat, start, end)
        if found is not None:
            low, high, kind, unit = found
            scan.add(low - (len(sign) if low == start else 0), high, kind, shown, unit)
            return
    is_counted = mark != ARTICLE and (mark != WEAK or _is_beside(flat, start, end, labels))
    if is_counted:
        scan.add(start - len(sign), end, "number", shown)


def _is_dotted_ordinal(scan: _Scan, start: int, end: int) -> bool:
    """Whether a number with a stop is an ordinal, as in `die 2. Mahnung`, rather than the end of a sentence."""
    following = (
        _NOUN.match(scan.plain.text, end) if scan.words.language == "de" and end - start <= 2 else None
    )
    small = word_set(scan.words.lexicon.small_words) if scan.words.lexicon else frozenset[str]()
    return following is not None and fold(following[1]) not in small


def _sign(flat: str, start: int) -> str:
    before = flat[max(start - 3, 0) : start]
    is_minus = (
        before[-1:] == "-"
        and (len(before) == 1 or before[-2] in " \n(\xa0|:\t€$£")
        and not before[:1].isdigit()
    )
    return "-" if is_minus else ""


def _is_beside(flat: str, start: int, end: int, labels: set[str]) -> bool:
    """Whether one of these words stands directly before or after a number."""
    before, after = words_of(flat[max(start - 40, 0) : start])[-1:], words_of(flat[end : end + 40])[:1]
    return any(same_word(label, word) for word in (*before, *after) for label in labels)


_Unit = tuple[int, int, TokenKind, str]


def _percent(scan: _Scan, flat: str, start: int, end: int) -> _Unit | None:
    sign = re.compile(
        r"[ \xa0]?%|[ \xa0]?-?\b(?:per[ \xa0]cent|pour[ \xa0]cent|por[ \xa0](?:ciento|cien))\b"
    ).match(flat, end)
    if sign is None and scan.words.lexicon:
        word = re.compile(r"[ \xa0-]?([^\W\d_]+)").match(flat, end)
        is_percent = word and any(same_word(each, word[1]) for each in word_set(scan.words.lexicon.percent))
        sign = word if is_percent else None
    return (start, sign.end(), "percent", "percent") if sign else None


def _currency(scan: _Scan, flat: str, start: int, end: int) -> _Unit | None:
    """A currency before the number that no other number has taken, or behind it."""
    forms = scan.words.currency_forms
    before = re.compile(r"([^\W\d_]{0,3}[$€£¥₽]|[^\W\d_]{1,20}\.?|[^\w\s.,;:()/|*-]{1,3})[ \xa0]?-?$").search(
        flat, max(start - 24, 0), start
    )
    if (
        before
        and before[1].rstrip(".") in forms
        and scan.is_free(before.start(), start)
        and not flat[before.start() - 1 : before.start()].isalnum()
    ):
        return before.start(), end, "amount", forms[before[1].rstrip(".")]
    tail = re.compile(r"(?:[.,]-{1,2})?[ \xa0-]?").match(flat, end)
    begin = tail.end() if tail else end
    behind = re.compile(r"[^\W\d_]+(?:[ \xa0-][^\W\d_]+)?|[^\w\s.,;:()/|*-]{1,3}[a-z]{0,2}|[a-z]{2}\$").match(
        flat, begin
    )
    for text in _shorter(behind[0] if behind else ""):
        code = forms.get(text.replace("\xa0", " ")) or _inflected_currency(text, forms)
        if code and not flat[begin + len(text) : begin + len(text) + 1].isalnum():
            return start, begin + len(text), "amount", code
    return None


def _shorter(text: str) -> Iterator[str]:
    """A phrase, and its first word or sign."""
    yield text
    head = re.match(r"[^\W\d_]+|[^\w\s]", text)
    if head and head[0] != text:
        yield head[0]


def _inflected_currency(text: str, forms: dict[str, str]) -> str:
    if len(text) < 4 or not text.isalpha():
        return ""
    return next((code for form, code in forms.items() if len(form) > 3 and same_word(form, text)), "")


def _unit(scan: _Scan, flat: str, start: int, end: int) -> _Unit | None:
    behind = flat[end : end + 80].split("\n\n", maxsplit=1)[0]
    if behind[:1] not in (" ", "\xa0", "-", "\n") and not behind[:1].isalpha() and behind[:1] != "°":
        own = [form for form in scan.words.unit_forms.get("", []) if form.before]
        return _with_words_before(flat, start, end, own)
    ranges = word_ranges(behind)[:8]
    if not ranges or behind[: ranges[0][1]].strip(" \xa0-\n°"):
        return None
    names = tuple(word for word, _, _ in ranges)
    for form in scan.words.forms_after(names[0]):
        size = len(form.after)
        is_same = form.after[1:] == names[1:size] or all(map(same_word, form.after[1:], names[1:size]))
        if len(names) >= size and is_same and _has_words_before(flat, start, form.before):
            return start, end + ranges[size - 1][2], "amount", form.unit
    return None


def _has_words_before(flat: str, start: int, before: tuple[str, ...]) -> bool:
    return not before or words_of(flat[max(start - 60, 0) : start])[-len(before) :] == before


def _with_words_before(flat: str, start: int, end: int, forms: Iterable[object]) -> _Unit | None:
    for form in forms:
        before, unit = getattr(form, "before", ()), getattr(form, "unit", "")
        if _has_words_before(flat, start, before):
            return start, end, "amount", unit
    return None


def decimal_places(value: Decimal) -> int:
    """Return how many decimals a number is written with."""
    return max(-int(value.as_tuple().exponent), 0)

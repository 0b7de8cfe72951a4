"""Known texts, identifiers and names in a text, word by word; and names that are unknown where one is expected."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from tercet.contracts.documents import KnownValue, TokenKind
from tercet.contracts.mode import Trust
from tercet.locales.lexicon import word_set
from tercet.locales.scan import Scan
from tercet.quality.words import alphanumeric, words_of

_LONGEST = 300
_MAX_NAME_WORDS = 8
_MAX_SIMILAR = 200
_JOINTS = "-_/."
_LONGEST_ENDING = 3
_POSSESSIVE = re.compile(r"['’]s?$")
_CAPITALISED = r"[^\W\d_a-zа-яß-ÿ][\w'’-]{1,40}"
_SURNAME = re.compile(rf"[ \xa0]({_CAPITALISED})")
_FIRST_NAME = re.compile(
    rf"(?P<before>[\w,][ \xa0])?(?<!\w)(?P<first>{_CAPITALISED}|[^\W\d_a-zа-яß-ÿ]\.)[ \xa0]$"
)
_LONGEST_FIRST = 45
_LINE_END = re.compile(r"[ \xa0,]*(?:\n|$)")
_CLOCK = re.compile(r"\d{1,2}:\d{2}")
_IS = r"is|was|will be|is called|ist|war|heißt|est|sera|s'appelle|es|será|se llama"
_KANJI = r"[\u3400-\u9fff々]"
_ADDRESSED = re.compile(rf"^[ \xa0]*({_KANJI}{{1,4}}[ \xa0]?{_KANJI}{{1,4}})[ \xa0]?様", re.MULTILINE)
_ANYBODY = "者客員先生主方皆"
"""What a Japanese word ends in that means anybody: 関係者様."""
_HINDI = r"[\u0900-\u0963]+"
_HINDI_ANYBODY = frozenset({"ग्राहक", "महोदय", "महोदया", "यात्री", "सदस्य", "मित्र", "जी"})
_Words = tuple[str, ...]


def read_known_texts(scan: Scan, known: Iterable[KnownValue]) -> None:
    """Find texts and identifiers that hold digits, before their digits are read as numbers."""
    texts: dict[_Words, TokenKind] = {}
    sizes: dict[str, set[int]] = {}
    for value in known:
        text = value.value if isinstance(value.value, str) else ""
        # The words of untrusted texts are read one by one: some of their values may be right.
        is_quotation = value.type in ("text", "name") and value.trust is Trust.TRUSTED
        is_text = (is_quotation or value.type == "identifier") and len(text) <= _LONGEST
        if not is_text or text.isdigit() or _CLOCK.fullmatch(text):
            continue
        parts = words_of(text)
        if any(char.isdigit() for part in parts for char in part):
            texts[parts] = "identifier" if value.type == "identifier" else texts.get(parts, "name")
            sizes.setdefault(parts[0], set()).add(len(parts))
    for at, (word, start, _) in enumerate(scan.words):
        for size in sorted(sizes.get(word, ()), reverse=True):
            ranges = scan.words[at : at + size]
            parts = tuple(part for part, _, _ in ranges)
            if parts in texts and _stands_alone(scan.text, start, ranges[-1][2]):
                kind = texts[parts]
                value = alphanumeric(" ".join(parts)) if kind == "identifier" else " ".join(parts)
                is_open = scan.text[start - 1 : start] == "(" and ")" in scan.text[start : ranges[-1][2]]
                has_sign = is_open or scan.text[start - 1 : start] == "+"  # of a telephone number
                scan.add(start - has_sign, ranges[-1][2], kind, value)


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Return whether a range is not a part of a longer identifier, as `INV-20` is of `INV-20-7`."""
    before, after = text[max(start - 2, 0) : start], text[end : end + 2]
    is_continued = after[:1] != "" and after[:1] in _JOINTS and after[1:].isalnum()
    return not is_continued and not (len(before) == 2 and before[1] in _JOINTS and before[0].isalnum())


def read_names(scan: Scan, known: Sequence[KnownValue]) -> None:
    """Find known names, whole or in part, and unknown ones where a name is expected."""
    names = {words_of(str(value.value)) for value in known if value.type == "name" and value.value}
    if not names:
        return
    parts = {part for name in names for part in _name_parts(name)}
    no_names = _words_before_names(scan, known)
    _read_addressees(scan, known, parts, no_names)
    _read_other_addressees(scan, known, parts)
    single = sorted(word for name in names for word in name if len(word) > 1)
    lexicon = scan.vocabulary.lexicon
    small = word_set(lexicon.small_words) if lexicon else frozenset[str]()
    run: list[tuple[str, int, int]] = []
    for word, start, end in [*scan.words, ("", 0, 0)]:
        is_inside = bool(run)  # `van` in a name, which no one writes with a capital
        spelled = (
            _match_name_word(word, parts, single)
            if is_inside or scan.text[start : start + 1].isupper()
            else ""
        )
        gap = scan.text[run[-1][2] : start] if run else ""
        if run and (
            not spelled or gap.strip(" \xa0-.'") or (*(each[0] for each in run), spelled) not in parts
        ):
            if len(run) > 1 or run[0][0] not in small:
                scan.add(*_whole_name(scan, run, names, no_names))
            run = []
        if spelled and (run or scan.text[start].isupper()):
            run.append((spelled, start, end))


def _words_before_names(scan: Scan, known: Sequence[KnownValue]) -> frozenset[str]:
    """Return the words beside a name that are no part of it: titles, greetings, labels, small words."""
    lexicon = scan.vocabulary.lexicon
    labels = (word for value in known for label in value.labels for word in words_of(label))
    listed = (lexicon.titles, lexicon.anybody, lexicon.small_words) if lexicon else ()
    return frozenset((*labels, *(word for words in listed for word in word_set(words))))


def _whole_name(
    scan: Scan, run: Sequence[tuple[str, int, int]], names: Collection[_Words], no_names: frozenset[str]
) -> tuple[int, int, TokenKind, str]:
    """Return a known name; or a part of one with the surname, the first name or an initial of another person beside it."""
    words, start, end = " ".join(word for word, _, _ in run), run[0][1], run[-1][2]
    firsts = {name[0] for name in names if len(name) > 1}
    if len(run) > 1:
        return start, end, "name", words
    if words in firsts:
        other = _SURNAME.match(scan.text, end)
        if other and (surname := words_of(other[1])) and surname[0] not in no_names:
            return start, other.end(), "name", " ".join((words, *surname))
        return start, end, "name", words
    before = _FIRST_NAME.search(scan.text, max(start - _LONGEST_FIRST, 0), start)
    if scan.vocabulary.lexicon is None or before is None:
        return start, end, "name", words
    first = words_of(before["first"])
    is_line = not before["before"] and _LINE_END.match(scan.text, end)
    is_initial = before["first"].endswith(".")
    is_inside = before["before"] and scan.vocabulary.language != "de"  # where each noun has a capital
    others = {word for name in names if words in name for word in name if word != words}
    initials = {word[0] for word in others} if is_initial else set[str]()
    is_declined = "а" <= first[0][0] <= "я" and any(word[:3] == first[0][:3] for word in others)  # Павла
    is_name = (is_line or is_initial or is_inside) and not is_declined
    if not is_name or set(first) & {*no_names, *initials}:
        return start, end, "name", words
    return before.start("first"), end, "name", " ".join((*first, words))


def _name_parts(name: _Words) -> Iterable[_Words]:
    """Return the words that stand side by side in a name, and its first and last together."""
    short = name[:_MAX_NAME_WORDS]
    yield (name[0], name[-1])
    for start in range(len(short)):
        for end in range(start + 1, len(short) + 1):
            yield short[start:end]


def _match_name_word(word: str, parts: set[_Words], single: Sequence[str]) -> str:
    """The word of a name that a word is; a Russian one may be declined."""
    if (word,) in parts and len(word) > 1:
        return word
    is_declined = bool(word) and "а" <= word[0] <= "я" and len(single) <= _MAX_SIMILAR
    stems = ((part, part.rstrip("аеиоуыэюяйьё") if len(part) > 3 else part) for part in single)
    declined = (
        part for part, stem in stems if word.startswith(stem) and len(word) - len(stem) <= _LONGEST_ENDING
    )
    return next(declined, "") if is_declined else ""


def _read_other_addressees(scan: Scan, known: Sequence[KnownValue], parts: set[_Words]) -> None:
    """Find names that are unknown where a letter in Japanese or Hindi begins: scripts without capitals."""
    whole = ["".join(words_of(str(value.value))) for value in known if value.type == "name" and value.value]
    if scan.vocabulary.language == "ja":
        for match in _ADDRESSED.finditer(scan.text):
            name = "".join(words_of(match[1]))
            if name[-1] not in _ANYBODY and not any(each.startswith(name) for each in whole):
                scan.add(match.start(1), match.end(1), "name", " ".join(name))
    if scan.vocabulary.language == "hi":
        labels = {label for value in known if value.type == "name" for label in value.labels}
        spelled = "|".join(map(re.escape, sorted(labels, key=len, reverse=True))) or "(?!)"
        for match in re.finditer(
            rf"^(?:{spelled})[ \xa0]({_HINDI}(?:[ \xa0]{_HINDI}){{1,2}})[ \xa0]?[,!\n]",
            scan.text,
            re.MULTILINE,
        ):
            said = set(match[1].replace("\xa0", " ").split())
            if not said & (_HINDI_ANYBODY | labels) and words_of(match[1]) not in parts:
                scan.add(match.start(1), match.end(1), "name", " ".join(words_of(match[1])))


def _read_addressees(
    scan: Scan, known: Sequence[KnownValue], parts: set[_Words], no_names: frozenset[str]
) -> None:
    """Find names that are unknown where a name is expected: `Dear Ms Smith,`, `your adviser Ann Smith will`, `Hello Ann,`."""
    lexicon = scan.vocabulary.lexicon
    labels = {label for value in known if value.type == "name" for label in value.labels if len(label) < 80}
    if lexicon is None or not labels:
        return
    spelled = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
    title = "|".join(re.escape(word) for word in lexicon.titles.split())
    own_title = "|".join(
        re.escape(word[:1].upper() + word[1:]) for word in lexicon.titles.split() if len(word) > 1
    )
    greetings = "|".join(lexicon.greetings.split()) or "(?!)"
    role = "(?i:" if scan.vocabulary.language == "de" else "(?:"
    titles = rf"(?:(?i:{title})\b\.?[ \xa0]){{0,2}}"
    pattern = re.compile(
        rf"(?<!\w)(?:(?i:{spelled}):?[ \xa0](?:(?i:{title})\b\.?[ \xa0]){{0,3}}"
        rf"(?P<name>{_CAPITALISED}(?:[ \xa0]{_CAPITALISED}){{0,3}})(?=[,!.:\n]|$)"
        rf"|(?:(?<=\w[ \xa0])|(?<=\w')){role}{spelled}),?[ \xa0]{titles}(?P<role>{_CAPITALISED}[ \xa0]{_CAPITALISED})"
        rf"|(?i:{spelled})(?:[ \xa0](?:{_IS})[ \xa0]|'s name is ){titles}(?P<held>{_CAPITALISED}[ \xa0]{_CAPITALISED})"
        rf"|(?:{own_title})\b\.?[ \xa0](?P<other>{_CAPITALISED}(?:[ \xa0]{_CAPITALISED})?))"
        rf"|\A\s*(?i:{greetings})[ \xa0](?P<greeted>{_CAPITALISED}),[ \xa0]*(?:\n|$)"
    )
    single = sorted({word for part in parts for word in part})
    for match in pattern.finditer(scan.text):
        group = match.lastgroup or ""
        end = match.start(group) + len(_POSSESSIVE.sub("", match[group]))
        name = words_of(scan.text[match.start(group) : end])
        said = tuple(_match_name_word(word, parts, single) or word for word in name)
        is_known = said in parts or (
            group in ("other", "role", "held") and said[:1] in parts
        )  # a noun may follow
        is_single = len(name) == 1  # Dear Patient
        others = no_names if is_single else {*word_set(lexicon.anybody), *word_set(lexicon.titles)}
        if not others & set(name) and not is_known:
            scan.add(match.start(group), end, "name", " ".join(name))

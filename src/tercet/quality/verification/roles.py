"""What vouches for a single value and for the name of a member: a bound value vouches in its own role only.

Punctuation decides nothing here: words of the request vouch for themselves only where they are one word, an identifier,
or a value that the decision lists.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Literal

from tercet.contracts.documents import KnownValue, ReadText, ValueType
from tercet.contracts.evidence import parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.shape import as_object
from tercet.contracts.text.words import to_decimal
from tercet.contracts.values import pointer
from tercet.quality.verification.results import CLASSIFICATION
from tercet.quality.words import UNSPACED

REQUEST = "request#"
_WORD = re.compile(r"[^\W\d_]{1,30}")
_NUMBERED = re.compile(r"(?=\S*\d)[\w.:/+#-]{1,80}")
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,3}")
_LONG = re.compile(r"[^\W\d_]{3,}")
_UNSPACED = re.compile(f"[{UNSPACED}]")
_WORDS = r"w+(?:['’]w+)*(?:(?: |_+|[-./・]|\. )w+(?:['’]w+)*)*"
_PLAIN_NAME = re.compile(rf"{_WORDS}(?: ?\({_WORDS}\)(?:(?: |_+|[-./・]){_WORDS})?)*")
"""Words and what may stand between them, with `w` for each letter, digit and mark of a letter."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MOST_LONG = 2
"""An identifier has at most so many parts of three letters or more: `your-account-is-closed-1` is a sentence."""
_LONGEST, _MOST_WORDS = 100, 8
"""What a name or an identifier has at most: characters, and words."""
_MARKUP = re.compile(r"[<>{}\[\]`|*\\]|^\W*#")
_SENTENCE = re.compile(r"[!?;:]|[^\W\d_]{5,}[.。](?:\s|$)")
_PARTICLES = frozenset({"della", "delle", "degli", "dalla", "bint"})
_MOST_NAMED = 3
"""The name of a member of data has at most so many words."""


def is_one_word(text: str) -> bool:
    """Return whether a text is one word, a number or one identifier; scripts without spaces do not show it."""
    if _UNSPACED.search(text):
        return False
    if _WORD.fullmatch(text) or to_decimal(text) is not None:
        return True
    name = text.partition("@")[0] if _EMAIL.fullmatch(text) else text
    is_known = name is not text or _NUMBERED.fullmatch(text) is not None
    return is_known and len(_LONG.findall(name)) <= _MOST_LONG


def has_form(text: str, kind: ValueType) -> bool:
    """Return whether a text can be a name or an identifier: neither a sentence nor markup. Other types have no form."""
    if kind not in ("name", "identifier"):
        return True
    if len(text) > _LONGEST or not text.isprintable() or _MARKUP.search(text):
        return False
    words = text.split()
    if kind == "identifier":
        groups = [word for word in words if not any(map(str.isdigit, word))]
        is_numbered = len(groups) < len(words)
        return len(words) == 1 or (is_numbered and all(each.isupper() and len(each) <= 6 for each in groups))
    is_plain = len(words) <= _MOST_WORDS and not _SENTENCE.search(text)
    return is_plain and (len(words) == 1 or all(map(_is_capitalised, words)))


def _is_capitalised(word: str) -> bool:
    first = next((char for char in word if char.isalnum()), "")
    return len(word) <= 3 or not first.islower() or word.casefold() in _PARTICLES or "'" in word[:3]


def is_field_name(name: str, known: Iterable[KnownValue]) -> bool:
    """Return whether the name of a member is that of a declared value, or of a field that is trusted and not the caller's."""
    words = _plain_words(name)
    return bool(words) and any(
        (words in names_of(value) or words == words_in(owner_of(value.pointer)))
        and (bool(value.name) or len(words.split()) <= _MOST_NAMED)
        for value in known
        if value.trust is Trust.TRUSTED and not _is_requested(value)
    )


def check_role(read: ReadText, known: Sequence[KnownValue]) -> Literal["own", "other", "none"]:
    """Return whether a value that came by reference stands under its own name, under another value's, or under none."""
    piece = read.pieces[-1]
    shown = read.text[piece.start : piece.end]
    place = pointer.parts(read.pointer)
    name = _plain_words(next((part for part in reversed(place) if not part.isdigit()), ""))
    is_own = bool(name) and name == _plain_words(_field(piece.pointer))
    is_cell = is_own and any(part.isdigit() for part in place)  # named by its row
    if not is_cell and any(each.name and each.value is None and name in names_of(each) for each in known):
        return "none"  # its sources disagree, or have none
    trusted = [each for each in known if each.trust is Trust.TRUSTED and each.value is not None]
    named = [each for each in trusted if name in names_of(each)]
    listed = [each for each in named if each.name]
    if listed and not is_cell:
        return "own" if _holds(listed, shown) else "other"
    facts = [each for each in named if not _is_requested(each)]
    if is_own and not (piece.pointer.startswith(REQUEST) and facts):
        return "own"
    wanted = facts or named
    return "none" if not wanted else "own" if _holds(wanted, shown) else "other"


def _holds(values: Iterable[KnownValue], shown: str) -> bool:
    number = to_decimal(shown)
    return any(
        str(each.value) == shown.strip() or (number is not None and to_decimal(each.value) == number)
        for each in values
    )


def names_of(value: KnownValue) -> frozenset[str]:
    """Return the names by which a member may call a value: its slot, its labels, its field, and that with its owner."""
    field, owner = _plain_words(_field(value.pointer)), words_in(owner_of(value.pointer))
    qualified = f"{owner} {field}" if owner and field else ""
    return frozenset(filter(None, (*map(words_in, (value.name, *value.labels)), field, qualified)))


def _field(where: str) -> str:
    """Return the name of the member that a source points to."""
    place = where.rpartition("#")[2]
    parts = pointer.parts(place) if place.startswith("/") else ()
    return next((part for part in reversed(parts) if not part.isdigit()), "")


def owner_of(where: str) -> str:
    """Return the class of evidence that holds a value; empty for a result, since plans name their steps."""
    ref = parse_ref(where.rpartition("#")[0])
    return "" if ref is None or ref.classification == CLASSIFICATION else ref.classification


def _is_requested(value: KnownValue) -> bool:
    return value.pointer.startswith(REQUEST)


@lru_cache(maxsize=4096)
def words_in(name: str) -> str:
    """Return the words of a name in any script; every one counts, since `счёт закрыт fee` is not the fee."""
    spaced = _CAMEL.sub(" ", unicodedata.normalize("NFC", name))
    return " ".join("".join(char if _is_in_word(char) else " " for char in spaced).split()).casefold()


def _is_in_word(char: str) -> bool:
    """Return whether a character is a letter, a digit or a mark, as vowel signs are in Hindi."""
    return char.isalnum() or unicodedata.category(char)[0] == "M"


def _plain_words(name: str) -> str:
    """Return the words of a name that has nothing else; a name with a sign has none that vouch."""
    return words_in(name) if is_plain_name(name) else ""


@lru_cache(maxsize=4096)
def is_plain_name(name: str) -> bool:
    """Return whether a name consists of words and the usual separators between them: a sign says something too."""
    text = unicodedata.normalize("NFC", name)
    shape = "".join(_shape(char, text[at - 1 : at]) for at, char in enumerate(text))
    return len(text) <= _LONGEST and _PLAIN_NAME.fullmatch(shape) is not None


def _shape(char: str, before: str) -> str:
    """Return `w` for a part of a word, a separator as itself, and `!` for everything else."""
    kind = unicodedata.category(char)
    if kind[0] == "L" or kind == "Nd":
        return "w"
    if kind in ("Mn", "Mc") and before and _script(char) == _script(before):
        return "w"
    return char if char in " _-./・()'’" else "!"


def _script(char: str) -> str:
    """Return the script in a character's name; marks that fit any script, such as overlays, have none of a letter."""
    return unicodedata.name(char, "").partition(" ")[0]


def is_plain_place(place: Sequence[str], schema: object, declared: Collection[str]) -> bool:
    """Return whether each name on the way to a place is plain, or the author's: declared, or in the schema."""
    for at, part in enumerate(place):
        members = as_object(schema) or {}
        named = as_object(members.get("properties")) or {}
        schema = named[part] if part in named else members.get("items")
        if part not in named and not (at == 0 and part in declared) and not is_plain_name(part):
            return False
    return True

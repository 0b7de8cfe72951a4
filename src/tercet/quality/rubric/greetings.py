"""Whom an output greets: a name that nobody knows of is the wrong letter in the right envelope.

A greeting claims nothing, so no claim is made of it. Its name is looked for, word by word, in what the output stands on.
Where that has no personal name at all, there is nothing to hold a greeting against.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tercet.contracts import pointer
from tercet.contracts.evidence import Evidence
from tercet.contracts.totals import key_words
from tercet.quality.grounding.lexicon import TITLES, word_set
from tercet.quality.verification.claims import Leaf, leaves
from tercet.quality.verification.locations import Location

_GREETING = re.compile(
    r"^[ \t>*_]*(?P<word>dear|hello|hi|hey|good (?:morning|day|afternoon|evening))[ \t]+(?P<rest>[^\n]{1,120})",
    re.IGNORECASE | re.MULTILINE,
)
_TOKEN = re.compile(r"(?P<word>[^\W\d_][\w’'-]*)(?P<stop>\.?)[ \t]*&?[ \t]*")
_PARTICLES = word_set("van von de der den la le du da di dos al el bin and und y et")
_ANYBODY = word_set(
    "customer customers guest guests client clients sir sirs madam madams all team teams everyone everybody anyone colleague "
    "colleagues friend friends neighbour neighbours neighbor neighbors reader readers member members user users "
    "visitor visitors partner partners patient patients student students parent parents family families tenant tenants "
    "resident residents applicant applicants candidate candidates editor editors manager managers support staff crew "
    "subscriber subscribers traveller travellers traveler travelers passenger passengers owner owners shopper shoppers "
    "folks there again both world hiring committee department office ladies gentlemen valued esteemed loyal new "
    "lady gentleman recipient buyer seller or"
)
_NOBODY = _ANYBODY | _PARTICLES | TITLES
_PEOPLE = word_set(
    "guest customer client recipient addressee contact patient tenant member passenger applicant student employee owner "
    "buyer seller person people traveller traveler subscriber user holder author sender resident candidate visitor "
    "participant attendee payer payee beneficiary insured driver parent child spouse signatory assignee manager"
)
_OWN = word_set("firstname lastname surname forename fullname")
_PERSONAL = re.compile(
    r"[A-ZÀ-Þ][\w’'-]*\.?(?:\s+(?:(?:van|von|de|der|den|la|le|du|da|di|al|bin)\s+)?[A-ZÀ-Þ][\w’'-]*\.?){0,4}"
)


class Greeting(NamedTuple):
    """A greeting of somebody by name."""

    name: str
    words: tuple[str, ...]
    location: str


def find_strangers(output: object, known: Sequence[Evidence]) -> list[Greeting]:
    """The greetings of an output that name somebody who is nowhere in what is known."""
    greetings = [found for leaf in leaves(output) for found in _greetings(leaf)]
    if not greetings or not any(map(_has_person, known)):
        return []
    words = {word for fact in known for leaf in leaves(fact.content) for word in _folded(str(leaf.value))}
    return [each for each in greetings if not all(_is_known(word, words) for word in each.words)]


def _greetings(leaf: Leaf) -> Iterator[Greeting]:
    for match in _GREETING.finditer(leaf.value) if isinstance(leaf.value, str) else ():
        shown = _name_in(match["rest"], is_sure=match["word"].casefold() == "dear")
        words = tuple(word for word in _folded(shown) if word not in _NOBODY)
        if words:
            start = match.start("rest")
            yield Greeting(shown, words, str(Location(pointer.join(leaf.place), start, start + len(shown))))


def _name_in(text: str, *, is_sure: bool) -> str:
    """The name that a text begins with; empty where it is the name of nobody.

    `Hello Kitty figurines` goes on with a small word, and greets nobody: only `Dear` is not said otherwise.
    """
    at, end, last = 0, 0, ""
    while (token := _TOKEN.match(text, at)) is not None:
        word = token["word"]
        if word[0].islower() and word not in _NOBODY:
            return text[:end] if is_sure and last not in _ANYBODY else ""
        at, end, last = token.end(), token.end("word"), word.casefold()
        if token["stop"] and last not in TITLES and len(word) > 1:
            break
    return "" if last in _ANYBODY else text[:end]


def _has_person(fact: Evidence) -> bool:
    """Whether a fact names somebody: a member that is called so, and looks like a name."""
    around = key_words(fact.classification)
    for leaf in leaves(fact.content):
        keys = [word for part in leaf.place if isinstance(part, str) for word in key_words(part)]
        last = next((key_words(part) for part in reversed(leaf.place) if isinstance(part, str)), list[str]())
        if (
            isinstance(leaf.value, str)
            and _PERSONAL.fullmatch(leaf.value.strip())
            and _is_person(last, [*around, *keys])
        ):
            return True
    return False


def _is_person(last: list[str], keys: list[str]) -> bool:
    is_name = "name" in last or not _OWN.isdisjoint(last)
    if is_name and ({"first", "last", "full", "given", "family"} & set(last) or not _OWN.isdisjoint(last)):
        return True
    if is_name:
        return not _PEOPLE.isdisjoint(keys)
    return bool(last) and last[-1] in _PEOPLE


def _is_known(word: str, words: set[str]) -> bool:
    return word in words or (len(word) == 1 and any(each.startswith(word) for each in words))


def _folded(text: str) -> list[str]:
    """The words of a text as names are compared: without accents, capitals, and what makes them possessive."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    found = re.findall(r"[^\W_]+(?:[’'-][^\W_]+)*", plain.casefold().replace("’", "'"))
    return [word.removesuffix("'s") for word in found]

"""Whether a label names a token so plainly that the token may be replaced: `the rent is £1,810`, and not `the rent was`.

A right label says little: `your old rent`, `half the rent`, `council tax of £140 with your rent`. So only words that are
known to change nothing may stand around the two.
"""

from __future__ import annotations

import re

from tercet.contracts.documents import TextToken
from tercet.quality.contexts import Range
from tercet.quality.words import words_of

_LINKS = frozenset(words_of(
    "is are of at on amounts to comes ms mr mrs miss dr"
    " ist sind von betragt betragen lautet belauft sich auf am herr herrn frau"
    " est sont de d du des s eleve a au m mme madame monsieur"
    " es son del asciende senor senora don dona"
    " составляет составляют равна равен равно это"
    " は が है का की"
))  # fmt: skip
"""Words between a label and its value."""
_PLAIN = frozenset(words_of(
    "the a an your our my this that and please note it was were"
    " der die das den dem des ein eine ihr ihre ihrer ihren ihrem unser unsere und bitte"
    " le la les l un une votre vos notre nos et"
    " el los las un una su sus nuestro nuestra y"
    " ваш ваша ваше ваши наш наша и"
    " お ご の आपका आपकी आपके"
))  # fmt: skip
"""Words around them that do not make another value of it."""
_VERBS = frozenset(words_of(
    "is are was were will has have ist sind war waren wird werden wurde hat haben"
    " est sont sera seront a ont es son sera seran ha han"
))  # fmt: skip
"""Words behind a label and its value with which something is said of both: the refund of 75 EUR is on its way."""
_CLAUSE = re.compile(r"[,;:!?()\n、。；：（）|•]|[.](?=\s|$)|\s[-–—]\s")
_JOINT = re.compile(r"[\w\s:：=*_|\"'«»„“”(\-–—.·…]*")


def names_plainly(text: str, label: Range, token: TextToken, segment: Range, owner: frozenset[str]) -> bool:
    """Return whether a label stands directly beside a token of its segment, with nothing else in their clause.

    `owner` are the words for what the value belongs to: the total of the order is the total.
    """
    first, last = min(label[0], token.start), max(label[1], token.end)
    if token.start < label[1] and label[0] < token.end:
        return False
    if token.end <= label[0]:
        is_beside = not text[token.end : label[0]].strip()
    else:
        between = text[label[1] : token.start]
        words = set(words_of(between))
        known = _LINKS | (_PLAIN | owner if owner & words else frozenset[str]())
        is_beside = words <= known and _JOINT.fullmatch(between) is not None
    before = [segment[0], *(match.end() for match in _CLAUSE.finditer(text, segment[0], first))]
    behind = _CLAUSE.search(text, last, segment[1])
    rest = words_of(text[last : behind.start() if behind else segment[1]])
    is_said_of = label[1] <= token.start and rest[:1] and rest[0] in _VERBS
    return (
        is_beside
        and (_PLAIN | owner).issuperset(words_of(text[before[-1] : first]))
        and (bool(is_said_of) or _PLAIN.issuperset(rest))
    )

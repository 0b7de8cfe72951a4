"""What a comparison comes to: whether a statement bears a claim out, or contradicts it, and how close it is to it."""

from __future__ import annotations

import re

from tercet.quality.grounding.comparison import Comparison, subjects
from tercet.quality.grounding.lexicon import concept
from tercet.quality.grounding.statements import Reading, Statement, read

COVERED = 0.6
"""The part of a claim's words that must be found where its anchors are."""
COVERED_PLAIN = 0.8
"""The same for a claim without any anchor."""
ON_TOPIC = 0.75
"""The part of a claim's words that a statement must have in order to contradict it."""
ON_TOPIC_LABELLED = 0.5
"""The same where the statement is a member of an object, and the claim names it."""
COUNTS = frozenset(concept(word)[0] for word in ("quantity", "qty", "count", "number", "stock", "pieces"))

_WORD = re.compile(r"[A-Za-z]+")
_ONE_WORD = re.compile(r"[A-Za-z]+")
_IS = re.compile(r"(?P<label>.+?)\s(?:is|are|was|were)\s+(?P<value>[a-z]+)\.?$")
_COUNTED = re.compile(r"\b\d+\s+([A-Za-z]+)")


def contradicts(claim: Reading, item: Comparison) -> bool:
    """Whether a statement speaks against a claim."""
    if item.statement.is_lenient:
        return False
    if item.is_by_another and not item.missing and item.shared and not item.is_opposite:
        return True
    if not item.is_about or not _is_on_topic(claim, item):
        return False
    if item.is_reversed or _has_other_word(claim, item):
        return True
    if item.others:
        return not item.is_opposite or bool(claim.quantities)
    is_same = item.is_opposite and not item.missing and all(one.finding != "absent" for one in item.checked)
    return is_same and bool(item.shared)


def is_around(whole: Statement, part: Statement) -> bool:
    """Whether one is the sentence that the other is a clause of."""
    is_same_place = (whole.source, whole.pointer) == (part.source, part.pointer)
    return is_same_place and part.is_clause and part.reading.text in whole.reading.text


def _is_on_topic(claim: Reading, item: Comparison) -> bool:
    """Whether a statement is about what the claim is about, so that a difference between them matters."""
    own = item.shared & item.statement.reading.words
    if _is_narrowed(claim, item) or _has_stranger(claim, item):
        return False
    if item.coverage >= ON_TOPIC and (own or (not claim.words and subjects(claim))):
        return True
    return bool(item.statement.reading.label) and _is_labelled(claim, item)


def _has_stranger(claim: Reading, item: Comparison) -> bool:
    """Whether the claim begins with what may be a name, and the statement does not have it."""
    first = [name for name in claim.names if not name.is_certain and name.end < claim.verb + 2]
    return any(concept(word)[0] in item.missing for name in first for word in name.words)


def _is_labelled(claim: Reading, item: Comparison) -> bool:
    """Whether the claim names the member that the statement is."""
    said = words_of(claim.text)
    label = item.statement.reading.label
    if label & COUNTS and (counted := counted_in(claim)):
        return counted in read(item.statement.beside).words
    return label <= said and item.coverage >= ON_TOPIC_LABELLED


def _is_narrowed(claim: Reading, item: Comparison) -> bool:
    """Whether a word that the statement does not have stands right before one that it has: `the shipping total`."""
    known = item.shared | item.statement.reading.label
    before, end = "", 0
    for match in _WORD.finditer(claim.text):
        word = concept(match[0])[0]
        is_next = claim.text[end : match.start()].isspace()
        if word in known and before in item.missing and is_next:
            return True
        before, end = (word if match.start() != claim.verb else ""), match.end()
    return False


def _has_other_word(claim: Reading, item: Comparison) -> bool:
    """Whether the claim says `its tier is silver` where the member `tier` is one other word."""
    match = _IS.search(claim.text)
    value = item.statement.value
    if match is None or not isinstance(value, str) or not _ONE_WORD.fullmatch(value) or claim.negated:
        return False
    said = words_of(match["label"])
    is_named = bool(item.statement.reading.label) and item.statement.reading.label <= said
    return (
        is_named and concept(match["value"]) != concept(value) and concept(match["value"])[0] in item.missing
    )


def entails(item: Comparison) -> bool:
    """Whether a statement bears a claim out."""
    if not item.is_complete or item.is_opposite or item.is_reversed or not item.is_about:
        return False
    if item.checked and any(not getattr(one.anchor, "is_vague", False) for one in item.checked):
        return item.coverage >= COVERED
    return item.coverage >= COVERED_PLAIN and bool(item.shared)


def rank(item: Comparison) -> tuple[float, int, bool]:
    """How close a statement is to the claim. A clause that has all the words and another value is closer than the sentence
    around it."""
    own = item.shared & item.statement.reading.words
    return item.coverage, len(own), item.statement.is_clause


def words_of(text: str) -> frozenset[str]:
    """What the words of a text stand for, those without a meaning of their own too."""
    return frozenset(concept(word)[0] for word in _WORD.findall(text))


def may_name_another(claim: Reading) -> bool:
    """Whether a claim says of something that it is one word, so that another word would contradict it."""
    return not claim.negated and _IS.search(claim.text) is not None


def counted_in(claim: Reading) -> str | None:
    """What a claim says how many there are of, if it does."""
    match = _COUNTED.search(claim.text)
    return concept(match[1])[0] if match else None

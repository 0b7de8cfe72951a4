"""The claims that outputs make: the sentences of their texts, and their other values with their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple

from tercet.contracts import pointer
from tercet.contracts.prose import goes_on
from tercet.contracts.quality import Claim
from tercet.contracts.references import Place
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.totals import key_words
from tercet.quality.grounding import units
from tercet.quality.grounding.statements import sentences
from tercet.quality.verification.locations import Location, parse_location

MAX_CLAIMS = 500
"""More claims of one output are not judged."""

_MARKS = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+|\s*>\s?")
_BREAK = re.compile(r"[ \t]*\r?\n[ \t]*")
_HEADING = re.compile(r"\s*#{1,6}\s|\s*\*\*[^*]+\*\*:?\s*$|\s*[-=_*|\s]+$")
# A line of names without a stop signs a letter, or stands above a part of it.
_TITLE = re.compile(r"(?:(?:[A-Z][a-z’'-]*|of|the|and|for|at|&),?\s+){1,8}[A-Z][A-Za-z’'-]*")
# Words that do something rather than say something: there is nothing in them that evidence could bear out.
_SPEECH = re.compile(
    r"(?:please|thank|thanks|sorry|dear|hello|hi|good (?:morning|day|afternoon|evening)|(?:kind|best|warm) regards"
    r"|regards|yours|sincerely|we (?:apologi[sz]e|regret|hope|look forward|are (?:very )?sorry|thank)"
    r"|i (?:apologi[sz]e|hope|am sorry|thank)|let us know|if you have any questions|do not hesitate)\b",
    re.IGNORECASE,
)

_GREETING = re.compile(
    r"(?:dear|hello|hi|hey|good (?:morning|day|afternoon|evening))\b[^,:!;\n]{0,80}[,:!;]\s*", re.IGNORECASE
)


class Leaf(NamedTuple):
    """A scalar of the outputs with its place."""

    value: Any
    place: Place


def leaves(value: Any, place: Place = ()) -> Iterator[Leaf]:
    """Every scalar of a value, in its order."""
    if (members := as_object(value)) is not None:
        for key, member in members.items():
            yield from leaves(member, (*place, key))
    elif (items := as_list(value)) is not None:
        for index, item in enumerate(items):
            yield from leaves(item, (*place, index))
    else:
        yield Leaf(value, place)


def names(value: Any, place: Place = ()) -> Iterator[Leaf]:
    """The name of every member of a value, with the place of that member."""
    if (members := as_object(value)) is not None:
        for key, member in members.items():
            yield Leaf(key, (*place, key))
            yield from names(member, (*place, key))
    for index, item in enumerate(as_list(value) or ()):
        yield from names(item, (*place, index))


def extract(outputs: Any) -> tuple[Claim, ...]:
    """The claims of outputs, in their order, up to `MAX_CLAIMS` of them."""
    return tuple(islice(_all(outputs), MAX_CLAIMS))


def has_more(outputs: Any) -> bool:
    """Whether outputs make more claims than are looked at."""
    return next(islice(_all(outputs), MAX_CLAIMS, None), None) is not None


def claims_behind_greetings(outputs: Any) -> Iterator[Claim]:
    """What is claimed in one sentence with a greeting: `Dear Amara, your refund is 180 EUR.`"""
    for sentence in islice(all_sentences(outputs), MAX_CLAIMS):
        where, start, end = parse_location(sentence.location)
        greeting = _GREETING.match(sentence.text)
        rest = sentence.text[greeting.end() :] if greeting else ""
        if start is not None and end is not None and is_claim(rest):
            yield Claim(text=rest, location=str(Location(where, end - len(rest), end)))


def all_sentences(outputs: Any) -> Iterator[Claim]:
    """Every sentence and value of outputs, whether it claims something or greets, thanks and asks for something."""
    for leaf in leaves(outputs):
        if isinstance(leaf.value, str) and is_text(leaf.value):
            where = pointer.join(leaf.place)
            for start, end in _whole_sentences(leaf.value):
                if not leaf.value[start:end].rstrip().endswith("?"):
                    text = _BREAK.sub(" ", leaf.value[start:end])
                    yield Claim(text=text, location=str(Location(where, start, end)))
        else:
            yield from _claims(leaf, outputs)


def _all(outputs: Any) -> Iterator[Claim]:
    return (claim for leaf in leaves(outputs) for claim in _claims(leaf, outputs))


def _claims(leaf: Leaf, outputs: Any) -> Iterator[Claim]:
    if leaf.value is None or leaf.value == "":
        return
    if isinstance(leaf.value, str) and is_text(leaf.value):
        yield from _sentences(leaf.value, pointer.join(leaf.place))
    else:
        yield Claim(text=_labelled(leaf, outputs), location=str(Location(pointer.join(leaf.place))))


def is_text(value: str) -> bool:
    """Whether a string is a text rather than a value: it has sentences or lines."""
    words = value.split()
    return "\n" in value.strip() or len(words) > 8 or (len(words) > 2 and value.rstrip()[-1:] in ".!?")


def _labelled(leaf: Leaf, outputs: Any) -> str:
    """A value with its name, as a person would write it: `amount: 24500 INR`."""
    words = key_words(next((key for key in reversed(leaf.place) if isinstance(key, str)), ""))
    if isinstance(leaf.value, bool):
        return (
            f"{' '.join(words)} is {'' if leaf.value else 'not '}true" if words else str(leaf.value).lower()
        )
    if isinstance(leaf.value, str):
        return f"{' '.join(words)}: {leaf.value}" if words else leaf.value
    label, unit = units.label_of(words)
    shown = f"{Decimal(str(leaf.value)):f} {unit or _currency(leaf, words, outputs)}".strip()
    return f"{' '.join(label)}: {shown}" if label else shown


def _currency(leaf: Leaf, words: list[str], outputs: Any) -> str:
    """The currency that stands beside a sum."""
    beside = as_object(pointer.follow(outputs, pointer.join(leaf.place[:-1]))) or {}
    named = beside.get("currency")
    is_sum = units.is_money_key(words) and isinstance(named, str)
    return (units.currency_of(named) or "") if is_sum and isinstance(named, str) else ""


def _sentences(text: str, where: str) -> Iterator[Claim]:
    for start, end in _whole_sentences(text):
        marks = _MARKS.match(text, start, end)
        begin = marks.end() if marks else start
        sentence = _BREAK.sub(" ", text[begin:end])
        if is_claim(sentence):
            yield Claim(text=sentence, location=str(Location(where, begin, end)))


def _whole_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where sentences begin and end; one that goes on in the next line is one."""
    start, end = -1, -1
    for low, high in sentences(text):
        gap = text[end:low] if end >= 0 else ""
        if gap.count("\n") == 1 and not gap.strip() and goes_on(text, end + gap.index("\n")):
            end = high
            continue
        if end >= 0:
            yield start, end
        start, end = low, high
    if end >= 0:
        yield start, end


def is_claim(sentence: str) -> bool:
    """Whether a sentence states something: headings, questions, greetings, requests and signatures do not."""
    plain = sentence.strip()
    is_said = plain.endswith("?") or _HEADING.match(plain) or _SPEECH.match(plain) or _TITLE.fullmatch(plain)
    if not plain or is_said:
        return False
    return len(plain.split()) > 2 or any(char.isdigit() for char in plain)

"""One claim against one statement of the evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from tercet.quality.grounding import dates, lexicon, quantities
from tercet.quality.grounding.dates import Date, Time
from tercet.quality.grounding.names import Identifier, Name
from tercet.quality.grounding.quantities import Quantity
from tercet.quality.grounding.statements import Reading, Statement
from tercet.quality.grounding.units import MONEY

Anchor: TypeAlias = Quantity | Date | Time | Name | Identifier
Finding: TypeAlias = Literal["found", "other", "absent"]
"""The same value is there; another value stands in its place; there is none."""

_ROLE = re.compile(r"(\b[a-z]+|:)\s*(?:the\s+|an?\s+|[A-Z][a-z]{1,4}\.?\s+)?$")
_PREPOSITIONS = lexicon.word_set("in at by to with of on from for under as near")
_COPULAS = lexicon.word_set("is are was were :")
_EXISTING = re.compile(r"\b(?:has|have|had|include[sd]?|there (?:is|are|was|were))\b", re.IGNORECASE)
_ONLY = re.compile(r"\b(?:only|solely|exclusively|alone)\b", re.IGNORECASE)
_NOUN = re.compile(r"\s+([a-z]{3,})")
_BY = re.compile(r"\bby\b")
_NAME_WORD = re.compile(r"[^\W_][^\W_’']*(?:[’'-][^\W_]+)*")
_ItemT = TypeVar("_ItemT", bound=Anchor)


class Checked(NamedTuple):
    """What became of one anchor of the claim."""

    anchor: Anchor
    finding: Finding
    text: str
    """The anchor as the claim has it."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How a claim and a statement stand to each other."""

    statement: Statement
    shared: frozenset[str]
    missing: frozenset[str]
    is_about: bool
    """Whether the statement names everybody and everything that the claim is about."""
    checked: tuple[Checked, ...]
    is_opposite: bool
    """Whether one says no where the other says yes."""
    is_reversed: bool
    """Whether the same names stand the other way round."""
    is_by_another: bool
    """Whether the same was done by somebody else."""

    @property
    def coverage(self) -> float:
        """The part of the claim's words that the statement and its context have."""
        count = len(self.shared) + len(self.missing)
        return len(self.shared) / count if count else 1.0

    @property
    def found(self) -> frozenset[Anchor]:
        """The anchors that the statement bears out."""
        return frozenset(item.anchor for item in self.checked if item.finding == "found")

    @property
    def others(self) -> tuple[Checked, ...]:
        """The anchors in whose place the statement has something else."""
        return tuple(item for item in self.checked if item.finding == "other")

    @property
    def is_complete(self) -> bool:
        """Whether every anchor of the claim is borne out."""
        return all(item.finding == "found" for item in self.checked)


def compare(claim: Reading, statement: Statement) -> Comparison:
    """Hold a claim against a statement."""
    known = statement.known
    turned = _turn(claim, known)
    shared = frozenset(word for word in claim.words if word in known or turned.get(word))
    checked = tuple(_check_all(claim, statement))
    return Comparison(
        statement=statement,
        shared=shared,
        missing=claim.words - shared,
        is_about=all(_is_named(claim, anchor, statement) for anchor in subjects(claim)),
        checked=checked,
        is_opposite=_is_opposite(claim, statement, turned),
        is_reversed=is_reversed(claim, statement.reading),
        is_by_another=_is_by_another(claim, statement.reading),
    )


def subjects(claim: Reading) -> list[Anchor]:
    """What a claim is about: the names, identifiers and dates before its verb."""
    found: list[Anchor] = [
        item for item in (*claim.names, *claim.identifiers, *claim.dates) if item.start < claim.verb
    ]
    return [item for item in found if not isinstance(item, Name) or item.is_certain]


def anchors(claim: Reading) -> list[Anchor]:
    """Everything in a claim that is found to the letter or not at all."""
    certain = [name for name in claim.names if name.is_certain]
    return [*claim.quantities, *claim.dates, *claim.times, *certain, *claim.identifiers]


def is_opposite(claim: Reading, statement: Statement) -> bool:
    """Whether one says no where the other says yes."""
    return _is_opposite(claim, statement, _turn(claim, statement.known))


def _turn(claim: Reading, known: frozenset[str]) -> dict[str, str | None]:
    return {word: _turned(word, known) for word in claim.words if word not in known}


def _turned(word: str, known: frozenset[str]) -> str | None:
    """The word of the statement that a prefix makes the opposite of this one."""
    base = lexicon.without_prefix(word)
    if base is not None and base in known:
        return base
    return next((other for other in sorted(known) if lexicon.without_prefix(other) == word), None)


def _is_opposite(claim: Reading, statement: Statement, turned: dict[str, str | None]) -> bool:
    reading = statement.reading
    flips = sum(
        claim.signs[word] != reading.signs[word] for word in claim.words if word in reading.signs
    ) + sum(other is not None and other in reading.words for other in turned.values())
    both = {word: other for word, other in turned.items() if other}
    known = (claim.words & reading.words) | both.keys() | frozenset(both.values())
    counted = [word for word in (*claim.negated, *reading.negated) if not word or word in known]
    return (len(counted) + flips) % 2 == 1


def _check_all(claim: Reading, statement: Statement) -> Iterable[Checked]:
    for anchor in anchors(claim):
        yield Checked(anchor, _check(claim, anchor, statement), claim.text[anchor.start : anchor.end])


def _check(claim: Reading, anchor: Anchor, statement: Statement) -> Finding:
    # What a claim is about may stand around the statement; what it says about it must stand in the statement itself,
    # or the buyer of a record would be its seller.
    if anchor.start >= claim.verb:
        statement = replace(statement, context=None)
    match anchor:
        case Quantity():
            return check_quantity(claim, anchor, statement.reading)
        case Date():
            return _check_date(claim, anchor, statement)
        case Time():
            return _check_time(claim, anchor, statement.reading)
        case Name():
            return _check_name(claim, anchor, statement)
        case Identifier():
            return _check_identifier(claim, anchor, statement)


def _rivals(
    given: Iterable[_ItemT], claimed: Iterable[_ItemT], agree: Callable[[_ItemT, _ItemT], bool]
) -> list[_ItemT]:
    """What is given and not claimed: a value that another part of the claim names stands in nobody's place."""
    return [other for other in given if not any(agree(mine, other) for mine in claimed)]


def _check_time(claim: Reading, anchor: Time, reading: Reading) -> Finding:
    def agree(one: Time, other: Time) -> bool:
        return one.minutes == other.minutes

    if any(agree(anchor, other) for other in reading.times):
        return "found"
    return "other" if _rivals(reading.times, claim.times, agree) else "absent"


def check_quantity(claim: Reading, anchor: Quantity, reading: Reading) -> Finding:
    """What becomes of a number of the claim."""
    given = [other for other in reading.quantities if _is_comparable(claim, anchor, other)]
    fitting = [other for other in given if quantities.agrees(anchor, other)]
    if anchor.is_vague:
        if not given:
            return "found"  # `all` and `every` are no numbers to look for
        return "found" if fitting or any(other.is_vague for other in given) else "other"
    if any(_is_same_role(anchor, other, given) for other in fitting):
        return "found"
    if fitting:
        return "other" if anchor.role or _is_present(claim) else "absent"
    if not given and any(date.year == anchor.value for date in reading.dates):
        return "found"
    if not anchor.value and reading.negated:
        return "found"
    named = [other for other in claim.quantities if not other.is_vague]
    free = [other for other in _rivals(reading.quantities, named, _agree) if not other.is_vague]
    exact = [other for other in free if other in given and not quantities.is_open(anchor, other)]
    return "other" if exact or _is_other_unit(anchor, free) else "absent"


def _is_comparable(claim: Reading, anchor: Quantity, other: Quantity) -> bool:
    """Whether both measure the same; a sum without its currency is one where it is the same, or has the same label."""
    if not anchor.measure and quantities.is_currency(other):
        return claim.is_label or anchor.value == other.value
    if not anchor.measure and other.measure == MONEY and _is_count(claim, anchor):
        return False
    return quantities.is_same_measure(anchor, other)


def has_share(quantity: Quantity) -> bool:
    """Whether a number can be compared with `all` or `most`."""
    return quantity.measure == "share" or (not quantity.measure and 0 < quantity.value < 1)


def _is_count(claim: Reading, anchor: Quantity) -> bool:
    """Whether a number says how many of something there are: `two shades` is no sum."""
    counted = _NOUN.match(claim.text, anchor.end)
    return counted is not None and counted[1] not in lexicon.STOP


def _agree(one: Quantity, other: Quantity) -> bool:
    return quantities.is_same_measure(one, other) and quantities.agrees(one, other)


def _is_same_role(anchor: Quantity, other: Quantity, given: list[Quantity]) -> bool:
    """Where something goes from one value to another, only the latter is what it is now."""
    if anchor.role == other.role or not other.role:
        return True
    return other.role == "to" or not any(item.role == "to" for item in given)


def _is_present(claim: Reading) -> bool:
    return re.search(r"\b(?:now|currently|stands|today)\b", claim.text) is not None


def _is_other_unit(anchor: Quantity, given: list[Quantity]) -> bool:
    """Whether a sum stands there in another currency, or the same figure in another unit."""
    return any(
        bool(anchor.measure and other.measure)
        and other.measure not in (anchor.measure, MONEY)
        and (
            (quantities.is_currency(anchor) and quantities.is_currency(other))
            or anchor.figure == other.figure
        )
        for other in given
    )


def _check_date(claim: Reading, anchor: Date, statement: Statement) -> Finding:
    reading = statement.reading
    if any(dates.agrees(anchor, other) for other in reading.dates):
        return "found"
    year_only = anchor.month is None and anchor.quarter is None
    if year_only and any(not q.measure and q.value == anchor.year for q in reading.quantities):
        return "found"
    if statement.context and any(dates.agrees(anchor, other) for other in statement.context.dates):
        return "found"
    rivals = _rivals(reading.dates, claim.dates, dates.agrees)
    return "other" if any(dates.differs(anchor, other) for other in rivals) else "absent"


def _is_named(claim: Reading, anchor: Anchor, statement: Statement) -> bool:
    match anchor:
        case Name():
            return _has_name(anchor, statement)
        case Identifier():
            return has_identifier(anchor, statement)
        case Date():
            return _check_date(claim, anchor, statement) == "found"
        case _:
            return True


def _texts(statement: Statement) -> str:
    return f"{statement.reading.text}\n{statement.context.text if statement.context else ''}"


def _has_name(name: Name, statement: Statement) -> bool:
    words = name_words(_texts(statement))
    return all(word in words for word in name.words)


def name_words(text: str) -> set[str]:
    """The words that a text has, as names are compared with them."""
    words = set(_NAME_WORD.findall(text.casefold()))
    return words | {word.removesuffix("'s").removesuffix("’s") for word in words}


def has_identifier(identifier: Identifier, statement: Statement) -> bool:
    """Whether a statement, or its context, has an identifier, with whatever spaces."""
    readings = [statement.reading, *([statement.context] if statement.context else [])]
    if any(identifier.key == other.key for reading in readings for other in reading.identifiers):
        return True
    pattern = re.compile(rf"(?<![a-z0-9]){re.escape(identifier.key)}(?![a-z0-9])")
    text = _texts(statement).casefold()
    return any(pattern.search(shown) for shown in (text, re.sub(r"\s+", "", text)))


def _check_name(claim: Reading, anchor: Name, statement: Statement) -> Finding:
    if _has_name(anchor, statement):
        return "found"
    if anchor.start < claim.verb:
        return "absent"
    strangers = [
        other
        for other in statement.reading.names
        if other.is_certain or statement.reading.is_label
        if not all(word in claim.text.casefold() for word in other.words)
    ]
    role = _role(claim.text, anchor.start)
    if strangers and _ONLY.search(f"{claim.text} {statement.reading.text}"):
        return "other"
    for other in strangers:
        if set(anchor.words) & set(other.words) or _fits(role, _role(statement.reading.text, other.start)):
            return "absent" if _EXISTING.search(claim.text) and role != "by" else "other"
    return "absent"


def _role(text: str, at: int) -> str:
    match = _ROLE.search(text[:at].replace("’", "'"))
    word = match[1].casefold() if match else ""
    return word if word in _PREPOSITIONS or word in _COPULAS else ""


def _fits(one: str, other: str) -> bool:
    if one in _COPULAS and other in _COPULAS:
        return True
    return bool(one) and (one == other or other == ":" or one == ":")


def _check_identifier(claim: Reading, anchor: Identifier, statement: Statement) -> Finding:
    if has_identifier(anchor, statement):
        return "found"
    if anchor.start < claim.verb:
        return "absent"
    given = _rivals(statement.reading.identifiers, claim.identifiers, lambda one, other: one.key == other.key)
    return "other" if any(anchor.shape == other.shape for other in given) else "absent"


def _is_by_another(claim: Reading, reading: Reading) -> bool:
    """Whether the claim has one doer, and the statement says `by` another."""
    doers, others = _subjects_named(claim), _doers(reading)
    if len(doers) != 1 or len(others) != 1 or _BY.search(claim.text):
        return False
    return not set(doers[0].words) & set(others[0].words) and not _has_word(reading.text, doers[0].words)


def _subjects_named(claim: Reading) -> list[Name]:
    return [name for name in claim.names if name.start < claim.verb and name.is_certain]


def _doers(reading: Reading) -> list[Name]:
    if "by" not in reading.text:
        return []
    return [name for name in reading.names if _role(reading.text, name.start) == "by"]


def has_doer(reading: Reading) -> bool:
    """Whether a statement says `by` somebody, and by nobody else."""
    return len(_doers(reading)) == 1


def _has_word(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text.casefold() for word in words)


def is_reversed(claim: Reading, reading: Reading) -> bool:
    """Whether two names stand on the other sides of the same verb."""
    mine, its = _pair(claim), _pair(reading)
    if mine is None or its is None or not mine[2] & its[2] or mine[3] != its[3]:
        return False
    return mine[0] == its[1] and mine[1] == its[0]


def _pair(reading: Reading) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str], bool] | None:
    if len(reading.names) < 2:
        return None
    first, second = reading.names[0], reading.names[1]
    between = reading.text[first.end : second.start]
    words = frozenset(
        lexicon.concept(word)[0]
        for word in re.findall(r"[a-z]+", between.casefold())
        if word not in lexicon.STOP
    )
    return first.words, second.words, words, bool(_BY.search(between))

"""What an output must state: members of the evidence, each of which some sentence or value of the output bears.

A sentence states a member if the grounding check finds it borne out by that very member. The check wants nearly all words of
a sentence in the evidence, which a letter does not have: so a sentence also states a member whose value it names, provided
that nothing contradicts it and it says neither `not` nor `about`. A plain number, or a value that stands elsewhere in the
evidence too, must go with a word of the member's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tercet.contracts import pointer
from tercet.contracts.evidence import Evidence, meets, parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.quality import Entailment
from tercet.contracts.rubric import CritiqueInput
from tercet.contracts.totals import key_words
from tercet.quality.grounding import lexicon, units
from tercet.quality.grounding.check import GroundingCheck
from tercet.quality.grounding.comparison import Anchor, anchors, compare
from tercet.quality.grounding.judges import Judges
from tercet.quality.grounding.quantities import Quantity
from tercet.quality.grounding.statements import Reading, Statement, read
from tercet.quality.rubric.safety import hide
from tercet.quality.rubric.telling import name_of, quote
from tercet.quality.verification.claims import all_sentences
from tercet.quality.verification.results import CLASSIFICATION

_WORD = re.compile(r"[^\W\d_]{2,}")
_TOKEN = re.compile(r"[^\W_]+")
_SHORTEST = 4
"""A word of a member's name is known by its beginning, if that has so many letters: `refund` for `refundable`."""


class Unstated(NamedTuple):
    """A member that an output must state, and does not."""

    told: str
    hint: str


class _Member(NamedTuple):
    fact: Evidence
    place: str
    value: Any
    said: tuple[Statement, ...] = ()
    """What it says, statement by statement."""
    is_elsewhere: bool = False
    """Whether another member has the same value, so that it takes more to tell which one is meant."""


def find_unstated(given: CritiqueInput, judges: Judges) -> Iterator[Unstated]:
    """What an output must state, and does not."""
    for ref in given.task.required_facts:
        members = _members(ref, given.evidence)
        if not members:
            yield Unstated(f"it must state {ref}, and the evidence has no such member", "find such evidence")
            continue
        check = judges(given.evidence)
        members = [_looked_up(each, check) for each in members]
        texts = [hide(claim.text, judges.secrets) for claim in all_sentences(given.output)]
        if not any(_states(text, member, check) for text in texts for member in members):
            first = members[0]
            shown = quote(first.value)
            yield Unstated(
                f"it does not state {ref}: {name_of(first.fact.id)} says {shown}",
                f"state what {first.fact.id} says at {first.place or '/'}: {shown}",
            )


def _members(ref: str, evidence: Sequence[Evidence]) -> list[_Member]:
    """The members that a reference names: those of trusted facts, if any has it."""
    name, _, place = ref.partition("#")
    found = [
        _Member(fact, place, value)
        for fact in evidence
        if _is_meant(name, fact) and (value := _value(fact, place)) is not None
    ]
    return [each for each in found if each.fact.trust is Trust.TRUSTED] or found


def _is_meant(name: str, fact: Evidence) -> bool:
    """Whether a name is that of the fact's class, or of the step that brought it."""
    ref = parse_ref(fact.id)
    is_result = ref is not None and ref.classification == CLASSIFICATION
    return meets(name, fact.classification) or (is_result and ref is not None and ref.key == name)


def _value(fact: Evidence, place: str) -> Any:
    try:
        return pointer.follow(fact.content, place)
    except pointer.PointerError:
        return None


def _looked_up(member: _Member, check: GroundingCheck) -> _Member:
    said = tuple(each for each in check.statements_of(member.fact.id, member.place) if not each.is_computed)
    sums = {_sum(each) for each in said} - {None}
    is_elsewhere = any(
        each.value == member.value if isinstance(each.value, str) else _sum(each) in sums
        for each in check.statements
        if each.value is not None and not each.is_computed
        if not check.is_at(each, member.fact.id, member.place)
    )
    return member._replace(said=said, is_elsewhere=is_elsewhere)


def _states(text: str, member: _Member, check: GroundingCheck) -> bool:
    said = check.judge(text)
    if said.label is Entailment.CONTRADICT:
        return False
    own = (member.fact.id, member.place)
    if said.label is Entailment.ENTAIL and own in {(each.evidence, each.pointer) for each in said.support}:
        return True
    return _names(read(check.spelled(text)), member)


def _names(claim: Reading, member: _Member) -> bool:
    """Whether a claim has the value of a member, as its own."""
    if claim.negated or isinstance(member.value, bool | dict | list):
        return False
    if isinstance(member.value, str) and _plain(member.value) in _plain(claim.text):
        return not member.is_elsewhere or _is_labelled(claim, member)
    found = [anchor for each in member.said for anchor in _found(claim, each)]
    if not found:
        return False
    is_telling = not member.is_elsewhere and any(map(_is_telling, found))
    return is_telling or _is_labelled(claim, member)


def _found(claim: Reading, said: Statement) -> list[Anchor]:
    """The anchors of a claim that are the only one of a statement, exactly."""
    if len(anchors(said.reading)) != 1:
        return []
    return [each for each in compare(claim, replace(said, context=None)).found if _is_exact(each)]


def _is_exact(anchor: Anchor) -> bool:
    return not isinstance(anchor, Quantity) or (
        anchor.bound == "=" and not anchor.is_rough and not anchor.is_vague
    )


def _is_telling(anchor: Anchor) -> bool:
    return not isinstance(anchor, Quantity) or bool(anchor.measure)


def _sum(said: Statement) -> float | None:
    quantity = next(iter(said.reading.quantities), None)
    return None if quantity is None or isinstance(said.value, str | bool) else round(quantity.value, 6)


def _is_labelled(claim: Reading, member: _Member) -> bool:
    """Whether a claim has a word of the member's name, or of a name around it."""
    names = [key_words(part) for part in pointer.parts(member.place) if not part.isdecimal()]
    words = [word for part in names for word in (units.label_of(part)[0] if len(part) > 1 else part)]
    said = [word.casefold() for word in _WORD.findall(claim.text)]
    return any(_is_same(one, other.casefold()) for one in said for other in words)


def _is_same(one: str, other: str) -> bool:
    if lexicon.concept(one)[0] == lexicon.concept(other)[0]:
        return True
    short, long = sorted((one, other), key=len)
    return len(short) >= _SHORTEST and long.startswith(short)


def _plain(text: str) -> str:
    return f" {' '.join(_TOKEN.findall(text.casefold()))} "

"""The grounding check: what can be said about a claim without understanding it.

A claim is held against the statements of the evidence. It is contradicted where a statement about the same thing has
another number, date, name or identifier in the same place, or says no to what the claim says yes to. It is entailed where
every such anchor is found, and nearly all of its words. Everything else is neutral: the check does not know.

What decides is always named: the statement, its place in the evidence, and the anchor. The check is built to be sparing
with CONTRADICT, since that is what stops an output; a claim that it does not understand is neutral.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from tercet.contracts.evidence import Evidence, parse_ref
from tercet.contracts.quality import Entailment, Judgement, Support
from tercet.contracts.totals import key_words, totals_in
from tercet.quality.grounding.arithmetic import MAX_GROUPS, Number, group_numbers, work_out
from tercet.quality.grounding.comparison import Anchor, Comparison, anchors, subjects
from tercet.quality.grounding.index import Index
from tercet.quality.grounding.masks import first, last, mask_of
from tercet.quality.grounding.quantities import Quantity
from tercet.quality.grounding.search import Search
from tercet.quality.grounding.spelling import SpelledMembers
from tercet.quality.grounding.statements import MAX_SENTENCE, Reading, Statement, read, state
from tercet.quality.grounding.sums import KnownTotals, compute
from tercet.quality.grounding.weighing import COVERED

EDITION = 3
"""The edition of the rules. The second one does not know that `the refundable cents are 19000` speaks of cents, and names
`Karl Bauer.` with the stop behind it."""
OTHER = "the evidence has something else than "

_PRONOUN = re.compile(r"(?:it|they|he|she|this|these|that|those)\b", re.IGNORECASE)
_OWN = re.compile(r"(?:the|this|that|these|those|it|he|she|they|an?|its|his|her|their)\b", re.IGNORECASE)
_AND = re.compile(r",?\s+and\s+(?=[a-z])|;\s+|,\s+who\s+|,\s+(?=[a-z])")
_NOTHING: Mapping[Anchor, tuple[Statement, ...]] = {}


class Said(NamedTuple):
    """What one fact says."""

    statements: list[Statement]
    totals: frozenset[Decimal | None]
    """What may be called the total by it."""


class GroundingCheck:
    """Judges claims by numbers, dates, names, identifiers and negations. Deterministic, and needs no model."""

    def __init__(
        self,
        evidence: Sequence[Evidence],
        *,
        reader: Callable[[Evidence, int], Said] | None = None,
        most: int | None = None,
        edition: int = EDITION,
    ) -> None:
        self.name = f"grounding-{edition}"
        self._edition = edition
        self._evidence = tuple(evidence)
        self._judged: dict[tuple[str, int | None], Judgement] = {}
        reader = reader or read_fact
        said: list[Said] = []
        size = 0
        for number, fact in enumerate(self._evidence):
            if most is None or size <= most:
                said.append(reader(fact, number))
                size += len(said[-1].statements)
        self.is_cut = most is not None and size > most
        """Whether there is more evidence than `most` statements: facts behind the one that goes beyond are not read."""
        self._statements = [statement for each in said for statement in each.statements]
        self._totals = KnownTotals([each.totals for each in said], self._statements)

    def judge(self, claim: str, *, apart_from: int | None = None) -> Judgement:
        """What the evidence says about a claim; `apart_from` is the number of a fact that is left out."""
        asked = claim[:MAX_SENTENCE], apart_from
        if asked not in self._judged:
            self._judged[asked] = self._judge(*asked)
        return self._judged[asked]

    def _judge(self, claim: str, apart_from: int | None) -> Judgement:
        if self._edition >= 3:
            claim = self.spelled(claim)
        wrong = self._totals.find_wrong(read(claim)) if apart_from is None else None
        if wrong is not None:
            reason = f"{wrong[0]!r} is a wrong total"
            return Judgement(label=Entailment.CONTRADICT, reason=reason, support=(self._support(wrong[1]),))
        within, groups = self._apart_from(apart_from)
        whole = self._judge_one(read(claim), within, groups)
        if whole.label is not Entailment.NEUTRAL:
            return whole
        parts = _parts(claim)
        if len(parts) < 2:
            return whole
        judged = [self._judge_one(read(part), within, groups) for part in parts]
        against = next((one for one in judged if one.label is Entailment.CONTRADICT), None)
        if against is not None:
            return against
        is_one_fact = len({support.evidence for one in judged for support in one.support}) == 1
        if all(one.label is Entailment.ENTAIL for one in judged) and (
            is_one_fact or not _PRONOUN.match(claim)
        ):
            return Judgement(
                label=Entailment.ENTAIL,
                reason="each part of it is borne out",
                support=tuple(support for one in judged for support in one.support),
            )
        return whole

    def _judge_one(self, claim: Reading, within: int, groups: list[list[Number]]) -> Judgement:
        search = Search(self._index, claim, within)
        borne, against = search.find_closest()
        if borne is not None:
            return self._answer(Entailment.ENTAIL, _how(borne), [borne])
        worked = _work_out(search, groups, against)
        if against is not None and not _is_worked_out(against, worked):
            return self._answer(Entailment.CONTRADICT, _why(against, self._edition), [against])
        together = _together(search)
        if together:
            return self._answer(Entailment.ENTAIL, "all of it is found, in several places", together)
        together = _together(search, worked) if worked else []
        if together:
            return self._answer(Entailment.ENTAIL, f"computed from {_places(worked)}", together)
        missing = _missing(search, worked)
        if self._edition >= 3:
            missing = tuple(text.rstrip(".") or text for text in missing)
        reason = (
            f"{missing[0]!r} is nowhere in the evidence" if missing else "nothing in the evidence settles it"
        )
        return Judgement(label=Entailment.NEUTRAL, reason=reason, missing=missing)

    @property
    def statements(self) -> Sequence[Statement]:
        """What the evidence says, statement by statement."""
        return self._statements

    def statements_of(self, fact: str, place: str) -> list[Statement]:
        """What one member of a fact says."""
        return [each for each in self._statements if self.is_at(each, fact, place)]

    def is_at(self, statement: Statement, fact: str, place: str) -> bool:
        """Whether a statement is that of one member of a fact."""
        return statement.pointer == place and self._evidence[statement.source].id == fact

    def spelled(self, claim: str) -> str:
        """A claim as it is read: the unit that a member has in its name stands behind the number."""
        return self._members.put_units_right(claim)

    @cached_property
    def _members(self) -> SpelledMembers:
        return SpelledMembers(self._statements)

    @cached_property
    def _index(self) -> Index:
        return Index(self._statements)

    @cached_property
    def _groups(self) -> list[list[Number]]:
        return group_numbers(self._statements)

    def _apart_from(self, source: int | None) -> tuple[int, list[list[Number]]]:
        """The statements, and the numbers of each object, of all facts but one."""
        groups = [group for group in self._groups if group[0].statement.source != source][:MAX_GROUPS]
        size = len(self._statements)
        left_out = (at for at, said in enumerate(self._statements) if said.source == source)
        return self._index.every & ~(mask_of(left_out, size) if source is not None else 0), groups

    def _answer(self, label: Entailment, reason: str, items: list[Comparison]) -> Judgement:
        return Judgement(
            label=label, reason=reason, support=tuple(self._support(item.statement) for item in items)
        )

    def _support(self, statement: Statement) -> Support:
        fact = self._evidence[statement.source]
        return Support(
            evidence=fact.id, pointer=statement.pointer, text=statement.reading.text[:300], trust=fact.trust
        )


def has_particulars(claim: str) -> bool:
    """Whether a claim has a number, date, name or identifier: something that is in the evidence, or is not."""
    return any(not getattr(anchor, "is_vague", False) for anchor in anchors(read(claim[:MAX_SENTENCE])))


def read_fact(fact: Evidence, number: int) -> Said:
    """What a fact says, as the one of this number."""
    topic = _topic(fact)
    statements = [*state(fact.content, number, topic), *compute(fact.content, number, topic)]
    return Said(statements, frozenset(totals_in(fact.content)))


def _topic(fact: Evidence) -> str:
    ref = parse_ref(fact.id)
    return " ".join([*key_words(fact.classification), *([ref.key] if ref else [])])


def _parts(claim: str) -> list[str]:
    """A claim of several parts, each with what the whole is about."""
    parts = [part for part in _AND.split(claim.rstrip(".")) if part.strip()]
    if len(parts) < 2 or not all(anchors(read(part)) for part in parts):
        return []
    first = read(parts[0])
    subject = parts[0][: first.verb].strip().rstrip(",")
    return [parts[0], *(part if _OWN.match(part) else f"{subject} {part}" for part in parts[1:])]


def _work_out(
    search: Search, groups: list[list[Number]], against: Comparison | None
) -> dict[Anchor, tuple[Statement, ...]]:
    """The numbers of a claim that no statement has, or that one speaks against, with those that they are worked out of."""
    disputed = {one.anchor for one in against.others} if against else set[Anchor]()
    found = [
        anchor
        for anchor in search.found
        if isinstance(anchor, Quantity) and search.found[anchor] and anchor not in disputed
    ]
    # What stands last comes first, as it would if all statements were gone through from the end.
    found.sort(key=lambda anchor: -last(search.found[anchor]))
    statements = search.index.statements
    borne = {anchor: Number(anchor, statements[first(search.found[anchor])]) for anchor in found}
    claim = search.claim
    lacking = [one for one in claim.quantities if one not in borne and not one.is_vague]
    ways = {one: work_out(claim, one, groups, tuple(borne.values())) for one in lacking}
    return {one: way for one, way in ways.items() if way}


def _is_worked_out(item: Comparison, worked: Mapping[Anchor, tuple[Statement, ...]]) -> bool:
    """Whether what a statement has something else for follows from others: `60 EUR of the price remain`."""
    return bool(item.others) and all(one.anchor in worked for one in item.others)


def _distinct(worked: dict[Anchor, tuple[Statement, ...]]) -> list[Statement]:
    return list({(said.source, said.pointer): said for way in worked.values() for said in way}.values())


def _places(worked: dict[Anchor, tuple[Statement, ...]]) -> str:
    return " and ".join(said.pointer or "/" for said in _distinct(worked))


def _together(search: Search, worked: Mapping[Anchor, tuple[Statement, ...]] = _NOTHING) -> list[Comparison]:
    """Statements that bear out a claim together: each is about the same thing, and has some of its anchors.

    They stand in one fact, or the claim names what it is about: nothing is stitched out of two records.
    """
    claim = search.claim
    wanted = set(search.anchors) - worked.keys()
    if not wanted and not worked:
        return []
    found = search.find_together(wanted, _worked(search, worked))
    words = {word for item in found or () for word in item.shared}
    is_one_fact = len({item.statement.source for item in found or ()}) == 1
    if found is None or len(words) < COVERED * len(claim.words) or not (is_one_fact or subjects(claim)):
        return []
    return found


def _worked(search: Search, worked: Mapping[Anchor, tuple[Statement, ...]]) -> list[Comparison]:
    """The statements that a number was worked out of, and that are about what the claim is about."""
    places = sorted({search.index.places[id(said)] for way in worked.values() for said in way})
    return [search.compare(at) for at in places if search.about >> at & 1]


def _missing(search: Search, worked: Mapping[Anchor, tuple[Statement, ...]]) -> tuple[str, ...]:
    """The anchors that no statement has, whatever it is about, and that follow from none."""
    return tuple(
        search.claim.text[anchor.start : anchor.end].strip()
        for anchor in sorted(search.anchors, key=lambda item: (item.start, item.end))
        if not search.found[anchor] and anchor not in worked and not getattr(anchor, "is_vague", False)
    )


def _how(item: Comparison) -> str:
    said = item.statement
    return f"computed from {said.pointer or '/'}" if said.is_computed else "it is borne out"


def _why(item: Comparison, edition: int) -> str:
    claimed = item.others[0].text.strip() if item.others else ""
    claimed = claimed.rstrip(".") if edition >= 3 else claimed
    if item.others and item.statement.is_computed:
        return f"{claimed!r} is a wrong total"
    if item.others:
        return f"{OTHER}{claimed!r}"
    return (
        "the same names stand the other way round" if item.is_reversed else "the evidence says the opposite"
    )

"""The grounding check: what can be said about a claim without understanding it.

A claim is held against every statement of the evidence. It is contradicted where a statement about the same thing has
another number, date, name or identifier in the same place, or says no to what the claim says yes to. It is entailed where
every such anchor is found, and nearly all of its words. Everything else is neutral: the check does not know.

What decides is always named: the statement, its place in the evidence, and the anchor. The check is built to be sparing
with CONTRADICT, since that is what stops an output; a claim that it does not understand is neutral.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tercet.contracts.evidence import Evidence, parse_ref
from tercet.contracts.quality import Entailment, Judgement, Support
from tercet.contracts.totals import key_words
from tercet.critic.outputs.grounding.arithmetic import Number, group_numbers, work_out
from tercet.critic.outputs.grounding.comparison import Anchor, Comparison, anchors, compare, subjects
from tercet.critic.outputs.grounding.lexicon import concept, without_prefix
from tercet.critic.outputs.grounding.quantities import Quantity
from tercet.critic.outputs.grounding.statements import (
    MAX_SENTENCE,
    Reading,
    Statement,
    read,
    state,
)
from tercet.critic.outputs.grounding.sums import KnownTotals, compute

VERSION = "grounding-2"

COVERED = 0.6
"""The part of a claim's words that must be found where its anchors are."""
COVERED_PLAIN = 0.8
"""The same for a claim without any anchor."""
ON_TOPIC = 0.75
"""The part of a claim's words that a statement must have in order to contradict it."""
ON_TOPIC_LABELLED = 0.5
"""The same where the statement is a member of an object, and the claim names it."""

_WORD = re.compile(r"[A-Za-z]+")
_ONE_WORD = re.compile(r"[A-Za-z]+")
_IS = re.compile(r"(?P<label>.+?)\s(?:is|are|was|were)\s+(?P<value>[a-z]+)\.?$")
_COUNTED = re.compile(r"\b\d+\s+([A-Za-z]+)")
_COUNTS = frozenset(concept(word)[0] for word in ("quantity", "qty", "count", "number", "stock", "pieces"))
_PRONOUN = re.compile(r"(?:it|they|he|she|this|these|that|those)\b", re.IGNORECASE)
_OWN = re.compile(r"(?:the|this|that|these|those|it|he|she|they|an?|its|his|her|their)\b", re.IGNORECASE)
_NOTHING: Mapping[Anchor, tuple[Statement, ...]] = {}
_AND = re.compile(r",?\s+and\s+(?=[a-z])|;\s+|,\s+who\s+|,\s+(?=[a-z])")


class GroundingCheck:
    """Judges claims by numbers, dates, names, identifiers and negations. Deterministic, and needs no model."""

    name = VERSION

    def __init__(self, evidence: Sequence[Evidence]) -> None:
        self._evidence = tuple(evidence)
        self._statements: list[Statement] = []
        self._numbers: dict[int | None, list[list[Number]]] = {}
        for number, fact in enumerate(self._evidence):
            self._statements += state(fact.content, number, _topic(fact))
            self._statements += compute(fact.content, number, _topic(fact))

        self._totals = KnownTotals([fact.content for fact in self._evidence], self._statements)

    def judge(self, claim: str, *, apart_from: int | None = None) -> Judgement:
        """What the evidence says about a claim; `apart_from` is the number of a fact that is left out."""
        claim = claim[:MAX_SENTENCE]
        wrong = self._totals.find_wrong(read(claim)) if apart_from is None else None
        if wrong is not None:
            reason = f"{wrong[0]!r} is a wrong total"
            return Judgement(label=Entailment.CONTRADICT, reason=reason, support=(self._support(wrong[1]),))
        statements = [statement for statement in self._statements if statement.source != apart_from]
        if apart_from not in self._numbers:
            self._numbers[apart_from] = group_numbers(statements)
        groups = self._numbers[apart_from]
        whole = self._judge_one(read(claim), statements, groups)
        if whole.label is not Entailment.NEUTRAL:
            return whole
        parts = _parts(claim)
        if len(parts) < 2:
            return whole
        judged = [self._judge_one(read(part), statements, groups) for part in parts]
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

    def _judge_one(
        self, claim: Reading, statements: list[Statement], groups: list[list[Number]]
    ) -> Judgement:
        compared = [
            compare(claim, statement)
            for statement in statements
            if not claim.words or not claim.words.isdisjoint(statement.known) or _may_turn(claim, statement)
        ]
        bearers = _find_bearers(compared)
        against = _best(
            item for item in compared if _contradicts(claim, item) and not _is_excused(item, bearers)
        )
        borne = _best(item for item in compared if _entails(item))
        if borne is not None and (against is None or _is_closer(borne, against)):
            return self._answer(Entailment.ENTAIL, _how(borne), [borne])
        worked = _work_out(claim, compared, groups, against)
        if against is not None and not _is_worked_out(against, worked):
            return self._answer(Entailment.CONTRADICT, _why(against), [against])
        together = _together(claim, compared)
        if together:
            return self._answer(Entailment.ENTAIL, "all of it is found, in several places", together)
        together = _together(claim, compared, worked) if worked else []
        if together:
            return self._answer(Entailment.ENTAIL, f"computed from {_places(worked)}", together)
        missing = _missing(claim, compared, worked)
        reason = (
            f"{missing[0]!r} is nowhere in the evidence" if missing else "nothing in the evidence settles it"
        )
        return Judgement(label=Entailment.NEUTRAL, reason=reason, missing=missing)

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


def _may_turn(claim: Reading, statement: Statement) -> bool:
    """Whether a claim without a word in common may still meet a statement by its anchors or by an opposite."""
    return bool(anchors(claim)) or any(without_prefix(word) for word in (*claim.words, *statement.known))


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


def _contradicts(claim: Reading, item: Comparison) -> bool:
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


def _is_excused(item: Comparison, bearers: dict[Anchor, list[Comparison]]) -> bool:
    """Whether other statements, as much on topic, have what this one lacks: of two orders, the other may be meant."""
    rank = _rank(item)[:2]
    return bool(item.others) and all(
        any(
            _rank(other)[:2] >= rank and not _is_around(other.statement, item.statement)
            for other in bearers.get(one.anchor, ())
        )
        for one in item.others
    )


def _find_bearers(compared: list[Comparison]) -> dict[Anchor, list[Comparison]]:
    """For each anchor of the claim, the statements about the same thing that bear it out."""
    bearers: dict[Anchor, list[Comparison]] = {}
    for item in compared:
        for anchor in item.found if item.is_about else ():
            bearers.setdefault(anchor, []).append(item)
    return bearers


def _is_around(whole: Statement, part: Statement) -> bool:
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
    said = {concept(word)[0] for word in _WORD.findall(claim.text)}
    label = item.statement.reading.label
    if label & _COUNTS and (counted := _COUNTED.search(claim.text)):
        return concept(counted[1])[0] in read(item.statement.beside).words
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
    said = {concept(word)[0] for word in _WORD.findall(match["label"])}
    is_named = bool(item.statement.reading.label) and item.statement.reading.label <= said
    return (
        is_named and concept(match["value"]) != concept(value) and concept(match["value"])[0] in item.missing
    )


def _entails(item: Comparison) -> bool:
    if not item.is_complete or item.is_opposite or item.is_reversed or not item.is_about:
        return False
    if item.checked and any(not getattr(one.anchor, "is_vague", False) for one in item.checked):
        return item.coverage >= COVERED
    return item.coverage >= COVERED_PLAIN and bool(item.shared)


def _work_out(
    claim: Reading, compared: list[Comparison], groups: list[list[Number]], against: Comparison | None
) -> dict[Anchor, tuple[Statement, ...]]:
    """The numbers of a claim that no statement has, or that one speaks against, with those that they are worked out of."""
    disputed = {one.anchor for one in against.others} if against else set[Anchor]()
    borne = {
        one.anchor: Number(one.anchor, item.statement)
        for item in reversed(compared)
        for one in item.checked
        if one.finding == "found" and isinstance(one.anchor, Quantity) and one.anchor not in disputed
    }
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


def _together(
    claim: Reading, compared: list[Comparison], worked: Mapping[Anchor, tuple[Statement, ...]] = _NOTHING
) -> list[Comparison]:
    """Statements that bear out a claim together: each is about the same thing, and has some of its anchors.

    They stand in one fact, or the claim names what it is about: nothing is stitched out of two records.
    """
    wanted = set(anchors(claim)) - worked.keys()
    if not wanted and not worked:
        return []
    chosen = [item for item in compared if _is_worked(item, worked)]
    words = {word for item in chosen for word in item.shared}
    for item in sorted(compared, key=lambda one: (-len(one.found), -one.coverage)):
        if item.is_about and not item.is_opposite and item.found & wanted:
            chosen += [] if item in chosen else [item]
            wanted -= item.found
            words |= item.shared
    is_one_fact = len({item.statement.source for item in chosen}) == 1
    if wanted or len(words) < COVERED * len(claim.words) or not (is_one_fact or subjects(claim)):
        return []
    return chosen


def _is_worked(item: Comparison, worked: Mapping[Anchor, tuple[Statement, ...]]) -> bool:
    """Whether a number was worked out of this statement, and it is about what the claim is about."""
    return item.is_about and any(said is item.statement for way in worked.values() for said in way)


def _missing(
    claim: Reading, compared: list[Comparison], worked: Mapping[Anchor, tuple[Statement, ...]]
) -> tuple[str, ...]:
    """The anchors that no statement has, whatever it is about, and that follow from none."""
    found = {anchor for item in compared for anchor in item.found} | worked.keys()
    return tuple(
        claim.text[anchor.start : anchor.end].strip()
        for anchor in sorted(anchors(claim), key=lambda item: (item.start, item.end))
        if anchor not in found and not getattr(anchor, "is_vague", False)
    )


def _best(items: Iterable[Comparison]) -> Comparison | None:
    return max(items, key=_rank, default=None)


def _rank(item: Comparison) -> tuple[float, int, bool]:
    own = item.shared & item.statement.reading.words
    return item.coverage, len(own), item.statement.is_clause


def _is_closer(borne: Comparison, against: Comparison) -> bool:
    """A clause that has all the words and another value is closer than the sentence around it."""
    return _rank(borne) >= _rank(against)


def _how(item: Comparison) -> str:
    said = item.statement
    return f"computed from {said.pointer or '/'}" if said.is_computed else "it is borne out"


def _why(item: Comparison) -> str:
    if item.others and item.statement.is_computed:
        return f"{item.others[0].text.strip()!r} is a wrong total"
    if item.others:
        return f"the evidence has something else than {item.others[0].text.strip()!r}"
    return (
        "the same names stand the other way round" if item.is_reversed else "the evidence says the opposite"
    )

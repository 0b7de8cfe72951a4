"""The grounding check without its index: a claim is compared with every statement, one after the other.

It is what the check did before statements were looked up, and what it must still come to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tercet.contracts.quality import Entailment, Judgement
from tercet.quality.grounding.arithmetic import Number, work_out
from tercet.quality.grounding.check import GroundingCheck
from tercet.quality.grounding.comparison import Anchor, Comparison, anchors, compare, subjects
from tercet.quality.grounding.lexicon import without_prefix
from tercet.quality.grounding.quantities import Quantity
from tercet.quality.grounding.statements import Reading, Statement
from tercet.quality.grounding.weighing import COVERED, contradicts, entails, is_around, rank

Worked = Mapping[Anchor, tuple[Statement, ...]]


class Exhaustive(GroundingCheck):
    """Compares with all statements."""

    def _judge_one(self, claim: Reading, within: int, groups: list[list[Number]]) -> Judgement:
        compared = [
            compare(claim, said)
            for at, said in enumerate(self._statements)
            if within >> at & 1 and _is_worth_comparing(claim, said)
        ]
        bearers = _find_bearers(compared)
        against = _best(
            item for item in compared if contradicts(claim, item) and not _is_excused(item, bearers)
        )
        borne = _best(item for item in compared if entails(item))
        if borne is not None and (against is None or rank(borne) >= rank(against)):
            said = borne.statement
            how = f"computed from {said.pointer or '/'}" if said.is_computed else "it is borne out"
            return self._answer(Entailment.ENTAIL, how, [borne])
        worked = _work_out(claim, compared, groups, against)
        is_worked = against is not None and against.others and all(o.anchor in worked for o in against.others)
        if against is not None and not is_worked:
            return self._answer(Entailment.CONTRADICT, _why(against), [against])
        if together := _together(claim, compared, {}):
            return self._answer(Entailment.ENTAIL, "all of it is found, in several places", together)
        if worked and (together := _together(claim, compared, worked)):
            places = {(said.source, said.pointer): said for way in worked.values() for said in way}
            shown = " and ".join(said.pointer or "/" for said in places.values())
            return self._answer(Entailment.ENTAIL, f"computed from {shown}", together)
        missing = _missing(claim, compared, worked)
        reason = (
            f"{missing[0]!r} is nowhere in the evidence" if missing else "nothing in the evidence settles it"
        )
        return Judgement(label=Entailment.NEUTRAL, reason=reason, missing=missing)


def _is_worth_comparing(claim: Reading, said: Statement) -> bool:
    if not claim.words or not claim.words.isdisjoint(said.known) or anchors(claim):
        return True
    return any(without_prefix(word) for word in (*claim.words, *said.known))


def _best(items: Iterable[Comparison]) -> Comparison | None:
    return max(items, key=rank, default=None)


def _find_bearers(compared: list[Comparison]) -> dict[Anchor, list[Comparison]]:
    bearers: dict[Anchor, list[Comparison]] = {}
    for item in compared:
        for anchor in item.found if item.is_about else ():
            bearers.setdefault(anchor, []).append(item)
    return bearers


def _is_excused(item: Comparison, bearers: dict[Anchor, list[Comparison]]) -> bool:
    return bool(item.others) and all(
        any(
            rank(other)[:2] >= rank(item)[:2] and not is_around(other.statement, item.statement)
            for other in bearers.get(one.anchor, ())
        )
        for one in item.others
    )


def _work_out(
    claim: Reading, compared: list[Comparison], groups: list[list[Number]], against: Comparison | None
) -> Worked:
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


def _together(claim: Reading, compared: list[Comparison], worked: Worked) -> list[Comparison]:
    wanted = set(anchors(claim)) - worked.keys()
    if not wanted and not worked:
        return []
    used = {id(said) for way in worked.values() for said in way}
    chosen = [item for item in compared if item.is_about and id(item.statement) in used]
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


def _missing(claim: Reading, compared: list[Comparison], worked: Worked) -> tuple[str, ...]:
    found = {anchor for item in compared for anchor in item.found} | worked.keys()
    return tuple(
        claim.text[anchor.start : anchor.end].strip().rstrip(".")
        for anchor in sorted(anchors(claim), key=lambda item: (item.start, item.end))
        if anchor not in found and not getattr(anchor, "is_vague", False)
    )


def _why(item: Comparison) -> str:
    if item.others and item.statement.is_computed:
        return f"{item.others[0].text.strip().rstrip('.')!r} is a wrong total"
    if item.others:
        return f"the evidence has something else than {item.others[0].text.strip().rstrip('.')!r}"
    return (
        "the same names stand the other way round" if item.is_reversed else "the evidence says the opposite"
    )

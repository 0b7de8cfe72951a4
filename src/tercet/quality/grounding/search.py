"""The statements that decide about one claim, found without trying the claim on all of them.

What a claim is compared by is either in a statement or not, so sets of statements answer most of it: how many words each
shares with the claim, which names, dates, identifiers and numbers of the claim it has, whether it is about the same thing.
The sets are exact, and so the closest statement that bears the claim out, or contradicts it, is the same one that
comparing all of them would find. Comparing is left for those few that could be it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from tercet.quality.grounding import lexicon
from tercet.quality.grounding.comparison import (
    Anchor,
    Comparison,
    anchors,
    check_quantity,
    compare,
    is_opposite,
    is_reversed,
    subjects,
)
from tercet.quality.grounding.dates import Date, Time
from tercet.quality.grounding.index import Index
from tercet.quality.grounding.masks import Tally, members
from tercet.quality.grounding.names import Identifier, Name
from tercet.quality.grounding.quantities import Quantity, range_of
from tercet.quality.grounding.statements import Reading
from tercet.quality.grounding.weighing import (
    COVERED,
    COVERED_PLAIN,
    ON_TOPIC,
    ON_TOPIC_LABELLED,
    contradicts,
    counted_in,
    is_around,
    may_name_another,
    words_of,
)

_WORD = re.compile(r"[A-Za-z]+")
_KINDS = {Quantity: "counted", Date: "dated", Time: "timed", Name: "named"}
"""What a statement must have, by the kind of an anchor, to have something else in its place."""


class Level(NamedTuple):
    """Statements that are equally close to a claim."""

    shared: int
    own: int
    statements: int


class Search:
    """Looks for what decides about a claim; `within` are the statements that count."""

    def __init__(self, index: Index, claim: Reading, within: int) -> None:
        self.index = index
        self.claim = claim
        self.anchors = anchors(claim)
        self._shared_by = {word: self._sharing(word) for word in sorted(claim.words)}
        self.within = within & self._worth_comparing()
        self.shared = Tally(self._shared_by.values())
        self.own = Tally(index.own("word", word) for word in self._shared_by)
        self.found = {anchor: self.within & self._finding(anchor) for anchor in self.anchors}
        """The statements that bear out each anchor."""
        self.about = self.within
        """The statements that name everybody and everything that the claim is about."""
        for anchor in subjects(claim):
            self.about &= self.found[anchor]

    def _sharing(self, word: str) -> int:
        index, base = self.index, lexicon.without_prefix(word)
        found = index.anywhere("known", word) | index.anywhere("turned", word)
        return found if base is None else found | index.anywhere("known", base)

    def _worth_comparing(self) -> int:
        """Those with a word of the claim; all of them where its anchors, or an opposite, may be met without one."""
        is_wide = not self.claim.words or self.anchors or any(map(lexicon.without_prefix, self.claim.words))
        if is_wide:
            return self.index.every
        found = self.index.anywhere("is", "prefixed")
        for word in self.claim.words:
            found |= self.index.anywhere("known", word)
        return found

    # ---- what becomes of an anchor

    def _finding(self, anchor: Anchor) -> int:
        index, is_wide = self.index, anchor.start < self.claim.verb
        match anchor:
            case Quantity():
                return self._finding_quantity(anchor)
            case Date():
                return index.with_date(anchor, is_wide=is_wide)
            case Time():
                return index.own("time", anchor.minutes)
            case Name():
                return index.with_name(anchor, is_wide=is_wide)
            case Identifier():
                return index.with_identifier(anchor.key, is_wide)

    def _finding_quantity(self, anchor: Quantity) -> int:
        index = self.index
        if anchor.is_vague:
            settled = index.every & ~index.own("is", "shared")
            return settled | self._checked(anchor, index.own("is", "shared"))
        may_have = index.between(*range_of(anchor)) | index.own("year", anchor.value)
        if not anchor.value:
            may_have |= index.own("is", "negated")
        return self._checked(anchor, may_have)

    def _checked(self, anchor: Quantity, may_have: int) -> int:
        for at in members(may_have & self.within):
            if check_quantity(self.claim, anchor, self.index.statements[at].reading) != "found":
                may_have ^= 1 << at
        return may_have

    # ---- the closest

    def find_closest(self) -> tuple[Comparison | None, Comparison | None]:
        """The statement that bears the claim out, or the one that contradicts it and is closer; if there is one."""
        bearing, hostile = self._may_bear(), self._may_contradict()
        for level in self._levels(bearing | hostile):
            borne = next(self._bearing(level.statements & bearing), None)
            if borne is not None:
                return self.compare(borne), None
            against = next(self._contradicting(level, hostile), None)
            if against is not None:
                return None, against
        return None, None

    def compare(self, at: int) -> Comparison:
        """The claim beside one statement."""
        return compare(self.claim, self.index.statements[at])

    def _levels(self, within: int) -> Iterator[Level]:
        """Statements by how close they are, the closest first."""
        clauses = self.index.own("is", "clause")
        for shared, alike in self.shared.descend(within):
            for own, same in self.own.descend(alike):
                for group in (same & clauses, same & ~clauses):
                    if group:
                        yield Level(shared, own, group)

    def _may_bear(self) -> int:
        """The statements about the same with every anchor, and with enough of the words."""
        found = self.about
        for anchor in self.anchors:
            found &= self.found[anchor]
        if any(not getattr(anchor, "is_vague", False) for anchor in self.anchors):
            return self._covering(COVERED, found)
        return self._covering(COVERED_PLAIN, found) & self._sharing_something(found)

    def _bearing(self, within: int) -> Iterator[int]:
        for at in members(within):
            said = self.index.statements[at]
            if not is_opposite(self.claim, said) and not is_reversed(self.claim, said.reading):
                yield at

    def _covering(self, part: float, within: int) -> int:
        """Those of a set that have this part of the claim's words."""
        size = len(self.claim.words)
        if not size:
            return within
        return self.shared.at_least(next(n for n in range(size + 1) if n / size >= part), within)

    def _sharing_something(self, within: int) -> int:
        return self.shared.at_least(1, within)

    # ---- contradictions

    def _may_contradict(self) -> int:
        strict = self.within & ~self.index.own("is", "lenient")
        return strict & (self._by_another | (self.about & self._on_topic()))

    def _on_topic(self) -> int:
        """The statements about what the claim is about, so that a difference between them matters."""
        claim, every = self.claim, self.index.every
        close = self._covering(ON_TOPIC, every)
        if claim.words:
            close &= self.own.at_least(1, every)
        elif not subjects(claim):
            close = 0
        return (close | self._labelled()) & ~self._narrowed() & ~self._strange()

    def _labelled(self) -> int:
        """Members of objects that the claim names."""
        index, counted = self.index, counted_in(self.claim)
        named = self._covering(ON_TOPIC_LABELLED, index.labelled(words_of(self.claim.text)))
        if counted is None:
            return named
        return (named & ~index.counts) | index.counted_beside(counted)

    def _narrowed(self) -> int:
        """Statements without a word that stands right before one that they have."""
        claim, found = self.claim, 0
        before, end = "", 0
        for match in _WORD.finditer(claim.text):
            word = lexicon.concept(match[0])[0]
            if before in claim.words and claim.text[end : match.start()].isspace():
                has_word = self._shared_by.get(word, 0) | self.index.own("named", word)
                found |= has_word & ~self._shared_by[before]
            before, end = (word if match.start() != claim.verb else ""), match.end()
        return found

    def _strange(self) -> int:
        """Statements without what may be a name that the claim begins with."""
        claim, found = self.claim, 0
        for name in claim.names:
            if not name.is_certain and name.end < claim.verb + 2:
                roots = {lexicon.concept(word)[0] for word in name.words}
                for root in roots & claim.words:
                    found |= self.index.every & ~self._shared_by[root]
        return found

    @cached_property
    def _by_another(self) -> int:
        """Statements with all words of the claim that may name another doer."""
        every = self.within & self.index.own("is", "done by one")
        return self._covering(1.0, every) & self._sharing_something(every)

    def _contradicting(self, level: Level, hostile: int) -> Iterator[Comparison]:
        group = level.statements & hostile
        nearer = self._at_least(level) if group else 0
        if not group & self.index.own("is", "clause"):
            group &= self._unexcused(nearer)
        for at in members(group):
            item = self.compare(at)
            if contradicts(self.claim, item) and not self._is_excused(item, nearer):
                yield item

    def _at_least(self, level: Level) -> int:
        """The statements that share as much with the claim, or more."""
        more = self.shared.at_least(level.shared + 1, self.within)
        return more | self.own.at_least(level.own, self.shared.equal(level.shared, self.within))

    def _is_excused(self, item: Comparison, nearer: int) -> bool:
        """Whether other statements, as much on topic, have what this one lacks: of two orders, the other may be meant."""
        statements = self.index.statements
        return bool(item.others) and all(
            any(
                not is_around(statements[at], item.statement)
                for at in members(self.about & self.found[one.anchor] & nearer)
            )
            for one in item.others
        )

    def _unexcused(self, nearer: int) -> int:
        """Whole statements that others may not excuse: with something else in place of an anchor that none of them has, or
        at odds with the claim in another way."""
        found = self._by_another | self._turned_round
        for anchor in self.anchors:
            if not self.about & self.found[anchor] & nearer:
                found |= self._may_replace(anchor)
        return found

    def _may_replace(self, anchor: Anchor) -> int:
        """The statements that have something in whose place the anchor may stand."""
        if isinstance(anchor, Identifier):
            return self.index.own("shape", anchor.shape)
        return self.index.own("is", _KINDS[type(anchor)])

    @cached_property
    def _turned_round(self) -> int:
        """The statements that may contradict the claim with all of its anchors."""
        claim, index = self.claim, self.index
        found = index.own("is", "paired") if len(claim.names) > 1 else 0
        if may_name_another(claim):
            found |= index.own("is", "one word")
        if claim.negated:
            return index.every
        found |= index.own("is", "negated")
        for word in claim.words:
            base = lexicon.without_prefix(word)
            found |= index.own("sign", (word, -claim.signs[word])) | index.own("turned", word)
            found |= index.own("word", base) if base else 0
        return found

    # ---- several statements together

    def find_together(self, wanted: set[Anchor], chosen: list[Comparison]) -> list[Comparison] | None:
        """The statements that have all these anchors, the fullest first, besides those chosen; None if some are missing."""
        chosen = list(chosen)
        if any(not self.about & self.found[anchor] for anchor in wanted):
            return None
        fullest = Tally(self.found.values())
        for _, full in fullest.descend(self._having(wanted)):
            for _, alike in self.shared.descend(full):
                for at in members(alike):
                    if not self._having(wanted) >> at & 1 or is_opposite(
                        self.claim, self.index.statements[at]
                    ):
                        continue
                    item = self.compare(at)
                    chosen += [] if item in chosen else [item]
                    wanted = wanted - item.found
                    if not wanted:
                        return chosen
        return None if wanted else chosen

    def _having(self, wanted: set[Anchor]) -> int:
        found = 0
        for anchor in wanted:
            found |= self.found[anchor]
        return found & self.about

"""Statements by what they have: which of them a claim could meet is looked up, and not tried out on each.

Statements of one object stand in one context, so what a context has is kept once for all of them.
Identifiers may stand in a text with other spaces: they are looked for in all texts at once, and then checked.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import accumulate

from tercet.quality.grounding import dates, lexicon
from tercet.quality.grounding.comparison import has_doer, has_identifier, has_share, name_words
from tercet.quality.grounding.dates import Date
from tercet.quality.grounding.masks import mask_of, members
from tercet.quality.grounding.names import Identifier, Name
from tercet.quality.grounding.statements import Reading, Statement, read
from tercet.quality.grounding.weighing import COUNTS

_KEPT = 1_024
"""How many sets are kept at hand; those that claims ask for again and again are far fewer."""
_JUNCTION = 100
"""As many characters of a statement, and of its context, are put together to find what begins in one and ends in the other."""
_SPACES = re.compile(r"\s+")
_ONE_WORD = re.compile(r"[A-Za-z]+")

Postings = dict[tuple[str, Hashable], list[int]]


class Index:
    """Looks statements up. What it answers is exact, unless it says `may`."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self.statements = statements
        self.size = len(statements)
        self.every = (1 << self.size) - 1
        self._own: Postings = {}
        self._around: Postings = {}
        self._numbered: dict[int, int] = {}
        self._contexts: list[Reading] = []
        self._inside: list[list[int]] = []
        """The statements that stand in each context."""
        self._values: list[tuple[float, int]] = []
        self.labels: set[frozenset[str]] = set()
        for at, statement in enumerate(statements):
            self._take(at, statement)
        self._values.sort()
        self._numbers = [value for value, _ in self._values]
        self.own = lru_cache(_KEPT)(self._look_up)
        """The statements that have something themselves."""
        self.anywhere = lru_cache(_KEPT)(self._look_around)
        """The statements that have something themselves or in their context."""
        self.with_identifier = lru_cache(_KEPT)(self._find_identifier)
        """The statements that have an identifier of this key; in their context too, or not."""
        self._with_date = lru_cache(_KEPT)(self._find_date)

    def _take(self, at: int, statement: Statement) -> None:
        reading, context = statement.reading, statement.context
        for key in _keys(reading):
            self._own.setdefault(key, []).append(at)
        for key in _flags(statement):
            self._own.setdefault(("is", key), []).append(at)
        self.labels.add(reading.label)
        for word in reading.label:
            self._own.setdefault(("named", word), []).append(at)
        self._own.setdefault(("label", reading.label), []).append(at)
        self._values += [(one.value, at) for one in reading.quantities if one.value == one.value]
        if context is not None:
            number = self._numbered.setdefault(id(context), len(self._contexts))
            if number == len(self._contexts):
                self._contexts.append(context)
                self._inside.append([])
                for key in _keys(context):
                    self._around.setdefault(key, []).append(number)
            self._inside[number].append(at)

    def _look_up(self, kind: str, key: Hashable) -> int:
        return mask_of(self._own.get((kind, key), ()), self.size)

    def _look_around(self, kind: str, key: Hashable) -> int:
        return self.own(kind, key) | self._spread(self._around.get((kind, key), ()))

    def _spread(self, contexts: Iterable[int]) -> int:
        return mask_of((at for number in contexts for at in self._inside[number]), self.size)

    def labelled(self, words: frozenset[str]) -> int:
        """The members of objects all the words of whose names are among these."""
        found = 0
        for label in self.labels:
            if label and label <= words:
                found |= self.own("label", label)
        return found

    @cached_property
    def counts(self) -> int:
        """The members of objects that say how many there are of something."""
        return mask_of(self._counts, self.size)

    def counted_beside(self, word: str) -> int:
        """Those of them with this word in a text beside them."""
        return mask_of(self._beside.get(word, ()), self.size)

    @cached_property
    def _beside(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for at in self._counts:
            for word in read(self.statements[at].beside).words:
                found.setdefault(word, []).append(at)
        return found

    @cached_property
    def _counts(self) -> list[int]:
        labels = [label for label in self.labels if label & COUNTS]
        return sorted(at for label in labels for at in self._own["label", label])

    def between(self, least: float, most: float) -> int:
        """The statements with a number in this range, whatever it measures."""
        low, high = bisect_left(self._numbers, least), bisect_right(self._numbers, most)
        return mask_of((at for _, at in self._values[low:high]), self.size)

    def with_name(self, name: Name, *, is_wide: bool) -> int:
        """The statements that have all words of a name."""
        found = self.every
        for word in name.words:
            found &= self.anywhere("token", word) if is_wide else self.own("token", word)
        return found

    @cached_property
    def places(self) -> dict[int, int]:
        """Where each statement stands among all, by its identity."""
        return {id(said): at for at, said in enumerate(self.statements)}

    # ---- dates

    def with_date(self, date: Date, *, is_wide: bool) -> int:
        """The statements that bear out a date."""
        return self._with_date(date._replace(start=0, end=0), is_wide)

    def _find_date(self, date: Date, is_wide: bool) -> int:  # noqa: FBT001 - a key of the cache
        found = 0
        for given in self._dates(self._own, date):
            if dates.agrees(date, given):
                found |= self._look_up("date", given)
        for given in self._dates(self._around, date) if is_wide else ():
            if dates.agrees(date, given):
                found |= self._spread(self._around["date", given])
        if date.month is None and date.quarter is None:
            found |= self.own("plain", date.year)
        return found

    def _dates(self, postings: Postings, date: Date) -> Iterable[Date]:
        """The dates that could bear one out: those of its year, if it has one and is no bound."""
        years = self._years(postings is self._around)
        if date.year is None or date.bound in ("before", "after"):
            return [given for of_year in years.values() for given in of_year]
        return years.get(date.year, ())

    def _years(self, is_around: bool) -> dict[int | None, list[Date]]:  # noqa: FBT001 - one of two
        return self._years_around if is_around else self._years_own

    @cached_property
    def _years_own(self) -> dict[int | None, list[Date]]:
        return _by_year(self._own)

    @cached_property
    def _years_around(self) -> dict[int | None, list[Date]]:
        return _by_year(self._around)

    # ---- identifiers

    def _find_identifier(self, key: str, is_wide: bool) -> int:  # noqa: FBT001 - a key of the cache
        identifier = Identifier(key, "", 0, 0)
        statements = self.statements
        return mask_of(
            (
                at
                for at in members(self._may_have(key, is_wide=is_wide))
                if has_identifier(
                    identifier, statements[at] if is_wide else replace(statements[at], context=None)
                )
            ),
            self.size,
        )

    def _may_have(self, key: str, *, is_wide: bool) -> int:
        found = self.own("identifier", key) | mask_of(self._texts.find(key), self.size)
        if not is_wide:
            return found
        if len(key) > _JUNCTION:
            return self.every
        contexts = (*self._around.get(("identifier", key), ()), *self._context_texts.find(key))
        return found | self._spread(contexts) | mask_of(self._junctions.find(key), self.size)

    @cached_property
    def _texts(self) -> Texts:
        return Texts([said.reading.text for said in self.statements])

    @cached_property
    def _context_texts(self) -> Texts:
        return Texts([context.text for context in self._contexts])

    @cached_property
    def _junctions(self) -> Texts:
        return Texts([_junction(said) for said in self.statements])


class Texts:
    """Many texts without their spaces, in which a word is looked for at once."""

    def __init__(self, texts: Iterable[str]) -> None:
        plain = [_SPACES.sub("", text.casefold()) for text in texts]
        self._whole = "\n".join(plain)
        self._starts = [0, *accumulate(len(text) + 1 for text in plain)]

    def find(self, key: str) -> Iterable[int]:
        """The numbers of the texts that have a key somewhere."""
        at = self._whole.find(key)
        while at >= 0:
            number = bisect_right(self._starts, at) - 1
            yield number
            at = self._whole.find(key, self._starts[number + 1])


def _junction(said: Statement) -> str:
    if said.context is None:
        return ""
    return f"{_ends(said.reading.text)[1]}{_ends(said.context.text)[0]}"


@lru_cache(_KEPT)
def _ends(text: str) -> tuple[str, str]:
    plain = _SPACES.sub("", text.casefold())
    return plain[:_JUNCTION], plain[-_JUNCTION:]


def _by_year(postings: Postings) -> dict[int | None, list[Date]]:
    found: dict[int | None, list[Date]] = {}
    for _, key in postings:
        if isinstance(key, Date):
            found.setdefault(key.year, []).append(key)
    return found


def _keys(reading: Reading) -> set[tuple[str, Hashable]]:
    """What a statement can be looked up by."""
    known = {*reading.words, *(lexicon.concept(word)[0] for name in reading.names for word in name.words)}
    found: set[tuple[str, Hashable]] = {("known", word) for word in known}
    found |= {("word", word) for word in reading.words}
    bases = {base for word in known if (base := lexicon.without_prefix(word)) is not None}
    found |= {("turned", base) for base in bases}
    found |= {("is", "prefixed")} if bases else set()
    found |= {("sign", sign) for sign in reading.signs.items()}
    found |= {("token", word) for word in name_words(reading.text)}
    found |= {("identifier", each.key) for each in reading.identifiers}
    found |= {("shape", each.shape) for each in reading.identifiers}
    found |= {("date", each._replace(start=0, end=0)) for each in reading.dates}
    found |= {("year", each.year) for each in reading.dates}
    found |= {("time", each.minutes) for each in reading.times}
    return found | {("plain", each.value) for each in reading.quantities if not each.measure}


def _flags(statement: Statement) -> list[str]:
    """What is so of a statement, or is not."""
    reading, value = statement.reading, statement.value
    is_so = {
        "clause": statement.is_clause,
        "lenient": statement.is_lenient,
        "counted": bool(reading.quantities),
        "shared": any(map(has_share, reading.quantities)),
        "dated": bool(reading.dates),
        "timed": bool(reading.times),
        "named": bool(reading.names),
        "paired": len(reading.names) > 1,
        "done by one": has_doer(reading),
        "negated": bool(reading.negated),
        "one word": isinstance(value, str) and _ONE_WORD.fullmatch(value) is not None,
    }
    return [name for name, is_true in is_so.items() if is_true]

"""The words of a text that name values, and which of them is nearest to a place."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from tercet.contracts.documents import TextToken
from tercet.quality.contexts import Range
from tercet.quality.words import COMPOUNDING, bare_word, compound_part, same_word, word_ranges

Phrase = tuple[str, ...]

_LOOKED_AT = 8
"""Labels on each side of a token that are weighed."""
MAX_INSIDE = 16
_MAX_SIMILAR = 64
"""Labels with the same beginning that are compared with a word; with more, a word has to be equal."""
MAX_PHRASE = 12
_ENDINGS = ("", "s", "e", "n", "en", "es")
_BELONGS_TO_OTHER = 6
_BEHIND = 2
_RIVALS = 4
MAX_DISTANCE = 1_000_000_000
_ASIDE = re.compile(r"\([^()]{0,500}\)")
_PARTICIPLE = re.compile(
    r"^((?:zuruck|ab|an|auf|aus|bei|ein|mit|nach|uber|um|vor|weg|zusammen)?)(?:ge|zu)(?=\w{4})"
)
"""What German puts before a verb, or into it: `gekündigt`, `zurückgesendet`, `abzuholen`."""
_BREAK = re.compile(r"[,;()\n–—、，；（）]|[.!?](?=\s)|。")


class Occurrence(NamedTuple):
    """A place in a text where a label stands, in its own words or with other endings."""

    start: int
    end: int
    phrase: Phrase
    is_inexact: bool = False


Fits = Callable[[Occurrence, TextToken], bool]
"""Whether a label names a value that a token could state."""


class LabelIndex:
    """Labels, found in a text by their words: in any case, with other endings, in German also in compounds."""

    def __init__(self, phrases: Iterable[Phrase], language: str) -> None:
        self._is_compounding, self._is_german = language in COMPOUNDING, language == "de"
        self._single: set[str] = set()
        self._longer: dict[tuple[str, str], list[Phrase]] = {}
        self._by_start: dict[str, set[str]] = {}
        self._by_end: dict[str, set[str]] = {}
        for phrase in sorted({phrase for phrase in phrases if 0 < len(phrase) <= MAX_PHRASE}):
            if len(phrase) == 1:
                self._single.add(phrase[0])
            else:
                self._longer.setdefault((phrase[0], phrase[1][:3]), []).append(phrase)
            self._by_start.setdefault(phrase[0][:3], set()).add(phrase[0])
            if len(phrase) == 1 and len(phrase[0]) >= 5:
                self._by_end.setdefault(phrase[0][-5:], set()).add(phrase[0])
        self._similar: dict[str, list[tuple[str, int]]] = {}

    def find(self, text: str, tokens: Sequence[TextToken] = ()) -> list[Occurrence]:
        """Return where labels stand in a text; one of several words also with a token between them."""
        words = word_ranges(text)
        words = [(bare_word(word), start, end) for word, start, end in words]
        starts = [token.start for token in tokens]
        ends = [token.end for token in tokens]
        outside = [each for each in words if bisect_right(starts, each[1]) == bisect_right(ends, each[1])]
        # With a short word between its words as well: `send it back`.
        found = dict.fromkeys(self._find(words))
        found |= dict.fromkeys(each for each in self._find(outside, gap=3) if len(each.phrase) > 1)
        return list(found)

    def _find(self, words: Sequence[tuple[str, int, int]], gap: int = 0) -> list[Occurrence]:
        """Return where labels stand among some words; `gap` is the length of a word that may stand behind their first."""
        found: list[Occurrence] = []
        for at, (word, start, end) in enumerate(words):
            for known, part in self._words_like(word):
                if part or known in self._single:
                    found.append(Occurrence(start, end, (known,), is_inexact=known != word))
                if part:
                    continue
                for skipped in range(2 if at + 2 < len(words) and len(words[at + 1][0]) <= gap else 1):
                    rest = words[at + 1 + skipped : at + MAX_PHRASE + skipped]
                    like = self._longer.get((known, rest[0][0][:3] if rest else ""), ())[:_MAX_SIMILAR]
                    found += [
                        Occurrence(start, rest[len(phrase) - 2][2], phrase)
                        for phrase in like
                        if _goes_on(phrase, rest)
                    ]
        return found

    def _words_like(self, word: str) -> list[tuple[str, int]]:
        """The first words of labels that a word may be, each with the part of a compound that it is."""
        if word not in self._similar:
            self._similar[word] = list(self._compare(word))
        return self._similar[word]

    def _compare(self, word: str) -> Iterator[tuple[str, int]]:
        near = self._by_start.get(word[:3], set())
        if self._is_german and (verb := _PARTICIPLE.sub(r"\1", word)) != word:
            same = [known for known in sorted(self._by_start.get(verb[:3], ())) if same_word(known, verb)]
            yield from ((known, 0) for known in same[:_MAX_SIMILAR])
        if len(near) <= _MAX_SIMILAR:
            same = [known for known in sorted(near) if same_word(known, word)]
            yield from ((known, 0) for known in same)
            if same or not self._is_compounding:
                return
        elif word in near:
            yield word, 0
            return
        if self._is_compounding:
            ends = {word[: len(word) - len(ending)][-5:] for ending in _ENDINGS if word.endswith(ending)}
            last = {known for end in ends for known in self._by_end.get(end, ())}
            parts = {
                known: compound_part(known, word) for known in [*sorted(near), *sorted(last)][:_MAX_SIMILAR]
            }
            best = max(parts.values(), default=0)
            # The first part says which one it is: a Rabattbetrag is the discount's rather than any amount's.
            yield from (
                (known, part) for known, part in parts.items() if part == best > 0 and known in self._single
            )


def _goes_on(phrase: Phrase, rest: Sequence[tuple[str, int, int]]) -> bool:
    """Return whether some words begin with those of a phrase behind its first."""
    is_whole = len(rest) >= len(phrase) - 1
    return is_whole and all(same_word(wanted, rest[step][0]) for step, wanted in enumerate(phrase[1:]))


class NearestLabels:
    """Finds the labels that are nearest to a token inside a range."""

    def __init__(self, text: str, occurrences: list[Occurrence], tokens: Sequence[TextToken]) -> None:
        self._text = text
        self._found = sorted(occurrences)
        self._starts = [each.start for each in self._found]
        self._tokens = sorted(tokens, key=lambda token: token.start)
        self._token_starts = [token.start for token in self._tokens]
        self._weights = _Weights(text, self._tokens, {each.end for each in occurrences})

    def inside(self, where: Range) -> list[Occurrence]:
        """Return the labels in a range, the first `MAX_INSIDE` of many."""
        low = bisect_left(self._starts, where[0])
        high = bisect_left(self._starts, where[1])
        return self._found[low : min(high, low + MAX_INSIDE)]

    def nearest(
        self, token: TextToken, where: Range, fits: Fits, used: Mapping[Occurrence, int] | None = None
    ) -> list[Occurrence]:
        """Return the fitting labels in a range with the least between them and the token; none inside a longer one.

        `used` has the labels that name other tokens, each with the distance to the token that it names: what they leave
        counts then, as do labels inside the token. A label is not taken from the token that is nearest to it.
        """
        middle = bisect_left(self._starts, token.start)
        low, high = bisect_left(self._starts, where[0]), bisect_left(self._starts, where[1])
        around = self._found[max(low, middle - _LOOKED_AT) : min(high, middle + _LOOKED_AT)]
        if used is None:
            left = [each for each in around if not _overlap(each, token)]
        else:
            left = [each for each in around if used.get(each, MAX_DISTANCE) > self.distance(each, token)]
            left = [each for each in left if token.kind in ("number", "amount") or not _overlap(each, token)]
        fitting = [each for each in left if fits(each, token)]
        exact = {(each.start, each.end) for each in fitting if not each.is_inexact}
        fitting = [each for each in fitting if not each.is_inexact or (each.start, each.end) not in exact]
        whole = [each for each in fitting if not any(_contains(other, each) for other in fitting)]
        distances = [(self.distance(each, token), each) for each in whole]
        reach = min((far for far, _ in distances), default=0) + _BELONGS_TO_OTHER + _BEHIND
        costs = [(self._cost(token, each, far), each) for far, each in distances if far <= reach]
        least = min((cost for cost, _ in costs), default=0)
        return [each for cost, each in costs if cost == least]

    def _cost(self, token: TextToken, label: Occurrence, distance: int) -> int:
        """Return how far a label is from a token; most stand before it, so one behind it counts as further."""
        has_rival = any(
            self._far(label, other) <= self._far(label, token) for other in self._rivals(label, token)
        )
        behind = _BEHIND if distance else token.kind != "number"  # 12 seats, 0.15 EUR a day
        return distance + has_rival * _BELONGS_TO_OTHER + (label.start > token.start) * behind

    def _far(self, label: Occurrence, token: TextToken) -> int:
        """Return how far a token is from a label; what stands before the label is further."""
        distance = self.distance(label, token)
        # Directly before its label it is nearer than another one behind a word: 20 % VAT and 5 % interest.
        behind = (2 * _BEHIND if distance else 1) if token.start < label.start else 0
        return 2 * distance + behind

    def nearer(self, label: Occurrence, token: TextToken) -> list[TextToken]:
        """Return the tokens like one that are nearer to a label than it is."""
        distance = self.distance(label, token)
        return [other for other in self._rivals(label, token) if self.distance(label, other) < distance]

    def _rivals(self, label: Occurrence, token: TextToken) -> Iterator[TextToken]:
        """The tokens like this one that are next to a label, before and behind it."""
        at = bisect_left(self._token_starts, label.start)
        for side in (self._tokens[max(at - _RIVALS, 0) : at][::-1], self._tokens[at : at + _RIVALS]):
            for other in side:
                is_like = (other.kind, other.unit) == (token.kind, token.unit) and other is not token
                if is_like and not _overlap(label, other):
                    yield other
                    break

    def distance(self, label: Occurrence, token: TextToken) -> int:
        """Return how much is between a label and a token."""
        if _overlap(label, token):
            return 0
        if token.end <= label.start:
            return self._weights.between(token.end, label.start)
        is_abbreviated = self._text[label.end : label.end + 1] == "."  # Tel. 123
        return self._weights.between(label.end + is_abbreviated, token.start)


class _Weights:
    """What is between two places: words, and for several words each a comma or a token; not what stands in brackets."""

    def __init__(self, text: str, tokens: Sequence[TextToken], label_ends: Collection[int] | None) -> None:
        token_starts, ends = [token.start for token in tokens], [token.end for token in tokens]
        marks = [
            (start, 1)
            for _, start, _ in word_ranges(text)
            # The words of a date are not counted besides the date.
            if label_ends is None or bisect_right(token_starts, start) == bisect_right(ends, start)
        ]
        marks += [
            (match.start(), 3 if match[0] not in ".!?。" else 8)
            for match in _BREAK.finditer(text)
            # A dash behind a label stands for a verb.
            if match[0] not in "–—" or match.start() - 1 not in (label_ends or ())
        ]
        marks += [(start, 3) for start in token_starts]
        marks.sort()
        self._places = [place for place, _ in marks]
        self._sums = [0, *accumulate(weight for _, weight in marks)]
        asides = [match.span() for match in _ASIDE.finditer(text)]
        self._aside_starts, self._aside_ends = [start for start, _ in asides], [end for _, end in asides]
        self._aside_sums = [0, *accumulate(self._sum(start, end) for start, end in asides)]

    def between(self, low: int, high: int) -> int:
        """Return the weight of a range."""
        first, last = bisect_left(self._aside_starts, low), bisect_right(self._aside_ends, high)
        aside = self._aside_sums[last] - self._aside_sums[first] if last > first else 0
        return self._sum(low, high) - aside

    def _sum(self, low: int, high: int) -> int:
        return self._sums[bisect_left(self._places, high)] - self._sums[bisect_left(self._places, low)]


def _overlap(label: Occurrence, token: TextToken) -> bool:
    return label.start < token.end and token.start < label.end


def _contains(outer: Occurrence, inner: Occurrence) -> bool:
    return (
        outer.start <= inner.start
        and inner.end <= outer.end
        and outer.end - outer.start > inner.end - inner.start
    )

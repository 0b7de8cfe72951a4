"""The words of a text that name values, and which of them is nearest to a place."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tercet.contracts.documents import TextToken
from tercet.quality.contexts import Range
from tercet.quality.words import COMPOUNDING, compound_part, same_word, word_ranges, words_of

Phrase = tuple[str, ...]

_LOOKED_AT = 24
"""Labels on each side of a token that are weighed."""
_MAX_SIMILAR = 64
"""Labels with the same beginning that are compared with a word; with more, a word has to be equal."""
_MAX_PHRASE = 12
_ENDINGS = ("", "s", "e", "n", "en", "es")
_BELONGS_TO_OTHER = 6
_BEHIND = 2
_RIVALS = 4
_FAR = 2_000
_ASIDE = re.compile(r"\([^()]*\)")
_BREAK = re.compile(r"[,;()\n–—]|[.!?](?=\s)")


class Occurrence(NamedTuple):
    """A place in a text where a label stands; a compound is weaker than the word itself."""

    start: int
    end: int
    phrase: Phrase
    is_compound: bool = False


Fits = Callable[[Occurrence, TextToken], bool]
"""Whether a label names a value that a token could state."""


class LabelIndex:
    """Labels, found in a text by their words: in any case, with other endings, in German also in compounds."""

    def __init__(self, labels: Iterable[str], language: str) -> None:
        self._is_compounding = language in COMPOUNDING
        self._single: set[str] = set()
        self._longer: dict[tuple[str, str], list[Phrase]] = {}
        self._by_start: dict[str, set[str]] = {}
        self._by_end: dict[str, set[str]] = {}
        for phrase in sorted({words_of(label)[:_MAX_PHRASE] for label in labels} - {()}):
            if len(phrase) == 1:
                self._single.add(phrase[0])
            else:
                self._longer.setdefault((phrase[0], phrase[1][:3]), []).append(phrase)
            self._by_start.setdefault(phrase[0][:3], set()).add(phrase[0])
            if len(phrase) == 1 and len(phrase[0]) >= 5:
                self._by_end.setdefault(phrase[0][-5:], set()).add(phrase[0])
        self._similar: dict[str, list[tuple[str, int]]] = {}

    def find(self, text: str) -> list[Occurrence]:
        """Return where labels stand in a text, in its order."""
        words = word_ranges(text)
        found: list[Occurrence] = []
        for at, (word, start, end) in enumerate(words):
            for known, part in self._words_like(word):
                if part:
                    found.append(Occurrence(start, end, (known,), is_compound=True))
                    continue
                if known in self._single:
                    found.append(Occurrence(start, end, (known,)))
                following = words[at + 1][0][:3] if at + 1 < len(words) else ""
                found += [
                    Occurrence(start, words[at + len(phrase) - 1][2], phrase)
                    for phrase in self._longer.get((known, following), ())[:_MAX_SIMILAR]
                    if _goes_on(phrase, words, at)
                ]
        return found

    def _words_like(self, word: str) -> list[tuple[str, int]]:
        """The first words of labels that a word may be, each with the part of a compound that it is."""
        if word not in self._similar:
            self._similar[word] = list(self._compare(word))
        return self._similar[word]

    def _compare(self, word: str) -> Iterator[tuple[str, int]]:
        near = self._by_start.get(word[:3], set())
        if word in near:
            yield word, 0
            return
        if len(near) <= _MAX_SIMILAR:
            same = [known for known in sorted(near) if same_word(known, word)]
            yield from ((known, 0) for known in same)
            if same or not self._is_compounding:
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


def _goes_on(phrase: Phrase, words: Sequence[tuple[str, int, int]], at: int) -> bool:
    if at + len(phrase) > len(words):
        return False
    return all(same_word(wanted, words[at + step][0]) for step, wanted in enumerate(phrase[1:], 1))


class NearestLabels:
    """Finds the labels that are nearest to a token inside a range."""

    def __init__(self, text: str, occurrences: list[Occurrence], tokens: Sequence[TextToken]) -> None:
        self._text = text
        self._found = sorted(occurrences)
        self._starts = [each.start for each in self._found]
        self._tokens = sorted(tokens, key=lambda token: token.start)
        self._token_starts = [token.start for token in self._tokens]

    def inside(self, where: Range) -> list[Occurrence]:
        """Return the labels in a range, the first of many."""
        low = bisect_left(self._starts, where[0])
        high = bisect_left(self._starts, where[1])
        return self._found[low : min(high, low + 2 * _LOOKED_AT)]

    def nearest(self, token: TextToken, where: Range, fits: Fits) -> list[Occurrence]:
        """Return the fitting labels in a range with the least between them and the token; none inside a longer one."""
        middle = bisect_left(self._starts, token.start)
        low, high = bisect_left(self._starts, where[0]), bisect_left(self._starts, where[1])
        around = self._found[max(low, middle - _LOOKED_AT) : min(high, middle + _LOOKED_AT)]
        fitting = [each for each in around if not _overlap(each, token) and fits(each, token)]
        whole = [each for each in fitting if not any(_contains(other, each) for other in fitting)]
        costs = [(self._cost(token, each), each) for each in whole]
        least = min((cost for cost, _ in costs), default=0)
        return [each for cost, each in costs if cost == least]

    def _cost(self, token: TextToken, label: Occurrence) -> int:
        """How far a label is from a token; most stand before it, so one behind it counts as further."""
        own = self._distance(label, token)
        has_rival = any(self._distance(label, other) <= own for other in self._rivals(label, token))
        return own + has_rival * _BELONGS_TO_OTHER + (label.start > token.start) * _BEHIND

    def _rivals(self, label: Occurrence, token: TextToken) -> Iterator[TextToken]:
        """Tokens like this one around a label."""
        at = bisect_left(self._token_starts, label.start)
        for other in self._tokens[max(at - _RIVALS, 0) : at + _RIVALS]:
            is_like = (other.kind, other.unit) == (token.kind, token.unit)
            if is_like and other is not token and not _overlap(label, other):
                yield other

    def _distance(self, label: Occurrence, token: TextToken) -> int:
        """Words between a token and a label; a comma or another token counts as several, an aside in brackets not at all."""
        low, high = (label.end, token.start) if label.end <= token.start else (token.end, label.start)
        if high - low > _FAR:
            return high - low
        low += self._text[low : low + 1] == "." and low == label.end  # an abbreviation: Tel. 123
        between = _ASIDE.sub(lambda match: " " * len(match[0]), self._text[low:high])
        first, last = bisect_left(self._token_starts, low), bisect_left(self._token_starts, high)
        tokens = sum(not between[each.start - low].isspace() for each in self._tokens[first:last])
        breaks = sum(3 if match[0] not in ".!?" else 8 for match in _BREAK.finditer(between))
        return len(word_ranges(between)) + 3 * tokens + breaks


def _overlap(label: Occurrence, token: TextToken) -> bool:
    return label.start < token.end and token.start < label.end


def _contains(outer: Occurrence, inner: Occurrence) -> bool:
    return (
        outer.start <= inner.start
        and inner.end <= outer.end
        and outer.end - outer.start > inner.end - inner.start
    )

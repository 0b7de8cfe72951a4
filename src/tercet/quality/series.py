"""Labels that stand together beside as many tokens: `the rent and the deposit are 940 and 1,410`. They name them in order."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from tercet.contracts.documents import TextToken
from tercet.quality.labels import Fits, Occurrence
from tercet.quality.values import SIZES

_REACH = 160
"""Characters between a series of tokens and the furthest label that may name one of them."""
_MOST = 12
_TIMES = frozenset({"day", "month", "second"})
_AND = r"(?:and|und|et|y|e|и|or|oder|ou|o|u|или|sowie|bzw\.?|to|および|及び|और|तथा|या|व|[,、，・/&]|と|や)"
_JOINT = re.compile(
    rf"[ \xa0]*(?:{_AND}[ \n\xa0]*){{1,2}}(?:[^\W\d_]{{1,4}}(?:[ \xa0]|'))?|[ \xa0]{{2,}}", re.IGNORECASE
)
"""What stands between the tokens of a series."""
_LABEL_JOINT = re.compile(
    rf"(?:[^\w.:;!?()\n,]+[^\W\d_]+){{0,3}}[ \xa0]*(?:(?<!\w){_AND}(?!\w)|[,、，・/&とや])(?:[ \n\xa0]*[^\W\d_]{{1,12}}){{0,3}}[ \n\xa0']*|[ \xa0]{{2,}}",
    re.IGNORECASE,
)
_END = re.compile(r"[.!?](?=\s)|[。；;()]|\n\s*\n")
_WORDS = re.compile(r"[^\W_]+")
_FEW = 8


class _Place:
    """Where a label stands, in the longest of the ways that it can be read."""

    def __init__(self, first: Occurrence) -> None:
        self.start, self.end, self.labels = first.start, first.end, [first]


def pair_series(
    text: str, labels: Sequence[Occurrence], tokens: Sequence[TextToken], fits: Fits
) -> dict[int, list[Occurrence]]:
    """Return the labels of each token in a series behind or before a series of labels, by where the token begins.

    Of two series that are not of one length, no token is named.
    """
    places = list(_places(labels))
    starts = [place.start for place in places]
    paired: dict[int, list[Occurrence]] = {}
    for run in _token_runs(text, tokens, places):
        like: dict[str, list[TextToken]] = {}
        for token in run:
            like.setdefault(_sort(token), []).append(token)
        low, high = bisect_left(starts, run[0].start - _REACH), bisect_left(starts, run[-1].end + _REACH)
        for group in like.values():
            if len(group) < 2:
                continue
            near = [each for each in places[low:high] if _names(each, group, fits)]
            named = _beside(text, near, run, tokens)
            if len(named) > 1:
                in_order = named if len(named) == len(group) else [None] * len(group)
                paired |= {
                    token.start: place.labels if place else []
                    for token, place in zip(group, in_order, strict=True)
                }
    return paired


def _sort(token: TextToken) -> str:
    """What tokens have in common that one label could be confused about."""
    if token.kind != "amount":
        return f"{token.kind} {token.unit}"
    measure = SIZES[token.unit][0] if token.unit in SIZES else token.unit
    is_money = len(token.unit) == 3 and token.unit.isupper()
    return "time" if measure in _TIMES else "money" if is_money else measure


def _places(labels: Sequence[Occurrence]) -> Iterator[_Place]:
    place: _Place | None = None
    for label in sorted(labels, key=lambda each: (each.start, -each.end)):
        if place is None or label.start >= place.end:
            if place is not None:
                yield place
            place = _Place(label)
        elif (label.start, label.end) == (place.start, place.end):
            place.labels.append(label)
    if place is not None:
        yield place


def _token_runs(
    text: str, tokens: Sequence[TextToken], places: Sequence[_Place]
) -> Iterator[list[TextToken]]:
    """Yield the tokens that stand together, two or more."""
    starts = [place.start for place in places]
    run: list[TextToken] = []
    for token in sorted(tokens, key=lambda each: each.start):
        if run:
            gap = (run[-1].end, token.start)
            has_label = bisect_left(starts, gap[0]) < bisect_left(starts, gap[1])
            is_joint = gap[1] - gap[0] < 40 and _JOINT.fullmatch(text, *gap)
            if has_label or not is_joint or len(run) == _MOST:
                if len(run) > 1:
                    yield run
                run = []
        run.append(token)
    if len(run) > 1:
        yield run


def _names(place: _Place, tokens: Sequence[TextToken], fits: Fits) -> bool:
    return any(fits(label, token) for label in place.labels for token in tokens)


def _beside(
    text: str, places: Sequence[_Place], run: Sequence[TextToken], tokens: Sequence[TextToken]
) -> list[_Place]:
    """Return the labels that stand together before a run of tokens; or behind it, if there is none before it."""
    before = [place for place in places if place.end <= run[0].start]
    if before and _is_clear(text, (before[-1].end, run[0].start), tokens):
        together = [before[-1]]
        for place in reversed(before[:-1]):
            if not _stand_together(text, (place.end, together[0].start), tokens):
                break
            together.insert(0, place)
        return together
    behind = [place for place in places if place.start >= run[-1].end]
    together = behind[:1] if behind and _is_clear(text, (run[-1].end, behind[0].start), tokens) else []
    for place in behind[1:] if together else ():
        if not _stand_together(text, (together[-1].end, place.start), tokens):
            break
        together.append(place)
    return together


def _is_clear(text: str, gap: tuple[int, int], tokens: Sequence[TextToken]) -> bool:
    """Return whether nothing but a few words stands between labels and tokens."""
    between = text[gap[0] : gap[1]]
    is_short = len(_WORDS.findall(between)) <= _FEW and not _END.search(between)
    return is_short and not any(gap[0] <= token.start < gap[1] for token in tokens)


def _stand_together(text: str, gap: tuple[int, int], tokens: Sequence[TextToken]) -> bool:
    low = gap[0]
    while low < gap[1] and unicodedata.category(text[low]).startswith("M"):  # of the label's last letter
        low += 1
    is_joint = gap[1] - low < 60 and _LABEL_JOINT.fullmatch(text, low, gap[1])
    return bool(is_joint) and not any(gap[0] <= token.start < gap[1] for token in tokens)

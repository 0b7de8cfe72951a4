"""Members that a claim calls by their whole name: `the refundable cents are 19000` speaks of `refundable_cents`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tercet.contracts import pointer
from tercet.contracts.totals import key_words
from tercet.quality.grounding import units
from tercet.quality.grounding.statements import Statement

_LINK = r"(?P<link>\s*[:=]\s*|\s+(?:is|are|was|were|of|amounts?\s+to|comes?\s+to)\s+|\s+)"
_FIGURE = r"(?P<figure>\d+(?:[.,'’]\d+)*)(?!\s*[\w%€$£¥₹°])"


class SpelledMembers:
    """The numbers of some evidence whose names end with their unit."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        found = {_label(said) for said in statements if isinstance(said.value, int | float)}
        names = [
            rf"(?P<label{at}>{re.escape(label)})\s+(?P<unit{at}>{re.escape(unit)})"
            for at, (label, unit) in enumerate(sorted(filter(None, found))[:200])
        ]
        self._pattern = (
            re.compile(rf"\b(?:{'|'.join(names)}){_LINK}{_FIGURE}", re.IGNORECASE) if names else None
        )

    def put_units_right(self, claim: str) -> str:
        """The claim with the unit of such a member behind its number, where the check looks for units."""
        return claim if self._pattern is None else self._pattern.sub(_turned, claim)


def _label(said: Statement) -> tuple[str, str] | None:
    words = key_words(pointer.parts(said.pointer)[-1]) if said.pointer else []
    is_named = len(words) > 1 and bool(units.unit_of_key(words)[0])
    return (" ".join(words[:-1]), words[-1]) if is_named else None


def _turned(match: re.Match[str]) -> str:
    label, unit = (
        next(text for name, text in match.groupdict().items() if name.startswith(part) and text)
        for part in ("label", "unit")
    )
    return f"{label}{match['link']}{match['figure']} {unit}"

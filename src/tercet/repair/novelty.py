"""How unlike a run is to those before it.

A run is a bag of features with weights: the words of its intent, the tools that it used, the classes of its evidence, the
fields of its request. The distance of two runs is what they do not share of all that they have together. Runs of another
tenant, or of another kind of task, do not come in here: whoever asks chooses what to compare with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tercet.contracts.exit import Novelty
from tercet.contracts.shape import as_object

LIMIT = 0.5
"""A run that shares less than half with any before it is novel."""
_WORD = re.compile(r"\w+")

Pattern = Mapping[str, float]


def pattern_of(
    *, intent: str, request: Any = None, tools: Iterable[str] = (), evidence: Iterable[str] = ()
) -> dict[str, float]:
    """The features of a run: names and kinds, no values, so that nothing of a customer is kept."""
    found = {f"intent:{word}": 1.0 for word in _WORD.findall(intent.casefold())}
    for name, value in (as_object(request) or {}).items():
        found[f"field:{name}:{_kind(value)}"] = 1.0
    for prefix, names in (("tool", tools), ("evidence", evidence)):
        for name in names:
            # A tool that is used often says more, but a hundred times does not say a hundred times as much.
            found[f"{prefix}:{name}"] = min(found.get(f"{prefix}:{name}", 0.0) + 1.0, 3.0)
    return dict(sorted(found.items()))


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "list" if isinstance(value, list) else "object"


def distance(one: Pattern, other: Pattern) -> float:
    """What two runs do not share, between 0 and 1."""
    names = sorted({*one, *other})
    most = sum(max(one.get(name, 0.0), other.get(name, 0.0)) for name in names)
    least = sum(min(one.get(name, 0.0), other.get(name, 0.0)) for name in names)
    return round(1.0 - least / most, 6) if most > 0 else 0.0


def novelty(pattern: Pattern, past: Mapping[str, Pattern], *, limit: float = LIMIT) -> Novelty:
    """How far a run is from the nearest one before it; as far as can be, if there is none."""
    ranked = sorted((distance(pattern, each), name) for name, each in past.items())
    if not ranked:
        return Novelty(distance=1.0, limit=limit)
    nearest, name = ranked[0]
    return Novelty(distance=nearest, limit=limit, nearest=name)

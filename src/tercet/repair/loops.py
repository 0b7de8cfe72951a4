"""Noticing that a repair goes round in circles: the same output again, with the same things wrong with it.

An output is known again by its hash, or nearly by its shingles: hashes of five words in a row, of which the smallest are
kept. A diagnosis is known again by its defects. Both must be similar to those of one and the same time before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

from tercet.contracts.canonical import canonical, hash_bytes
from tercet.contracts.quality import Defect
from tercet.contracts.repair import Impression, LoopBreak, LoopMemory, RepairRules
from tercet.contracts.shape import JsonObject

LADDER: tuple[LoopBreak, ...] = tuple(LoopBreak)
_WORD = re.compile(r"\w+")
_WORDS_IN_A_ROW = 5
_MOST_SHINGLES = 128


def impression_of(output: JsonObject, defects: Iterable[Defect]) -> Impression:
    """What is remembered of an output and its diagnosis."""
    printed = canonical(output)
    return Impression(
        output=hash_bytes(printed),
        shingles=_shingles(printed.decode()),
        diagnosis=tuple(sorted({part for defect in defects for part in _parts(defect)})),
    )


def _shingles(text: str) -> tuple[int, ...]:
    words = _WORD.findall(text.casefold())
    rows = {
        " ".join(words[at : at + _WORDS_IN_A_ROW]) for at in range(max(1, len(words) - _WORDS_IN_A_ROW + 1))
    }
    return tuple(sorted(_hash(row) for row in rows)[:_MOST_SHINGLES])


def _hash(text: str) -> int:
    # Fifty bits: JSON readers keep them exactly.
    return int.from_bytes(sha256(text.encode(errors="surrogatepass")).digest()[:7], "big") >> 6


def _parts(defect: Defect) -> Iterable[str]:
    about = f"{defect.dimension.casefold()}|{defect.scope}"
    words = sorted(set(_WORD.findall(defect.description.casefold())))
    return [f"{_hash(f'{about}|{word}'):x}" for word in words or [""]]


def similarity(one: Sequence[object], other: Sequence[object]) -> float:
    """How much two sets have in common: 1 for equal ones, 0 for those without a common member."""
    first, second = set(one), set(other)
    union = len(first | second)
    return 1.0 if union == 0 else round(len(first & second) / union, 6)


def is_like(one: Impression, other: Impression, theta: float) -> bool:
    """Whether two outputs are similar, and their diagnoses too."""
    same_output = one.output == other.output or similarity(one.shingles, other.shingles) > theta
    same_diagnosis = one.diagnosis == other.diagnosis or similarity(one.diagnosis, other.diagnosis) > theta
    return same_output and same_diagnosis


def notice(memory: LoopMemory, seen: Impression, rules: RepairRules) -> tuple[LoopMemory, LoopBreak | None]:
    """The memory with one more impression, and what to do if that was seen before; the oldest one is forgotten."""
    is_loop = any(is_like(seen, before, rules.theta_loop) for before in memory.impressions)
    kept = (*memory.impressions, seen)[-rules.loop_window :]
    loops = memory.loops + int(is_loop)
    changed = memory.model_copy(update={"impressions": kept, "loops": loops})
    return changed, rung_of(changed) if is_loop else None


def rung_of(memory: LoopMemory) -> LoopBreak | None:
    """How far up the ladder the loops so far lead; it stays in force in the phases that follow."""
    return LADDER[min(memory.loops, len(LADDER)) - 1] if memory.loops else None

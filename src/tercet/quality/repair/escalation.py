"""Escalation of defects that repairs did not resolve: to a person, a stronger model, a planner, into a partial result, or nowhere.

Noticing that a repair goes round in circles: the same output again, with the same things wrong with it.

An output is known again by its hash, or nearly by its shingles: hashes of five words in a row, of which the smallest are
kept. A diagnosis is known again by its defects. Both must be similar to those of one and the same time before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from tercet.contracts.outputs.quality import Defect, DefectSeverity, RootCauseClass
from tercet.contracts.outputs.repair import (
    Escalation,
    EscalationVerdict,
    Impression,
    LeftDefect,
    LoopBreak,
    LoopMemory,
    RepairRules,
)
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.canonical import canonical, hash_bytes

FEEDBACK = "feedback"
"""The dimension of what a person asked to be changed: if it cannot be, the person is informed."""
EXHAUSTED = "every fitting repair was tried"
"""Why a defect was abandoned that a stronger model may repair."""
LOOPED = "it goes round in circles"
"""Likewise: the model keeps saying the same."""
_WORST_IN_PART = DefectSeverity.MEDIUM
"""A result with worse defects is of no use in part."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """Who else could help."""

    has_model: bool = True
    has_other_model: bool = False
    has_human: bool = False
    may_replan: bool = False
    is_partial_useful: bool = False
    """Whether a result with some defects is still useful to the caller."""
    may_substitute: bool = False
    """Whether a planner may be asked for a plan that does without a tool that failed."""
    can_fetch: bool = False
    """Whether more evidence was looked for, or failed tools were called again."""
    is_plain: bool = True
    """Whether the session's rules give the reason in plain words."""


def escalate(
    left: Sequence[LeftDefect], rules: RepairRules, resources: Resources, *, reason: str
) -> EscalationVerdict:
    """The first of the ladder that can help, with what is left and why."""
    kind, why, beyond = _choose(left, rules, resources)
    why = why if resources.is_plain else _EARLIER_WORDS.get(why, why)
    return EscalationVerdict(kind=kind, reason=f"{why}: {reason}", root_cause=beyond, left=tuple(left))


_EARLIER_WORDS = {
    "a person who knows the field is needed": "somebody who knows the field is needed",
    "a stronger model may repair it": "a stronger model may mend it",
    "there is no other model, planner or person to repair it": "nobody is left who could mend it",
}
"""The reasons in sessions under earlier rules."""


def _choose(
    left: Sequence[LeftDefect], rules: RepairRules, resources: Resources
) -> tuple[Escalation, str, RootCauseClass | None]:
    beyond = _beyond(left, rules)
    experts = (*rules.expert_dimensions, FEEDBACK)
    if resources.has_human and any(each.defect.dimension in experts for each in left):
        return Escalation.HUMAN_REVIEW, "a person who knows the field is needed", beyond
    if resources.may_substitute and any(each.root_cause is RootCauseClass.TOOL_FAILURE for each in left):
        return Escalation.TASK_REDECOMPOSE, "another plan may do without the tool that failed", beyond
    if beyond is RootCauseClass.CAPABILITY_LIMIT and resources.has_other_model:
        return Escalation.MODEL_UPGRADE, "a stronger model may repair it", beyond
    if beyond is RootCauseClass.COMPLEXITY_EXCEEDED and resources.may_replan:
        return Escalation.TASK_REDECOMPOSE, "the task is too much at once", beyond
    if resources.is_partial_useful and not any(map(_is_grave, left)):
        return Escalation.PARTIAL_COMMIT, "what is there is of use", beyond
    return Escalation.FAIL_WITH_DIAGNOSIS, "there is no other model, planner or person to repair it", beyond


def _beyond(left: Sequence[LeftDefect], rules: RepairRules) -> RootCauseClass | None:
    """The two classes that are given here and nowhere else: beyond the task as it was cut, or beyond the model."""
    if len(left) >= rules.many_defects:
        return RootCauseClass.COMPLEXITY_EXCEEDED
    is_beyond_model = any(each.tried and each.reason in (EXHAUSTED, LOOPED) for each in left)
    return RootCauseClass.CAPABILITY_LIMIT if is_beyond_model else None


def _is_grave(left: LeftDefect) -> bool:
    """Return whether a defect forbids to hand the result out: a bad one, or one of safety or form, however small."""
    grave = (RootCauseClass.SAFETY_VIOLATION, RootCauseClass.SCHEMA_VIOLATION)
    return left.defect.severity > _WORST_IN_PART or left.root_cause in grave


LADDER: tuple[LoopBreak, ...] = tuple(LoopBreak)
_WORD = re.compile(r"\w+")
_WORDS_IN_A_ROW = 5
_MOST_SHINGLES = 128


def impression_of(output: JsonObject, defects: Iterable[Defect]) -> Impression:
    """Return what is remembered of an output and its diagnosis."""
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
    """Return how much two sets have in common: 1 for equal ones, 0 for those without a common member."""
    first, second = set(one), set(other)
    union = len(first | second)
    return 1.0 if union == 0 else round(len(first & second) / union, 6)


def is_like(one: Impression, other: Impression, theta: float) -> bool:
    """Return whether two outputs are similar, and their diagnoses too."""
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
    """Return how far up the ladder the loops so far lead; it stays in force in the phases that follow."""
    return LADDER[min(memory.loops, len(LADDER)) - 1] if memory.loops else None

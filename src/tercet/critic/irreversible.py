"""Finds irreversible steps that may run before a person has denied another step of the same plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tercet.contracts.mode import MODE_RANK, Reversibility
from tercet.contracts.plan import Plan
from tercet.contracts.steps.effective import EffectiveStep


class EarlyEffect(NamedTuple):
    """An irreversible step, a step that it does not wait for, and the gates at which that one may be denied."""

    step: str
    waiting: str
    gates: tuple[str, ...]
    """Empty if anyone may approve or deny it."""

    @property
    def message(self) -> str:
        """The warning."""
        gates = " and ".join(self.gates) or "the approval that it needs"
        return f"{self.step} cannot be undone, and may run before {self.waiting} is denied at {gates}"

    @property
    def remedy(self) -> str:
        """How to prevent it."""
        return f"let {self.step} depend on {self.waiting}, if it should happen only after that was approved"


def find_early_effects(
    plan: Plan,
    calls: Iterable[EffectiveStep],
    waiting: Mapping[int, tuple[str, ...]],
    sequences: Collection[str] = (),
) -> tuple[EarlyEffect, ...]:
    """Return each irreversible call that does not wait for a step which may be denied, with the first such step.

    `waiting` are the gates of the steps that wait for an approval, by position. Of two irreversible steps one has to
    come first: that may be the one of the stronger mode. If two steps share a gate of `sequences`, one approval covers
    both.
    """
    irreversible = {
        call.position: MODE_RANK[call.mode]
        for call in calls
        if call.reversibility is Reversibility.IRREVERSIBLE
    }
    found: list[EarlyEffect] = []
    for index, rank in irreversible.items():
        before = plan.graph.ancestors(index)
        own = set(waiting.get(index, ())).intersection(sequences)
        for other in sorted(waiting):
            may_follow = other in irreversible and irreversible[other] <= rank
            if other != index and other not in before and not may_follow and own.isdisjoint(waiting[other]):
                found.append(EarlyEffect(plan.steps[index].id, plan.steps[other].id, waiting[other]))
                break
    return tuple(found)

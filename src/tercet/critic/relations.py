"""Checks whether the sources of a decision relate to its request as the decision declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tercet.contracts.context import CompiledContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.mode import Trust
from tercet.contracts.relations import (
    MISSING,
    REQUEST,
    Relation,
    field_place,
    is_of_class,
    is_scalar,
    members,
    value_at,
)
from tercet.contracts.values.references import Place
from tercet.contracts.values.trust import Scalar, scalar


class Relations:
    """The relations of one decision, over the context of a run and the evidence that each step pins."""

    def __init__(
        self,
        compiled: CompiledContext,
        spec: DecisionSpec,
        pinned: Sequence[Sequence[str]],
        is_marked_input: Callable[[Place], bool],
    ) -> None:
        self._compiled = compiled
        self._spec = spec
        self._pinned = pinned
        self._is_marked_input = is_marked_input
        self._unmet: dict[tuple[str, int | None], Relation | None] = {}

    @property
    def has_request(self) -> bool:
        """Whether there is a request to relate to."""
        return self._compiled.request is not None

    def unchecked(self) -> tuple[str, ...]:
        """Return the relations to the request that cannot be checked without a request, as text."""
        if self.has_request:
            return ()
        to_request = (each for each in self._spec.bind if each.target and each.target.owner == REQUEST)
        return tuple(str(relation) for relation in to_request)

    def of_evidence(self, classification: str) -> tuple[Relation, ...]:
        """Return the relations that are declared for a class of evidence."""
        return tuple(r for r in self._spec.bind if r.evidence and is_of_class(r.evidence, classification))

    def of_calls(self, tool: str) -> tuple[Relation, ...]:
        """Return the relations that are declared for the calls of a tool and their results."""
        return tuple(relation for relation in self._spec.bind if relation.tool == tool)

    def ties_to_request(self, ref: str) -> bool:
        """Return whether a relation to the request is declared for a piece of evidence."""
        entry = self._compiled.evidence.get(ref)
        relations = () if entry is None else self.of_evidence(entry.classification)
        return any(relation.target is not None and relation.target.owner == REQUEST for relation in relations)

    def unmet_by_evidence(self, ref: str, index: int | None) -> Relation | None:
        """Return a relation that the evidence does not meet at a step, or None; without a step, one that is unmet at every
        step that pins it."""
        if not self._spec.bind:
            return None
        if (ref, index) not in self._unmet:
            entry = self._compiled.evidence.get(ref)
            relations = () if entry is None else self.of_evidence(entry.classification)
            if entry is None or not relations:
                return None
            self._unmet[ref, index] = relations[0]  # a circular relation is unmet
            self._unmet[ref, index] = self._find_unmet(ref, entry.content, relations, index)
        return self._unmet[ref, index]

    def _find_unmet(
        self, ref: str, content: Any, relations: Sequence[Relation], index: int | None
    ) -> Relation | None:
        if index is None:
            places = [at for at, refs in enumerate(self._pinned) if ref in refs] or [len(self._pinned)]
            found = [self.unmet_by_evidence(ref, at) for at in places]
            return None if None in found else found[0]
        for relation in relations:
            if not self.holds(relation, value_at(content, field_place(relation.field or "")), index):
                return relation
        return None

    def holds(self, relation: Relation, value: Any, index: int | None) -> bool:
        """Return whether a value is the one that a relation demands of a source used at a step."""
        wanted = self.demanded(relation, index)
        return wanted is None or (is_scalar(value) and scalar(value) in wanted)

    def demanded(self, relation: Relation, index: int | None) -> frozenset[Scalar] | None:
        """Return the values that a relation allows at a step; None if it cannot be checked without a request."""
        target = relation.target
        if target is None:
            return None
        if target.owner == REQUEST:
            if not self.has_request:
                return None
            if self._is_marked_input(target.place):
                return frozenset()
            return members(value_at(self._compiled.input(), target.place))
        found: set[Scalar] = set()
        refs = self._pinned[index] if index is not None and index < len(self._pinned) else ()
        for ref in refs:
            entry = self._compiled.evidence.get(ref)
            if entry is None or entry.trust is not Trust.TRUSTED:
                continue
            if is_of_class(target.owner, entry.classification) and self.unmet_by_evidence(ref, index) is None:
                found |= members(value_at(entry.content, target.place))
        return frozenset(found)

    def explain(self, relation: Relation, value: Any, index: int | None) -> str:
        """Return a description of why a value does not meet a relation."""
        wanted = sorted(map(repr, self.demanded(relation, index) or ()))
        has = "is missing" if value is MISSING else f"is {_shown(value)}"
        expected = (
            f"not {' or '.join(wanted[:3])}" if wanted else f"and there is no trusted {relation.equals}"
        )
        return f"{relation.param or relation.field} {has}, {expected} ({relation})"

    def remedy_for(self, ref: str, index: int | None) -> str | None:
        """Return what to pin or to ask for in the place of evidence that does not relate to the request; None if it does."""
        relation = self.unmet_by_evidence(ref, index)
        if relation is None:
            return None
        wanted = sorted(map(str, self.demanded(relation, index) or ()))
        found = value_at(self._compiled.evidence[ref].content, field_place(relation.field or ""))
        pin = f"pin evidence for {' or '.join(wanted[:3])}" if wanted else f"give {relation.equals}"
        return f"{pin}, or ask for {found}" if is_scalar(found) else pin

    def explain_evidence(self, ref: str, index: int | None) -> str | None:
        """Return a description of why a piece of evidence does not relate to the request; None if it does."""
        relation = self.unmet_by_evidence(ref, index)
        if relation is None:
            return None
        entry = self._compiled.evidence[ref]
        value = value_at(entry.content, field_place(relation.field or ""))
        return f"evidence {ref} does not relate to the request: {self.explain(relation, value, index)}"

    def explain_result(self, tool: str, value: Any, index: int | None) -> str | None:
        """Return a description of why a result does not relate to the request; None if it does."""
        for relation in self.of_calls(tool):
            if relation.field is not None:
                found = value_at(value, field_place(relation.field))
                if not self.holds(relation, found, index):
                    return f"the result of {tool} does not relate to the request: {self.explain(relation, found, index)}"
        return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"

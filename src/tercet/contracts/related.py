"""Which facts belong to a request, by the relations that its decision declares between evidence and the request.

The critic checks relations for the evidence that a plan pins; this is for choosing what a planner is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from tercet.contracts import pointer
from tercet.contracts.mode import Trust
from tercet.contracts.relations import REQUEST, Relation, field_place
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.trust import Scalar, scalar


class Record(Protocol):
    """A fact, as far as relations look at it."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def classification(self) -> str:
        """Its class."""
        ...

    @property
    def content(self) -> Any:
        """What it says."""
        ...

    @property
    def trust(self) -> Trust:
        """Whether it is trusted."""
        ...


RecordT = TypeVar("RecordT", bound=Record)


def is_of_class(name: str, classification: str) -> bool:
    """Return whether a relation about the class `name` is about facts of a class: `x` also stands for `x_evidence`."""
    return classification in (name, f"{name}_evidence")


def select_related(
    facts: Sequence[RecordT], relations: Iterable[Relation], request: Any
) -> tuple[RecordT, ...]:
    """Return the facts that satisfy every relation of their class, in their order; those of other classes all do."""
    about = [relation for relation in relations if relation.evidence is not None]
    return tuple(_Selection(facts, about, request).related(facts)) if about else tuple(facts)


class _Selection:
    """Facts, and the values that they must have to belong to a request."""

    def __init__(self, facts: Sequence[Record], relations: Sequence[Relation], request: Any) -> None:
        self._facts = facts
        self._relations = relations
        self._request = request
        self._values: dict[str, frozenset[Scalar]] = {}

    def related(self, facts: Sequence[RecordT]) -> list[RecordT]:
        return [fact for fact in facts if self._is_related(fact)]

    def _is_related(self, fact: Record) -> bool:
        return all(
            not values_at(fact.content, field_place(relation.field or "")).isdisjoint(self._wanted(relation))
            for relation in self._relations
            if is_of_class(relation.evidence or "", fact.classification)
        )

    def _wanted(self, relation: Relation) -> frozenset[Scalar]:
        """The values that meet a relation; none while they are being worked out, so that a circle of relations ends."""
        key = relation.equals or ""
        if key not in self._values:
            self._values[key] = frozenset()
            self._values[key] = self._find_wanted(relation)
        return self._values[key]

    def _find_wanted(self, relation: Relation) -> frozenset[Scalar]:
        target = relation.target
        if target is None:
            return frozenset()
        if target.owner == REQUEST:
            return values_at(self._request, target.place)
        holders = [
            fact
            for fact in self._facts
            if is_of_class(target.owner, fact.classification) and fact.trust is Trust.TRUSTED
        ]
        found = (values_at(fact.content, target.place) for fact in self.related(holders))
        return frozenset[Scalar]().union(*found)


def values_at(value: Any, place: Sequence[str]) -> frozenset[Scalar]:
    """The scalar at a place, or the members of the list there; empty where there is none."""
    try:
        found = pointer.follow(value, pointer.join(place))
    except pointer.PointerError:
        return frozenset()
    items = as_list(found)
    return frozenset(
        scalar(item)
        for item in ([found] if items is None else items)
        if as_object(item) is None and as_list(item) is None
    )

"""Select the facts that belong to a request, by the relations that its decision declares.

The critic checks relations for pinned evidence; this module chooses what a planner sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from tercet.contracts.mode import Trust
from tercet.contracts.relations import (
    REQUEST,
    Relation,
    field_place,
    is_of_class,
    is_scalar,
    members,
    value_at,
)
from tercet.contracts.values.trust import Scalar, input_marks, is_marked, scalar, with_dotted


class Record(Protocol):
    """A fact, as relations see it."""

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
        """Its content."""
        ...

    @property
    def trust(self) -> Trust:
        """Whether it is trusted."""
        ...


RecordT = TypeVar("RecordT", bound=Record)


def select_related(
    facts: Sequence[RecordT],
    relations: Iterable[Relation],
    request: Any,
    untrusted_inputs: Sequence[str] = (),
) -> tuple[RecordT, ...]:
    """Return the facts that satisfy every relation of their class, in order; classes without relations pass unchanged.

    A relation to a request field that is marked as untrusted is unmet.
    """
    about = [relation for relation in relations if relation.evidence is not None]
    marks = input_marks(with_dotted(untrusted_inputs))
    return tuple(_Selection(facts, about, request, marks).related(facts)) if about else tuple(facts)


class _Selection:
    """Facts, and the values that they need in order to belong to a request."""

    def __init__(
        self, facts: Sequence[Record], relations: Sequence[Relation], request: Any, marks: Sequence[str]
    ) -> None:
        self._marks = marks
        self._facts = facts
        self._relations = relations
        self._request = request
        self._values: dict[str, frozenset[Scalar]] = {}

    def related(self, facts: Sequence[RecordT]) -> list[RecordT]:
        return [fact for fact in facts if self._is_related(fact)]

    def _is_related(self, fact: Record) -> bool:
        return all(
            is_scalar(value := value_at(fact.content, field_place(relation.field or "")))
            and scalar(value) in self._wanted(relation)
            for relation in self._relations
            if is_of_class(relation.evidence or "", fact.classification)
        )

    def _wanted(self, relation: Relation) -> frozenset[Scalar]:
        """Return the values that meet a relation; none while they are being computed, so that circular relations
        terminate.
        """
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
            if is_marked(self._marks, target.place):
                return frozenset()
            return members(value_at(self._request, target.place))
        holders = [
            fact
            for fact in self._facts
            if is_of_class(target.owner, fact.classification) and fact.trust is Trust.TRUSTED
        ]
        found = (members(value_at(fact.content, target.place)) for fact in self.related(holders))
        return frozenset[Scalar]().union(*found)

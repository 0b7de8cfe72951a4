"""The sentences of a request as a planning model sees them, and the values in them that it may use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tercet.contracts import relations
from tercet.contracts.relations import FieldSpec
from tercet.contracts.text.entities import (
    Ambiguous,
    Entity,
    bind_literal,
    find_entities,
    find_hidden,
    fitting_entities,
)
from tercet.contracts.text.pasted import Data, Piece, Span, show
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer
from tercet.contracts.values.kinds import Kind, parameter_kind
from tercet.contracts.values.references import Place
from tercet.contracts.values.trust import overlaps
from tercet.planner.assignment import Assignment

MAX_OFFERED = 100
"""The maximum number of entities of a sentence that a parameter may take."""
MAX_NAMED = 40
"""The maximum number of entities of a sentence in a prompt."""


class Sentence(NamedTuple):
    """A trusted prose field of a request."""

    place: Place
    text: str
    field: FieldSpec

    @property
    def entities(self) -> tuple[Entity, ...]:
        """The entities that it names."""
        return find_entities(self.text, self.field.patterns, pasted=self.field.pasted)

    def bind(self, value: Any, kind: Kind, name: str) -> Entity | Ambiguous | None:
        """Return the entity for a value in a parameter."""
        return bind_literal(
            self.text,
            value,
            kind=kind.name or None,
            name=name,
            is_declared=kind.is_declared,
            patterns=self.field.patterns,
            pasted=self.field.pasted,
        )

    @property
    def hidden(self) -> tuple[Span, ...]:
        """The parts of it that are not trusted."""
        return find_hidden(self.text, self.field.pasted)


def is_sentence(assignment: Assignment, place: Place) -> bool:
    """Return whether a part of the request is declared as prose, or holds some."""
    return any(
        field.is_sentence and overlaps(pointer.join(field.path.place), place)
        for field in assignment.spec.fields
    )


def holds_pasted(assignment: Assignment, name: str) -> bool:
    """Return whether text was pasted into a sentence of a field of the request."""
    return any(sentence.hidden for sentence in find_sentences(assignment) if sentence.place[0] == name)


def find_sentences(assignment: Assignment) -> tuple[Sentence, ...]:
    """Return the trusted sentences of a request, by their places."""
    declared = relations.find_sentences(assignment.spec.fields, assignment.compiled.input())
    found = [
        Sentence(place, text, field) for field, place, text in declared if assignment.is_trusted_input(place)
    ]
    return tuple(sorted(found, key=lambda sentence: [str(token) for token in sentence.place]))


def offered_values(assignment: Assignment, tool: ToolSpec, place: Place) -> tuple[Any, ...]:
    """Return the values of the request's sentences that a parameter may take, as text and as numbers.

    Ambiguous entities are not offered, unless a person is asked about them.
    """
    kind = parameter_kind(tool, place)
    name = str(place[0])
    is_asked = assignment.spec.unbound_gate is not None and tool.unbound.get(name) != "refuse"
    values: dict[Any, Any] = {}
    for sentence in find_sentences(assignment):
        fitting = fitting_entities(
            sentence.entities, kind=kind.name or None, name=name, is_declared=kind.is_declared
        )
        for entity in fitting[:MAX_OFFERED]:
            for value in (entity.value, entity.number):
                found = sentence.bind(value, kind, name)
                if isinstance(found, Entity) or (found is not None and is_asked):
                    values.setdefault((type(value), value), value)
    return tuple(values.values())


def show_sentence(sentence: Sentence, longest: int) -> Iterator[Piece]:
    """Yield a sentence as pieces of a prompt: pasted text is data, and the named entities are listed."""
    position = 0
    for start, end in sorted(sentence.hidden):
        if start > position:
            yield f"{show(sentence.text[position:start], longest)} "
        if end > position:
            yield Data(show(sentence.text[max(start, position) : end], longest))
            yield " "
        position = max(position, end)
    if position < len(sentence.text):
        yield show(sentence.text[position:], longest)
    named = dict.fromkeys(
        f"{entity.kind} {_show_entity(entity)}" for entity in sentence.entities if not entity.is_unclear
    )
    if named:
        yield f"\n  A parameter with ! takes only these values of it: {', '.join([*named][:MAX_NAMED])}"


def _show_entity(entity: Entity) -> str:
    return show(entity.value if entity.number is None else entity.number, 200)

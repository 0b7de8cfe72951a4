"""The sentences of a request as a planning model sees them, and the values in them that it may use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from tercet.contracts import relations
from tercet.contracts.context import CompiledContext, EvidenceManifestEntry, KnownResult
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan
from tercet.contracts.related import select_related
from tercet.contracts.relations import FieldSpec
from tercet.contracts.shape import as_object
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
from tercet.contracts.values.trust import input_marks, is_marked, overlaps, with_dotted


@dataclass(frozen=True, kw_only=True)
class Complaint:
    """One typed reason why the previous plan was abandoned. `reason` may quote untrusted text; the rest is ours."""

    code: str
    reason: str
    place: str = ""
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Everything that a prompt and the schema of its answer are made of."""

    compiled: CompiledContext
    spec: DecisionSpec
    tools: Mapping[str, ToolSpec]
    """The available tools, by name."""
    max_steps: int
    """How many steps the answer may have."""
    first: int = 1
    """The number of the first step to write: steps are called s1, s2 and so on."""
    attempt: int = 1
    """The number of this attempt."""
    before: Plan | None = None
    """The plan that was abandoned."""
    kept: tuple[str, ...] = ()
    """The steps of it that are kept unchanged."""
    done: tuple[str, ...] = ()
    """The kept steps that have completed."""
    results: tuple[KnownResult, ...] = ()
    """The results of completed steps, except those too large to show."""
    outputs_kept: tuple[str, ...] = ()
    """The outputs of it that are kept."""
    complaints: tuple[Complaint, ...] = ()
    wish: str = ""
    """What a person who decides about this run asks for."""

    @property
    def is_partial(self) -> bool:
        """Whether steps are kept, so that only the rest is asked for."""
        return bool(self.kept)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The ids of the steps to write."""
        return tuple(f"s{number}" for number in range(self.first, self.first + self.max_steps))

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that are asked for."""
        schema = as_object(self.spec.outputs_schema) or {}
        wanted = self.spec.required_outputs or tuple(map(str, schema.get("required", ())))
        rendered = self.spec.rendered_outputs
        return tuple(name for name in wanted if name not in self.outputs_kept and name not in rendered)

    @cached_property
    def evidence(self) -> tuple[EvidenceManifestEntry, ...]:
        """The facts that the model sees: those that fit, and that satisfy the relations of the decision."""
        shown = [entry for entry in self.compiled.manifests.evidence_manifest if entry.is_shown]
        return select_related(shown, self.spec.bind, self.compiled.input(), self.spec.untrusted_inputs)

    @cached_property
    def _untrusted_inputs(self) -> tuple[str, ...]:
        return input_marks(with_dotted(self.spec.untrusted_inputs))

    def is_trusted_input(self, place: Place) -> bool:
        """Return whether a part of the request contains no untrusted text."""
        return not is_marked(self._untrusted_inputs, place)

    def is_trusted_field(self, tool: ToolSpec, place: Place) -> bool:
        """Return whether a part of a tool's result contains no untrusted text, provided that its inputs do not either."""
        return tool.result_trust is Trust.TRUSTED and not is_marked(tool.untrusted, place)


# --- sentences ---


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

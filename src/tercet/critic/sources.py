"""Finds the source of a literal in a step: the request, pinned evidence, a known result, or a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from tercet.contracts.relations import REQUEST, FieldSpec, find_sentences, is_of_class
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.steps.effective import effective
from tercet.contracts.text.entities import Entity, Pasted, bind_literal, is_named
from tercet.contracts.values import pointer, references
from tercet.contracts.values.kinds import UNKNOWN, Kind, declared_among, fits, named_kind, result_kind
from tercet.contracts.values.references import Leaf, Place
from tercet.contracts.values.trust import Scalar, overlaps, scalar, scalars
from tercet.critic.review import Review

APPROVED = "approved"
"""The source of a value that the previously approved plan has in the same parameter."""


class Holder(NamedTuple):
    """A permitted source that contains a value."""

    record: str
    """`request`, the id of a piece of evidence, the id of a step, or `approved`."""
    place: Place
    kind: Kind
    detail: str = ""

    @property
    def name(self) -> str:
        """Its name in a verdict: `request#/order_id`."""
        return f"{self.record}#{pointer.join(self.place)}" if self.place else self.record


class Binding(NamedTuple):
    """The source of a literal, or why there is none."""

    holder: Holder | None = None
    why: str = ""
    remedy: str = ""
    """What to do about it."""
    records: tuple[str, ...] = ()
    """Every record that contains the value and may be its source."""


class Sources:
    """The permitted sources of the literals of one plan."""

    def __init__(self, review: Review) -> None:
        self._review = review
        self._has_request = review.compiled.request is not None
        self._declares_kinds = bool(review.spec.fields or review.compiled.attesting)
        found = find_sentences(review.spec.fields, review.compiled.input())
        self._sentences = [sentence for sentence in found if not self.is_marked(sentence.place)]
        """The trusted sentences of the request."""
        self._in_request = self._index_request()
        self._known_results = self._index_results()
        self._approved = self._find_approved()

    def bind(self, value: Any, index: int | None, target: Kind, tool: str = "", place: Place = ()) -> Binding:
        """Return the source of a literal in a step; `tool` and `place` are those of the parameter that takes it."""
        if isinstance(value, dict | list):
            return Binding()
        key = scalar(value)
        for named in self._in_request.get(key, ()):
            if fits(named.kind, target):
                return Binding(named, records=(REQUEST,))
        if not self._has_request and (tied := self._tied_parameter(tool, place)) is not None:
            return Binding(tied, records=(REQUEST,))
        if self._approved and (tool, place[:1], key) in self._approved:
            return Binding(Holder(APPROVED, (), target), records=(APPROVED,))
        spoken, why = self._in_sentences(value, target, place) if self._sentences else (None, "")
        if spoken is not None:
            return Binding(spoken, records=(REQUEST,))
        held = self._in_evidence(key, index)
        if self._known_results:
            held += self._in_results(key, index)
        fitting = [each for each in held if fits(each.kind, target)]
        records = tuple(dict.fromkeys([each.record for each in fitting]))
        if len(records) > 1 and len({*map(self._group, records)}) > 1:
            why = f"is in {' and in '.join(records[:3])}, and which of them was meant cannot be determined"
            remedy = "take it by reference from the one that is meant, with $from or $evidence"
            return Binding(why=why, remedy=remedy, records=records)
        if fitting:
            return Binding(fitting[0], records=records)
        if why:
            remedy = (
                "send it in a field of its own of the request, or declare a pattern that says what it is for"
            )
            return Binding(why=why, remedy=remedy, records=(REQUEST,))
        other = next(iter([*self._in_request.get(key, ()), *held]), None)
        if other is not None:
            what = other.kind.name or "of unknown kind"
            return Binding(
                why=f"holds only in {other.name}, which is {what}, and the parameter takes {target.name}",
                remedy=f"take a value of kind {target.name}; or, if it is one, declare that kind for {other.name}",
            )
        return Binding()

    def is_bound(self, value: Any, index: int, target: Kind, tool: str, place: Place) -> bool:
        """Return whether a literal of a step has a source, as `bind` finds it."""
        refs = self._review.pinned[index]
        if len(refs) == 1 and not self._known_results and not isinstance(value, dict | list):
            # No other record contains the value, and the checks before evidence could only accept it.
            entry = self._review.compiled.evidence.get(refs[0])
            for each in () if entry is None else entry.places.get(scalar(value), ()):
                if fits(self.evidence_kind(refs[0], each), target):
                    if self._review.is_trusted_evidence(refs[0], index):
                        return True
                    break
        return self.bind(value, index, target, tool, place).holder is not None

    def _group(self, record: str) -> str:
        """Return what counts as one source: evidence that relates to the request, the results of one tool, a record."""
        if self._review.relations.ties_to_request(record):
            return REQUEST
        return self._tool_of_result.get(record, record)

    @cached_property
    def _tool_of_result(self) -> dict[str, str]:
        return {result.step_id: result.tool for result in self._review.compiled.results}

    def _tied_parameter(self, tool: str, place: Place) -> Holder | None:
        """Return the request field that a relation ties a parameter to, if there is no request to compare with."""
        for relation in self._review.relations.of_calls(tool):
            if (
                len(place) == 1
                and relation.param_place == place
                and relation.target is not None
                and relation.target.owner == REQUEST
            ):
                return Holder(REQUEST, relation.target.place, UNKNOWN, "not checked: there is no request")
        return None

    @property
    def has_sentences(self) -> bool:
        """Whether the request has trusted prose."""
        return bool(self._sentences)

    def _in_sentences(self, value: Any, target: Kind, place: Place) -> tuple[Holder | None, str]:
        """Return where a sentence of the request names a value for a parameter, else why it is not accepted; the reason
        is empty if no sentence names it.
        """
        why = ""
        for field, at, text in self._sentences:
            found = bind_literal(
                text,
                value,
                kind=target.name or None,
                name=str(place[0]) if place else None,
                is_declared=target.is_declared,
                patterns=field.patterns,
                pasted=self._pasted(field),
            )
            if isinstance(found, Entity):
                where = f"characters {found.start + 1} to {found.end} of {field.of}"
                return Holder(REQUEST, at, target, f"named in the request: {where}"), ""
            if found is not None:
                why = f"is one of several things in {field.of} that fit, and no pattern tells them apart"
            elif not why and is_named(text, value, patterns=field.patterns, pasted=self._pasted(field)):
                why = f"is named in {field.of}, but not for this parameter"
        return None, why

    def _pasted(self, field: FieldSpec) -> Pasted:
        knows_all = self._review.ctx.goes_by(Behaviour.EVERY_TAG_MARKS)
        return field.pasted if knows_all or field.pasted == "trusted" else "untrusted_by_ascii_tags"

    def is_marked(self, place: Sequence[str | int]) -> bool:
        """Return whether a part of the request may contain untrusted text."""
        return self._review.is_marked_input(tuple(place))

    def is_sentence(self, place: Sequence[str | int]) -> bool:
        """Return whether a part of the request is prose, or contains some."""
        return any(
            field.is_sentence and overlaps(pointer.join(field.path.place), place)
            for field in self._review.spec.fields
        )

    def request_kind(self, place: Place) -> Kind:
        """Return the kind of a field of the request."""
        return self._field_kind(REQUEST, place)

    def evidence_kind(self, ref: str, place: Place) -> Kind:
        """Return the kind of a field of a piece of evidence."""
        entry = self._review.compiled.evidence.get(ref) if self._declares_kinds else None
        if entry is None:
            return named_kind(place)
        kind = self._field_kind(entry.classification, place)
        if kind.is_declared:
            return kind
        for tool in self._review.compiled.attesting.get(entry.classification, ()):
            looked_up = result_kind(tool, place, reads_widths=self._review.reads_widths)
            if looked_up.is_declared:
                return looked_up
        return kind

    def _field_kind(self, owner: str, place: Place) -> Kind:
        fields = self._review.spec.fields
        if not fields:
            return named_kind(place)
        declared = (
            (each.path.place, each.kind)
            for each in fields
            if each.path.owner == owner or (owner != REQUEST and is_of_class(each.path.owner, owner))
        )
        return declared_among(declared, place) or named_kind(place)

    def _index_request(self) -> dict[Scalar, list[Holder]]:
        leaves = scalars(self._review.compiled.input())
        if self._review.input_marks or self._review.spec.fields:
            leaves = [
                each for each in leaves if not self.is_marked(each.place) and not self.is_sentence(each.place)
            ]
        return _by_value(
            [(leaf, Holder(REQUEST, leaf.place, self.request_kind(leaf.place))) for leaf in leaves]
        )

    def _in_evidence(self, key: Scalar, index: int | None) -> list[Holder]:
        pinned, evidence = self._review.pinned, self._review.compiled.evidence
        refs = [ref for each in pinned for ref in each] if index is None else pinned[index]
        return [
            Holder(ref, place, self.evidence_kind(ref, place))
            for ref in dict.fromkeys(refs)
            if ref in evidence
            and (places := evidence[ref].places.get(key))
            and self._review.is_trusted_evidence(ref, index)
            for place in places
        ]

    def _in_results(self, key: Scalar, index: int | None) -> Iterator[Holder]:
        for holder in self._known_results.get(key, ()):
            position = self._review.position.get(holder.record)
            if position is None or index is None or position in self._review.graph.ancestors(index):
                yield holder

    def _index_results(self) -> dict[Scalar, list[Holder]]:
        """Index the trusted results of earlier plans and turns that relate to the request."""
        review = self._review
        found: list[tuple[Leaf, Holder]] = []
        for result in review.compiled.results:
            if review.relations.explain_result(result.tool, result.value, None) is not None:
                continue
            tool = review.compiled.surface.get(result.tool)
            for leaf in review.compiled.trusted_leaves(result, in_lists=review.marks_reach_lists):
                kind = (
                    named_kind(leaf.place)
                    if tool is None
                    else result_kind(tool, leaf.place, reads_widths=review.reads_widths)
                )
                found.append((leaf, Holder(result.step_id, leaf.place, kind)))
        return _by_value(found)

    def _find_approved(self) -> frozenset[tuple[str, Place, Scalar]]:
        """Return the authority literals of the previously approved plan: only these were bound or approved."""
        compiled = self._review.compiled
        found: set[tuple[str, Place, Scalar]] = set()
        for position, step in enumerate(compiled.approved_plan.steps if compiled.approved_plan else ()):
            tool = compiled.surface.get(step.tool or "")
            if tool is None:
                continue
            for item in references.scan(effective(position, step, tool).params):
                is_authority = tool.has_authority_everywhere or item.place[0] in tool.authority_parameters
                if type(item) is Leaf and is_authority and not isinstance(item.value, dict | list):
                    found.add((tool.name, item.place[:1], scalar(item.value)))
        return frozenset(found)


def _by_value(items: Any) -> dict[Scalar, list[Holder]]:
    found: dict[Scalar, list[Holder]] = {}
    for leaf, holder in items:
        found.setdefault(scalar(leaf.value), []).append(holder)
    return found

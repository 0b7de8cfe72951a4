"""What every value of a plan is worth: whether it may decide something, or may only be shown and passed on.

A value is trusted if each of its parts is. A literal, a request field or evidence can be told at once. The result of
a call and what a note says are *nodes*: their worth depends on other nodes, and is worked out once for each and
without recursion, since a chain of steps may be longer than Python's stack, and two references to each of them would
double the work at every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from tercet.contracts import pointer, references
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.mode import Trust
from tercet.contracts.references import Found, Leaf, Place, Read, Reference
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tool import ALL_FIELDS, ToolSpec
from tercet.contracts.trust import Scalar, overlaps, scalar, scalars
from tercet.critic.review import Review

Node: TypeAlias = tuple[int, Place | None]
"""A step with a place in its parameters, or with None for the result of its call."""

Needs: TypeAlias = Sequence[Node] | None
"""The nodes that a value depends on; None if it is not trusted, whatever they are."""


class Worth:
    """The worth of the values of one plan under review."""

    def __init__(self, review: Review) -> None:
        self.review = review
        self.untrusted_inputs = tuple(
            name if name.startswith("/") else f"/{name}" for name in review.spec.untrusted_inputs
        )
        self._nodes: dict[Node, bool] = {}
        self._needs: dict[Node, Needs] = {}

    @cached_property
    def trusted_input(self) -> frozenset[Scalar]:
        """The scalars of the trusted request fields."""
        leaves = scalars(self.review.compiled.input())
        return frozenset(scalar(leaf.value) for leaf in leaves if not self.is_marked_input(leaf.place))

    def is_marked_input(self, place: Place) -> bool:
        """Whether a part of the request can carry other people's words."""
        return any(overlaps(mark, place) for mark in self.untrusted_inputs)

    def is_trusted_scalar(self, value: Any) -> bool:
        """Whether a literal equals a scalar of a trusted source."""
        key = scalar(value)
        return key in self.review.compiled.trusted_scalars or key in self.trusted_input

    def is_trusted(self, found: Found, own: EffectiveStep | None = None) -> bool:
        """Whether a literal or reference is trusted; `own` is the step that a compensation takes back."""
        return self._are_trusted(self._found(found, own))

    def is_trusted_read(self, read: Read, own: EffectiveStep | None = None) -> bool:
        """Whether what an expression reads at one place is trusted."""
        return self._are_trusted(self._read(*read, own))

    def untrusted_keys(self, tool: ToolSpec, place: Place) -> list[str]:
        """The keys on the way to a place that the tool's schema does not name and no trusted source has."""
        known = tool.known_keys
        keys = [key for key in _keys(place[1:]) if key not in known]
        name = str(place[0])
        is_silent = not known and _MEMBERS.isdisjoint(tool.parameters)
        if name not in known and not is_silent:  # a schema that says nothing about names allows any
            keys.append(name)
        return [key for key in keys if not self.is_trusted_scalar(key)]

    def is_trusted_result(self, index: int) -> bool:
        """Whether the result of a call is trusted, but for the fields that its tool marks."""
        return self._is_trusted_node((index, None))

    def _are_trusted(self, needs: Needs) -> bool:
        return needs is not None and all(map(self._is_trusted_node, needs))

    def _is_trusted_node(self, node: Node) -> bool:
        known, stack = self._nodes, [node]
        while stack:
            top = stack[-1]
            if top in known:
                stack.pop()
                continue
            is_new = top not in self._needs
            if is_new:
                self._needs[top] = self._node(top)
            needs = self._needs[top]
            waiting = [other for other in needs or () if other not in known]
            if waiting and is_new:
                stack += waiting
            else:  # one that still waits the second time waits for itself, and is worth nothing
                known[top] = needs is not None and not waiting and all(known[other] for other in needs)
        return known[node]

    def _node(self, node: Node) -> Needs:
        index, place = node
        return self._result(self.review.call_at[index]) if place is None else self._written(index, place)

    def _result(self, call: EffectiveStep) -> Needs:
        """The result of a call is worth what its tool declares and what its inputs are worth, unless it endorses."""
        tool = call.tool
        entered = self.review.compiled.entered_by_step.get(call.step.id)
        is_typed = entered is not None and entered.trust is not Trust.TRUSTED
        if is_typed or tool.result_trust is not Trust.TRUSTED:
            return None
        if tool.endorses:
            return ()
        needed: list[Node] = []
        for item in self.review.found[call.position]:
            if is_unnamed(tool, item.place) and self.untrusted_keys(tool, item.place):
                return None
            needs = self._found(item, None)
            if needs is not None:
                needed += needs
            elif not _names_nothing(tool, item):
                return None
        return needed

    def _written(self, index: int, place: Place) -> Needs:
        """What a step's parameters have at a place; it is also the result of a note."""
        call = self.review.call_at.get(index)
        value: Any = self.review.plan.steps[index].params if call is None else call.params
        is_data = False
        for depth, token in enumerate(place):
            members = None if is_data else as_object(value)
            if members is not None and references.LITERAL in members:
                value, is_data = members[references.LITERAL], True
            elif members is not None and (reference := references.as_reference(members)) is not None:
                return self._beyond(reference, place[depth:])
            try:
                value = pointer.follow(value, pointer.join((token,)))
            except pointer.PointerError:
                return None
        known = frozenset[str]() if call is None else call.tool.known_keys
        found = references.scan({references.LITERAL: value} if is_data else value)
        if any(
            key not in known and not self.is_trusted_scalar(key)
            for item in found
            for key in _keys(item.place)
        ):
            return None
        return _together(self._found(item, None) for item in found)

    def _beyond(self, reference: Reference, rest: Place) -> Needs:
        """A part of what a reference points at."""
        if reference.kind != "from":
            return self._found(reference, None)
        return self._read(reference.target, (*pointer.parts(reference.pointer), *rest), None)

    def _found(self, found: Found, own: EffectiveStep | None) -> Needs:
        if type(found) is Leaf:
            return () if _is_empty(found.value) or self.is_trusted_scalar(found.value) else None
        if type(found) is not Reference:
            return None
        if found.kind == "from":
            return self._read(found.target, pointer.parts(found.pointer), own)
        if found.kind == "evidence":
            return () if self._is_trusted_evidence(found.target) else None
        reads = references.reads(found.text)
        if not reads or not all(map(self.is_trusted_scalar, references.constants(found.text))):
            return None
        return _together(self._read(name, place, own) for name, place in reads)

    def _read(self, name: str, place: Place, own: EffectiveStep | None) -> Needs:
        if name == references.REQUEST:
            return None if self.is_marked_input(place) else ()
        if name == references.EVIDENCE:
            return () if place and self._is_trusted_evidence(place[0]) else None
        if name == references.PARAMS and own is not None:
            return ((own.position, place),)
        index = self.review.position.get(name)
        if name == references.SELF and own is not None:
            index = own.position
        if index is None:
            return None
        call = self.review.call_at.get(index)
        if call is None:
            return ((index, place),) if self.review.plan.steps[index].kind == "note" else None
        for mark in call.tool.untrusted:
            if mark == ALL_FIELDS or overlaps(mark, place):
                return None
        return ((index, None),)

    def _is_trusted_evidence(self, ref: str | int) -> bool:
        entry = self.review.compiled.evidence.get(ref) if isinstance(ref, str) else None
        return entry is not None and entry.trust is Trust.TRUSTED


def is_unnamed(tool: ToolSpec, place: Place) -> bool:
    """Whether there is a key on the way to a place that could be one which the tool's schema does not name."""
    return place[0] not in tool.known_keys or len(place) > 1


_MEMBERS = frozenset({"properties", "patternProperties", "additionalProperties", "propertyNames"})


def _together(parts: Iterable[Needs]) -> Needs:
    """What several parts depend on; None if one of them is not trusted."""
    found: list[Node] = []
    for needs in parts:
        if needs is None:
            return None
        found += needs
    return found


def _keys(place: Place) -> list[str]:
    """The object keys on the way to a place; the first `$literal` is the wrapper, a second one would be data."""
    keys = [token for token in place if isinstance(token, str)]
    if references.LITERAL in keys:
        keys.remove(references.LITERAL)
    return keys


def _names_nothing(tool: ToolSpec, found: Found) -> bool:
    """Whether an input cannot steer a call to another object: a boolean, null, or a word of the tool's own schema."""
    if type(found) is not Leaf:
        return False
    if found.value is None or isinstance(found.value, bool) or _is_empty(found.value):
        return True
    schema: Any = tool.parameters
    for token in (token for token in found.place if token != references.LITERAL):
        members = as_object(schema) or {}
        inner = members.get("properties" if isinstance(token, str) else "items")
        schema = (as_object(inner) or {}).get(token) if isinstance(token, str) else inner
    members = as_object(schema) or {}
    words = as_list(members.get("enum")) or [members.get("const")]
    return any(scalar(found.value) == scalar(word) for word in words)


def _is_empty(value: Any) -> bool:
    return isinstance(value, dict | list)

"""The trust of every value in a plan: whether it may be used to decide, or only to show and pass on.

A value is trusted if each of its parts is. The trust of a literal, a request field or evidence is known at once. The
result of a call and the content of a note are *nodes*: their trust depends on other nodes, and is computed once for
each and without recursion, since a chain of steps may be longer than Python's stack, and two references to each of them
would double the work at every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from tercet.contracts.mode import Trust
from tercet.contracts.shape import as_object
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer, references
from tercet.contracts.values.formulas import Constant, Owned, Source, parse_formula, repeats_a_source
from tercet.contracts.values.kinds import UNKNOWN, Kind, fits, parameter_kind, result_kind
from tercet.contracts.values.references import Found, Leaf, Place, Read, Reference
from tercet.contracts.values.trust import Scalar, is_marked, overlaps, scalar, scalars
from tercet.critic.declared_places import (
    is_empty,
    is_equal,
    keys_of,
    names_nothing,
    schema_at,
    takes_number,
    without_wrapper,
)
from tercet.critic.review import Review
from tercet.critic.sources import Binding, Sources

Node: TypeAlias = tuple[int, Place | None, bool]
"""A step, a place in its parameters or None for the result of its call, and whether a number is needed."""

Needs: TypeAlias = Sequence[Node] | None
"""The nodes that a value depends on; None if it is untrusted whatever they are."""


class ValueTrust:
    """The trust of the values in one plan under review."""

    def __init__(self, review: Review) -> None:
        self.review = review
        self.is_strict = review.is_strict
        self._fitting: dict[tuple[str, str, str, Place], bool] = {}
        """Cached: whether a parameter of a tool may take a field of another tool's result."""
        self._nodes: dict[Node, bool] = {}
        self._needs: dict[Node, Needs] = {}

    @cached_property
    def sources(self) -> Sources:
        """The permitted sources of literals."""
        return Sources(self.review)

    @cached_property
    def _former_scalars(self) -> frozenset[Scalar]:
        """The values that literals were compared with under older rules: all trusted values, for any step."""
        leaves = scalars(self.review.compiled.input())
        trusted = frozenset(
            scalar(leaf.value) for leaf in leaves if not self.review.is_marked_input(leaf.place)
        )
        return trusted | self.review.compiled.trusted_scalars

    def bind(self, value: Any, at: int | None, tool: ToolSpec | None = None, place: Place = ()) -> Binding:
        """Return the source of a literal in the step at a position; `tool` and `place` are those of its parameter."""
        target = (
            UNKNOWN
            if tool is None or not place
            else parameter_kind(tool, without_wrapper(place), reads_widths=self.review.reads_widths)
        )
        return self.sources.bind(value, at, target, "" if tool is None else tool.name, place)

    def is_trusted_scalar(self, value: Any, at: int | None = None, place: Place = ()) -> bool:
        """Return whether a permitted source of the step at a position contains a literal, of any kind; which source was
        meant is checked where a parameter takes it.
        """
        if not self.is_strict:
            return scalar(value) in self._former_scalars
        call = None if at is None else self.review.call_at.get(at)
        return bool(self.sources.bind(value, at, UNKNOWN, call.tool.name if call else "", place).records)

    def is_trusted(
        self, found: Found, at: int | None, own: EffectiveStep | None = None, *, is_number: bool = False
    ) -> bool:
        """Return whether a literal or reference of the step at a position is trusted; `own` is the step that a
        compensation belongs to.

        `is_number` says that the value is a number or is refused before use: only then may it be a sum.
        """
        return self._are_trusted(self._found(found, at, own, is_number=is_number))

    def is_trusted_argument(
        self, tool: ToolSpec | None, found: Found, at: int, own: EffectiveStep | None = None
    ) -> bool:
        """Return whether a part of the parameters of the call at a position is trusted and of the right kind, or is the
        default in the tool's schema.

        A note has no tool.
        """
        if tool is None:
            return self.is_trusted(found, at, own)
        if type(found) is Leaf:
            if self._is_default(tool, found):
                return True
        elif type(found) is Reference and found.kind == "from":
            call = self.review.call_at.get(self.review.position.get(found.target, -1))
            if call is not None:  # nearly every reference
                return self._fits(call.tool, found, tool) and self._is_trusted_node(
                    (call.position, None, False)
                )
        needs = self._argument(tool, found, at, own)
        return self._are_trusted(needs) if needs else needs is not None

    def _argument(self, tool: ToolSpec, found: Found, at: int, own: EffectiveStep | None = None) -> Needs:
        """Return what an argument of a call depends on; None also if it is not of the kind that its parameter takes."""
        if type(found) is Leaf and own is None and self.is_strict and not self.sources.has_sentences:
            # A source of the parameter's kind contains the value itself; only sentences are read per parameter.
            target = parameter_kind(tool, without_wrapper(found.place), reads_widths=self.review.reads_widths)
            is_bound = self.sources.is_bound(found.value, at, target, tool.name, found.place)
            return () if is_bound else None
        if type(found) is Reference and found.kind == "from":
            call = self.review.call_at.get(self.review.position.get(found.target, -1))
            if (
                call is not None
            ):  # nearly every reference: its kind is that of the result, and it is not a sum
                return ((call.position, None, False),) if self._fits(call.tool, found, tool) else None
        elif type(found) is Reference and found.kind == "evidence" and self.is_strict:
            if not self.review.is_trusted_evidence(found.target, at):
                return None
            kind = self.sources.evidence_kind(found.target, pointer.parts(found.pointer))
            return (
                ()
                if fits(kind, parameter_kind(tool, found.place, reads_widths=self.review.reads_widths))
                else None
            )
        needs = self._found(found, at, own, is_number=takes_number(tool, found.place))
        return needs if needs is not None and self.wrong_kind(tool, found, at, own) is None else None

    def _fits(self, source: ToolSpec, found: Reference, tool: ToolSpec) -> bool:
        """Return whether a reference to a result yields a value of the kind that the parameter takes."""
        key = (source.name, found.pointer, tool.name, found.place)
        is_fit = self._fitting.get(key)
        if is_fit is None:
            place = pointer.parts(found.pointer)
            is_fit = not self._is_marked(source, place) and (
                not self.is_strict
                or fits(
                    result_kind(source, place, reads_widths=self.review.reads_widths),
                    parameter_kind(tool, found.place, reads_widths=self.review.reads_widths),
                )
            )
            self._fitting[key] = is_fit
        return is_fit

    def _is_default(self, tool: ToolSpec, found: Leaf) -> bool:
        """Return whether a literal equals the default in the tool's schema, as if the plan had omitted it."""
        if not tool.may_have_defaults or not (self.is_strict or is_empty(found.value)):
            return False
        members = schema_at(tool, found.place)
        return "default" in members and is_equal(members["default"], found.value)

    def wrong_kind(
        self, tool: ToolSpec, found: Found, at: int, own: EffectiveStep | None = None
    ) -> tuple[str, Kind] | None:
        """Return a source of an argument with another kind than its parameter takes, and that kind; else None.

        A literal must have exactly one source of the kind.
        """
        place = without_wrapper(found.place)
        if not self.is_strict or not place:
            return None
        target = parameter_kind(tool, place, reads_widths=self.review.reads_widths)
        for index, source in self.value_sources(found, at, own):
            if isinstance(source, Leaf):
                if self.sources.bind(source.value, index, target, tool.name, found.place).holder is None:
                    return repr(source.value), UNKNOWN
            elif not fits(kind := self._kind_of(source, own), target):
                return _named(source), kind
        return None

    def value_sources(
        self, found: Found, at: int, own: EffectiveStep | None = None
    ) -> Iterator[tuple[int, Leaf | Read]]:
        """Yield the literals and reads in an argument, each with its step; notes, and the parameters of the step that a
        compensation belongs to, are followed.
        """
        waiting: list[tuple[int, Found | Read]] = [(at, found)]
        seen: set[tuple[int, Found | Read]] = set()
        while waiting:
            index, item = waiting.pop()
            if isinstance(item, Leaf):
                if not is_empty(item.value):
                    yield index, item
                continue
            if (index, item) in seen:
                continue
            seen.add((index, item))
            if isinstance(item, Reference):
                waiting += ((index, read) for read in _value_reads(item))
            elif isinstance(item, Read):
                holder, written = self._written_parts(item, index, own)
                if written is None:
                    yield index, item
                    continue
                where = pointer.join(item.place)
                waiting += (
                    (holder, _beyond(each, item.place)) for each in written if overlaps(where, each.place)
                )

    def _written_parts(
        self, read: Read, index: int, own: EffectiveStep | None
    ) -> tuple[int, Sequence[Found] | None]:
        """Return the literals and references that the plan spells out where the step at `index` reads, and the step
        that uses them: of a note, of a step's own parameters, and of the outputs; None if there is no such place.
        """
        holder = self.review.position.get(read.name)
        if holder is None and read.name == references.OUTPUTS:
            return index, self.review.plan.found_outputs
        if read.name == references.PARAMS and own is not None:
            return own.position, self.review.found[own.position]
        if holder is None or holder in self.review.call_at:
            return index, None
        return holder, self.review.found[holder]

    def _kind_of(self, read: Read, own: EffectiveStep | None) -> Kind:
        """Return the kind of a read."""
        name, place = read
        if name == references.REQUEST:
            return self.sources.request_kind(place)
        if name == references.EVIDENCE:
            return self.sources.evidence_kind(str(place[0]), place[1:]) if place else UNKNOWN
        index = (
            own.position if name == references.SELF and own is not None else self.review.position.get(name)
        )
        call = None if index is None else self.review.call_at.get(index)
        return (
            UNKNOWN if call is None else result_kind(call.tool, place, reads_widths=self.review.reads_widths)
        )

    def is_trusted_read(self, read: Read, own: EffectiveStep | None = None) -> bool:
        """Return whether a read of a condition is trusted; it may be a sum, since it only decides."""
        return self._are_trusted(self._read(*read, None, own, is_number=True))

    def is_changed(self, index: int, found: Found, place: Place = ()) -> bool:
        """Return whether an approver has set a literal in the call of a step; `found` was scanned at `place` of its
        parameters.
        """
        call = self.review.call_at.get(index) if self.review.compiled.changed else None
        if call is None or type(found) is not Leaf:
            return False
        way = tuple(str(token) for token in (*place, *found.place) if token != references.LITERAL)
        for each in self.review.compiled.changed_at(call.step.id, call.tool.name):
            outer = pointer.parts(each.place)
            if way[: len(outer)] != outer:
                continue
            try:
                value = pointer.follow(each.value, pointer.join(way[len(outer) :]))
            except pointer.PointerError:
                continue
            is_container = is_empty(found.value) or isinstance(value, dict | list)
            if found.value == value if is_container else scalar(found.value) == scalar(value):
                return True
        return False

    def untrusted_keys(self, tool: ToolSpec, place: Place, at: int) -> list[str]:
        """Return the keys on the way to a place that the tool's schema does not name and no trusted source has."""
        known = tool.known_keys
        keys = [key for key in keys_of(place[1:]) if key not in known]
        name = str(place[0])
        is_silent = not known and _MEMBERS.isdisjoint(tool.parameters)
        if name not in known and not is_silent:  # a schema without property names allows any
            keys.append(name)
        return [key for key in keys if not self.is_trusted_scalar(key, at)]

    def is_trusted_result(self, index: int) -> bool:
        """Return whether the result of a call is trusted, except for the fields that its tool marks."""
        return self._is_trusted_node((index, None, False))

    def _are_trusted(self, needs: Needs) -> bool:
        return needs is not None and all(map(self._is_trusted_node, needs))

    def _is_trusted_node(self, node: Node) -> bool:
        known = self._nodes
        if node in known:
            return known[node]
        needs = self._needs[node] = self._node(node)
        if not needs:
            known[node] = needs is not None
            return known[node]
        stack = [node, *(other for other in needs if other not in known)]
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
            else:  # a node that still waits the second time waits for itself, and is untrusted
                known[top] = needs is not None and not waiting and all(known[other] for other in needs)
        return known[node]

    def _node(self, node: Node) -> Needs:
        index, place, is_number = node
        if place is None:
            return self._result(self.review.call_at[index])
        return self._written(index, place, is_number=is_number)

    def _result(self, call: EffectiveStep) -> Needs:
        """Return what the trust of a call's result depends on: its tool's declaration and its inputs, unless it
        endorses.
        """
        tool = call.tool
        entered = self.review.compiled.entered_by_step.get(call.step.id)
        is_typed = entered is not None and entered.trust is not Trust.TRUSTED
        if is_typed or tool.result_trust is not Trust.TRUSTED:
            return None
        if tool.endorses:
            return ()
        needed: list[Node] = []
        has_exempt = self.review.compiled.changed or (self.is_strict and tool.may_have_defaults)
        for item in self.review.found[call.position]:
            if has_exempt and type(item) is Leaf:
                is_default = self.is_strict and self._is_default(tool, item)
                if is_default or self.is_changed(call.position, item):
                    continue
            if (item.place[0] not in tool.known_keys or len(item.place) > 1) and self.untrusted_keys(
                tool, item.place, call.position
            ):
                return None
            needs = self._argument(tool, item, call.position)
            if needs is not None:
                needed += needs
            elif not names_nothing(tool, item):
                return None
        return needed

    def _written(self, index: int, place: Place, *, is_number: bool) -> Needs:
        """Return what a step's parameters at a place depend on; for a note, that is also its result."""
        call = self.review.call_at.get(index)
        params = self.review.plan.steps[index].params if call is None else call.params
        return self._value_at(params, place, index, index, is_number=is_number)

    def _value_at(
        self, value: Any, place: Place, index: int | None, holder: int | None, *, is_number: bool
    ) -> Needs:
        """Return what a value in the plan at a place depends on, where the step at `index` uses it; `holder` is the
        step whose parameters contain it, if any.
        """
        call = None if holder is None else self.review.call_at.get(holder)
        known = frozenset[str]() if call is None else call.tool.known_keys
        is_data = False
        for depth, token in enumerate(place):
            members = None if is_data else as_object(value)
            if members is not None and references.LITERAL in members:
                value, is_data = members[references.LITERAL], True
            elif members is not None and (reference := references.as_reference(members)) is not None:
                return self._beyond(reference, index, place[depth:])
            try:
                value = pointer.follow(value, pointer.join((token,)))
            except pointer.PointerError:
                return None
        found = references.scan({references.LITERAL: value} if is_data else value)
        if any(
            key not in known and not self.is_trusted_scalar(key, index)
            for item in found
            for key in keys_of(item.place)
        ):
            return None
        return _together(
            ()
            if holder is not None and self.is_changed(holder, item, place)
            else self._found(item, index, None, is_number=is_number and not item.place)
            for item in found
        )

    def _output(self, place: Place, at: int | None, *, is_number: bool) -> Needs:
        """Return what an output that a step takes depends on: the same as if the step itself had written the value. An
        output that a repair may have rewritten, or that the plan declares by name only, has no trusted source.
        """
        outputs = self.review.plan.outputs
        if not place or place[0] not in outputs or self.review.spec.quality is not None:
            return None
        if any(references.OUTPUTS in each.names for each in self._output_references):
            return None  # a circular output
        return self._value_at(outputs[str(place[0])], place[1:], at, None, is_number=is_number)

    @cached_property
    def _output_references(self) -> tuple[Reference, ...]:
        return tuple(each for each in self.review.plan.found_outputs if type(each) is Reference)

    def _beyond(self, reference: Reference, at: int | None, rest: Place) -> Needs:
        """Return a part of what a reference points to."""
        if reference.kind != "from":
            return self._found(reference, at, None, is_number=False)
        return self._read(reference.target, (*pointer.parts(reference.pointer), *rest), at, None)

    def _found(self, found: Found, at: int | None, own: EffectiveStep | None, *, is_number: bool) -> Needs:
        if type(found) is Leaf:
            if is_empty(found.value):  # an empty value such as "keep nothing" decides as much as a name does
                return None if self.is_strict else ()
            return () if self.is_trusted_scalar(found.value, at, () if own else found.place) else None
        if type(found) is not Reference:
            return None
        if found.kind == "from":
            return self._read(found.target, pointer.parts(found.pointer), at, own, is_number=is_number)
        if found.kind == "evidence":
            return () if self.is_trusted_evidence(found.target, at) else None
        if found.kind == "select":
            return self._selected(found, at, own)
        if self.is_strict:
            return self._computed(found.text, at, own, is_number=is_number)
        reads = references.reads(found.text)
        if not reads or not all(map(self.is_trusted_scalar, references.constants(found.text))):
            return None
        return _together(self._read(name, place, at, own) for name, place in reads)

    def _selected(self, found: Reference, at: int | None, own: EffectiveStep | None) -> Needs:
        """Return what a selected value depends on: all that the selection reads and compares with."""
        if not all(self.is_selected_by(found, value, at) for value in references.constants_of(found)):
            return None
        return _together(self._read(name, place, at, own) for name, place in references.reads_of(found))

    def is_selected_by(self, found: Reference, value: Any, at: int | None) -> bool:
        """Return whether a selection may compare with a literal: a source other than the list must contain it, or the
        plan could pick any item of the list.
        """
        listed = references.reads_of(found)[0]
        record = str(listed.place[0]) if listed.name == references.EVIDENCE and listed.place else listed.name
        return bool(set(self.sources.bind(value, at, UNKNOWN).records) - {record})

    def _computed(
        self, expression: str, at: int | None, own: EffectiveStep | None, *, is_number: bool
    ) -> Needs:
        """Return what a computed value depends on; only selecting, choosing, adding and subtracting keep trust."""
        formula = parse_formula(expression)
        if formula is None or (formula.is_sum and not is_number) or self.why_opaque(expression, own):
            return None
        is_value = is_number and not formula.is_sum
        return _together(
            (
                *(self._source(source, at, own, is_number=is_value) for source in formula.values),
                *(self._source(source, at, own, is_number=False) for source in formula.consulted),
            )
        )

    def _source(self, source: Source, at: int | None, own: EffectiveStep | None, *, is_number: bool) -> Needs:
        if isinstance(source, Constant):
            return () if self.is_trusted_scalar(source.value, at) else None
        return self._read(source.name, source.place, at, own, is_number=is_number)

    def why_opaque(self, expression: str, own: EffectiveStep | None = None) -> str | None:
        """Return why an expression has no trusted source, whatever it reads; None if it has those that it reads."""
        formula = parse_formula(expression)
        if formula is None:
            return "it does more than select, choose, add or subtract"
        if all(isinstance(source, Constant) for source in (*formula.values, *formula.consulted)):
            return "it reads nothing"
        for operands in formula.sums:
            if any(isinstance(source, Constant) for operand in operands for source in operand):
                return "it adds or subtracts a constant, which may be another operand written out"
            owned = [
                [self._identify_source(source, own) for source in operand if isinstance(source, Read)]
                for operand in operands
            ]
            if any(each is None for operand in owned for each in operand):
                return "it adds to what a note, a parameter or a call with a computed input says, which may be a sum itself"
            if repeats_a_source([each for each in operand if each is not None] for operand in owned):
                return "it adds or subtracts the same source twice"
        return None

    def _identify_source(self, source: Read, own: EffectiveStep | None) -> Owned | None:
        """Return the identity of a source within a sum; None if its value may come from anywhere.

        Two calls of one tool count as one source, since a plan may repeat a look-up as often as it likes; and so do two
        pieces of evidence with the same content.
        """
        name, place = source
        if name == references.REQUEST:
            return name, place
        if name == references.EVIDENCE:
            entry = self.review.compiled.evidence.get(str(place[0])) if place else None
            return None if entry is None else ((name, entry.hash or entry.id), place[1:])
        index = self.review.position.get(name)
        if name == references.SELF and own is not None:
            index = own.position
        call = None if index is None else self.review.call_at.get(index)
        if call is None or call.position in self._computed_steps:
            return None
        return ("tool", call.tool.name), place

    @cached_property
    def _computed_steps(self) -> frozenset[int]:
        """The steps whose parameters contain a sum or an opaque expression, or read a step that has one.

        A tool may return its input, so adding to its result could add the same source again.
        """
        review = self.review
        readers: dict[int, list[int]] = {}
        waiting: list[int] = []
        for index, scanned in enumerate(review.found):
            for found in scanned:
                if type(found) is not Reference:
                    continue
                if found.kind == "cel" and ((formula := parse_formula(found.text)) is None or formula.sums):
                    waiting.append(index)
                if references.OUTPUTS in found.names:  # an output may be a sum
                    waiting.append(index)
                for name in found.names:
                    if (target := review.position.get(name)) is not None:
                        readers.setdefault(target, []).append(index)
        computed: set[int] = set()
        while waiting:
            index = waiting.pop()
            if index not in computed:
                computed.add(index)
                waiting += readers.get(index, ())
        return frozenset(computed)

    def _read(
        self, name: str, place: Place, at: int | None, own: EffectiveStep | None, *, is_number: bool = False
    ) -> Needs:
        if name == references.REQUEST:
            is_prose = self.is_strict and self.sources.is_sentence(place)
            return None if is_prose or self.review.is_marked_input(place) else ()
        if name == references.EVIDENCE:
            return () if place and self.is_trusted_evidence(place[0], at) else None
        if name == references.PARAMS and own is not None:
            return ((own.position, place, is_number),)
        index = self.review.position.get(name)
        if name == references.SELF and own is not None:
            index = own.position
        if index is None:
            is_output = name == references.OUTPUTS
            return self._output(place, at, is_number=is_number) if is_output else None
        call = self.review.call_at.get(index)
        if call is None:
            return ((index, place, is_number),) if self.review.plan.steps[index].kind == "note" else None
        return None if self._is_marked(call.tool, place) else ((index, None, False),)

    def _is_marked(self, tool: ToolSpec, place: Place) -> bool:
        """Return whether a field of a tool's result may contain untrusted text."""
        return is_marked(tool.untrusted, place, in_lists=self.review.marks_reach_lists)

    def is_trusted_evidence(self, ref: str | int, at: int | None) -> bool:
        """Return whether a piece of evidence is trusted where the step at a position uses it."""
        return isinstance(ref, str) and self.review.is_trusted_evidence(ref, at)


_MEMBERS = frozenset({"properties", "patternProperties", "additionalProperties", "propertyNames"})


def _together(parts: Iterable[Needs]) -> Needs:
    """Return what several parts depend on; None if one of them is untrusted."""
    found: list[Node] = []
    for needs in parts:
        if needs is None:
            return None
        found += needs
    return found


def _named(read: Read) -> str:
    return f"{read.name}#{pointer.join(read.place)}"


def _value_reads(reference: Reference) -> list[Leaf | Read]:
    """Return the literals and reads whose values a reference yields; conditions of a formula only choose between them."""
    if reference.kind != "cel":
        return [*references.reads_of(reference)[:1]]
    formula = parse_formula(reference.text)
    values = () if formula is None else formula.values
    return [Leaf(each.value, reference.place) if isinstance(each, Constant) else each for each in values]


def _beyond(found: Found, place: Place) -> Found:
    """Return what a note contains, with the rest of the place that is read in it."""
    rest = pointer.join(place[len(found.place) :])
    if isinstance(found, Reference) and rest and found.kind in ("from", "evidence"):
        return found._replace(pointer=found.pointer + rest, text=found.text)
    return found

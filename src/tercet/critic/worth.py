"""What every value of a plan is worth: whether it may decide something, or may only be shown and passed on.

A value is trusted if each of its parts is. A literal, a request field or evidence can be told at once. The result of
a call and what a note says are *nodes*: their worth depends on other nodes, and is worked out once for each and
without recursion, since a chain of steps may be longer than Python's stack, and two references to each of them would
double the work at every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from tercet.contracts import pointer, references
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.formulas import Constant, Owned, Source, parse_formula, repeats_a_source
from tercet.contracts.kinds import UNKNOWN, Kind, fits, parameter_kind, result_kind
from tercet.contracts.mode import Trust
from tercet.contracts.references import Found, Leaf, Place, Read, Reference
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tool import ALL_FIELDS, ToolSpec
from tercet.contracts.trust import Scalar, overlaps, scalar, scalars
from tercet.critic.review import Review
from tercet.critic.sources import Binding, Sources

Node: TypeAlias = tuple[int, Place | None, bool]
"""A step with a place in its parameters, or with None for the result of its call, and whether a number is needed."""

Needs: TypeAlias = Sequence[Node] | None
"""The nodes that a value depends on; None if it is not trusted, whatever they are."""


class Worth:
    """The worth of the values of one plan under review."""

    def __init__(self, review: Review) -> None:
        self.review = review
        self.is_strict = review.is_strict
        self._fitting: dict[tuple[str, str, str, Place], bool] = {}
        """Whether a parameter of a tool may take a field of another tool's result."""
        self._nodes: dict[Node, bool] = {}
        self._needs: dict[Node, Needs] = {}

    def is_marked_input(self, place: Place) -> bool:
        """Whether a part of the request can carry other people's words."""
        return any(overlaps(mark, place) for mark in self.review.input_marks)

    @cached_property
    def sources(self) -> Sources:
        """The permitted sources of literals."""
        return Sources(self.review)

    @cached_property
    def _former_scalars(self) -> frozenset[Scalar]:
        """What a literal was compared with under older rules: every trusted value, whatever the step."""
        leaves = scalars(self.review.compiled.input())
        trusted = frozenset(scalar(leaf.value) for leaf in leaves if not self.is_marked_input(leaf.place))
        return trusted | self.review.compiled.trusted_scalars

    def bind(self, value: Any, at: int | None, tool: ToolSpec | None = None, place: Place = ()) -> Binding:
        """Return what vouches for a literal of the step at a position; `tool` and `place` are those of its parameter."""
        target = UNKNOWN if tool is None or not place else parameter_kind(tool, _without_wrapper(place))
        return self.sources.bind(value, at, target, "" if tool is None else tool.name, place)

    def is_trusted_scalar(self, value: Any, at: int | None = None, place: Place = ()) -> bool:
        """Whether a permitted source of the step at a position holds a literal, of whichever kind; which one was meant is
        asked where a parameter takes it."""
        if not self.is_strict:
            return scalar(value) in self._former_scalars
        call = None if at is None else self.review.call_at.get(at)
        return bool(self.sources.bind(value, at, UNKNOWN, call.tool.name if call else "", place).records)

    def is_trusted(
        self, found: Found, at: int | None, own: EffectiveStep | None = None, *, is_number: bool = False
    ) -> bool:
        """Whether a literal or reference of the step at a position is trusted; `own` is the step that a compensation
        belongs to.

        `is_number` says that the value is a number or is refused before it is used: only then may it be a sum.
        """
        return self._are_trusted(self._found(found, at, own, is_number=is_number))

    def is_trusted_argument(
        self, tool: ToolSpec | None, found: Found, at: int, own: EffectiveStep | None = None
    ) -> bool:
        """Whether a part of the parameters of the call at a position is trusted and of the right kind, or is the default in
        the tool's schema.

        A note has no tool.
        """
        if tool is None:
            return self.is_trusted(found, at, own)
        if type(found) is Leaf and self._is_default(tool, found):
            return True
        needs = self._argument(tool, found, at, own)
        return self._are_trusted(needs) if needs else needs is not None

    def _argument(self, tool: ToolSpec, found: Found, at: int, own: EffectiveStep | None = None) -> Needs:
        """What an argument of a call depends on; None also if it is not of the kind that its parameter takes."""
        if type(found) is Leaf and own is None and self.is_strict and not self.sources.has_sentences:
            # What holds a value of the parameter's kind holds the value; only sentences are read for one parameter.
            target = parameter_kind(tool, _without_wrapper(found.place))
            is_bound = self.sources.is_bound(found.value, at, target, tool.name, found.place)
            return () if is_bound else None
        if type(found) is Reference and found.kind == "from":
            call = self.review.call_at.get(self.review.position.get(found.target, -1))
            if call is not None:  # nearly every reference: its kind is that of the result, and it is no sum
                return ((call.position, None, False),) if self._fits(call.tool, found, tool) else None
        elif type(found) is Reference and found.kind == "evidence" and self.is_strict:
            if not self.review.is_trusted_evidence(found.target, at):
                return None
            kind = self.sources.evidence_kind(found.target, pointer.parts(found.pointer))
            return () if fits(kind, parameter_kind(tool, found.place)) else None
        needs = self._found(found, at, own, is_number=takes_number(tool, found.place))
        return needs if needs is not None and self.wrong_kind(tool, found, at, own) is None else None

    def _fits(self, source: ToolSpec, found: Reference, tool: ToolSpec) -> bool:
        """Whether a reference to a result yields what its tool vouches for, of the kind that the parameter takes."""
        key = (source.name, found.pointer, tool.name, found.place)
        is_fit = self._fitting.get(key)
        if is_fit is None:
            place = pointer.parts(found.pointer)
            is_fit = not _is_marked(source, place) and (
                not self.is_strict or fits(result_kind(source, place), parameter_kind(tool, found.place))
            )
            self._fitting[key] = is_fit
        return is_fit

    def _is_default(self, tool: ToolSpec, found: Leaf) -> bool:
        """Whether a literal is what the tool's schema has as default: the same as if the plan had left it out."""
        if not tool.may_have_defaults or not (self.is_strict or _is_empty(found.value)):
            return False
        members = _schema_at(tool, found.place)
        return "default" in members and _is_equal(members["default"], found.value)

    def wrong_kind(
        self, tool: ToolSpec, found: Found, at: int, own: EffectiveStep | None = None
    ) -> tuple[str, Kind] | None:
        """Return a source of an argument that is of another kind than its parameter takes, and that kind; else None.

        A literal must have exactly one source of the kind.
        """
        place = _without_wrapper(found.place)
        if not self.is_strict or not place:
            return None
        target = parameter_kind(tool, place)
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
        """Yield the literals and reads that an argument is made of, each with its step; notes, and the parameters of the
        step that a compensation belongs to, pass on what they hold."""
        waiting: list[tuple[int, Found | Read]] = [(at, found)]
        seen: set[tuple[int, Found | Read]] = set()
        while waiting:
            index, item = waiting.pop()
            if isinstance(item, Leaf):
                if not _is_empty(item.value):
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
        """Return the literals and references that the plan writes where the step at `index` reads, and the step that uses
        them: of a note, of a step's own parameters, and of the outputs; None if a read leads to no such place."""
        holder = self.review.position.get(read.name)
        if holder is None and read.name == references.OUTPUTS:
            return index, self.review.plan.found_outputs
        if read.name == references.PARAMS and own is not None:
            return own.position, self.review.found[own.position]
        if holder is None or holder in self.review.call_at:
            return index, None
        return holder, self.review.found[holder]

    def _kind_of(self, read: Read, own: EffectiveStep | None) -> Kind:
        """Return the kind of what is read."""
        name, place = read
        if name == references.REQUEST:
            return self.sources.request_kind(place)
        if name == references.EVIDENCE:
            return self.sources.evidence_kind(str(place[0]), place[1:]) if place else UNKNOWN
        index = (
            own.position if name == references.SELF and own is not None else self.review.position.get(name)
        )
        call = None if index is None else self.review.call_at.get(index)
        return UNKNOWN if call is None else result_kind(call.tool, place)

    def is_trusted_read(self, read: Read, own: EffectiveStep | None = None) -> bool:
        """Whether what a condition reads at one place is trusted; that may be a sum, since it only decides."""
        return self._are_trusted(self._read(*read, None, own, is_number=True))

    def is_changed(self, index: int, found: Found, place: Place = ()) -> bool:
        """Whether an approver has set a literal in the call of a step; `found` was scanned at `place` of its parameters."""
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
            is_container = _is_empty(found.value) or isinstance(value, dict | list)
            if found.value == value if is_container else scalar(found.value) == scalar(value):
                return True
        return False

    def untrusted_keys(self, tool: ToolSpec, place: Place, at: int) -> list[str]:
        """The keys on the way to a place that the tool's schema does not name and no trusted source has."""
        known = tool.known_keys
        keys = [key for key in _keys(place[1:]) if key not in known]
        name = str(place[0])
        is_silent = not known and _MEMBERS.isdisjoint(tool.parameters)
        if name not in known and not is_silent:  # a schema that says nothing about names allows any
            keys.append(name)
        return [key for key in keys if not self.is_trusted_scalar(key, at)]

    def is_trusted_result(self, index: int) -> bool:
        """Whether the result of a call is trusted, but for the fields that its tool marks."""
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
            else:  # one that still waits the second time waits for itself, and is worth nothing
                known[top] = needs is not None and not waiting and all(known[other] for other in needs)
        return known[node]

    def _node(self, node: Node) -> Needs:
        index, place, is_number = node
        if place is None:
            return self._result(self.review.call_at[index])
        return self._written(index, place, is_number=is_number)

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
            elif not _names_nothing(tool, item):
                return None
        return needed

    def _written(self, index: int, place: Place, *, is_number: bool) -> Needs:
        """What a step's parameters have at a place; it is also the result of a note."""
        call = self.review.call_at.get(index)
        params = self.review.plan.steps[index].params if call is None else call.params
        return self._value_at(params, place, index, index, is_number=is_number)

    def _value_at(
        self, value: Any, place: Place, index: int | None, holder: int | None, *, is_number: bool
    ) -> Needs:
        """What a value that the plan writes has at a place, where the step at `index` uses it; `holder` is the step whose
        parameters it is, if it is one's."""
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
            for key in _keys(item.place)
        ):
            return None
        return _together(
            ()
            if holder is not None and self.is_changed(holder, item, place)
            else self._found(item, index, None, is_number=is_number and not item.place)
            for item in found
        )

    def _output(self, place: Place, at: int | None, *, is_number: bool) -> Needs:
        """An output that a step takes is worth what the same value would be worth if the step itself had written it. One
        that a repair may have rewritten, or that the plan declares by name only, has no trusted source."""
        outputs = self.review.plan.outputs
        if not place or place[0] not in outputs or self.review.spec.quality is not None:
            return None
        if any(references.OUTPUTS in each.names for each in self._output_references):
            return None  # it would be made of itself
        return self._value_at(outputs[str(place[0])], place[1:], at, None, is_number=is_number)

    @cached_property
    def _output_references(self) -> tuple[Reference, ...]:
        return tuple(each for each in self.review.plan.found_outputs if type(each) is Reference)

    def _beyond(self, reference: Reference, at: int | None, rest: Place) -> Needs:
        """A part of what a reference points at."""
        if reference.kind != "from":
            return self._found(reference, at, None, is_number=False)
        return self._read(reference.target, (*pointer.parts(reference.pointer), *rest), at, None)

    def _found(self, found: Found, at: int | None, own: EffectiveStep | None, *, is_number: bool) -> Needs:
        if type(found) is Leaf:
            if _is_empty(found.value):  # "keep nothing" decides as much as a name does
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
        """A selected value is trusted if all that it reads and compares with is."""
        if not all(self.is_selected_by(found, value, at) for value in references.constants_of(found)):
            return None
        return _together(self._read(name, place, at, own) for name, place in references.reads_of(found))

    def is_selected_by(self, found: Reference, value: Any, at: int | None) -> bool:
        """Whether a selection may compare with a literal: another source than the list holds it, or the plan could pick any
        item of the list."""
        listed = references.reads_of(found)[0]
        record = str(listed.place[0]) if listed.name == references.EVIDENCE and listed.place else listed.name
        return bool(set(self.sources.bind(value, at, UNKNOWN).records) - {record})

    def _computed(
        self, expression: str, at: int | None, own: EffectiveStep | None, *, is_number: bool
    ) -> Needs:
        """A computed value is trusted if it only selects, chooses, adds or subtracts what is trusted."""
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
        """Why an expression has no trusted source, whatever it reads; None if it has those that it reads."""
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
        """Return what identifies a source within a sum; None if its value may come from anywhere.

        Two calls of one tool count as one source, since a plan may look the same thing up as often as it likes; and so
        do two pieces of evidence with the same content.
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
        """The steps whose parameters hold a sum or an opaque expression, or read a step that has one.

        A tool may return what it was called with, so adding to its result could add the same source again.
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
            return None if is_prose or self.is_marked_input(place) else ()
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
        return None if _is_marked(call.tool, place) else ((index, None, False),)

    def is_trusted_evidence(self, ref: str | int, at: int | None) -> bool:
        """Whether a piece of evidence is trusted where the step at a position uses it."""
        return isinstance(ref, str) and self.review.is_trusted_evidence(ref, at)


def _is_marked(tool: ToolSpec, place: Place) -> bool:
    """Whether a field of a tool's result can carry other people's words."""
    return any(mark == ALL_FIELDS or overlaps(mark, place) for mark in tool.untrusted)


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
    members = _schema_at(tool, found.place)
    words = as_list(members.get("enum")) or [members.get("const")]
    return any(scalar(found.value) == scalar(word) for word in words)


def takes_number(tool: ToolSpec, place: Place) -> bool:
    """Whether a tool's schema allows only a number at a place of its parameters, so that dispatch refuses all else."""
    kinds = _schema_at(tool, place).get("type")
    declared = set(as_list(kinds) or [kinds])
    return not declared.isdisjoint(_NUMBERS) and declared <= {*_NUMBERS, "null"}


_NUMBERS = frozenset({"number", "integer"})


def _schema_at(tool: ToolSpec, place: Place) -> dict[str, Any]:
    """What a tool's schema says about one place of its parameters; empty where it says nothing definite."""
    schema: Any = tool.parameters
    for token in _without_wrapper(place):
        members = as_object(schema) or {}
        inner = members.get("properties" if isinstance(token, str) else "items")
        schema = (as_object(inner) or {}).get(token) if isinstance(token, str) else inner
        if "prefixItems" in members:
            return {}
    return as_object(schema) or {}


def _is_empty(value: Any) -> bool:
    return isinstance(value, dict | list)


def _is_equal(first: Any, second: Any) -> bool:
    """Whether two JSON values without members are equal; `true` is not 1, and an empty list is not an empty object."""
    if _is_empty(first) or _is_empty(second):
        return type(first) is type(second) and first == second
    return scalar(first) == scalar(second)


def _without_wrapper(place: Place) -> Place:
    return tuple(t for t in place if t != references.LITERAL) if references.LITERAL in place else place


def _named(read: Read) -> str:
    return f"{read.name}#{pointer.join(read.place)}"


def _value_reads(reference: Reference) -> list[Leaf | Read]:
    """The literals and reads whose values a reference yields; conditions of a formula only choose between them."""
    if reference.kind != "cel":
        return [*references.reads_of(reference)[:1]]
    formula = parse_formula(reference.text)
    values = () if formula is None else formula.values
    return [Leaf(each.value, reference.place) if isinstance(each, Constant) else each for each in values]


def _beyond(found: Found, place: Place) -> Found:
    """What a note holds, with the rest of the place that is read behind it."""
    rest = pointer.join(place[len(found.place) :])
    if isinstance(found, Reference) and rest and found.kind in ("from", "evidence"):
        return found._replace(pointer=found.pointer + rest, text=found.text)
    return found

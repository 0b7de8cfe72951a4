"""Information flow: who may decide what.

A *trusted* value comes from a trusted request field, trusted evidence, a trusted result, or the plan approved before.
Two rules, checked before anything runs:

1. Every value in an authority parameter is trusted. A literal is trusted if it *equals* a scalar of a trusted source,
   since a planner that was talked into something writes literals. A reference is worth what it points at; a computed
   value is worth the least of what it reads, and the constants in it count as literals.
2. No untrusted value decides the `when` of a step above read_only.

A result is worth the least of what its tool declares and what its inputs are worth, unless the tool endorses: a
look-up of an order that an attacker named brings back true facts about the wrong order. For this purpose booleans,
null, and values that the tool's own schema enumerates are not worth tainting a result over: they name nothing.

Known limit: equality does not tell *which* trusted source was meant. A plan may pair a trusted payment with a trusted
amount of another order; ruling that out is what policies are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, TypeAlias

from tercet.contracts import pointer, references
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.gate import GateDemand
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.references import Found, Leaf, Place, Reference
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tool import ALL_FIELDS, ToolSpec
from tercet.contracts.trust import Scalar, overlaps, scalar, scalars
from tercet.contracts.verdict import Code, Origin
from tercet.critic.review import Refusals, Review


class Flow:
    """What every value of a plan under review is worth."""

    def __init__(self, review: Review) -> None:
        self.review = review
        self.untrusted_inputs = tuple(
            name if name.startswith("/") else f"/{name}" for name in review.spec.untrusted_inputs
        )
        self._steps: dict[int, bool] = {}
        self._notes: dict[int, list[bool]] = {}

    @cached_property
    def trusted_input(self) -> frozenset[Scalar]:
        """The scalars of the trusted request fields."""
        return frozenset(
            scalar(leaf.value)
            for leaf in scalars(self.review.compiled.input())
            if not any(overlaps(mark, leaf.place) for mark in self.untrusted_inputs)
        )

    def is_trusted_scalar(self, value: Any) -> bool:
        """Whether a literal equals a scalar of a trusted source."""
        key = scalar(value)
        return key in self.review.compiled.trusted_scalars or key in self.trusted_input

    def is_trusted(self, found: Found) -> bool:
        """Whether a literal or reference may carry authority."""
        if type(found) is Leaf:
            return _is_empty(found.value) or self.is_trusted_scalar(found.value)
        if type(found) is not Reference:
            return False
        if found.kind == "cel":
            return all(map(self.is_trusted_scalar, references.constants(found.text))) and self.reads_trusted(
                found
            )
        return self.points_at_trusted(found)

    def reads_trusted(self, expression: Reference) -> bool:
        """Whether everything that an expression reads is trusted, and it reads something."""
        refs = references.evidence_read(expression.text)
        names = [name for name in expression.names if name != references.EVIDENCE]
        if refs is None or not (refs or names):
            return False
        paths = _paths_read(expression.text)
        return all(self._evidence(ref) for ref in refs) and all(
            self._named(name, where) for name in names for where in paths.get(name, ("",))
        )

    def points_at_trusted(self, reference: Reference) -> bool:
        """Whether what a plain reference points at is trusted."""
        if reference.kind == "evidence":
            return self._evidence(reference.target)
        return self._named(reference.target, reference.pointer)

    def _evidence(self, ref: str) -> bool:
        entry = self.review.compiled.evidence.get(ref)
        return entry is not None and entry.trust is Trust.TRUSTED

    def _named(self, name: str, where: str) -> bool:
        place = pointer.parts(where)
        if name == references.REQUEST:
            return not any(overlaps(mark, place) for mark in self.untrusted_inputs)
        index = self.review.position.get(name)
        if index is None:
            return False
        call = self.review.call_at.get(index)
        if call is None:
            return self._note(index, place)
        if not self.is_trusted_step(index):
            return False
        return not any(mark == ALL_FIELDS or overlaps(mark, place) for mark in call.tool.untrusted)

    def _note(self, index: int, place: Place) -> bool:
        """A note's result is its parameters: the part that is read is worth what was written there."""
        if self.review.plan.steps[index].kind != "note":
            return False
        self.is_trusted_step(index)
        found = zip(self.review.found[index], self._notes[index], strict=True)
        read = [
            worth for f, worth in found if f.place[: len(place)] == place or place[: len(f.place)] == f.place
        ]
        return bool(read) and all(read)

    def is_trusted_step(self, index: int) -> bool:
        """Whether the result of a step is trusted, but for the fields that its tool marks."""
        stack = [index]  # not recursion: a chain of steps may be longer than Python's stack
        while stack:
            step = stack[-1]
            waiting = () if step in self._steps else self._unjudged(step)
            if waiting:
                stack += waiting
            elif step not in self._steps:
                self._steps[step] = self._judge(step)
            else:
                stack.pop()
        return self._steps[index]

    def _unjudged(self, index: int) -> list[int]:
        """The steps that a step reads from and that are not judged yet."""
        position, judged = self.review.position, self._steps
        return [
            position[name]
            for found in self.review.found[index]
            if type(found) is Reference
            for name in found.names
            if name in position and position[name] not in judged
        ]

    def _judge(self, index: int) -> bool:
        call = self.review.call_at.get(index)
        found = self.review.found[index]
        if call is None:
            self._notes[index] = [self.is_trusted(item) for item in found]
            return False
        if call.tool.result_trust is not Trust.TRUSTED:
            return False
        if call.tool.endorses:
            return True
        return all(self.is_trusted(item) or _names_nothing(call.tool, item) for item in found)

    def origin(self, found: Found) -> Origin:
        """Where a value came from, in words."""
        place = pointer.join(found.place)
        if type(found) is Leaf:
            return Origin(
                parameter=place,
                came_from="literal",
                trust=Trust.UNTRUSTED,
                detail=self._literal_detail(found.value),
            )
        text = found.text if type(found) is Reference else ""
        return Origin(
            parameter=place, came_from=text, trust=Trust.UNTRUSTED, detail=self._reference_detail(found)
        )

    def _literal_detail(self, value: Any) -> str:
        wanted = scalar(value)
        for name, content in self._untrusted_sources():
            for leaf in scalars(content):
                if scalar(leaf.value) == wanted or (
                    isinstance(value, str) and value and isinstance(leaf.value, str) and value in leaf.value
                ):
                    return f"{_shown(value)} stands in {name} at {pointer.join(leaf.place) or '/'}, which is not trusted"
        return f"{_shown(value)} equals nothing in the trusted request fields, evidence and results"

    def _untrusted_sources(self) -> Iterator[tuple[str, Any]]:
        compiled = self.review.compiled
        yield "the request", compiled.input()
        for entry in compiled.manifests.evidence_manifest:
            if entry.trust is not Trust.TRUSTED:
                yield f"evidence {entry.id}", entry.content
        for result in compiled.results:
            if result.trust is not Trust.TRUSTED:
                yield f"the result of step {result.step_id}", result.value

    def _reference_detail(self, found: Found) -> str:
        if type(found) is not Reference:
            return "it is no reference"
        if found.kind == "cel":
            loose = [c for c in references.constants(found.text) if not self.is_trusted_scalar(c)]
            return (
                f"it computes with {_shown(loose[0])}" if loose else "it reads something that is not trusted"
            )
        index = self.review.position.get(found.target)
        call = self.review.call_at.get(index) if index is not None else None
        if call is None or index is None:
            return f"{found.target} is not trusted"
        if call.tool.result_trust is not Trust.TRUSTED:
            return f"results of {call.tool.name} are not trusted"
        if not self.is_trusted_step(index):
            return f"{call.tool.name} at step {index} was itself called with a value that is not trusted"
        return f"{found.pointer or 'the result'} of {call.tool.name} can carry other people's words"


def authority_is_bound(review: Review) -> Refusals:
    """Every authority value has a trusted source, and no untrusted value decides whether a step runs."""
    flow = Flow(review)
    for call in review.calls:
        authority = call.tool.authority_parameters
        if authority or call.tool.has_authority_everywhere:
            yield from _call(flow, call, authority)
        condition = review.conditions.get(call.position)
        if (
            condition is not None
            and call.mode is not ApprovalMode.READ_ONLY
            and not flow.reads_trusted(condition)
        ):
            yield from _violation(
                flow,
                call,
                f"the condition of step {call.position} is decided by a value that is not trusted",
                Origin(parameter="/when", came_from=condition.text, trust=Trust.UNTRUSTED),
            )
        if call.step.compensate is not None:
            yield from _compensation(flow, call)


def _call(flow: Flow, call: EffectiveStep, authority: frozenset[str]) -> Refusals:
    for found in flow.review.found[call.position]:
        name = str(found.place[0])
        if name in authority or call.tool.has_authority_everywhere:
            if not flow.is_trusted(found):
                origin = flow.origin(found)
                yield from _violation(
                    flow, call, f"step {call.position} takes {name} from {_source(origin)}", origin
                )
            else:
                yield from _keys(flow, call, found.place)


def _keys(flow: Flow, call: EffectiveStep, place: Place) -> Refusals:
    """A key that the schema does not name is a literal as well: `{"<account>": true}` names an account."""
    for key in place[1:]:
        is_data = isinstance(key, str) and key not in call.tool.known_keys and key != references.LITERAL
        if is_data and not flow.is_trusted_scalar(key):
            origin = flow.origin(Leaf(key, place))
            yield from _violation(
                flow, call, f"step {call.position} takes a key of {place[0]} from {_source(origin)}", origin
            )


def _compensation(flow: Flow, call: EffectiveStep) -> Refusals:
    """A compensation that the plan proposes may use the step's own result and parameters, as far as they are trusted."""
    own = call.step.compensate
    tool = flow.review.compiled.surface.get(own.tool) if own is not None else None
    if own is None or tool is None:
        return
    for found in references.scan(own.params):
        name = str(found.place[0]) if found.place else ""
        if name not in tool.authority_parameters and not tool.has_authority_everywhere:
            continue
        if type(found) is Reference and found.target == references.SELF:
            is_trusted = flow.points_at_trusted(found._replace(target=call.step.id))
        elif type(found) is Reference and found.target == references.PARAMS:
            place = pointer.parts(found.pointer)
            read = [f for f in flow.review.found[call.position] if f.place[: len(place)] == place]
            is_trusted = bool(read) and all(map(flow.is_trusted, read))
        else:
            is_trusted = flow.is_trusted(found)
        if not is_trusted:
            origin = flow.origin(found)
            yield from _violation(
                flow,
                call,
                f"the compensation of step {call.position} takes {name} from {_source(origin)}",
                origin,
            )


def _violation(flow: Flow, call: EffectiveStep, reason: str, origin: Origin) -> Refusals:
    review = flow.review
    gate = review.spec.unbound_gate
    if gate is not None and gate in review.compiled.gates_by_name:
        detail = f"{reason}: {origin.detail}" if origin.detail else reason
        review.demands.append(GateDemand(step=call.position, step_id=call.step.id, gate=gate, reason=detail))
        return
    yield review.refuse(
        Code.UNBOUND_ARGUMENT,
        f"{reason}: {origin.detail}" if origin.detail else reason,
        "take the value by reference from trusted evidence or a trusted result, or let a person supply it in the request",
        step=call.position,
        place=origin.parameter if origin.parameter == "/when" else f"/params{origin.parameter}",
        sources=(origin,),
    )


def _source(origin: Origin) -> str:
    return "a literal of the plan" if origin.came_from == "literal" else origin.came_from


def _names_nothing(tool: ToolSpec, found: Found) -> bool:
    """Whether an input cannot steer a call to another object: a boolean, null, or a word of the tool's own schema."""
    if type(found) is not Leaf:
        return False
    if found.value is None or isinstance(found.value, bool) or _is_empty(found.value):
        return True
    schema = as_object((as_object(tool.parameters.get("properties")) or {}).get(str(found.place[0]))) or {}
    words: Iterable[Any] = as_list(schema.get("enum")) or [schema.get("const")]
    return len(found.place) == 1 and any(scalar(found.value) == scalar(word) for word in words)


def _is_empty(value: Any) -> bool:
    return isinstance(value, dict | list)


def _shown(value: Any) -> str:
    text = repr(value.text if isinstance(value, references.Opaque) else value)
    return text if len(text) <= 60 else f"{text[:57]}…"


_Paths: TypeAlias = dict[str, tuple[str, ...]]


def _paths_read(expression: str) -> _Paths:
    """For each root name of an expression, the pointers that it reads; the whole where a path cannot be told."""
    found = references.tokens(expression)
    paths: dict[str, list[str]] = {}
    for position, token in enumerate(found):
        if not token.is_name or token.is_member:
            continue
        path: list[str | int] = []
        at = position + 1
        while at + 1 < len(found) and found[at].text == "." and found[at + 1].is_name:
            if at + 2 < len(found) and found[at + 2].text == "(":
                break
            path.append(found[at + 1].text)
            at += 2
        paths.setdefault(token.text, []).append(pointer.join(path))
    return {name: tuple(read) for name, read in paths.items()}

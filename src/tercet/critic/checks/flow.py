"""Information flow: which values may decide what.

A *trusted* value comes from a trusted request field, from trusted evidence that its step pins and that relates to the
request, from a trusted result, or from the previously approved plan (`critic/sources.py`, `critic/relations.py`). Two
rules, checked before anything runs:

1. Every value in an authority parameter is trusted, and of the kind that the parameter takes. A literal is trusted if
   it *equals* a scalar of exactly one such source, since a manipulated planner writes literals. An empty list or object
   equals none of them. A reference has the trust of its target. A computed value has the least trust of what it reads,
   and its constants count as literals, if it only selects, chooses, adds or subtracts (`contracts/values/formulas.py`), adds
   no constant and no source twice, and yields a number where it adds. All other computed values have no trusted source.
2. No untrusted value decides the `when` of a step above read_only, nor that of any step which it waits for.

A result has the least trust of its tool's declaration and its inputs, unless the tool endorses: looking up an order
that an attacker named returns true facts about the wrong order. Booleans, null, and values that the tool's own schema
enumerates do not taint a result: they name nothing.

Known limits. Where a decision declares no relations, a plan may pin the evidence of another customer. A sum of
different trusted numbers is trusted, whatever it adds up, and a tool that returns its input is another source of the
same number. A tool that returns untrusted text stored by another tool launders it, unless it marks those fields. And
untrusted text may make a step fail that establishes a precondition of an optional one. Policies, limits and marks can
rule these out. What optional steps may read is checked in `optional_steps.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tercet.contracts.gate import GateDemand
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.shape import unchecked
from tercet.contracts.steps.effective import EffectiveStep, unaliased
from tercet.contracts.tool import ToolSpec, Unbound
from tercet.contracts.values import pointer, references
from tercet.contracts.values.references import Found, Leaf, Read, Reference
from tercet.contracts.values.trust import overlaps
from tercet.contracts.verdict import Code, Origin
from tercet.critic.checks.unbound_causes import entered_by, find_cause, kind_name, named_read, read_cause
from tercet.critic.review import Refusals, Review
from tercet.critic.value_trust import ValueTrust


def authority_is_bound(review: Review) -> Refusals:
    """Every authority value has a trusted source, and no untrusted value decides whether a step runs."""
    value_trust = ValueTrust(review)
    behind = _behind_untrusted_conditions(value_trust) if value_trust.is_strict else {}
    for call in review.calls:
        for each in find_unbound(value_trust, call):
            reason = _taken(call, each.origin, is_plain=review.is_plain)
            yield from _violation(review, call, reason, f"/params{each.origin.parameter}", each)
        if call.position in review.conditions and call.mode is not ApprovalMode.READ_ONLY:
            yield from _condition(value_trust, call, review.conditions[call.position])
        if call.position in behind and call.mode is not ApprovalMode.READ_ONLY:
            yield from _inherited_condition(value_trust, call, *behind[call.position])
        if call.step.compensate is not None:
            yield from _compensation(value_trust, call)


class Unsourced(NamedTuple):
    """A value without a permitted source: where it came from, and what to do about it."""

    origin: Origin
    remedy: str


def find_unbound(value_trust: ValueTrust, call: EffectiveStep) -> Iterable[Unsourced]:
    """Return each untrusted value and key in the authority parameters of a call."""
    if not call.tool.authority_parameters and not call.tool.has_authority_everywhere:
        return ()
    scanned = value_trust.review.found[call.position]
    if value_trust.review.compiled.changed:
        scanned = [found for found in scanned if not value_trust.is_changed(call.position, found)]
    return _unbound(value_trust, call.tool, scanned, call.position)


def origins(review: Review, step_id: str) -> tuple[Origin, ...]:
    """Return the origin of each value of a call and whether it is trusted, as an approver sees it."""
    value_trust = ValueTrust(review)
    position = review.position[step_id]
    call = review.call_at.get(position)
    tool = None if call is None else call.tool
    return tuple(_traced(value_trust, tool, found, position) for found in review.found[position])


def literal_sources(value_trust: ValueTrust) -> tuple[Origin, ...]:
    """Return where the authority literals of a plan were found."""
    review = value_trust.review
    if not value_trust.is_strict:
        return ()
    origins: list[Origin] = []
    for call in review.calls:
        tool = call.tool
        names, is_everywhere = tool.authority_parameters, tool.has_authority_everywhere
        if not names and not is_everywhere:
            continue
        origins += [
            _traced(value_trust, tool, found, call.position)
            for found in review.found[call.position]
            if type(found) is Leaf and (is_everywhere or found.place[0] in names)
        ]
    return tuple(origins)


def compensation_origins(review: Review, step_id: str) -> tuple[tuple[Origin, ...], bool]:
    """Return the origin of each value of a proposed compensation, and whether every authority value in it has a trusted
    source.
    """
    value_trust, call = ValueTrust(review), review.call_at[review.position[step_id]]
    tool, scanned = _proposed_compensation(review, call)
    if tool is None:
        return (), True
    at = call.position
    return tuple(_traced(value_trust, tool, found, at, call) for found in scanned), not any(
        _unbound(value_trust, tool, scanned, at, call)
    )


def _proposed_compensation(review: Review, call: EffectiveStep) -> tuple[ToolSpec | None, list[Found]]:
    """Return the tool of a proposed compensation and its parameters by their declared names, scanned."""
    own = call.step.compensate
    tool = None if own is None else review.compiled.surface.get(own.tool)
    if own is None or tool is None:
        return None, []
    return tool, references.scan(unaliased(own.params, tool.aliases)[0])


def describe_origins(origins: Iterable[Origin]) -> dict[str, str]:
    """Return a description, by parameter, of where values came from and whether that source is trusted."""
    described: dict[str, str] = {}
    for origin in origins:
        name = pointer.parts(origin.parameter)[0]
        source = "a literal of the plan" if origin.came_from == "literal" else origin.came_from
        text = f"{source}, {origin.trust}" + (f": {origin.detail}" if origin.detail else "")
        described[name] = f"{described[name]}; {text}" if name in described else text
    return described


_UNTRUSTED = re.compile(rf", {Trust.UNTRUSTED}(?=: |; |$)")
_TRUSTED = re.compile(rf", {Trust.TRUSTED}(?=: |; |$)")


def described_trust(text: str) -> Trust | None:
    """Return the trust that a description of `describe_origins` states: untrusted if one of its values is; None if it
    states none.

    Gates record these descriptions. A name that imitates one can only add a warning.
    """
    if _UNTRUSTED.search(text):
        return Trust.UNTRUSTED
    return Trust.TRUSTED if _TRUSTED.search(text) else None


def trusted_results(review: Review) -> tuple[str, ...]:
    """Return the steps of a plan whose results are trusted, except for the fields that their tools mark."""
    value_trust = ValueTrust(review)
    return tuple(call.step.id for call in review.calls if value_trust.is_trusted_result(call.position))


def _traced(
    value_trust: ValueTrust, tool: ToolSpec | None, found: Found, at: int, own: EffectiveStep | None = None
) -> Origin:
    if not value_trust.is_trusted_argument(tool, found, at, own):
        return _unsourced(value_trust, tool, found, at, own).origin
    detail, source = "", ""
    if type(found) is Leaf:
        detail, source = _trusted_detail(value_trust, tool, found, at)
    elif type(found) is Reference:
        source = "" if found.kind == "cel" else found.text
        if value_trust.is_strict:
            detail = "; ".join((*_computations(value_trust, found), *_entered_by_people(value_trust, found)))
    fields = {
        "parameter": pointer.join(found.place),
        "came_from": _came_from(value_trust, found),
        "trust": Trust.TRUSTED,
        "detail": detail,
        "source": source,
        "kind": kind_name(value_trust, tool, found),
    }
    return unchecked(Origin, fields)


def _came_from(value_trust: ValueTrust, found: Found) -> str:
    """Return how a value is written: a literal, a reference, or a computation, which is never shown as a plain
    reference.
    """
    if type(found) is not Reference:
        return "literal" if type(found) is Leaf else ""
    if found.kind == "select":
        return f"selected: {found.text}"
    return f"computed: {found.text}" if found.kind == "cel" and value_trust.is_strict else found.text


def _computations(value_trust: ValueTrust, found: Reference) -> Iterator[str]:
    """Return what a computed value reads, and each computation that it reads from notes."""
    seen: set[Reference] = set()
    waiting = [found]
    while waiting and len(seen) < MAX_COMPUTATIONS:
        reference = waiting.pop(0)
        if reference in seen:
            continue
        seen.add(reference)
        reads = [Read(reference.target, pointer.parts(reference.pointer))] if reference.kind == "from" else []
        if reference.kind == "cel":
            reads = references.reads(reference.text)
            about = "" if reference is found else f"computed: {reference.text} "
            yield f"{about}from {', '.join(dict.fromkeys(map(named_read, reads)))}"
        waiting += [behind for read in reads for behind in _written_by_notes(value_trust, read)]


MAX_COMPUTATIONS = 8
"""The maximum number of computations behind one value that an approver sees."""


def _written_by_notes(value_trust: ValueTrust, read: Read) -> list[Reference]:
    """Return the references of a note at the place that is read; empty if it is not a note."""
    index = value_trust.review.position.get(read.name)
    if index is None or index in value_trust.review.call_at:
        return []
    return [
        item
        for item in value_trust.review.found[index]
        if type(item) is Reference and overlaps(pointer.join(read.place), item.place)
    ]


def _entered_by_people(value_trust: ValueTrust, found: Reference) -> Iterator[str]:
    """Return who entered the results that a reference reads."""
    return filter(None, (entered_by(value_trust, name) for name in sorted(found.names)))


def _trusted_detail(value_trust: ValueTrust, tool: ToolSpec | None, found: Leaf, at: int) -> tuple[str, str]:
    """Return where a trusted literal was found: as a description and as a name."""
    if not value_trust.is_strict:
        return "", ""
    holder = value_trust.bind(found.value, at, tool, found.place).holder
    if holder is None:
        return "", ""
    if holder.detail:
        return holder.detail, holder.name
    if not holder.place:
        return "was approved in this parameter before", holder.name
    if holder.record == references.REQUEST:
        return f"equals {holder.name}", holder.name
    return f"equals {pointer.join(holder.place)} of {holder.record}", holder.name


def _unbound(
    value_trust: ValueTrust,
    tool: ToolSpec,
    scanned: Sequence[Found],
    at: int,
    own: EffectiveStep | None = None,
) -> Iterator[Unsourced]:
    """Yield each untrusted value and key in an authority parameter."""
    names = None if tool.has_authority_everywhere else tool.authority_parameters
    for found in scanned:
        if names is None or found.place[0] in names:
            if not value_trust.is_trusted_argument(tool, found, at, own):
                yield _unsourced(value_trust, tool, found, at, own)
            if found.place[0] not in tool.known_keys or len(found.place) > 1:
                for key in value_trust.untrusted_keys(tool, found.place, at):
                    yield _unsourced(value_trust, None, Leaf(key, found.place), at, own)


def _condition(value_trust: ValueTrust, call: EffectiveStep, condition: Reference) -> Refusals:
    for read in _untrusted_reads(value_trust, condition):
        found = _condition_read(value_trust, "/when", read)
        reason = (
            f"the condition of step {call.position} is decided by {named_read(read)}: {found.origin.detail}"
        )
        yield from _violation(value_trust.review, call, reason, "/when", found)


def _inherited_condition(value_trust: ValueTrust, call: EffectiveStep, position: int, read: Read) -> Refusals:
    """Return the violation of a step that waits for the step at `position`, whose condition reads something untrusted."""
    found = _condition_read(value_trust, "/depends_on", read)
    reason = (
        f"step {call.position} waits for step {position}, whose condition is decided by {named_read(read)}: "
        f"{found.origin.detail}"
    )
    yield from _violation(value_trust.review, call, reason, "/depends_on", found)


def _behind_untrusted_conditions(value_trust: ValueTrust) -> dict[int, tuple[int, Read]]:
    """Return, for each step that waits for one with an untrusted condition, that step and what its condition reads."""
    review = value_trust.review
    behind: dict[int, tuple[int, Read]] = {}
    for position, condition in review.conditions.items():
        read = next(_untrusted_reads(value_trust, condition), None)
        waiting = [] if read is None else [*review.graph.successors[position]]
        while waiting and read is not None:
            index = waiting.pop()
            if index not in behind:
                behind[index] = position, read
                waiting += review.graph.successors[index]
    return behind


def _untrusted_reads(value_trust: ValueTrust, condition: Reference) -> Iterator[Read]:
    return (read for read in references.reads(condition.text) if not value_trust.is_trusted_read(read))


def _condition_read(value_trust: ValueTrust, place: str, read: Read) -> Unsourced:
    cause = read_cause(value_trust, read, None, None)
    origin = Origin(parameter=place, came_from=named_read(read), trust=Trust.UNTRUSTED, detail=cause.detail)
    return Unsourced(origin, f"let the condition read only trusted values: {cause.remedy}")


def _compensation(value_trust: ValueTrust, call: EffectiveStep) -> Refusals:
    """Yield violations of a proposed compensation, which may use trusted parts of the step's own result and parameters."""
    tool, scanned = _proposed_compensation(value_trust.review, call)
    if tool is None:
        return
    for each in _unbound(value_trust, tool, scanned, call.position, call):
        reason = _taken(call, each.origin, of="the compensation of ", is_plain=value_trust.review.is_plain)
        place = f"/compensate/params{each.origin.parameter}"
        yield from _violation(value_trust.review, call, reason, place, each)


def _taken(call: EffectiveStep, origin: Origin, *, of: str = "", is_plain: bool) -> str:
    """Return the sentence that a parameter of a step, or of its compensation, has no permitted source."""
    name = pointer.parts(origin.parameter)[0]
    is_literal = origin.came_from == "literal"
    if is_plain:
        source = "a literal" if is_literal else origin.came_from
        return f"{of}step {call.step.id!r} takes the parameter {name!r} from {source}: {origin.detail}"
    source = "a literal of the plan" if is_literal else origin.came_from
    return f"{of}step {call.position} takes {name} from {source}: {origin.detail}"


_REMEDY = (
    "take the value by reference from evidence that the step pins or from a trusted result, or let a person supply it"
    " in the request"
)
"""The remedy for every cause in sessions under earlier rules."""


def _violation(review: Review, call: EffectiveStep, reason: str, place: str, found: Unsourced) -> Refusals:
    outcome = _unbound_outcome(review, call, place)
    if outcome == "allow":
        return
    gate = review.compiled.gates_by_name.get(review.spec.unbound_gate or "")
    # A conditional gate could be skipped, and would let the value through.
    if gate is not None and gate.when is None and outcome != "refuse":
        demand = GateDemand(step=call.position, step_id=call.step.id, gate=gate.name, reason=reason)
        review.demands.append(demand)
        return
    yield review.refuse(
        Code.UNBOUND_ARGUMENT,
        reason,
        found.remedy if review.names_causes else _REMEDY,
        step=call.position,
        place=place,
        sources=(found.origin,),
    )


def _unbound_outcome(review: Review, call: EffectiveStep, place: str) -> Unbound | None:
    """Return how a tool handles values without a permitted source in one of its parameters."""
    tokens = pointer.parts(place)
    if not review.is_strict:
        return None
    if tokens[0] == "params":
        return call.tool.unbound.get(tokens[1])
    if tokens[0] != "compensate" or call.step.compensate is None:
        return None
    tool = review.compiled.surface.get(call.step.compensate.tool)
    return None if tool is None else tool.unbound.get(tokens[2])


def _unsourced(
    value_trust: ValueTrust, tool: ToolSpec | None, found: Found, at: int, own: EffectiveStep | None
) -> Unsourced:
    """Return where a value without a permitted source came from."""
    cause = find_cause(value_trust, tool, found, at, own)
    origin = Origin(
        parameter=pointer.join(found.place),
        came_from=_came_from(value_trust, found),
        trust=Trust.UNTRUSTED,
        detail=cause.detail,
        kind=kind_name(value_trust, tool, found),
    )
    return Unsourced(origin, cause.remedy)

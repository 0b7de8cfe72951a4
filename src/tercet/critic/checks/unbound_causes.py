"""Why a value has no permitted source, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tercet.contracts.mode import Trust
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer, references
from tercet.contracts.values.kinds import UNKNOWN, parameter_kind
from tercet.contracts.values.references import Found, Leaf, Read, Reference
from tercet.contracts.values.trust import scalar, scalars
from tercet.critic.declared_places import takes_number
from tercet.critic.value_trust import ValueTrust


class Cause(NamedTuple):
    """Why a value has no permitted source, and what to do about it."""

    detail: str
    remedy: str


_ASK = "make a request that gives it"
_REPLACE = (
    f"take the value from the request, from evidence that the step pins or from a trusted result, or {_ASK}"
)
_COMPUTE = "refer to the value itself, or let a trusted tool compute it"


def find_cause(
    value_trust: ValueTrust, tool: ToolSpec | None, found: Found, at: int, own: EffectiveStep | None
) -> Cause:
    """Return why a value in a step has no permitted source; `own` is the step whose compensation takes it."""
    if type(found) is Leaf:
        return _literal_cause(value_trust, tool, found, at)
    if type(found) is Reference:
        return _reference_cause(value_trust, tool, found, at, own)
    return Cause("it is no reference", 'write a reference, such as {"$from": "step#/field"}')


def _literal_cause(value_trust: ValueTrust, tool: ToolSpec | None, found: Leaf, at: int) -> Cause:
    value = found.value
    if isinstance(value, dict | list):
        why = f"{shown_value(value)} is empty, and a value that the plan leaves empty has no source"
        return Cause(why, f"leave it out, or {_REPLACE}")
    binding = value_trust.bind(value, at, tool, found.place) if value_trust.is_strict else None
    if binding is not None and binding.why:
        return Cause(f"{shown_value(value)} {binding.why}", binding.remedy)
    if binding is not None and (why := _unrelated_detail(value_trust, value, at)):
        return Cause(why, "pin evidence that belongs to this request, or make a request for the other one")
    wanted = scalar(value)
    for name, leaf in _untrusted_leaves(value_trust):
        is_part = isinstance(value, str) and value and isinstance(leaf.value, str) and value in leaf.value
        if is_part or scalar(leaf.value) == wanted:
            place = pointer.join(leaf.place) or "/"
            why = f"{shown_value(value)} stands in {name} at {place}, which is not trusted"
            return Cause(why, f"do not copy it from there: {_REPLACE}")
    if binding is not None and (ref := _unpinned_evidence(value_trust, value)):
        why = f"{shown_value(value)} equals a value of {ref}, which step {at} does not pin"
        return Cause(why, f"if {ref} is what the request is about, add it to the evidence_refs of the step")
    why = f"{shown_value(value)} equals nothing in the trusted request fields, evidence and results"
    return Cause(why, _REPLACE)


def _unrelated_detail(value_trust: ValueTrust, value: Any, at: int) -> str | None:
    """Return why the pinned evidence with this literal does not relate to the request."""
    for ref in value_trust.review.pinned[at]:
        why = value_trust.review.why_unrelated(ref, at)
        if why is not None and _holds(value_trust.review.compiled.evidence[ref].content, value):
            return why
    return None


def _unpinned_evidence(value_trust: ValueTrust, value: Any) -> str | None:
    """Return the trusted evidence that holds a literal and that its step does not pin."""
    entries = value_trust.review.compiled.manifests.evidence_manifest
    return next((e.id for e in entries if e.trust is Trust.TRUSTED and _holds(e.content, value)), None)


def _holds(content: Any, value: Any) -> bool:
    wanted = scalar(value)
    return any(scalar(leaf.value) == wanted for leaf in scalars(content))


def _untrusted_leaves(value_trust: ValueTrust) -> Iterator[tuple[str, Leaf]]:
    compiled = value_trust.review.compiled
    for leaf in scalars(compiled.input()):
        if value_trust.review.is_marked_input(leaf.place):
            yield "the request", leaf
    for entry in compiled.manifests.evidence_manifest:
        if entry.trust is not Trust.TRUSTED or entry.id in value_trust.review.picked_evidence:
            for leaf in scalars(entry.content):
                yield f"evidence {entry.id}", leaf
    for result in compiled.results:
        trusted = compiled.trusted_leaves(result, in_lists=value_trust.review.marks_reach_lists)
        for leaf in scalars(result.value):
            if leaf not in trusted:
                yield f"the result of step {result.step_id}", leaf


def _reference_cause(
    value_trust: ValueTrust, tool: ToolSpec | None, found: Reference, at: int, own: EffectiveStep | None
) -> Cause:
    is_number = tool is not None and takes_number(tool, found.place)
    if tool is not None and value_trust.is_trusted(found, at, own, is_number=is_number):
        return _kind_cause(value_trust, tool, found, at, own)
    if found.kind == "evidence":
        return _evidence_cause(value_trust, found.target, at)
    if found.kind == "from":
        return read_cause(value_trust, Read(found.target, pointer.parts(found.pointer)), at, own)
    if found.kind == "select":
        return _selection_cause(value_trust, found, at, own)
    loose = [c for c in references.constants(found.text) if not value_trust.is_trusted_scalar(c, at)]
    if loose:
        why = f"it computes with {shown_value(loose[0])}, which equals nothing that is trusted"
        return Cause(
            why, "compute only with values of the request, of pinned evidence and of trusted results"
        )
    reads = references.reads(found.text)
    read = next((read for read in reads if not value_trust.is_trusted_read(read, own)), None)
    if read is not None:
        cause = read_cause(value_trust, read, at, own)
        return Cause(f"it reads {named_read(read)}: {cause.detail}", cause.remedy)
    if not value_trust.is_strict:
        return Cause("it reads nothing", _COMPUTE)
    opaque = value_trust.why_opaque(found.text, own)
    return Cause(
        opaque or "it is a sum, and the schema of the tool does not say that a number stands here", _COMPUTE
    )


def _kind_cause(
    value_trust: ValueTrust, tool: ToolSpec, found: Reference, at: int, own: EffectiveStep | None
) -> Cause:
    """Return why a trusted value is of another kind than the parameter takes."""
    name, kind = value_trust.wrong_kind(tool, found, at, own) or ("it", UNKNOWN)
    taken = kind_name(value_trust, tool, found)
    return Cause(
        f"{name} is {kind.name or 'of unknown kind'}, and the parameter takes {taken}",
        f"take a value of kind {taken}; or, if it is one, declare that kind where the value comes from",
    )


def kind_name(value_trust: ValueTrust, tool: ToolSpec | None, found: Found) -> str:
    """Return the kind of value that the parameter at a place takes; empty if none is known."""
    if tool is None or not value_trust.is_strict:
        return ""
    place = tuple([token for token in found.place if token != references.LITERAL])
    return parameter_kind(tool, place, reads_widths=value_trust.review.reads_widths).name if place else ""


def _selection_cause(value_trust: ValueTrust, found: Reference, at: int, own: EffectiveStep | None) -> Cause:
    """Return why a selected value is not trusted."""
    for value in references.constants_of(found):
        if not value_trust.is_selected_by(found, value, at):
            return Cause(
                f"it selects by {shown_value(value)}, which equals nothing that is trusted outside the list itself",
                "select by a value of the request, of pinned evidence or of another trusted result",
            )
    for read in references.reads_of(found):
        if not value_trust.is_trusted_read(read, own):
            cause = read_cause(value_trust, read, at, own)
            return Cause(f"it reads {named_read(read)}: {cause.detail}", cause.remedy)
    return Cause("what it selects is not trusted", _REPLACE)


def _evidence_cause(value_trust: ValueTrust, ref: str | int, at: int | None) -> Cause:
    review = value_trust.review
    if ref in review.picked_evidence:
        why = f"evidence {ref} was chosen by an untrusted field of the request"
        return Cause(why, "let a trusted field of the request name the evidence")
    unrelated = review.why_unrelated(str(ref), at) if str(ref) in review.compiled.evidence else None
    if unrelated:
        return Cause(
            unrelated, "use evidence that belongs to this request, or make a request for the other one"
        )
    return Cause(
        f"evidence {ref} is not trusted",
        'use trusted evidence; if the source of this one can be believed, store it with trust = "trusted"',
    )


def read_cause(value_trust: ValueTrust, read: Read, at: int | None, own: EffectiveStep | None) -> Cause:
    """Return why a read is not trusted."""
    review, name = value_trust.review, read.name
    if name == references.EVIDENCE:
        if read.place:
            return _evidence_cause(value_trust, read.place[0], at)
        return Cause("it is not said which evidence", 'name the evidence: evidence["ID"].field')
    if name == references.REQUEST:
        return _request_cause(value_trust, read)
    if name == references.PARAMS:
        return Cause(
            "what the step was called with there is not trusted", "read a trusted parameter of the step"
        )
    index = own.position if name == references.SELF and own is not None else review.position.get(name)
    call = review.call_at.get(index) if index is not None else None
    if index is None and name == references.OUTPUTS and review.spec.quality is not None:
        why = "a repair may have rewritten this output"
        return Cause(why, "take the value from the step that returned it, not from the outputs")
    if call is None or index is None:
        return Cause(f"what {name} says there is not trusted", _REPLACE)
    return _result_cause(value_trust, call, index, read)


def _request_cause(value_trust: ValueTrust, read: Read) -> Cause:
    if value_trust.is_strict and value_trust.sources.is_sentence(read.place):
        return Cause(
            "a sentence vouches for what it names, and not as a whole",
            "write out the one thing that the sentence names, instead of referring to the sentence",
        )
    return Cause(
        "this part of the request is not trusted",
        "take it from trusted evidence or a trusted result; if its sender vouches for the field, take the field off the"
        " untrusted_inputs of the decision",
    )


def _result_cause(value_trust: ValueTrust, call: EffectiveStep, index: int, read: Read) -> Cause:
    """Return why a part of a step's result is not trusted."""
    tool, entered = call.tool, value_trust.review.compiled.entered_by_step.get(read.name)
    if entered is not None and entered.trust is not Trust.TRUSTED:
        why = f"{entered_by(value_trust, read.name)}, whose word the pack does not trust"
        return Cause(
            why, "let a person with a role of the call's gates, who does not own the run, settle such calls"
        )
    if tool.result_trust is not Trust.TRUSTED:
        return Cause(
            f"results of {tool.name} are not trusted",
            f'{_REPLACE}; if {tool.name} returns no words of other people, declare trust = "trusted" for it',
        )
    if not value_trust.is_trusted_result(index):
        why = f"{tool.name} at step {index} was itself called with a value that is not trusted"
        return Cause(
            why, f"call {tool.name} with a value of the request, of pinned evidence or of a trusted result"
        )
    return Cause(
        f"{pointer.join(read.place) or 'the result'} of {tool.name} can carry other people's words",
        "refer to a field that its tool does not mark as untrusted, or let a look-up confirm the value",
    )


def entered_by(value_trust: ValueTrust, step_id: str) -> str | None:
    """Return who entered the result of a step; None if its tool returned it."""
    entered = value_trust.review.compiled.entered_by_step.get(step_id)
    return None if entered is None else f"the result of step {step_id} was entered by {entered.by}"


def named_read(read: Read) -> str:
    """Return a read as a plan writes it: `order#/total`."""
    return f"{read.name}#{pointer.join(read.place)}" if read.place else read.name


def shown_value(value: Any) -> str:
    """Return a value as Python writes it, shortened."""
    text = repr(value.text if isinstance(value, references.Opaque) else value)
    return text if len(text) <= 60 else f"{text[:57]}…"

"""Checks that no untrusted words decide whether an optional effect happens.

An optional step that cannot be called is skipped. So a parameter that reads something untrusted, and cannot be resolved
unless the words there fit, chooses between optional effects as a `when` would. What the review knows decides nothing at
run time: written-out values, plain references to the request, and pinned evidence.
"""

from __future__ import annotations

from collections.abc import Iterator

from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.values import pointer, references
from tercet.contracts.values.references import Found, Read, Reference
from tercet.contracts.verdict import Code, Origin
from tercet.critic.review import Refusals, Review
from tercet.critic.value_trust import ValueTrust

_KNOWN = (references.REQUEST, references.OUTPUTS)
"""What a plain reference resolves to before its step is due, or the step is never due."""
_OWN = (references.PARAMS, references.SELF)
"""What a compensation reads of its own step."""
_REMEDY = "make the step required, or let it read nothing that is not trusted"


def optional_effects_are_certain(review: Review) -> Refusals:
    """No step above read_only may be left out because of something untrusted that it, or a step that it reads, reads."""
    if not review.ctx.goes_by(Behaviour.OPTIONAL_EFFECTS_CERTAIN):
        return
    left_out = _left_out_by_words(review)
    for call in review.calls:
        read = left_out.get(call.position)
        if read is None or call.mode is ApprovalMode.READ_ONLY:
            continue
        name = f"{read.name}#{pointer.join(read.place)}" if read.place else read.name
        reason = (
            f"whether {review.label(call.position)} is called depends on {name}, which is not trusted:"
            " an optional step that cannot be called is skipped"
        )
        origin = Origin(parameter="/optional", came_from=name, trust=Trust.UNTRUSTED)
        yield review.refuse(
            Code.UNBOUND_ARGUMENT, reason, _REMEDY, step=call.position, place="/optional", sources=(origin,)
        )


def _left_out_by_words(review: Review) -> dict[int, Read]:
    """Return the steps that may be left out because of something untrusted, each with what that is."""
    steps = review.plan.steps
    if not any(step.optional for step in steps):
        return {}
    value_trust = ValueTrust(review)
    readers: dict[str, list[int]] = {}
    left_out: dict[int, Read] = {}
    for position, step in enumerate(steps):
        read_to_decide = references.reads(step.when) if position in review.conditions and step.when else []
        read_to_call = [*_reads(review.found[position]), *_reads_to_compensate(review, position)]
        for read in (*read_to_decide, *(read_to_call if step.optional else ())):
            readers.setdefault(read.name, []).append(position)
        untrusted = (read for read in read_to_call if not value_trust.is_trusted_read(read))
        if step.optional and (found := next(untrusted, None)) is not None:
            left_out[position] = found
    waiting = list(left_out)
    while waiting:
        source = waiting.pop()
        for reader in readers.get(steps[source].id, ()):
            if reader not in left_out:
                left_out[reader] = left_out[source]
                waiting.append(reader)
    return left_out


def _reads_to_compensate(review: Review, position: int) -> Iterator[Read]:
    """Yield what a proposed compensation reads before its step is called."""
    own = review.plan.steps[position].compensate
    if own is not None:
        yield from (read for read in _reads(references.scan(own.params)) if read.name not in _OWN)


def _reads(scanned: list[Found]) -> Iterator[Read]:
    """Yield what values read that may turn out to be missing, or to be of another type."""
    for item in scanned:
        if type(item) is not Reference or item.kind == "evidence":
            continue
        if item.kind != "from" or item.target not in _KNOWN:
            yield from references.reads_of(item)

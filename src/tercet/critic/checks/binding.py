"""Checks the relations of calls: parameters, the evidence of an effect, and parameters that must come from one record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tercet.contracts.mode import ApprovalMode
from tercet.contracts.relations import Relation, value_at
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.steps.graph import read_steps
from tercet.contracts.values import pointer, references
from tercet.contracts.values.references import Leaf, Reference
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.review import Refusals, Review
from tercet.critic.value_trust import ValueTrust

_REMEDY = "use what belongs to this request, or make a request for the other one"


def relations_hold(review: Review) -> Refusals:
    """Every call, and all evidence that an effect uses, relates to the request as the decision declares."""
    if not review.spec.bind or not review.is_strict:
        return
    value_trust = ValueTrust(review)
    for call in review.calls:
        if review.due not in (call.position, None):
            continue
        if call.mode is not ApprovalMode.READ_ONLY:
            yield from _evidence(review, call)
        for relation in review.relations.of_calls(call.tool.name):
            if relation.param is not None:
                yield from _parameter(review, call, relation)
            elif relation.one_source and review.due is None:
                yield from _one_source(value_trust, call, relation)


def find_unrelated_result(review: Review, step_id: str, results: Mapping[str, Any]) -> Refusal | None:
    """Return the refusal of an effect that depends on a result which does not relate to the request, or None."""
    index = review.position[step_id]
    call = review.call_at.get(index)
    if call is None or call.mode is ApprovalMode.READ_ONLY:
        return None
    for before in sorted(_data_ancestors(review, index)):
        source = review.call_at.get(before)
        if source is None or source.step.id not in results:
            continue
        value = results[source.step.id]
        if (why := review.relations.explain_result(source.tool.name, value, before)) is not None:
            reason = f"{review.label(index)} depends on step {before}, and {why}"
            return review.refuse(Code.UNBOUND_ARGUMENT, reason, _REMEDY, step=index, place="/params")
    return None


def find_unrelated_steps(review: Review, results: Iterable[tuple[str, Any]]) -> frozenset[str]:
    """Return the steps whose results do not relate to the request, or were made from such a result."""
    if not any(relation.tool and relation.field for relation in review.spec.bind):
        return frozenset()
    found: set[int] = set()
    for step_id, value in results:
        index = review.position.get(step_id)
        call = None if index is None else review.call_at.get(index)
        if call and review.relations.explain_result(call.tool.name, value, index) is not None:
            found.add(call.position)
    readers: dict[int, list[int]] = {}
    for index in range(len(review.plan.steps)) if found else ():
        for name in _steps_read(review, index):
            readers.setdefault(review.position.get(name, -1), []).append(index)
    waiting = list(found)
    while waiting:
        new = set(readers.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return frozenset(review.plan.steps[index].id for index in found)


def _evidence(review: Review, call: EffectiveStep) -> Refusals:
    """Refuse evidence of another request for an effect, however the value is used."""
    read = (
        ref
        for found in (*review.found[call.position], review.conditions.get(call.position))
        if type(found) is Reference and found.kind == "cel"
        for ref in references.evidence_read(found.text) or ()
    )
    for ref in dict.fromkeys((*review.pinned[call.position], *read)):
        if (why := review.why_unrelated(ref, call.position)) is not None:
            reason = f"{review.label(call.position)} uses {ref}: {why}"
            yield review.refuse(
                Code.UNBOUND_ARGUMENT, reason, _REMEDY, step=call.position, place="/evidence_refs"
            )


def _parameter(review: Review, call: EffectiveStep, relation: Relation) -> Refusals:
    if relation.param_place[0] in review.open_parameters.get(call.position, ()):
        review.deferred.append(f"relation of {relation.param} at step {call.position}")
        return
    value = value_at(review.arguments(call), relation.param_place)
    if not review.relations.holds(relation, value, call.position):
        why = review.relations.explain(relation, value, call.position)
        other = "other" if review.is_plain else "else"
        reason = f"{review.label(call.position)} calls {call.tool.name} for something {other} than the request: {why}"
        yield review.refuse(
            Code.UNBOUND_ARGUMENT,
            reason,
            _REMEDY,
            step=call.position,
            place=f"/params{pointer.join(relation.param_place)}",
        )


def _one_source(value_trust: ValueTrust, call: EffectiveStep, relation: Relation) -> Refusals:
    given = [name for name in relation.one_source if name in call.params]
    shared: frozenset[str] | None = None
    for name in given:
        records = _records(value_trust, call, name)
        if records is not None:
            shared = records if shared is None else shared & records
    if shared is not None and not shared:
        review = value_trust.review
        rule = "but they must come from one record" if review.is_plain else f"and {relation}"
        reason = f"{review.label(call.position)} takes {' and '.join(given)} from different records, {rule}"
        yield review.refuse(
            Code.UNBOUND_ARGUMENT,
            reason,
            "take them from one piece of evidence or from one result",
            step=call.position,
            place=f"/params{pointer.join((given[-1],))}",
        )


def _records(value_trust: ValueTrust, call: EffectiveStep, name: str) -> frozenset[str] | None:
    """Return the records that a whole parameter may come from; None if any will do."""
    shared: frozenset[str] | None = None
    for found in value_trust.review.found[call.position]:
        if found.place[0] == name:
            for records in _sources(value_trust, call, found):
                shared = records if shared is None else shared & records
    return shared


def _sources(
    value_trust: ValueTrust, call: EffectiveStep, found: references.Found
) -> Iterator[frozenset[str]]:
    """Yield, for each literal and each read in a value, the records that it may come from; a value set by a person
    matches any.
    """
    if value_trust.is_changed(call.position, found):
        return
    for index, source in value_trust.value_sources(found, call.position):
        if isinstance(source, Leaf):
            bound = value_trust.bind(source.value, index, call.tool, found.place)
            yield frozenset(bound.records if bound.holder is not None else ())
        elif source.name == references.EVIDENCE:
            yield frozenset(map(str, source.place[:1]))
        else:
            yield frozenset({source.name})


def _data_ancestors(review: Review, index: int) -> set[int]:
    """Return the steps whose results a step or its proposed compensation reads, directly or through other steps."""
    found: set[int] = set()
    waiting = [index]
    own = review.plan.steps[index].compensate
    for found_in in () if own is None else references.scan(own.params):
        names = found_in.names if type(found_in) is Reference else ()
        waiting += [review.position[name] for name in names if name in review.position]
    found.update(waiting[1:])
    while waiting:
        for name in _steps_read(review, waiting.pop()):
            before = review.position.get(name)
            if before is not None and before not in found:
                found.add(before)
                waiting.append(before)
    return found


def _steps_read(review: Review, index: int) -> Sequence[str]:
    """Return the names of the steps whose results a step reads; the outputs that it delivers may be rendered from every
    declared value."""
    named = read_steps(review.plan, index)
    rules = review.spec.quality
    if (
        rules is None
        or references.OUTPUTS not in named
        or not review.ctx.goes_by(Behaviour.OUTPUTS_VOUCHED_FOR)
    ):
        return named
    return [*named, *(name for rule in rules.values for name in rule.sources if name in review.position)]

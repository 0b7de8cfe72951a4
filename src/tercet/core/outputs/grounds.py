"""The grounds of outputs: the evidence that the plan pins, and the results of its tools.

Other evidence does not count: another order's data would support a wrong statement about this one. A plan that pins
nothing is checked against all evidence.

Outputs cannot support themselves, and neither can their drafts. Notes are the planner's words, which a critic does not
see.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.runs.run import Outcome, Run
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values import pointer, references
from tercet.contracts.values.references import Leaf, Reference, scan
from tercet.contracts.values.trust import is_marked, scalars
from tercet.core.events.quality import ToolRetry
from tercet.critic.checks.binding import find_unrelated_steps
from tercet.critic.checks.flow import trusted_results
from tercet.critic.reading import pinned
from tercet.critic.review import Review
from tercet.critic.value_trust import ValueTrust
from tercet.quality.verification.results import evidence_of, result_of, results_of
from tercet.quality.verification.roles import is_one_word


def grounds_of(
    run: Run,
    drafts: Mapping[str, Any] | None = None,
    fresh: Collection[str] = (),
    retried: Iterable[ToolRetry] = (),
) -> tuple[Evidence, ...]:
    """Return the facts that outputs are compared with.

    `drafts` are the outputs before they were repaired, `fresh` the ids of what was looked up for a repair, `retried` the
    results of calls that had failed and were made again for one.
    """
    known, refs = run.compiled.manifests.evidence_manifest, _pinned_evidence(run)
    is_pinned = any(entry.id in refs for entry in known)
    entries = [entry for entry in known if not is_pinned or entry.id in refs or entry.id in fresh]
    review = Review(run.context, run.compiled, run.spec, run.plan)
    kept = (
        Evidence(
            id=entry.id,
            classification=entry.classification,
            content=entry.content,
            trust=Trust.TRUSTED if review.is_trusted_evidence(entry.id) else Trust.UNTRUSTED,
            source=entry.source,
        )
        for entry in entries
    )
    retried = tuple(retried)
    trusted = _trusted_steps(review, run, retried)
    surface = run.compiled.surface
    results = results_of(run.transcript, surface, trusted)
    later = (result_of(each.step, each.tool, each.result, surface, trusted) for each in retried)
    own = {"drafts": drafts or {}, "outputs": run.outputs}
    return (*kept, *evidence_of((*results, *later), own))


class TrustedSource(NamedTuple):
    """A trusted place that a value of the outputs came from by reference."""

    place: str
    """A member of evidence, of a result or of the request; of a computed value, its expression."""
    is_request: bool = False
    """Whether words of the request may be in it: it is a part of the request, or a result that was looked up with words."""

    def member(self, rest: str) -> TrustedSource:
        """Return the source of something in the value."""
        return self._replace(place=self.place + rest)


def find_sources(run: Run, outputs: Mapping[str, Any]) -> dict[str, TrustedSource]:
    """Return the trusted places that outputs came from by reference, by the JSON Pointers of the outputs."""
    review = Review(run.context, run.compiled, run.spec, run.plan)
    value_trust = ValueTrust(review)
    unrelated = find_unrelated_steps(review, _brought(run))
    found: dict[str, TrustedSource] = {}
    for name, value in run.plan.outputs.items():
        for each in scan({name: value}):
            place = pointer.join(each.place)
            is_number = isinstance(pointer.value_at(outputs, place), int | float)
            if not isinstance(each, Reference) or not unrelated.isdisjoint(each.names):
                continue
            if value_trust.is_trusted(each, None, is_number=is_number):
                found[place] = TrustedSource(_place_of(each), _reads_words(review, each.names))
    named = [name for name in run.plan.declared_outputs if name not in run.plan.outputs]
    trusted = _trusted_steps(review, run) if named else frozenset[str]()
    for result in results_of(run.transcript, run.compiled.surface, trusted):
        brought = (as_object(result.value) if result.trust is Trust.TRUSTED else None) or {}
        for name in named:
            if name in brought and not is_marked(result.untrusted, (name,)):
                place = pointer.join((name,))
                found[place] = TrustedSource(
                    f"{result.step_id}#{place}", _reads_words(review, {result.step_id})
                )
    return found


def _place_of(found: Reference) -> str:
    """Return the source of a value; an expression must not be taken for the name of a field."""
    if found.kind in ("from", "evidence"):
        return f"{found.target}#{found.pointer}"
    return found.text.replace("#", " ")


def _reads_words(review: Review, names: Iterable[str]) -> bool:
    """Return whether something is read from the request, or from steps that took more than one word from it."""
    waiting, seen = list(names), set[str]()
    if references.REQUEST in waiting:
        return True
    given = review.compiled.input()
    said = {leaf.value for leaf in scalars(given) if isinstance(leaf.value, str)}
    taken: list[str] = []
    while waiting:
        index = review.position.get(waiting.pop())
        if index is None or review.plan.steps[index].id in seen:
            continue
        seen.add(review.plan.steps[index].id)
        for item in review.found[index]:
            if isinstance(item, Leaf) and item.value in said:
                taken.append(item.value)
            for read in references.reads_of(item) if isinstance(item, Reference) else ():
                if read.name == references.REQUEST:
                    value = pointer.value_at(given, pointer.join(read.place))
                    taken += [leaf.value for leaf in scalars(value) if isinstance(leaf.value, str)]
                else:
                    waiting.append(read.name)
    words = {text for text in taken if not any(char.isdigit() for char in text)}
    return len(words) > 1 or not all(map(is_one_word, taken))


def _trusted_steps(review: Review, run: Run, retried: Iterable[ToolRetry] = ()) -> frozenset[str]:
    """Return the steps whose results are trusted, and relate to the request."""
    brought = (*_brought(run), *((each.step, each.result) for each in retried))
    return frozenset(trusted_results(review)) - find_unrelated_steps(review, brought)


def _brought(run: Run) -> Iterator[tuple[str, Any]]:
    return (
        (entry.call.step_id, entry.result.value)
        for entry in run.transcript
        if entry.result.outcome is Outcome.DONE
    )


def put_in_order(facts: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Return the same facts with their members sorted by name, as a session stores them."""
    return tuple(fact.model_copy(update={"content": _sort_members(fact.content)}) for fact in facts)


def _sort_members(value: Any) -> Any:
    if (members := as_object(value)) is not None:
        return {name: _sort_members(members[name]) for name in sorted(members)}
    items = as_list(value)
    return value if items is None else [_sort_members(item) for item in items]


def _pinned_evidence(run: Run) -> frozenset[str]:
    """Return the evidence that the plan names: listed, or read by a step or an output."""
    steps = (ref for step in run.plan.steps for ref in pinned(step))
    read = (
        ref
        for found in scan(run.plan.outputs)
        if isinstance(found, Reference) and found.kind != "cel"
        for ref in references.evidence_of(found)
    )
    return frozenset((*steps, *read))

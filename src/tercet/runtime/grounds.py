"""What the outputs of a run can stand on: the run's evidence, the request, and what its tools brought.

What is judged is no witness for itself: of a result, texts that the outputs repeat are left out. Notes are the planner's
words, and a critic does not get to know them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tercet.contracts.evidence import Evidence, EvidenceRef
from tercet.contracts.mode import Trust
from tercet.contracts.run import Outcome, Run
from tercet.contracts.shape import as_list, as_object
from tercet.critic.flow import trusted_results
from tercet.critic.review import Review

_WORDS = 4
"""A text of more words says something; one of fewer is a name, a number or an identifier."""


def grounds_of(run: Run, drafts: Mapping[str, Any] | None = None) -> tuple[Evidence, ...]:
    """The facts that outputs are held against; `drafts` are the outputs before they were repaired, no witnesses either."""
    entries = run.compiled.manifests.evidence_manifest
    kept = (
        Evidence(
            id=entry.id,
            classification=entry.classification,
            content=entry.content,
            trust=entry.trust,
            source=entry.source,
        )
        for entry in entries
    )
    return (*kept, *_results(run, drafts or {}))


def _results(run: Run, drafts: Mapping[str, Any]) -> Iterator[Evidence]:
    trusted = frozenset(trusted_results(Review(run.context, run.compiled, run.spec, run.plan)))
    said = frozenset((*_texts(run.outputs), *_texts(drafts)))
    for entry in run.transcript:
        tool = run.compiled.surface.get(entry.call.tool)
        if entry.result.outcome is not Outcome.DONE or entry.result.error is not None or tool is None:
            continue
        is_trusted = entry.call.step_id in trusted and not tool.untrusted
        yield Evidence(
            id=str(EvidenceRef("result", entry.call.step_id.replace("#", "_"), "run")),
            content=_without(entry.result.value, said),
            trust=Trust.TRUSTED if is_trusted else Trust.UNTRUSTED,
            source=tool.name,
        )


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value that say something."""
    if isinstance(value, str) and len(value.split()) > _WORDS:
        yield value
    for member in (as_object(value) or {}).values():
        yield from _texts(member)
    for item in as_list(value) or ():
        yield from _texts(item)


def _without(value: Any, said: frozenset[str]) -> Any:
    if isinstance(value, str):
        return None if value in said else value
    if (members := as_object(value)) is not None:
        return {name: _without(member, said) for name, member in members.items()}
    if (items := as_list(value)) is not None:
        return [_without(item, said) for item in items]
    return value

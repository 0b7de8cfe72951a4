"""What the outputs of a run can stand on: the run's evidence, and what its tools brought.

What is judged is no witness for itself, and neither is the draft that it was repaired from. Notes are the planner's words,
and a critic does not get to know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tercet.contracts.evidence import Evidence
from tercet.contracts.run import Run
from tercet.critic.flow import trusted_results
from tercet.critic.outputs.results import evidence_of, results_of
from tercet.critic.review import Review


def grounds_of(run: Run, drafts: Mapping[str, Any] | None = None) -> tuple[Evidence, ...]:
    """The facts that outputs are held against; `drafts` are the outputs before they were repaired."""
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
    trusted = frozenset(trusted_results(Review(run.context, run.compiled, run.spec, run.plan)))
    results = results_of(run.transcript, run.compiled.surface, trusted)
    return (*kept, *evidence_of(results, {"drafts": drafts or {}, "outputs": run.outputs}))

"""Evidence that a filled template asks for and that is not there: whoever typed the input hears what there is."""

from __future__ import annotations

from collections.abc import Iterable

from tercet.cli.text import listed
from tercet.contracts.evidence import parse_ref
from tercet.contracts.verdict import Code, Verdict

MOST = 5


def addressed(verdict: Verdict, evidence: Iterable[str]) -> Verdict:
    """The verdict with a remedy for whoever typed the input, who cannot pin evidence, where the evidence is not there."""
    if verdict.code is not Code.EVIDENCE_UNRESOLVED or not verdict.refusals:
        return verdict
    first, *others = verdict.refusals
    remedy = _remedy(first.reason, evidence)
    if remedy is None:
        return verdict
    told = (first.model_copy(update={"remedy": remedy}), *others)
    return verdict.model_copy(update={"remedy": remedy, "refusals": told})


def _remedy(reason: str, evidence: Iterable[str]) -> str | None:
    wanted = next((ref for word in reason.split() if (ref := parse_ref(word.rstrip(",")))), None)
    if wanted is None:
        return None
    refs = filter(None, map(parse_ref, evidence))
    same = sorted(
        ref.key
        for ref in refs
        if (ref.classification, ref.snapshot) == (wanted.classification, wanted.snapshot)
    )
    if not same:
        return f"there is no {wanted.classification} in this snapshot: add such evidence to the pack, or name a snapshot with --snapshot"
    return f"there is no {wanted.classification} {wanted.key}: ask with --input for {listed(same, MOST)}"

"""Episodic memory: what a run suggests remembering becomes evidence of class `episode`. Pure.

A run never writes evidence itself. What the critic accepted at commit is put into a draft, and later runs see it once a
snapshot is made. An episode has the trust of its least trusted source: untrusted text must not become trusted by being
remembered. For the same reason its content is only what was learned: its class and the names of its sources are text of
a plan, and are kept in its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tercet.contracts.evidence import EPISODE
from tercet.contracts.mode import Trust
from tercet.contracts.runs.record import MemoryProposal
from tercet.contracts.values.canonical import digest
from tercet.evidence.store import NewFact


def accept(
    proposals: Iterable[MemoryProposal], *, session: str, trust: Mapping[str, Trust]
) -> tuple[NewFact, ...]:
    """Return the facts for accepted proposals, each once; `trust` is that of their sources by name.

    A source that is not in `trust`, and a proposal without sources, is untrusted. The key is derived from the content
    and its sources, so that accepting it again changes nothing.
    """
    found: dict[str, NewFact] = {}
    for proposal in proposals:
        key = f"{session}/{digest(_whole(proposal)).removeprefix('sha256:')[:16]}"
        found[key] = NewFact(
            classification=EPISODE,
            key=key,
            content={"learned": proposal.content},
            trust=lowest(trust.get(source, Trust.UNTRUSTED) for source in proposal.sources),
            source=f"session {session}: {proposal.classification}",
        )
    return tuple(found.values())


def lowest(trusts: Iterable[Trust]) -> Trust:
    """Return the lowest of several trusts; of none, untrusted."""
    return min(trusts, key=list(Trust).index, default=Trust.UNTRUSTED)


def _whole(proposal: MemoryProposal) -> dict[str, Any]:
    return {
        "class": proposal.classification,
        "learned": proposal.content,
        "sources": sorted(set(proposal.sources)),
    }

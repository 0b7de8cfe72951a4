"""The store of evidence as a run uses it: what it is pinned to, what a plan may ask, and what a run leaves behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import LimitError, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.plan import EvidenceQuery
from tercet.contracts.record import MemoryProposal
from tercet.evidence.episodes import accept
from tercet.evidence.errors import SnapshotExists, SnapshotUnknown
from tercet.evidence.retrieval import Retriever, classes_for, facts_for, retrieve
from tercet.evidence.store import EvidenceStore, Fact
from tercet.runtime.transcript import moment

MOST_FACTS = 200
"""How many facts of the classes that a decision requires are admitted from the start; of more, a plan asks for some."""


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """What of a library a run begins with: the snapshot that it is pinned to, and the facts that its decision requires."""

    snapshot: str = ""
    hash: str = ""
    facts: tuple[Evidence, ...] = ()


NO_SHELF = Shelf()


@dataclass(frozen=True)
class Library:
    """A store of evidence, and who finds facts in it: the store's own search, unless another retriever is given."""

    store: EvidenceStore
    retriever: Retriever | None = None

    async def shelf(self, tenant: str, spec: DecisionSpec, now: int) -> Shelf:
        """What a run for a decision begins with: of the newest snapshot."""
        head = await self.store.newest(tenant)
        if head is None:
            return NO_SHELF
        classes = tuple(dict.fromkeys(name for each in spec.required_evidence for name in classes_for(each)))
        facts: tuple[Evidence, ...] = ()
        with suppress(LimitError):  # too many to show: a plan asks for those that it needs
            if classes:
                facts = await facts_for(
                    self.store, tenant, head.name, classes=classes, now=moment(now), most=MOST_FACTS
                )
        return Shelf(snapshot=head.name, hash=head.hash, facts=facts)

    async def find(
        self, tenant: str, snapshot: str, pinned: str, queries: Sequence[EvidenceQuery], now: int
    ) -> list[Fact]:
        """The facts that answer these queries and have not expired, each once, best first.

        Raises `UsageError` if the snapshot is not the one with the pinned hash: the store is another one.
        """
        if (await self.store.head(tenant, snapshot)).hash != pinned:
            raise UsageError(
                f"snapshot {snapshot} has other content here than the one that the session is pinned to",
                code="snapshot_version_mismatch",
                remedy="resume it with the store of evidence that it was started with",
            )
        answers = await retrieve(
            self.store, tenant, snapshot, queries, now=moment(now), retriever=self.retriever
        )
        found = {hit.fact.evidence.id: hit.fact for hits in answers.values() for hit in hits}
        return list(found.values())

    async def remember(
        self, tenant: str, session: str, proposals: Iterable[tuple[MemoryProposal, bool]], now: int
    ) -> None:
        """Make evidence of what a run learned, each with whether all its sources are trusted, in a snapshot of its own.

        Doing it again changes nothing: another process may have done it, and died before it could say so.
        """
        name = f"episode-{session}"
        facts = [
            fact
            for proposal, is_trusted in proposals
            for fact in accept(
                (proposal,),
                session=session,
                trust=dict.fromkeys(proposal.sources, Trust.TRUSTED if is_trusted else Trust.UNTRUSTED),
            )
        ]
        with suppress(SnapshotUnknown):
            if (await self.store.head(tenant, name)).is_frozen:
                return
        with suppress(SnapshotExists):
            await self.store.create(tenant, name, now_ms=now)
        await self.store.put(tenant, name, facts)
        await self.store.freeze(tenant, name, now_ms=now)

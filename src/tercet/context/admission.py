"""Selects the evidence of a run: the facts of its snapshot that have not expired, within the token limits.

An item that fits is admitted completely, one that does not is omitted completely, and both are reported. Items are
tried in the given order. One that does not fit is skipped, so that a large item does not exclude the smaller ones after
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tercet.contracts.buckets import MOST_NAMES, Bucket, TruncationEntry, estimate_tokens
from tercet.contracts.context import EvidenceManifestEntry, LedgerEntry
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence, meets
from tercet.contracts.mode import Trust
from tercet.contracts.related import select_related
from tercet.contracts.shape import JsonObject
from tercet.contracts.text.planner_view import show_evidence


@dataclass(frozen=True, kw_only=True)
class Packed:
    """The items of a bucket that were admitted and omitted."""

    bucket: Bucket
    limit: int | None = None
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """The tokens of each item, in the order in which they were considered."""
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why each omitted item did not fit."""

    @property
    def used(self) -> int:
        """The tokens of all admitted items."""
        return sum(size for name, size in self.sizes.items() if name not in self.left_out)

    def report(self) -> tuple[TruncationEntry, ...]:
        """Return an entry if something was omitted, else nothing."""
        if self.limit is None or not self.left_out:
            return ()
        entry = TruncationEntry(
            bucket=self.bucket,
            limit=self.limit,
            needed=sum(self.sizes.values()),
            used=self.used,
            admitted=len(self.sizes) - len(self.left_out),
            left_out=tuple(self.left_out)[:MOST_NAMES],
            left_out_count=len(self.left_out),
        )
        return (entry,)


def fill(
    bucket: Bucket, limit: int | None, sizes: Mapping[str, int], first: Sequence[Sequence[str]] = ()
) -> Packed:
    """Admit items in order as long as they fit.

    Each list in `first` names items of which one is needed: the earliest that fits gets its room before all others.
    """
    if limit is None:
        return Packed(bucket=bucket, sizes=sizes)
    room, admitted = limit, set[str]()
    for needed in first:
        chosen = next((name for name in needed if name in admitted or sizes[name] <= room), None)
        if chosen is not None and chosen not in admitted:
            admitted.add(chosen)
            room -= sizes[chosen]
    left_out: dict[str, str] = {}
    for name, size in sizes.items():
        if name in admitted:
            continue
        if size <= room:
            room -= size
        else:
            left_out[name] = f"it needs {size:,} tokens, and {room:,} of the {limit:,} for {bucket} were left"
    return Packed(bucket=bucket, limit=limit, sizes=sizes, left_out=left_out)


def demand_room(bucket: Bucket, what: str, needed: int, limit: int | None) -> None:
    """Raise `UsageError` if something that must be complete is larger than its bucket."""
    if limit is not None and needed > limit:
        raise overflow(
            bucket,
            f"{what} needs {needed:,} tokens, and the pack gives {bucket} {limit:,}",
            "shorten it" if bucket == "request" else "shorten its texts",
        )


def overflow(bucket: Bucket, message: str, instead: str) -> UsageError:
    """Return the error for something that must be in the context and does not fit."""
    return UsageError(
        message,
        code="context_overflow",
        remedy=f"{instead}, or raise {bucket} in [context.tokens] of pack.toml",
    )


@dataclass(frozen=True, kw_only=True)
class Admission:
    """The facts of a run by id, and why others were not admitted."""

    manifest: tuple[EvidenceManifestEntry, ...]
    ledger: tuple[LedgerEntry, ...]
    packed: Packed


def admit(
    facts: Sequence[Evidence],
    snapshot: str | None,
    decision: DecisionSpec,
    started_at: datetime | None,
    limit: int | None,
    library: Sequence[Evidence] = (),
    *,
    request: JsonObject | None = None,
    keeps_all: bool = True,
) -> Admission:
    """Return the facts that a run may use; raise `UsageError` if the limit leaves none of a required class.

    The limit applies to what the planner sees: facts beyond it stay in the manifest, unless `keeps_all` is False, as
    before `STRICT_CALLS`. Facts that relate to the request come first. Facts of a library were chosen for the run, so
    their snapshot does not matter.
    """
    ordered = sorted((*facts, *library), key=lambda fact: fact.id)
    chosen = {fact.id for fact in library}
    barred = {
        fact.id: reason
        for fact in ordered
        if (reason := _bar(fact, fact.snapshot if fact.id in chosen else snapshot, started_at))
    }
    valid = [fact for fact in ordered if fact.id not in barred]
    first = (
        select_related(valid, decision.bind, request or {}, decision.untrusted_inputs)
        if keeps_all and limit is not None
        else ()
    )
    packed = _packed(valid, decision, limit, {fact.id for fact in first})
    return Admission(
        manifest=tuple(
            _manifest_entry(fact, is_shown=fact.id not in packed.left_out)
            for fact in valid
            if keeps_all or fact.id not in packed.left_out
        ),
        ledger=tuple(_entries(ordered, {**barred, **packed.left_out}, started_at)),
        packed=packed,
    )


def _manifest_entry(fact: Evidence, *, is_shown: bool) -> EvidenceManifestEntry:
    entry = EvidenceManifestEntry.of(fact)
    return entry if is_shown else entry.model_copy(update={"is_shown": False})


def is_expired(fact: Evidence, started_at: datetime | None) -> bool:
    """Return whether a fact has expired when a run starts; False if no time is given."""
    return started_at is not None and fact.expires_at is not None and fact.expires_at <= started_at


def snapshot_of(facts: Sequence[Evidence]) -> str | None:
    """Return the one snapshot of some facts; raise `UsageError` if there are several."""
    found = sorted({fact.snapshot for fact in facts})
    if len(found) > 1:
        raise UsageError(
            f"the evidence is of {len(found)} snapshots: {', '.join(found[:4])}",
            code="ambiguous_snapshot",
            remedy="say which one the run is to use",
        )
    return found[0] if found else None


def demand_distinct(facts: Sequence[Evidence]) -> None:
    """Raise `UsageError` if two facts have the same id: a pin would be ambiguous."""
    twice = [name for name, number in Counter(fact.id for fact in facts).items() if number > 1]
    if twice:
        raise UsageError(
            f"there is more than one fact {twice[0]}",
            code="duplicate_evidence",
            remedy="pass each fact once",
        )


def _bar(fact: Evidence, snapshot: str | None, started_at: datetime | None) -> str | None:
    """Return why a fact is not admitted, regardless of room."""
    if fact.snapshot != snapshot:
        return f"it is not of snapshot {snapshot}"
    if is_expired(fact, started_at):
        return f"it expired at {fact.expires_at:%Y-%m-%dT%H:%M:%S%z}"
    return None


def _packed(
    valid: Sequence[Evidence], decision: DecisionSpec, limit: int | None, related: Container[str]
) -> Packed:
    """Fill the bucket: related facts first, of them one of each required class; then trusted before untrusted, then by
    id.
    """
    if limit is None:
        return Packed(bucket="evidence")
    ordered = sorted(
        valid, key=lambda fact: (fact.id not in related, not _is_required(fact, decision), *_rank(fact))
    )
    required = _by_requirement(ordered, decision)
    sizes = {fact.id: estimate_tokens(show_evidence(fact)) for fact in ordered}
    packed = fill("evidence", limit, sizes, tuple(required.values()))
    for requirement, names in required.items():
        if all(name in packed.left_out for name in names):
            raise overflow(
                "evidence",
                f"decision {decision.id} must have {requirement}, and none of the {len(names)} in the snapshot "
                f"fits into {limit:,} tokens of evidence",
                "give it shorter facts",
            )
    return packed


def _rank(fact: Evidence) -> tuple[bool, str]:
    return fact.trust is not Trust.TRUSTED, fact.id


def _is_required(fact: Evidence, decision: DecisionSpec) -> bool:
    return any(meets(requirement, fact.classification) for requirement in decision.required_evidence)


def _by_requirement(ordered: Sequence[Evidence], decision: DecisionSpec) -> dict[str, list[str]]:
    """Return the facts that meet each requirement; the critic reports a requirement that no fact meets."""
    found = {
        requirement: [fact.id for fact in ordered if meets(requirement, fact.classification)]
        for requirement in sorted(decision.required_evidence)
    }
    return {requirement: names for requirement, names in found.items() if names}


def _entries(
    facts: Sequence[Evidence], excluded: Mapping[str, str], started_at: datetime | None
) -> Iterator[LedgerEntry]:
    for fact in facts:
        reason = excluded.get(fact.id)
        yield LedgerEntry(
            kind="evidence",
            name=fact.id,
            admitted=reason is None,
            reason=reason or _worth(fact, started_at),
        )


def _worth(fact: Evidence, started_at: datetime | None) -> str:
    text = f"{fact.trust} {fact.classification} of snapshot {fact.snapshot}"
    if fact.expires_at is not None and started_at is None:
        return f"{text}; its expiry was not judged, no time is given"
    return text

"""Token budgets: what fits is admitted whole, what does not is left out whole, and both are reported.

Things are tried one by one in the order that they are given in. One that does not fit is passed over, so that a large
one does not shut out the smaller ones behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tercet.contracts.buckets import MOST_NAMES, Bucket, TruncationEntry
from tercet.contracts.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Packed:
    """What became of the things that asked for room in a bucket."""

    bucket: Bucket
    limit: int | None = None
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """The tokens of each thing, in the order in which their turn came."""
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why each thing that did not fit was left out."""

    @property
    def used(self) -> int:
        """The tokens of all that was admitted."""
        return sum(size for name, size in self.sizes.items() if name not in self.left_out)

    def report(self) -> tuple[TruncationEntry, ...]:
        """An entry if something was left out, and none otherwise."""
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
    """Admits things in their order as long as they fit.

    Each list in `first` names things of which one is needed: the earliest that fits gets its room before all others.
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
    """Raises `UsageError` if something that is shown whole or not at all is larger than its bucket."""
    if limit is not None and needed > limit:
        raise overflow(
            bucket,
            f"{what} needs {needed:,} tokens, and the pack gives {bucket} {limit:,}",
            "shorten it" if bucket == "request" else "shorten its texts",
        )


def overflow(bucket: Bucket, message: str, instead: str) -> UsageError:
    """The error for what must be in the context and does not fit."""
    return UsageError(
        message,
        code="context_overflow",
        remedy=f"{instead}, or raise {bucket} in [context.tokens] of pack.toml",
    )

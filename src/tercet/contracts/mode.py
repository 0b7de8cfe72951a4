"""Approval modes, reversibility and trust."""

from __future__ import annotations

from enum import StrEnum


class ApprovalMode(StrEnum):
    """What a tool may do, from harmless to destructive, ordered by `MODE_RANK`."""

    READ_ONLY = "read_only"
    LOCAL_WRITE = "local_write"
    NETWORK = "network"
    DELEGATED = "delegated"
    DESTRUCTIVE = "destructive"

    @property
    def rank(self) -> int:
        """The position of this mode in the order."""
        return MODE_RANK[self]


MODE_RANK: dict[str, int] = {mode: rank for rank, mode in enumerate(ApprovalMode)}


def stronger(first: ApprovalMode, second: ApprovalMode) -> ApprovalMode:
    """Return the mode that may do more."""
    return first if MODE_RANK[first] >= MODE_RANK[second] else second


class Reversibility(StrEnum):
    """Whether the effect of a call can be undone."""

    PURE = "pure"
    REVERSIBLE = "reversible"
    COMPENSABLE = "compensable"
    IRREVERSIBLE = "irreversible"


REVERSIBILITY_RANK: dict[str, int] = {kind: rank for rank, kind in enumerate(Reversibility)}


class Trust(StrEnum):
    """Whether a value may be used to decide, or only as text to show and pass on."""

    UNTRUSTED = "untrusted"
    TRUSTED = "trusted"

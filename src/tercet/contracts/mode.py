"""How much a call may do, and whether it can be undone."""

from __future__ import annotations

from enum import StrEnum


class ApprovalMode(StrEnum):
    """What a tool may touch, from harmless to destructive. The order is `MODE_RANK`."""

    READ_ONLY = "read_only"
    LOCAL_WRITE = "local_write"
    NETWORK = "network"
    DELEGATED = "delegated"
    DESTRUCTIVE = "destructive"

    @property
    def rank(self) -> int:
        """Where this mode stands in the order."""
        return MODE_RANK[self]


MODE_RANK: dict[str, int] = {mode: rank for rank, mode in enumerate(ApprovalMode)}


def stronger(first: ApprovalMode, second: ApprovalMode) -> ApprovalMode:
    """The one of two modes that may do more."""
    return first if MODE_RANK[first] >= MODE_RANK[second] else second


class Reversibility(StrEnum):
    """Whether the effect of a call can be taken back."""

    PURE = "pure"
    REVERSIBLE = "reversible"
    COMPENSABLE = "compensable"
    IRREVERSIBLE = "irreversible"


REVERSIBILITY_RANK: dict[str, int] = {kind: rank for rank, kind in enumerate(Reversibility)}


class Trust(StrEnum):
    """Whether a value may decide something, or may only be shown and passed on as text."""

    UNTRUSTED = "untrusted"
    TRUSTED = "trusted"

"""Token limits for the parts of a context that a planner sees, and the record of what did not fit.

Tokens are estimated, not counted: a tokenizer belongs to one model, and the same pack and request must give the same
context for every model. A token is estimated as four bytes of canonical JSON, rounded up for each item.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field

from tercet.contracts.shape import Authored, Count
from tercet.contracts.values.canonical import canonical

Bucket = Literal["instructions", "tools", "evidence", "request"]
BUCKETS: tuple[Bucket, ...] = get_args(Bucket)

BYTES_PER_TOKEN = 4
MOST_NAMES = 20
"""How many omitted items an entry names; the ledger lists all of them."""


def estimate_tokens(value: Any) -> int:
    """Return the estimated tokens of a JSON value: a quarter of the bytes of its canonical JSON, rounded up."""
    return -(-len(canonical(value)) // BYTES_PER_TOKEN)


class TokenLimits(Authored):
    """How many tokens each part of a context may take; None means as many as it needs."""

    instructions: int | None = Field(default=None, ge=1)
    """The decision, its gates and its policies; a request for which they do not fit is refused."""
    tools: int | None = Field(default=None, ge=1)
    evidence: int | None = Field(default=None, ge=1)
    request: int | None = Field(default=None, ge=1)
    """The intent and its input; a request for which they do not fit is refused."""

    def of(self, bucket: Bucket) -> int | None:
        """Return the limit of one part."""
        return getattr(self, bucket)


class ContextRules(Authored):
    """A pack's settings for the contexts of its runs."""

    tokens: TokenLimits = TokenLimits()


class TruncationEntry(Authored):
    """A part of the context that did not fit: how many tokens it needed, and what was omitted."""

    bucket: Bucket
    limit: Count
    needed: Count
    """The tokens that the whole part needs."""
    used: Count
    admitted: Count
    """How many items were admitted."""
    left_out: tuple[str, ...]
    """The names of the first omitted items, in the order in which they were considered."""
    left_out_count: Count


class BucketUse(Authored):
    """How full one part of a context is."""

    bucket: Bucket
    used: Count
    limit: Count | None
    """None where the pack sets no limit."""

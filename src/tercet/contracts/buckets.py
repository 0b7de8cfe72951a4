"""How much of a context a planner is shown: a number of tokens for each of its parts, and what did not fit.

Tokens are estimated, not counted: a tokenizer belongs to one model, and the same pack and request must give the same
context whichever model is asked. A token is taken to be four bytes of canonical JSON, and each thing is rounded up.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field

from tercet.contracts.canonical import canonical
from tercet.contracts.shape import Authored, Count

Bucket = Literal["instructions", "tools", "evidence", "request"]
BUCKETS: tuple[Bucket, ...] = get_args(Bucket)

BYTES_PER_TOKEN = 4
MOST_NAMES = 20
"""How many of the things that were left out an entry names; the ledger has them all."""


def estimate_tokens(value: Any) -> int:
    """The tokens that a JSON value is taken to need: a quarter of the bytes of its canonical JSON, rounded up."""
    return -(-len(canonical(value)) // BYTES_PER_TOKEN)


class TokenLimits(Authored):
    """How many tokens each part of a context may take; None means as many as it needs."""

    instructions: int | None = Field(default=None, ge=1)
    """The decision, its gates and its policies: they are shown whole, or the request is refused."""
    tools: int | None = Field(default=None, ge=1)
    evidence: int | None = Field(default=None, ge=1)
    request: int | None = Field(default=None, ge=1)
    """The intent and its input: shown whole, or refused."""

    def of(self, bucket: Bucket) -> int | None:
        """The limit of one part."""
        return getattr(self, bucket)


class ContextRules(Authored):
    """What a pack says about the contexts of its runs."""

    tokens: TokenLimits = TokenLimits()


class TruncationEntry(Authored):
    """A part of the context that did not fit whole: what it would have needed, and what was left out."""

    bucket: Bucket
    limit: Count
    needed: Count
    """The tokens that all of it would have taken."""
    used: Count
    admitted: Count
    """How many things were admitted."""
    left_out: tuple[str, ...]
    """The names of the first things that were left out, in the order in which their turn came."""
    left_out_count: Count


class BucketUse(Authored):
    """How full one part of a context is."""

    bucket: Bucket
    used: Count
    limit: Count | None
    """None where the pack sets no limit."""

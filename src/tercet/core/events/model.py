"""Calls of language models: what was kept for one before it, and what came of it."""

from __future__ import annotations

from tercet.core.events.fact import Fact


class ModelAsked(Fact, frozen=True, kw_only=True, tag="model_asked"):
    """A language model is about to be asked; the question lies beside the events under its hash."""

    call: int
    """The how-manieth call of a model in this session it is."""
    purpose: str
    model: str
    prompt: str
    """The hash of the question, which is the digest of its bytes."""
    attempt: int = 1
    tokens: int = 0
    """The tokens that are kept for it."""
    cost: int = 0
    """The micro-cents that are kept for it."""
    deadline: int = 0


class ModelAnswered(Fact, frozen=True, kw_only=True, tag="model_answered"):
    """A model answered, or did not: then `code` and `error` say why. What it used up is booked in any case."""

    call: int
    answer: str = ""
    blob: str = ""
    """The digest of the answer where it is too long to stand here."""
    model: str = ""
    """The model that answered, by its full name."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    cut: bool = False
    """Whether the answer ended because it became too long."""
    error: str = ""
    code: str = ""
    latency: int = 0

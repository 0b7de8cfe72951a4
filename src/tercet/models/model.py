"""The interface of a language model."""

from __future__ import annotations

from typing import Protocol

from tercet.contracts.question import Question, Reply


class Model(Protocol):
    """A language model.

    Promised: one call, one answer, no retry and no memory; `Reply.tokens_*` and `cost_microcents` are what the provider
    reported, or estimates if it reported nothing. Not promised: that the answer fits the question's schema. Raises only
    `ModelFault` and cancellation.
    """

    name: str
    """Its full name, as journals record it: `openai:gpt-5`, `local:smollm2-135m`."""

    def price(self, question: Question) -> int:
        """Return the maximum price of a call, in micro-cents, which is reserved for it."""
        ...

    async def ask(self, question: Question) -> Reply:
        """Ask, and wait for the answer."""
        ...

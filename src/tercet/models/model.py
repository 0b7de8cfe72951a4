"""What a language model is to the rest of the house."""

from __future__ import annotations

from typing import Protocol

from tercet.contracts.question import Question, Reply


class Model(Protocol):
    """A language model that can be asked.

    Promised: one call, one answer, no retry and no memory; `Reply.tokens_*` and `cost_microcents` are what the provider
    reported, and estimates where it reported nothing. Not promised: that the answer fits the question's schema.
    Raises `ModelFault`, and nothing else but cancellation.
    """

    name: str
    """Its full name, as journals record it: `openai:gpt-5`, `local:smollm2-135m`."""

    def price(self, question: Question) -> int:
        """The most that asking can cost, in micro-cents: what is reserved for it."""
        ...

    async def ask(self, question: Question) -> Reply:
        """Ask, and wait for the answer."""
        ...

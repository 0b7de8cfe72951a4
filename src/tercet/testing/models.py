"""A model that answers from a script: a real implementation of `Model`, for tests of code that asks models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from tercet.contracts.prices import TokenPrices
from tercet.contracts.question import ModelFault, Question, Reply
from tercet.contracts.values.canonical import canonical

Answer: TypeAlias = str | Mapping[str, Any] | ModelFault
"""A text, an object that is written as JSON, or a fault that is raised."""
Line: TypeAlias = Answer | Callable[[Question], Answer]
"""An answer, or a function that makes one from the question."""

_BYTES_PER_TOKEN = 4


class ScriptedModel:
    """Answers each question with the next line of its script; after the last one it is not available.

    `questions` keeps the questions. It counts four bytes as a token, cuts an answer that is longer than the question
    allows, and costs what `prices` say. `logprob` is reported for every answer.
    """

    def __init__(
        self,
        name: str = "scripted:model",
        *,
        answers: Iterable[Line] = (),
        prices: TokenPrices | None = None,
        logprob: float | None = None,
    ) -> None:
        self.name = name
        self._logprob = logprob
        self.questions: list[Question] = []
        self._answers = iter(answers)
        self._prices = prices or TokenPrices.model_validate({"input": 0, "output": 0})

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.questions)

    def price(self, question: Question) -> int:
        """Return the maximum price of a call, in micro-cents."""
        return self._prices.cost(question.reserved_tokens - question.max_tokens, question.max_tokens)

    async def ask(self, question: Question) -> Reply:
        """Return the next line of the script."""
        self.questions.append(question)
        line = next(self._answers, None)
        if line is None:
            raise ModelFault(f"{self.name} has no answer left in its script")
        answer = line(question) if callable(line) else line
        if isinstance(answer, ModelFault):
            raise answer
        return self._reply(question, answer if isinstance(answer, str) else canonical(dict(answer)).decode())

    def _reply(self, question: Question, answer: str) -> Reply:
        text = answer.encode()[: question.max_tokens * _BYTES_PER_TOKEN].decode(errors="ignore")
        if not text.strip():
            raise ModelFault(f"{self.name} answered with nothing", code="model_empty")
        tokens_in = (question.reserved_tokens - question.max_tokens) // 2
        tokens_out = -(-len(text.encode()) // _BYTES_PER_TOKEN)
        return Reply(
            text=text,
            model=self.name,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_microcents=self._prices.cost(tokens_in, tokens_out),
            is_cut=len(text) < len(answer),
            logprob=self._logprob,
        )

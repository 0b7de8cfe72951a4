"""What asking costs: by the pack's prices, else by the list that comes with pydantic-ai, else nothing is known.

The list is part of the installed package; nothing is downloaded. A price that is not known counts as 0, so a budget in
money holds only for models whose prices are known; tokens are counted for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from genai_prices import Usage, calc_price
from pydantic_ai.messages import ModelResponse

from tercet.contracts.canonical import canonical
from tercet.contracts.prices import TokenPrices, to_microcents
from tercet.contracts.question import Question

_USUAL_BYTES = 4
"""A token of usual text; for where a provider does not say how many tokens it counted."""
_FEWEST_BYTES = 2
"""A token of dense text; for what has to be kept for a call, as `Question.reserved_tokens` reckons."""


@dataclass(frozen=True, kw_only=True)
class Tariff:
    """The prices of one model."""

    provider: str | None
    """The provider whose list applies; None where there is none, as for a server of one's own."""
    model: str
    prices: TokenPrices | None

    def bound(self, question: Question) -> int:
        """The most that asking can cost, in micro-cents: all that is sent, and the longest answer."""
        return self._cost(_size(question) // _FEWEST_BYTES + 1, question.max_tokens)

    def settle(self, response: ModelResponse, tokens_in: int, tokens_out: int) -> int:
        """What an answer cost; a provider's own count also tells cached tokens, which are cheaper, apart."""
        is_listed = self.prices is None and self.provider is not None
        if is_listed and response.model_name and not response.usage.unmeasured_requests:
            try:
                return max(0, to_microcents(response.cost().total_price))
            except (LookupError, ValueError, ArithmeticError):
                return 0
        return self._cost(tokens_in, tokens_out)

    def _cost(self, tokens_in: int, tokens_out: int) -> int:
        if self.prices is not None:
            return self.prices.cost(tokens_in, tokens_out)
        return to_microcents(self._listed(tokens_in, tokens_out))

    def _listed(self, tokens_in: int, tokens_out: int) -> Decimal:
        if self.provider is None:
            return Decimal(0)  # the list guesses providers by parts of their names: it would find one
        usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out)
        try:
            return calc_price(usage, self.model, provider_id=self.provider).total_price
        except (LookupError, ValueError):
            return Decimal(0)


def count_tokens(response: ModelResponse, question: Question, text: str) -> tuple[int, int]:
    """The tokens of a question and its answer: as the provider counted them, else an estimate."""
    usage = response.usage
    sent, answered = _size(question), len(text.encode())
    return _counted(usage.input_tokens, sent), _counted(usage.output_tokens, answered)


def _counted(reported: int, size: int) -> int:
    return reported if reported > 0 else size // _USUAL_BYTES + 1


def _size(question: Question) -> int:
    """The bytes that are sent. A schema counts: providers put it into the prompt in one way or another."""
    texts = (question.system, *(message.text for message in question.messages))
    schema = b"" if question.answer_schema is None else canonical(question.answer_schema)
    return sum(len(text.encode()) for text in texts) + len(schema)

"""Token prices of language models."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import Annotated

from pydantic import Field

from tercet.contracts.shape import Authored

_MICROCENTS_PER_DOLLAR = 100_000_000

Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000)]


def to_microcents(dollars: Decimal) -> int:
    """Return an amount in micro-cents, rounded up, so that a reservation is never less than the cost."""
    return int((dollars * _MICROCENTS_PER_DOLLAR).to_integral_value(ROUND_CEILING))


class TokenPrices(Authored):
    """Prices in dollars per million tokens, as providers publish them."""

    input: Dollars
    output: Dollars

    def cost(self, tokens_in: int, tokens_out: int) -> int:
        """Return the cost of a call in micro-cents."""
        return to_microcents((tokens_in * self.input + tokens_out * self.output) / 1_000_000)

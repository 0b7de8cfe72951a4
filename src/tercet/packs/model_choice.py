"""Which language models plan for a pack: `[models]` in `pack.toml`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tercet.contracts.prices import TokenPrices
from tercet.contracts.shape import Authored

ModelName = Annotated[str, Field(pattern=r"^(local|[A-Za-z0-9_.\-]+:\S+)$", max_length=300)]
"""`local`, or a provider and one of its models: `openai:gpt-5`."""


class ModelChoice(Authored):
    """The models that are asked for plans, how much they may read and write, and what they cost."""

    planner: tuple[ModelName, ...] = ()
    """The model that plans, and those that are asked when it does not answer."""
    critic: tuple[ModelName, ...] = ()
    """The models that judge outputs, where a decision asks for that; best others than those that wrote them."""
    repair: tuple[ModelName, ...] = ()
    """The models that mend outputs: the first one, and those that are asked when it does not answer or does no good."""
    max_tokens: int = Field(default=2_048, ge=1)
    """How long an answer may become."""
    max_prompt_tokens: int = Field(default=16_000, ge=256)
    """How much a model is told at most."""
    prices: dict[str, TokenPrices] = {}
    """Prices by model, for those that the installed list does not know, or knows wrongly."""

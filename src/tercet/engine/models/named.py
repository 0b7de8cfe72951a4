"""Models by their names: opened when they are first needed, and closed with the runtime that opened them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from tercet.contracts.errors import UsageError
from tercet.contracts.prices import TokenPrices
from tercet.contracts.question import ModelFault, Question, Reply
from tercet.engine.models.planner import ModelPlanner
from tercet.models.model import Model
from tercet.packs.pack import Pack

MODEL = "model"
LOCAL = "local"
_LOCAL_READS = 5_000
_LOCAL_WRITES = 1_024
"""What the small model can take: it reads and writes some eight thousand tokens in all."""


class OpenModel(Protocol):
    """Opens a model by its name; raises `UsageError` where there is none, or where a library or a key is missing."""

    def __call__(self, name: str, *, prices: TokenPrices | None = None) -> Model:
        """The model by that name."""
        ...


class NamedModel:
    """A model by its name. A session that need not plan any more goes on without the key that asking would take."""

    def __init__(self, name: str, open_model: OpenModel, prices: TokenPrices | None) -> None:
        self.name = name
        self.given = name
        """The name that it can be opened by again; its full name is known once it was opened."""
        self._open = open_model
        self._prices = prices
        self._opened: Model | None = None

    def open(self) -> Model:
        """The model itself; raises `UsageError` if it cannot be opened."""
        if self._opened is None:
            self._opened = self._open(self.given, prices=self._prices)
            self.name = self._opened.name
        return self._opened

    def price(self, question: Question) -> int:
        """The most that asking can cost."""
        return self._reached().price(question)

    async def ask(self, question: Question) -> Reply:
        """Ask, and wait for the answer."""
        return await self._reached().ask(question)

    def _reached(self) -> Model:
        try:
            return self.open()
        except UsageError as error:
            raise ModelFault(error.message, code="model_refused", remedy=error.remedy) from error

    async def aclose(self) -> None:
        """Give up what the model holds, if it holds anything."""
        opened: Any = self._opened
        if opened is not None and hasattr(opened, "aclose"):
            await opened.aclose()


class NamedModels:
    """The models of one runtime."""

    def __init__(self, open_model: OpenModel) -> None:
        self._open = open_model
        self._models: dict[tuple[str, str], NamedModel] = {}

    def planner(self, pack: Pack, name: str, models: Sequence[str] = ()) -> ModelPlanner:
        """The planner that asks models by these names, else those of the pack; raises `UsageError` if there are none."""
        names = tuple(models) or ((LOCAL,) if name == LOCAL else pack.models.planner)
        if not names:
            raise UsageError(
                f"{pack.ref} does not say which language model plans for it",
                code="no_model",
                remedy='name one, as in --model openai:gpt-5, or in pack.toml: [models] planner = ["openai:gpt-5"]',
            )
        is_small = any(each.partition(":")[0] == LOCAL for each in names)
        reads, writes = pack.models.max_prompt_tokens, pack.models.max_tokens
        return ModelPlanner(
            [self._named(pack, each) for each in names],
            name=name,
            max_prompt_tokens=min(reads, _LOCAL_READS) if is_small else reads,
            max_tokens=min(writes, _LOCAL_WRITES) if is_small else writes,
        )

    def named(self, pack: Pack, names: Sequence[str]) -> tuple[NamedModel, ...]:
        """Models by their names, at the prices of a pack."""
        return tuple(self._named(pack, name) for name in names)

    def _named(self, pack: Pack, name: str) -> NamedModel:
        key = (pack.hash, name)
        if key not in self._models:
            self._models[key] = NamedModel(name, self._open, pack.models.prices.get(name))
        return self._models[key]

    async def aclose(self) -> None:
        """Close those that were opened."""
        for model in self._models.values():
            await model.aclose()


def open_all(models: Iterable[Model]) -> None:
    """Open the models that are there by their names only; raises `UsageError` if one cannot be opened."""
    for model in models:
        if isinstance(model, NamedModel):
            model.open()


def names_of(models: Iterable[Model]) -> tuple[str, ...]:
    """The names by which models can be opened again."""
    return tuple(model.given if isinstance(model, NamedModel) else model.name for model in models)

"""A model of any provider, by its name."""

from __future__ import annotations

import asyncio

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model as Backend

from tercet.contracts.prices import TokenPrices
from tercet.contracts.question import Question, Reply
from tercet.models.hosted import faults
from tercet.models.hosted.backend import Source, check_address, read_address
from tercet.models.hosted.conversation import read_text, write_messages, write_parameters, write_settings
from tercet.models.hosted.pricing import Tariff, count_tokens

MAX_ANSWER_BYTES = 4 * 1024 * 1024


class ProviderModel:
    """Asks one model of a provider: one request, no agent loop, no retry, no memory.

    `name` is `provider:model`, or `openai-compatible:MODEL@http://HOST/v1` for a server of one's own. With `base_url`
    that server is asked in OpenAI's protocol, whatever the word before the colon is.
    `backend` is a model of pydantic-ai's, such as its `FunctionModel`, used instead of one found by the name.
    Raises `UsageError` when it is made and nothing by that name can be asked.
    """

    def __init__(
        self,
        name: str,
        *,
        prices: TokenPrices | None = None,
        timeout_s: float = 120.0,
        base_url: str | None = None,
        api_key: str | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        is_schema_prompted: bool = False,
        backend: Backend | None = None,
    ) -> None:
        short, address = (name, base_url) if base_url else read_address(name)
        self.name = name
        self._timeout_s = timeout_s
        self._is_schema_prompted = is_schema_prompted
        self._max_bytes = max_answer_bytes
        self._source = Source(
            name=short,
            base_url=check_address(address) if address else None,
            api_key=api_key,
            timeout_s=timeout_s,
            max_bytes=max_answer_bytes,
            fixed=backend,
        )
        self._tariff = Tariff(provider=self._source.check(), model=self._source.model, prices=prices)

    def price(self, question: Question) -> int:
        """The most that asking can cost, in micro-cents; 0 where no price is known."""
        return self._tariff.bound(question)

    async def ask(self, question: Question) -> Reply:
        """Ask once, and wait for the answer at most as long as `timeout_s` says."""
        try:
            response = await self._request(question)
            return self._read(question, response)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is a fault of this model's
            # Not chained: what the libraries wrote may hold headers and keys, and a traceback would print them.
            raise faults.read_fault(self.name, error) from None

    async def _request(self, question: Question) -> ModelResponse:
        async with asyncio.timeout(self._timeout_s), self._source.opened() as backend:
            return await model_request(
                backend,
                write_messages(question),
                model_settings=write_settings(question, backend),
                model_request_parameters=write_parameters(
                    question, backend, is_prompted=self._is_schema_prompted
                ),
                instrument=False,
            )

    def _read(self, question: Question, response: ModelResponse) -> Reply:
        text = read_text(response)
        is_cut = response.finish_reason == "length"
        if response.finish_reason == "content_filter":
            raise faults.filtered(self.name)
        if not text.strip():
            raise faults.empty(self.name, is_cut=is_cut)
        if len(text.encode()) > self._max_bytes:
            raise faults.overlong(self.name, self._max_bytes)
        tokens_in, tokens_out = count_tokens(response, question, text)
        return Reply(
            text=text,
            model=self.name,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_microcents=self._tariff.settle(response, tokens_in, tokens_out),
            is_cut=is_cut,
        )

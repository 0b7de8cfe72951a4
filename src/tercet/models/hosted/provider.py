"""A model of any provider, by its name, and its prices.

The price of a call is computed from the pack's prices, else from the list that comes with pydantic-ai, else it is
unknown. The list is part of the installed package; nothing is downloaded. An unknown price counts as 0, so a budget in
money applies only to models with known prices; tokens are counted for all of them.
"""

from __future__ import annotations

import asyncio
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby

from genai_prices import Usage, calc_price
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import Model as Backend
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from tercet.contracts.prices import TokenPrices, to_microcents
from tercet.contracts.question import MOST_TOKENS, Question, Reply
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.plain import storable
from tercet.models.hosted import faults
from tercet.models.hosted.backend import Source, check_address, read_address

_USUAL_BYTES = 4
"""Bytes per token of usual text, if a provider does not report its count."""
_FEWEST_BYTES = 2
"""Bytes per token of dense text, for reservations, as in `Question.reserved_tokens`."""


@dataclass(frozen=True, kw_only=True)
class Tariff:
    """The prices of one model."""

    provider: str | None
    """The provider in the price list; None if there is none, as for a self-hosted server."""
    model: str
    prices: TokenPrices | None

    def bound(self, question: Question) -> int:
        """Return the maximum price of a call, in micro-cents: everything that is sent, and the longest answer."""
        return self._cost(_size(question) // _FEWEST_BYTES + 1, question.max_tokens)

    def settle(self, response: ModelResponse, tokens_in: int, tokens_out: int) -> int:
        """Return the price of an answer; a provider's own count also separates cached tokens, which are cheaper."""
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
            return Decimal(0)  # the list matches parts of provider names, and would find a wrong one
        usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out)
        try:
            return calc_price(usage, self.model, provider_id=self.provider).total_price
        except (LookupError, ValueError):
            return Decimal(0)


def count_tokens(response: ModelResponse, question: Question, text: str) -> tuple[int, int]:
    """Return the tokens of a question and its answer: the provider's count, else an estimate."""
    usage = response.usage
    sent, answered = _size(question), len(text.encode())
    return _counted(usage.input_tokens, sent), _counted(usage.output_tokens, answered)


def _counted(reported: int, size: int) -> int:
    return reported if 0 < reported <= MOST_TOKENS else size // _USUAL_BYTES + 1


def _size(question: Question) -> int:
    """Return the bytes that are sent. A schema counts, since providers put it into the prompt."""
    texts = (question.system, *(message.text for message in question.messages))
    schema = b"" if question.answer_schema is None else canonical(question.answer_schema)
    return sum(len(text.encode()) for text in texts) + len(schema)


_ANSWER = "answer"


def write_messages(question: Question) -> list[ModelMessage]:
    """Return the turns of the conversation, with the system prompt as instructions."""
    system = question.system or None
    turns: list[ModelMessage] = []
    for role, group in groupby(question.messages, key=lambda message: message.role):
        texts = [message.text for message in group]
        if role == "user":
            turns.append(ModelRequest(parts=[UserPromptPart(text) for text in texts], instructions=system))
        else:
            turns.append(ModelResponse(parts=[TextPart(text) for text in texts]))
    return turns or [ModelRequest(parts=[], instructions=system)]


def write_settings(question: Question, backend: Backend) -> ModelSettings:
    """Return the settings of the request: the maximum length, and no retries."""
    settings = ModelSettings(max_tokens=question.max_tokens)
    if "max_retries" not in backend.unsupported_settings:
        settings["max_retries"] = 0
    if question.seed is not None:
        settings["seed"] = question.seed
    if _takes_temperature(backend):
        settings["temperature"] = question.temperature
        # Models that reject a temperature reject this as well.
        if isinstance(backend, OpenAIChatModel):
            settings = OpenAIChatModelSettings(**settings, openai_logprobs=True)
    return settings


def _takes_temperature(backend: Backend) -> bool:
    # Reasoning models reject it; pydantic-ai would omit it with a warning on every call.
    profile = dict(backend.profile)
    refusals = ("openai_supports_reasoning", "anthropic_disallows_sampling_settings")
    return not any(profile.get(refusal) for refusal in refusals)


def write_parameters(question: Question, backend: Backend, *, is_prompted: bool) -> ModelRequestParameters:
    """Return the answer's schema: as a constraint if the provider supports one, else as text at the end of the prompt."""
    if question.answer_schema is None:
        return ModelRequestParameters()
    can_constrain = backend.profile.get("supports_json_schema_output", False)
    return ModelRequestParameters(
        output_mode="native" if can_constrain and not is_prompted else "prompted",
        output_object=OutputObjectDefinition(name=_ANSWER, json_schema=deepcopy(question.answer_schema)),
    )


def read_text(response: ModelResponse) -> str:
    """Return the text of the answer, without its reasoning."""
    return storable("".join(part.content for part in response.parts if isinstance(part, TextPart)))


def mean_logprob(response: ModelResponse) -> float | None:
    """Return the mean log-probability of an answer's tokens; None if the provider does not report it."""
    said = (response.provider_details or {}).get("logprobs") or ()
    values = [float(token["logprob"]) for token in said]
    return round(sum(values) / len(values), 6) if values else None


MAX_ANSWER_BYTES = 4 * 1024 * 1024


class ProviderModel:
    """Asks one model of a provider: one request, no agent loop, no retry, no memory.

    `name` is `provider:model`, or `openai-compatible:MODEL@http://HOST/v1` for a self-hosted server. With `base_url`
    that server is asked in OpenAI's protocol, whatever the provider in the name is. `backend` is a model of
    pydantic-ai, such as its `FunctionModel`, used instead of one found by the name. Raises `UsageError` on creation if
    there is no such model.
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
        """Return the maximum price of a call, in micro-cents; 0 if no price is known."""
        return self._tariff.bound(question)

    async def ask(self, question: Question) -> Reply:
        """Ask once, and wait for the answer at most `timeout_s`."""
        try:
            response = await self._request(question)
            return self._read(question, response)
        except Exception as error:  # noqa: BLE001 - every exception becomes a fault of this model
            # Not chained: messages of the libraries may contain headers and keys, and a traceback would print them.
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
            logprob=mean_logprob(response),
        )

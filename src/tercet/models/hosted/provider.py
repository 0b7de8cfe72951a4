"""A model of any provider, by its name.

What asking costs: by the pack's prices, else by the list that comes with pydantic-ai, else nothing is known.

The list is part of the installed package; nothing is downloaded. A price that is not known counts as 0, so a budget in
money holds only for models whose prices are known; tokens are counted for all of them.
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

from tercet.contracts.canonical import canonical
from tercet.contracts.plain import storable
from tercet.contracts.prices import TokenPrices, to_microcents
from tercet.contracts.question import Question, Reply
from tercet.models.hosted import faults
from tercet.models.hosted.backend import Source, check_address, read_address

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


_ANSWER = "answer"


def write_messages(question: Question) -> list[ModelMessage]:
    """The turns of the conversation, with what the system says as standing instructions."""
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
    """How the provider is asked: no longer than the question allows, and once."""
    settings = ModelSettings(max_tokens=question.max_tokens)
    if "max_retries" not in backend.unsupported_settings:
        settings["max_retries"] = 0
    if question.seed is not None:
        settings["seed"] = question.seed
    if _takes_temperature(backend):
        settings["temperature"] = question.temperature
        # The models that refuse a temperature refuse this as well.
        if isinstance(backend, OpenAIChatModel):
            settings = OpenAIChatModelSettings(**settings, openai_logprobs=True)
    return settings


def _takes_temperature(backend: Backend) -> bool:
    # Models that reason refuse it; pydantic-ai would leave it out with a warning on every call.
    profile = dict(backend.profile)
    refusals = ("openai_supports_reasoning", "anthropic_disallows_sampling_settings")
    return not any(profile.get(refusal) for refusal in refusals)


def write_parameters(question: Question, backend: Backend, *, is_prompted: bool) -> ModelRequestParameters:
    """The answer's schema: as a constraint where the provider takes one, else in words at the end of the prompt."""
    if question.answer_schema is None:
        return ModelRequestParameters()
    can_constrain = backend.profile.get("supports_json_schema_output", False)
    return ModelRequestParameters(
        output_mode="native" if can_constrain and not is_prompted else "prompted",
        output_object=OutputObjectDefinition(name=_ANSWER, json_schema=deepcopy(question.answer_schema)),
    )


def read_text(response: ModelResponse) -> str:
    """What the model said, without what it thought."""
    return storable("".join(part.content for part in response.parts if isinstance(part, TextPart)))


def mean_logprob(response: ModelResponse) -> float | None:
    """The mean log-probability of an answer's tokens; None where the provider does not say."""
    said = (response.provider_details or {}).get("logprobs") or ()
    values = [float(token["logprob"]) for token in said]
    return round(sum(values) / len(values), 6) if values else None


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
            logprob=mean_logprob(response),
        )

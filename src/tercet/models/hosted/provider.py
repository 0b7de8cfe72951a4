"""A model of any provider, by its name, and its prices.

    openai:gpt-5                                    a provider that pydantic-ai knows; the key is in the environment
    openai-compatible:qwen3@http://127.0.0.1/v1     any server that speaks OpenAI's protocol, by its address

A backend is created for each call and closed after it: it shares no connection between event loops, leaves nothing open
after a cancelled call, and reads the key each time. That costs some thirty milliseconds, while an answer takes seconds.

The price of a call is computed from the pack's prices, else from the list that comes with pydantic-ai, else it is
unknown. The list is part of the installed package; nothing is downloaded. An unknown price counts as 0, so a budget in
money applies only to models with known prices; tokens are counted for all of them.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

from genai_prices import Usage, calc_price
from httpx2 import AsyncClient
from openai import OpenAIError
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import Model as Backend
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings

from tercet.contracts.errors import UsageError
from tercet.contracts.prices import TokenPrices, to_microcents
from tercet.contracts.question import MOST_TOKENS, Question, Reply
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.plain import storable
from tercet.models.hosted import faults
from tercet.models.hosted.faults import open_client

COMPATIBLE = "openai-compatible"
KEY_VARIABLE = "OPENAI_COMPATIBLE_API_KEY"
_NAMES = (
    'say "openai:gpt-5", "anthropic:claude-sonnet-4-5", "google:gemini-2.5-pro" or another provider:model,'
    f' "{COMPATIBLE}:MODEL@http://HOST/v1" for a server of your own, or "local" for the model that runs offline'
)
_OPENAI = ("openai", "openai-chat", "openai-responses")
_EXTRA = re.compile(r"pydantic-ai-slim\[[a-z0-9-]+\]")
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
# Compatible servers accept plain JSON Schema; the dialect of OpenAI lacks half of it.
_PLAIN_SCHEMA = ModelProfile(supports_json_schema_output=True, json_schema_transformer=None)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Creates the backends of one model."""

    name: str
    base_url: str | None = None
    """The address of an OpenAI-compatible server; None for a provider by its name."""
    api_key: str | None = None
    timeout_s: float
    max_bytes: int
    fixed: Backend | None = None
    """A backend passed by the caller."""

    @property
    def provider(self) -> str:
        """The part of the name before the colon."""
        return self.name.partition(":")[0]

    @property
    def model(self) -> str:
        """The provider's own name of the model."""
        return self.name.partition(":")[2]

    def check(self) -> str | None:
        """Return the provider's name in price lists, or None; raise `UsageError` if there is no such model."""
        is_own = self.base_url is not None or self.fixed is not None
        return None if is_own else self.find().system

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Backend]:
        """Open a backend for one call."""
        if self.fixed is not None:
            yield self.fixed
        elif self.base_url is None and self.provider not in _OPENAI:
            # The other libraries have their own HTTP clients, which cannot limit the size of an answer.
            async with self.find() as backend:
                yield backend
        else:
            async with open_client(
                base_url=self.base_url, timeout_s=self.timeout_s, max_bytes=self.max_bytes
            ) as client:
                yield self.find(client)

    def find(self, client: AsyncClient | None = None) -> Backend:
        """Return a backend that uses this HTTP client; raise `UsageError` if there is none by that name."""
        if self.fixed is not None:
            return self.fixed
        if self.base_url is not None:
            return self._speak_openai(self.base_url, client)
        try:
            infer_provider_class(self.provider)
        except ValueError:
            raise _unknown(self.name) from None
        except ImportError as error:
            raise _not_installed(self.name, error) from None
        return self._infer(client)

    def _infer(self, client: AsyncClient | None) -> Backend:
        def provide(provider: str) -> Provider[Any]:
            return infer_provider(provider) if client is None else OpenAIProvider(http_client=client)

        try:
            return infer_model(self.name, provider_factory=provide)
        except ImportError as error:
            raise _not_installed(self.name, error) from None
        except (UserError, OpenAIError) as error:
            raise _not_configured(self.name, error) from None

    def _speak_openai(self, base_url: str, client: AsyncClient | None) -> Backend:
        # Never OpenAI's own key: an address in a pack must not be able to receive it.
        key = self.api_key or os.environ.get(KEY_VARIABLE)
        provider = OpenAICompatibleProvider(
            self.provider, base_url=base_url, api_key=key, http_client=client, profile=_PLAIN_SCHEMA
        )
        return OpenAIChatModel(self.model, provider=provider)


def read_address(name: str) -> tuple[str, str | None]:
    """Return a name without its address, and the address if it has one: `openai-compatible:qwen3@http://host/v1`."""
    if not name.startswith(f"{COMPATIBLE}:"):
        return name, None
    short, _, address = name.rpartition("@")
    if not short or short == f"{COMPATIBLE}:":
        raise UsageError(
            f"{name!r} names a model without saying where it is",
            code="unknown_model",
            remedy=f'say "{COMPATIBLE}:MODEL@http://HOST/v1"',
        )
    return short, address


def check_address(address: str) -> str:
    """Return a valid address unchanged; raise `UsageError` for any other."""
    try:
        parts = urlsplit(address)
        is_fit = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise _unfit_address("the model's address does not parse") from None
    if parts.username is not None or parts.password is not None:
        # Names are recorded, and so would be a secret in one; this message does not repeat it.
        raise _unfit_address("the model's address holds a user name or password")
    if not is_fit or parts.query or parts.fragment:
        raise _unfit_address(f"{address!r} is not a model address")
    return address


def _unfit_address(what: str) -> UsageError:
    remedy = f"say http://HOST:PORT/v1, and put a key into the environment as {KEY_VARIABLE}"
    return UsageError(what, code="unknown_model", remedy=remedy)


def _unknown(name: str) -> UsageError:
    return UsageError(f"unknown model provider in {name!r}", code="unknown_model", remedy=_NAMES)


def _not_installed(name: str, error: ImportError) -> UsageError:
    extra = _EXTRA.search(str(error))
    package = extra[0] if extra else error.name or "pydantic-ai-slim"
    return UsageError(
        f"{name!r} needs a library that is not installed",
        code="extra_missing",
        remedy=f"pip install '{package}'",
    )


def _not_configured(name: str, error: Exception) -> UsageError:
    variables = sorted(set(_VARIABLE.findall(str(error))))
    remedy = f"set {' or '.join(variables)} in the environment" if variables else "check its name and its key"
    return UsageError(f"{name!r} is not set up", code="model_not_configured", remedy=remedy)


# --- provider ---


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

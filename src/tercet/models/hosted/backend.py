"""Finds the pydantic-ai backend for a model's name.

    openai:gpt-5                                    a provider that pydantic-ai knows; the key is in the environment
    openai-compatible:qwen3@http://127.0.0.1/v1     any server that speaks OpenAI's protocol, by its address

A backend is created for each call and closed after it: it shares no connection between event loops, leaves nothing open
after a cancelled call, and reads the key each time. That costs some thirty milliseconds, while an answer takes seconds.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from httpx2 import AsyncClient
from openai import OpenAIError
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model as Backend
from pydantic_ai.models import infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from tercet.contracts.errors import UsageError
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
            message = f"unknown model provider in {self.name!r}"
            raise UsageError(message, code="unknown_model", remedy=_NAMES) from None
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

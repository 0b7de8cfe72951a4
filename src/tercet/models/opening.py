"""Opens a model by its name: `local`, `openai:gpt-5`, `openai-compatible:qwen3@http://127.0.0.1:8080/v1`."""

from __future__ import annotations

from tercet.contracts.errors import UsageError, extra_missing
from tercet.contracts.prices import TokenPrices
from tercet.models.model import Model

_LIBRARIES = ("pydantic_ai", "openai", "httpx2", "genai_prices")
_LOCAL = ("local", "local:smollm2-135m")
_REMEDY = 'say "local", or a provider and one of its models: "openai:gpt-5", "anthropic:claude-sonnet-4-5"'


def open_model(name: str, *, prices: TokenPrices | None = None) -> Model:
    """Return the model with this name; raise `UsageError` if there is none, or if a library or a key is missing.

    `prices` are for a model that is missing or wrong in the installed price list. Nothing is sent yet.
    """
    # The libraries are optional and take a second to import, so they are imported only when a model is opened.
    try:
        if name.partition(":")[0] == "local":
            return _open_local(name)
        if ":" not in name.strip(":"):
            raise UsageError(f"{name!r} is not a model name", code="unknown_model", remedy=_REMEDY)
        from tercet.models.hosted import ProviderModel  # noqa: PLC0415 - see above

        return ProviderModel(name, prices=prices)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        raise extra_missing(f"the model {name!r}", str(error.name), "models") from error


def _open_local(name: str) -> Model:
    if name not in _LOCAL:
        raise UsageError(f"unknown local model {name!r}", code="unknown_model", remedy='say "local"')
    from tercet.models.local import LocalModel  # noqa: PLC0415 - see above

    return LocalModel()

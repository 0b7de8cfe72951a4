"""Maps all errors of a provider to one of five faults, and limits the size of answers.

A fault is recorded and shown, so its text is written here: a provider's own message may repeat a key or a part of the
prompt. Only a code word of it is kept.

The HTTP client under a provider's library follows no redirect and reads a limited number of bytes: the library itself
reads an answer completely before it can be checked.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2
from pydantic_ai import exceptions

from tercet.contracts.errors import UsageError
from tercet.contracts.question import ModelFault, ModelFaultCode

_PACKED_SHARE = 32
"""The assumed compression: a compressed answer may be this many times smaller than the limit."""


class AnswerTooLong(Exception):  # noqa: N818 - named after what happened; internal
    """An answer that exceeds the size limit."""


class _Bounded(httpx2.AsyncByteStream):
    """A stream that raises when it becomes too long."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._left = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise AnswerTooLong
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def open_client(*, base_url: str | None, timeout_s: float, max_bytes: int) -> httpx2.AsyncClient:
    """Return a client for one call; closing it closes its connection."""

    async def ask_plainly(request: httpx2.Request) -> None:
        request.headers["accept-encoding"] = "identity"

    async def bound(response: httpx2.Response) -> None:
        is_packed = response.headers.get("content-encoding", "identity") != "identity"
        limit = max_bytes // _PACKED_SHARE if is_packed else max_bytes
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, limit)

    return httpx2.AsyncClient(
        follow_redirects=False,
        timeout=httpx2.Timeout(timeout_s),
        # A proxy of the environment cannot reach this machine's loopback.
        trust_env=not _is_loopback(base_url),
        event_hooks={"request": [ask_plainly], "response": [bound]},
    )


def _is_loopback(base_url: str | None) -> bool:
    host = urlsplit(base_url).hostname if base_url else None
    if host is None or host == "localhost":
        return host == "localhost"
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


_WORD = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+){0,8}")
_SHORTEN = "ask with less: fewer tools, less evidence or a shorter request"
_TOO_LONG_TYPES = ("exceed_context_size_error",)  # a code of llama.cpp that pydantic-ai does not know


def read_fault(name: str, error: Exception) -> ModelFault:
    """Return the fault for an error."""
    match error:
        case ModelFault():
            return error
        case UsageError():
            return ModelFault(
                f"{name} cannot be asked: {error.message}", code="model_refused", remedy=error.remedy
            )
        case TimeoutError() | exceptions.ModelTimeoutError() | exceptions.ModelRequestTimeout():
            return ModelFault(f"{name} did not answer in time", code="model_timeout")
        case exceptions.ModelAPIError():
            return _read_api_error(name, error)
        case exceptions.ContentFilterError():
            return filtered(name)
        case exceptions.UserError():
            return ModelFault(f"{name} cannot be asked this way", code="model_refused")
        case (
            exceptions.UnexpectedModelBehavior()
            | LookupError()
            | ValueError()
            | TypeError()
            | AttributeError()
        ):
            # The library could not process the answer.
            return garbled(name)
        case _:
            return ModelFault(f"{name} could not be asked ({type(error).__name__})")


def filtered(name: str) -> ModelFault:
    """Return the fault for a question or an answer that the provider's filter blocked."""
    return ModelFault(
        f"{name} refused: the provider's content filter blocked the answer", code="model_refused"
    )


def garbled(name: str) -> ModelFault:
    """Return the fault for a response that is not a completion."""
    return ModelFault(f"{name} answered with something that is not a completion")


def overlong(name: str, limit: int) -> ModelFault:
    """Return the fault for an answer that exceeds the size limit."""
    return ModelFault(f"{name} answered with more than {limit} bytes, which were not read to the end")


def empty(name: str, *, is_cut: bool) -> ModelFault:
    """Return the fault for an answer without text."""
    remedy = "allow a longer answer: all of it went into thinking" if is_cut else None
    return ModelFault(f"{name} answered with nothing", code="model_empty", remedy=remedy)


def _read_api_error(name: str, error: exceptions.ModelAPIError) -> ModelFault:
    if any(isinstance(cause, AnswerTooLong) for cause in _causes(error)):
        return ModelFault(f"{name} answered with more than is read")
    status = _status(error)
    said = _said(error, status)
    if 300 <= status < 400:
        remedy = "give the address that it leads to: redirects are not followed, since the key would go along"
        return ModelFault(f"{name} answered with a redirect{said}", code="model_refused", remedy=remedy)
    code, remedy = _classify(error, status)
    wait_ms = int(max(0.0, error.retry_after or 0.0) * 1000)
    return ModelFault(f"{name} {_VERBS[code]}{said}", code=code, remedy=remedy, wait_ms=wait_ms)


_VERBS: dict[ModelFaultCode, str] = {
    "model_unavailable": "is not available",
    "model_quota": "is over its quota",
    "model_timeout": "did not answer in time",
    "model_refused": "does not take this request",
    "model_empty": "answered with nothing",
}


def _classify(error: exceptions.ModelAPIError, status: int) -> tuple[ModelFaultCode, str | None]:
    match error:
        case exceptions.ModelRateLimitError():
            return "model_quota", _wait(error.retry_after)
        case exceptions.ModelQuotaExceededError():
            return "model_quota", "look at the account's quota and billing, or name a fail-over model"
        case exceptions.ModelContextWindowExceededError():
            return "model_refused", _SHORTEN
        case exceptions.ModelAuthenticationError():
            return "model_refused", "check the key in the environment, and what it may be used for"
        case exceptions.ModelNotFoundError():
            return "model_refused", "check the model's name"
        case exceptions.ModelRequestRejectedError():
            return "model_refused", _SHORTEN if error.provider_error_type in _TOO_LONG_TYPES else None
        case _ if status in (402, 429):
            return "model_quota", _wait(error.retry_after)
        case _ if status == 408:
            return "model_timeout", None
        case _ if 400 <= status < 500 and status not in (409, 425):
            return "model_refused", None
        case _:
            return "model_unavailable", _wait(error.retry_after)


def _wait(seconds: float | None) -> str | None:
    return None if seconds is None else f"wait {seconds:g} s, as the provider asks"


def _status(error: exceptions.ModelAPIError) -> int:
    """Return the HTTP status, or 0 if there was none."""
    if isinstance(error, exceptions.ModelHTTPError):
        return error.status_code
    found = (getattr(cause, "status_code", None) for cause in _causes(error))
    return next((status for status in found if isinstance(status, int)), 0)


def _said(error: exceptions.ModelAPIError, status: int) -> str:
    words = [str(status)] if status else list(_describe_connection(error))
    for word in (error.provider_error_code, error.provider_error_type):
        if word is not None and len(word) <= 60 and _WORD.fullmatch(word) and word not in words:
            words.append(word)
    return f" ({', '.join(words)})" if words else ""


def _describe_connection(error: BaseException) -> Iterator[str]:
    """Return our own description of a connection error, with the host and port of the request."""
    causes = list(_causes(error))
    problem = next((text for cause in causes for kind, text in _NO_CONNECTION if isinstance(cause, kind)), "")
    if not problem and any(type(cause).__name__ in _CONNECT_ERRORS for cause in causes):
        problem = "no connection"
    if not problem:
        return
    urls = (getattr(getattr(cause, "_request", None), "url", None) for cause in causes)
    url = next((url for url in urls if url is not None), None)
    yield problem if url is None else f"{problem}: {url.host}{f':{url.port}' if url.port else ''}"


_NO_CONNECTION: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "connection refused"),
    (ConnectionResetError, "connection reset"),
    (socket.gaierror, "unknown host"),
    (ssl.SSLError, "TLS failed"),
)
_CONNECT_ERRORS = frozenset({"ConnectError", "APIConnectionError"})
"""The exception names of HTTP libraries for a failed connection."""


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    for _ in range(10):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__

"""The declaration of an HTTP service: its address, its headers, and which operations are tools."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, field_validator

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import Authored
from tercet.tools.http.resolution import Endpoint, as_address, read_endpoint

HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
RESERVED = frozenset(
    {
        "host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "accept",
        "accept-encoding", "upgrade", "te", "trailer", "expect", "cookie", "proxy-authorization",
    }
)  # fmt: skip
"""Transport headers, which only this client sets."""


def _endpoint(text: str) -> str:
    try:
        return str(read_endpoint(text))
    except UsageError as error:
        raise ValueError(str(error)) from None


def _address(text: str) -> str:
    given = read_endpoint(_endpoint(text))
    address = as_address(given.host)
    if address is None:
        raise ValueError('only addresses are listed here, not names: write "127.0.0.1:8080" or "[::1]:8080"')
    return str(Endpoint(str(address), given.port))


def _header(name: str) -> str:
    if not HEADER.fullmatch(name) or name.lower() in RESERVED:
        raise ValueError("a pack may not set this header")
    return name


EndpointText = Annotated[str, AfterValidator(_endpoint)]
AddressText = Annotated[str, AfterValidator(_address)]
HeaderName = Annotated[str, AfterValidator(_header)]


class Auth(Authored):
    """A header whose value is in an environment variable."""

    header: HeaderName = "Authorization"
    env: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$")
    """The name of the variable; its value is read at each call, and never stored."""
    prefix: str = Field(default="", max_length=100, pattern=r"^[ -~]*$")


class Operation(Authored):
    """One operation that becomes a tool, besides the declarations about the tool itself."""

    operation: str = Field(min_length=1)
    """Its `operationId`, or its method and path: `GET /invoices/{id}`."""
    name: str = ""
    """The tool's name; by default `<service>.<operation>`."""
    rename: dict[str, str] = {}
    """New names for its parameters, by location: `query.id`, `path.id`, `header.X-Id`, `body.id`."""
    omit: tuple[str, ...] = ()
    """Optional parameters that no plan may set, by location."""
    not_done: tuple[int, ...] = ()
    """Statuses that mean not done."""
    unknown: tuple[int, ...] = ()
    """Statuses that mean unknown."""
    tool: dict[str, Any] = Field(default={}, exclude=True)
    """The declarations about the tool."""


class Service(Authored):
    """An HTTP service."""

    name: str = Field(pattern=r"^[A-Za-z0-9_\-]{1,80}$")
    description: str = Field(min_length=1)
    """The OpenAPI file, by its path in the pack."""
    base_url: str
    egress: tuple[EndpointText, ...]
    """The hosts and ports that calls may go to."""
    private: tuple[AddressText, ...] = ()
    """Private addresses and ports that may be called."""
    auth: tuple[Auth, ...] = ()
    headers: dict[HeaderName, str] = {}
    """Headers of every request; not for secrets."""
    idempotency_header: str = "Idempotency-Key"
    """The header that carries the idempotency key; empty for none."""
    fencing_header: str = ""
    """The header that carries the fencing token; empty for none."""
    max_answer_bytes: int = Field(default=2**20, ge=1, le=2**25)
    connect_timeout_ms: int = Field(default=5_000, ge=1)
    operations: Literal["all", "listed"] = "listed"

    @field_validator("auth", mode="before")
    @classmethod
    def _one_or_more(cls, given: Any) -> Any:
        return (given,) if isinstance(given, dict) else given

    @field_validator("idempotency_header", "fencing_header")
    @classmethod
    def _header_or_none(cls, name: str) -> str:
        return _header(name) if name else name

    @field_validator("headers")
    @classmethod
    def _printable(cls, headers: dict[str, str]) -> dict[str, str]:
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise ValueError("a header holds printable ASCII characters only")
        return headers

    @field_validator("base_url")
    @classmethod
    def _absolute(cls, text: str) -> str:
        try:
            url = urlsplit(text)
            fits = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        except ValueError:
            fits, url = False, SplitResult("", "", "", "", "")
        if (
            not fits
            or url.query
            or url.fragment
            or not text.isascii()
            or not text.isprintable()
            or " " in text
        ):
            raise ValueError("it is not a URL of a service, such as https://api.example.test/v1")
        if url.username is not None or url.password is not None:
            raise ValueError("it holds a user or a password: name a variable in auth instead")
        return text.rstrip("/")

    @cached_property
    def scheme(self) -> Literal["http", "https"]:
        """The URL scheme."""
        return "http" if urlsplit(self.base_url).scheme == "http" else "https"

    @cached_property
    def target(self) -> Endpoint:
        """The host and port."""
        url = urlsplit(self.base_url)
        port = url.port or (80 if self.scheme == "http" else 443)
        return Endpoint((url.hostname or "").lower(), port)

    @property
    def base_path(self) -> str:
        """The prefix of every path."""
        return urlsplit(self.base_url).path

    @cached_property
    def private_endpoints(self) -> frozenset[Endpoint]:
        """The private addresses that may be called."""
        return frozenset(map(read_endpoint, self.private))

    @property
    def filled_headers(self) -> frozenset[str]:
        """The headers that no plan can set, since they are filled here, in lower case."""
        own = {
            self.idempotency_header,
            self.fencing_header,
            *self.headers,
            *(auth.header for auth in self.auth),
        }
        return frozenset(name.lower() for name in own if name)

"""An MCP server as a pack declares it: how it is started or where it listens, and what of it is pinned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from tercet.contracts.errors import NotSent
from tercet.contracts.extras import extra_missing
from tercet.contracts.shape import Authored
from tercet.tools.mcp.definition import Definition
from tercet.tools.outside import Line

VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ServerSpec(Authored):
    """A server: a command that is started and spoken to over its standard input and output, or a URL."""

    name: str = Field(pattern=r"^[A-Za-z0-9_\-]+$", max_length=60)
    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    """A program and its fixed arguments, run in the pack's folder without a shell. `python` is the Python that runs
    Tercet."""
    url: str | None = None
    env: tuple[str, ...] = ()
    """Environment variables that the program may see, by name, beside the usual few. Their values are secrets."""
    plain_env: tuple[str, ...] = ()
    """Those whose values are none, and may stand in results, names and descriptions."""
    headers: dict[str, str] = {}
    """HTTP headers, each with the name of the environment variable that holds its value."""
    timeout_ms: int = Field(default=30_000, ge=1)
    """How long a call of one of its tools may take, unless the tool says otherwise."""
    start_timeout_ms: int = Field(default=15_000, ge=1)
    """How long it may take to start, to greet and to list its tools."""
    protocol: Literal["auto", "initialize"] = "auto"
    """How it is greeted. `auto` asks for the newest way first; `initialize` is for a server that does not answer that."""

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError('a server has either command = ["…"] or url = "https://…"')
        if self.url is not None:
            self._demand_url(self.url)
        elif self.headers:
            raise ValueError("headers are for a url; a command gets what it needs by env")
        return self

    def _demand_url(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a url begins with https://, or with http:// for this machine")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ValueError("a url outside of this machine begins with https://")
        if parts.username is not None or parts.password is not None:
            raise ValueError("a url holds no password: name an environment variable under headers")
        if self.env or self.plain_env:
            raise ValueError("env is for a command; a url gets what it needs by headers")

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that it is given."""
        return (*self.env, *self.headers.values())


@dataclass(frozen=True, eq=False, kw_only=True)
class McpServer:
    """A server of a pack, with the definitions of its tools that a person has accepted."""

    spec: ServerSpec
    folder: Path
    pinned: Mapping[str, Definition] = field(default_factory=dict[str, Definition])
    """The accepted definitions by the server's own names."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """The hashes of the files that its command names, as they were when the pack was loaded."""
    harmless_errors: frozenset[str] = frozenset()
    """The tools whose error answers mean that nothing happened, because the pack says so."""

    @cached_property
    def names(self) -> dict[str, str]:
        """The server's own name of each tool by its name here."""
        return {tool_name(self.spec.name, name): name for name in self.pinned}

    def open(self) -> Line:
        """A line to it; raises `UsageError` where the SDK is not installed."""
        demand_sdk()
        from tercet.tools.mcp.line import McpLine  # noqa: PLC0415 - the SDK is an extra

        return McpLine(self)


def tool_name(server: str, name: str) -> str:
    """The name that a server's tool has here: `server.tool`, with a `_` for each letter that no name here has."""
    return f"{server}.{re.sub(r'[^A-Za-z0-9_./-]', '_', name)}"


def demand_sdk() -> None:
    """Raises `UsageError` where the SDK is not installed."""
    try:
        import mcp  # noqa: F401, PLC0415  # pyright: ignore[reportUnusedImport] - the SDK is an extra
    except ImportError as error:
        raise extra_missing("a tool of an MCP server", "mcp", "mcp") from error


async def call_without_runtime(**_: object) -> None:
    """What an MCP tool does outside of a runtime, which is where its server is spoken to."""
    raise NotSent("an MCP tool is called by a runtime", code="no_runtime", is_retriable=False)

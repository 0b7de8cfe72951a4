"""The declaration of an MCP server, and the pinned definitions of its tools: hashing, comparison, and hints.

A definition pins what a planner reads or what affects how a call is judged: name, title, description, both schemas and
the annotations. Icons and `_meta` are not pinned: nothing here reads them, and servers put times and versions into
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, model_validator

from tercet.contracts.errors import NotSent, extra_missing
from tercet.contracts.mode import ApprovalMode, stronger
from tercet.contracts.shape import Authored, as_object
from tercet.contracts.values.canonical import canonical, digest
from tercet.contracts.values.plain import PlainObject
from tercet.tools.tool import Line

MAX_SHOWN = 200
"""The maximum number of characters of an old and a new text in a change."""
LEAD = 30
"""The number of common characters shown before the first difference."""


class Definition(Authored):
    """A tool's definition in terms of the protocol."""

    model_config = ConfigDict(populate_by_name=True)

    name: str = Field(min_length=1, max_length=200)
    title: str | None = None
    description: str | None = None
    input_schema: PlainObject = Field(alias="inputSchema")
    output_schema: PlainObject | None = Field(default=None, alias="outputSchema")
    annotations: PlainObject | None = None

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Definition:
        """Return the pinned part of a server's tool; raise `ValidationError`."""
        names = {field.alias or name for name, field in cls.model_fields.items()}
        return cls.model_validate({key: value for key, value in told.items() if key in names})

    def dump(self) -> dict[str, Any]:
        """Return the definition as it is stored; absent fields are omitted."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @cached_property
    def hash(self) -> str:
        """The hash of the definition; raises `UsageError` for values without canonical JSON."""
        return digest(self.dump())

    def hint(self, name: str) -> bool | None:
        """Return a hint of the server; None if it is absent."""
        found = (self.annotations or {}).get(name)
        return found if isinstance(found, bool) else None

    @cached_property
    def least_mode(self) -> tuple[ApprovalMode, str]:
        """The lowest mode that the hints allow, and the hint that says so. Absent hints demand nothing: a tool that the
        pack does not label is destructive already.
        """
        is_reading = self.hint("readOnlyHint") is True
        if self.hint("destructiveHint") is True:
            return ApprovalMode.DESTRUCTIVE, "destructiveHint"
        if self.hint("openWorldHint") is True and not is_reading:
            return ApprovalMode.NETWORK, "openWorldHint"
        if self.hint("readOnlyHint") is False:
            return ApprovalMode.LOCAL_WRITE, "readOnlyHint"
        return ApprovalMode.READ_ONLY, ""

    def mode_for(self, declared: ApprovalMode | None) -> ApprovalMode:
        """Return the mode of a tool with this declared mode: a hint can raise it, and never lower it."""
        return stronger(declared or ApprovalMode.DESTRUCTIVE, self.least_mode[0])


class Change(NamedTuple):
    """A difference between the pinned and the current definition of a tool."""

    tool: str
    field: str
    """A field of the definition by its path, or empty if the whole tool was added or removed."""
    old: Any
    new: Any

    def sentence(self, server: str) -> str:
        """Return the change for people: which tool, which field, old → new."""
        where = f"{server}: {self.tool}"
        if not self.field:
            return f"{where} {'was added' if self.old is None else 'was removed'}"
        return f"{where}, {self.field}: {_show_change(self.old, self.new)}"


def compare(
    pinned: Mapping[str, Definition], live: Mapping[str, Definition], *, with_new: bool = True
) -> tuple[Change, ...]:
    """Return the differences, tool by tool and field by field."""
    return tuple(_compared(pinned, live, with_new=with_new))


def _compared(
    pinned: Mapping[str, Definition], live: Mapping[str, Definition], *, with_new: bool
) -> Iterator[Change]:
    for name, old in pinned.items():
        if name not in live:
            yield Change(name, "", old.dump(), None)
        elif live[name].hash != old.hash:
            yield from _fields(name, "", old.dump(), live[name].dump())
    if with_new:
        for name, new in live.items():
            if name not in pinned:
                yield Change(name, "", None, new.dump())


def _fields(tool: str, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the differing fields, as deep as both sides have objects, so that a schema change is shown by its part."""
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        where = f"{path}.{key}" if path else key
        if key in old and key in new and (a := as_object(before)) and (b := as_object(after)):
            yield from _fields(tool, where, a, b)
        elif key not in old or key not in new or canonical(before) != canonical(after):
            yield Change(tool, where, before, after)


def _show_change(old: Any, new: Any) -> str:
    """Return old → new, both from shortly before the first difference, which may be at the end of a long text."""
    before, after = _text(old), _text(new)
    shared = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    start = min(len(before), len(after)) if shared is None else shared
    skipped = max(0, start - LEAD) if start > 2 * LEAD else 0
    return f"{_cut(before, skipped)} → {_cut(after, skipped)}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical(value).decode()


def _cut(text: str, skipped: int) -> str:
    if not text:
        return "nothing"
    shown = text[skipped : skipped + MAX_SHOWN]
    return f"“{'…' * bool(skipped)}{shown}{'…' * (len(text) > skipped + MAX_SHOWN)}”"


VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ServerSpec(Authored):
    """A server: a command that is started and connected over its standard input and output, or a URL."""

    name: str = Field(pattern=r"^[A-Za-z0-9_\-]+$", max_length=60)
    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    """A program and its fixed arguments, run in the pack's folder without a shell. `python` is the Python that runs
    Tercet."""
    url: str | None = None
    env: tuple[str, ...] = ()
    """Environment variables that the program may see, by name, besides the default few. Their values are secrets."""
    plain_env: tuple[str, ...] = ()
    """Variables whose values are not secret, and may occur in results, names and descriptions."""
    headers: dict[str, str] = {}
    """HTTP headers, each with the name of the environment variable of its value."""
    timeout_ms: int = Field(default=30_000, ge=1)
    """The default timeout of its tools."""
    start_timeout_ms: int = Field(default=15_000, ge=1)
    """The time limit to start, to complete the handshake and to list its tools."""
    protocol: Literal["auto", "initialize"] = "auto"
    """The handshake. `auto` tries the newest one first; `initialize` is for a server that does not answer that."""

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
        """The environment variables that it receives."""
        return (*self.env, *self.headers.values())


@dataclass(frozen=True, eq=False, kw_only=True)
class McpServer:
    """A server of a pack, with the accepted definitions of its tools."""

    spec: ServerSpec
    folder: Path
    pinned: Mapping[str, Definition] = field(default_factory=dict[str, Definition])
    """The accepted definitions by the server's own names."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """The hashes of the files that its command names, from when the pack was loaded."""
    harmless_errors: frozenset[str] = frozenset()
    """The tools whose error answers mean that nothing happened, because the pack says so."""

    @cached_property
    def names(self) -> dict[str, str]:
        """The server's own name of each tool, by its name in the pack."""
        return {tool_name(self.spec.name, name): name for name in self.pinned}

    def open(self) -> Line:
        """Return a connection to it; raise `UsageError` if the SDK is not installed."""
        demand_sdk()
        from tercet.tools.mcp.line import McpLine  # noqa: PLC0415 - the SDK is an extra

        return McpLine(self)


def tool_name(server: str, name: str) -> str:
    """Return the name of a server's tool in the pack: `server.tool`, with `_` for each invalid character."""
    return f"{server}.{re.sub(r'[^A-Za-z0-9_./-]', '_', name)}"


def demand_sdk() -> None:
    """Raise `UsageError` if the SDK is not installed."""
    try:
        import mcp  # noqa: F401, PLC0415  # pyright: ignore[reportUnusedImport] - the SDK is an extra
    except ImportError as error:
        raise extra_missing("a tool of an MCP server", "mcp", "mcp") from error


async def call_without_runtime(**_: object) -> None:
    """Raise: an MCP tool can only be called by a runtime, which holds the connection."""
    raise NotSent("an MCP tool is called by a runtime", code="no_runtime", is_retriable=False)

"""`mcp.toml`: the servers that a pack uses, and what the pack says about their tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tercet.contracts.mode import ApprovalMode, Reversibility, Trust
from tercet.contracts.plan import Compensation
from tercet.contracts.shape import Authored, as_list
from tercet.contracts.tool import Limit, OncePer, Unbound
from tercet.tools.mcp.server import ServerSpec


def _spelt_out(limits: Any) -> Any:
    """Limits of which some are written as the bare condition."""
    given = as_list(limits)
    return limits if given is None else [{"expression": x} if isinstance(x, str) else x for x in given]


class ToolTable(Authored):
    """What a pack says about one tool of a server; each field but the first and the last means what it means in
    `ToolSpec`, and is left as it is there where the table is silent."""

    name: str = Field(min_length=1, max_length=200)
    """The tool's name at the server."""
    mode: ApprovalMode | None = None
    """None is destructive. A hint of the server can raise it."""
    description: str = ""
    """Instead of the server's own."""
    reversibility: Reversibility | None = None
    gates: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    compensate: Compensation | None = None
    no_compensation: str = ""
    authority: tuple[str, ...] | None = None
    kinds: dict[str, str] = {}
    result_kinds: dict[str, str] = {}
    unbound: dict[str, Unbound] = {}
    identity: tuple[str, ...] | None = None
    once_per: OncePer | None = None
    aliases: dict[str, str] = {}
    limits: Annotated[tuple[Limit, ...], BeforeValidator(_spelt_out)] = ()
    requires_evidence: tuple[str, ...] = ()
    preconditions: tuple[str, ...] = ()
    establishes: tuple[str, ...] = ()
    revokes: tuple[str, ...] = ()
    attests: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    """Said here, also as an empty list, it means that all other fields of the result are trusted."""
    trust: Trust | None = None
    endorses: bool = False
    idempotent: bool = False
    settle_after_ms: int = Field(default=0, ge=0)
    timeout_ms: int = Field(default=30_000, ge=1)
    estimated_ms: int = Field(default=0, ge=0)
    estimated_tokens: int = Field(default=0, ge=0)
    cost_microcents: int = Field(default=0, ge=0)
    error_means: Literal["unknown", "not_done"] = "unknown"
    """What an error answer says about the effect: `not_done` states that it did not happen."""

    @property
    def declared(self) -> dict[str, Any]:
        """What it says, without what only an MCP tool has."""
        own = {"name", "mode", "error_means"}
        return {field: getattr(self, field) for field in self.model_fields_set - own}


class ServerTable(ServerSpec):
    """A server, with what the pack says about its tools."""

    tools: tuple[str, ...] | None = None
    """The tools that the pack takes, by their names at the server; None means all."""
    tool: tuple[ToolTable, ...] = ()

    @property
    def spec(self) -> ServerSpec:
        """The server alone."""
        own = {
            field: getattr(self, field) for field in self.model_fields_set if field in ServerSpec.model_fields
        }
        return ServerSpec(**own)

    def takes(self, name: str) -> bool:
        """Whether the pack wants this tool of the server."""
        return self.tools is None or name in self.tools

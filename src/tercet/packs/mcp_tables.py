"""`mcp.toml`: the servers that a pack uses, and what the pack says about their tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tercet.contracts.mode import ApprovalMode
from tercet.contracts.shape import as_list
from tercet.contracts.tool import Limit, ToolTerms
from tercet.tools.mcp.server import ServerSpec


def _spelt_out(limits: Any) -> Any:
    """Limits of which some are written as the bare condition."""
    given = as_list(limits)
    return limits if given is None else [{"expression": x} if isinstance(x, str) else x for x in given]


class ToolTable(ToolTerms):
    """What a pack says about one tool of a server: a description instead of the server's own, and terms, which are left
    as they are in `ToolSpec` where the table is silent. `untrusted`, also as an empty list, means that all other fields of
    the result are trusted."""

    name: str = Field(min_length=1, max_length=200)
    """The tool's name at the server."""
    mode: ApprovalMode | None = None
    """None is destructive. A hint of the server can raise it."""
    limits: Annotated[tuple[Limit, ...], BeforeValidator(_spelt_out)] = ()
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

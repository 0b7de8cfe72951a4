"""`mcp.toml`: the servers that a pack uses, and the pack's declarations about their tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tercet.contracts.mode import ApprovalMode
from tercet.contracts.shape import as_list
from tercet.contracts.tool import Limit, ToolTerms
from tercet.tools.mcp.server import ServerSpec


def _spelt_out(limits: Any) -> Any:
    """Return limits as tables, of which some are written as a bare condition."""
    given = as_list(limits)
    return limits if given is None else [{"expression": x} if isinstance(x, str) else x for x in given]


class ToolTable(ToolTerms):
    """The pack's declarations about one tool of a server: a description that replaces the server's, and terms with the
    defaults of `ToolSpec`. `untrusted`, also as an empty list, means that all other fields of the result are trusted.
    """

    name: str = Field(min_length=1, max_length=200)
    """The tool's name on the server."""
    mode: ApprovalMode | None = None
    """None means destructive. A hint of the server can raise it."""
    limits: Annotated[tuple[Limit, ...], BeforeValidator(_spelt_out)] = ()
    error_means: Literal["unknown", "not_done"] = "unknown"
    """The meaning of an error answer: `not_done` states that the effect did not happen."""

    @property
    def declared(self) -> dict[str, Any]:
        """The declared terms, without the fields that only MCP tools have."""
        own = {"name", "mode", "error_means"}
        return {field: getattr(self, field) for field in self.model_fields_set - own}


class ServerTable(ServerSpec):
    """A server, with the pack's declarations about its tools."""

    tools: tuple[str, ...] | None = None
    """The tools that the pack uses, by their names on the server; None means all."""
    tool: tuple[ToolTable, ...] = ()

    @property
    def spec(self) -> ServerSpec:
        """The server without its tools."""
        own = {
            field: getattr(self, field) for field in self.model_fields_set if field in ServerSpec.model_fields
        }
        return ServerSpec(**own)

    def takes(self, name: str) -> bool:
        """Return whether the pack uses this tool of the server."""
        return self.tools is None or name in self.tools

"""Tools of MCP servers: pinned definitions, and calls over the official SDK.

`server` holds plain declarations and imports nothing of the SDK, which is an extra: `line` does, and is imported when a
runtime opens a connection.
"""

from tercet.tools.mcp.server import Change, Definition, McpServer

__all__ = ["Change", "Definition", "McpServer"]

"""Tools of MCP servers: definitions that a person has pinned, and calls over the official SDK.

`definition` and `server` are plain declarations and import nothing of the SDK, which is an extra: `line` does, and is
imported when a runtime opens a line.
"""

from tercet.tools.mcp.server import Change, Definition, McpServer

__all__ = ["Change", "Definition", "McpServer"]

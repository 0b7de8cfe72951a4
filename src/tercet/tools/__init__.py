"""The adapters: how a Python function, or a tool of an MCP server, becomes a tool that a plan may name.

What lives here declares tools and derives their schemas; that does no I/O. What speaks to servers stands in rooms of its
own, such as `mcp`, and only the code that the executor calls, and a look before it, ever opens a connection.
"""

from tercet.tools.context import ToolContext
from tercet.tools.decorator import tool
from tercet.tools.tool import Tool

__all__ = ["Tool", "ToolContext", "tool"]

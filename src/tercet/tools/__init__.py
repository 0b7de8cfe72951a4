"""The adapters: how a Python function, a tool of an MCP server, an operation of an HTTP service or a program becomes a tool.

What lives here declares tools and derives their schemas; that does no I/O. What speaks to servers, services and programs
stands in rooms of its own, and only the code that the gateway calls, and a look before it, ever reaches out.
It imports contracts.
"""

from tercet.tools.decorator import tool
from tercet.tools.tool import Tool, ToolContext

__all__ = ["Tool", "ToolContext", "tool"]

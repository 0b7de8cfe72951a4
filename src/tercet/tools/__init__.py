"""The adapters: they turn a Python function, an MCP tool, an operation of an HTTP service or a program into a tool.

This package declares tools and derives their schemas, without I/O. The code for servers, services and programs is in
sub-packages, and only what the gateway calls, and the check before it, does I/O. It imports contracts only.
"""

from tercet.tools.decorator import tool
from tercet.tools.tool import Tool, ToolContext

__all__ = ["Tool", "ToolContext", "tool"]

"""The adapters: how a Python function, an operation of an HTTP service or a program becomes a tool that a plan may name.

What lives here declares tools, derives their schemas, and holds the code that reaches services and programs; the gateway
alone calls it. It imports contracts.
"""

from tercet.tools.context import ToolContext
from tercet.tools.decorator import tool
from tercet.tools.tool import Tool

__all__ = ["Tool", "ToolContext", "tool"]

"""The adapters: how a Python function becomes a tool that a plan may name.

What lives here declares tools and derives their schemas; nothing here calls one. It imports contracts, and no I/O.
"""

from tercet.tools.context import ToolContext
from tercet.tools.decorator import tool
from tercet.tools.tool import Tool

__all__ = ["Tool", "ToolContext", "tool"]

"""Commands: a program with a fixed argument template as a tool. No shell is involved, and no process outlives the call."""

from tercet.tools.commands.command import Command, TemplateError
from tercet.tools.commands.making import command_tool

__all__ = ["Command", "TemplateError", "command_tool"]

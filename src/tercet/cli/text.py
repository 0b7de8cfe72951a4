"""Text on a terminal: see `tercet.view.terminal.text`."""

from tercet.view.terminal.text import ago, ahead, count, json_text, listed, moment, printable, took

__all__ = ("ago", "ahead", "count", "json_text", "listed", "moment", "printable", "took")

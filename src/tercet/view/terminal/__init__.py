"""Views on a terminal, as rich text. Every word of plans, tools, models and people passes `printable` first."""

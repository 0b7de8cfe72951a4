"""Values on a terminal: see `tercet.view.terminal.values`."""

from tercet.view.terminal.values import (
    WHOLE,
    name_text,
    readable,
    sample,
    strange_letters,
    value_text,
    with_reading,
)

__all__ = ("WHOLE", "name_text", "readable", "sample", "strange_letters", "value_text", "with_reading")

"""The telephone of a call centre, and its pen."""

from __future__ import annotations

from tercet import NotDone, ToolContext, tool


@tool("phone.ring", mode="read_only", cost_microcents=1_000)
def notify(ctx: ToolContext, busy: int, patience: int) -> dict[str, bool]:
    """Rings up somebody whose line is busy for some attempts."""
    if ctx.attempt <= busy:
        raise NotDone("the line is busy")
    return {"reached": patience > 0}


@tool("phone.write", mode="local_write", no_compensation="a draft")
def write(text: str) -> dict[str, str]:
    """Writes a letter."""
    return {"letter": text}

"""An invented post office. What it has sent is a row in the file that POST_LOG names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tercet import tool


@tool("post.read", mode="read_only", untrusted=["note"])
def read(box: str) -> dict[str, Any]:
    """Read what somebody left in a box."""
    return {"box": box, "note": "\x1b[2J\x1b]0;owned\x07[bold]x[/bold]\u202e\r\n  by        anybody\x9b31m"}


@tool(
    "post.send",
    mode="local_write",
    gates=["GATE_CLERKS"],
    authority=["to"],
    compensate={"tool": "post.recall", "params": {"to": {"$from": "params#/to"}}},
    reversibility="compensable",
    idempotent=True,
)
def send(to: str, text: str, price_eur_cents: int = 0) -> str:
    """Send a letter."""
    _log("sent", to)
    return f"{to} {text} {price_eur_cents}"


@tool("post.rush", mode="local_write", gates=["GATE_HASTY"], no_compensation="it is gone", idempotent=True)
def rush(to: str) -> str:
    """Send a letter at once."""
    _log("rushed", to)
    return to


@tool("post.recall", mode="local_write", no_compensation="it is itself the way back", idempotent=True)
def recall(to: str) -> str:
    """Call a letter back."""
    _log("recalled", to)
    return to


def _log(what: str, to: str) -> None:
    with Path(os.environ["POST_LOG"]).open("a", encoding="utf-8") as log:
        log.write(f"{what} {to}\n")

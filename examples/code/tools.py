"""The shelf on which the functions of Fern Street Library lie, an invented library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tercet import NotDone, tool

SHELF = Path(__file__).resolve().parent / "functions"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A function by its name, and its source."""

    function: str
    code: str


@tool("desk.fetch", mode="read_only", trust="trusted", estimated_ms=5)
def fetch(function: str) -> Source:
    """Bring the source of a function."""
    known = {path.stem: path for path in sorted(SHELF.glob("*.py"))}
    if function not in known:
        raise NotDone(
            f"there is no function {function!r}",
            code="function_unknown",
            remedy=f"name one of {', '.join(known)}",
            is_retriable=False,
        )
    return Source(function=function, code=known[function].read_text(encoding="utf-8"))

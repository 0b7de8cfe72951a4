"""What tools reach beyond this process: a server, a service.

A pack only says where it is (`Outside`), and loading one opens nothing. Each runtime opens a line of its own to it
(`Line`), at the first call that needs it, and closes it when the runtime ends: what two runtimes do, perhaps for two
tenants, never goes over one line. A tool names what it reaches as `Tool.outside`; `Lines.bind` gives it the code that
calls over the runtime's line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tercet.tools.tool import Tool


class Line(Protocol):
    """One runtime's way to something outside. Nothing is open before the first call or look."""

    def call_of(self, tool: Tool) -> Callable[..., Any]:
        """The code of a tool over this line: it takes what `Tool.call` takes, and raises what that may raise."""
        ...

    async def find_changes(self) -> tuple[str, ...]:
        """What differs from what a person has accepted, a sentence for each; empty if nothing does.

        Calls no tool. Something that cannot be reached has not changed: its calls will say so themselves. Never raises.
        """
        ...

    async def aclose(self) -> None:
        """Ends whatever is open, within a bounded time; a line that was closed can be used again. Never raises."""
        ...


@runtime_checkable
class Outside(Protocol):
    """Something outside, as a pack declares it."""

    def open(self) -> Line:
        """A line to it, on which nothing is open yet; raises `UsageError` if this installation has no way to it."""
        ...


class Lines:
    """The lines of one runtime: one for each thing outside that its tools name."""

    def __init__(self) -> None:
        self._lines: dict[int, tuple[Outside, Line]] = {}

    def bind(self, tools: Iterable[Tool]) -> dict[str, Tool]:
        """The tools by name, those that reach outside with the code that calls over these lines."""
        return {tool.name: self._bound(tool) for tool in tools}

    async def find_changes(self, tools: Iterable[Tool]) -> tuple[str, ...]:
        """What differs, of all that these tools reach, from what a person has accepted."""
        lines = {id(tool.outside): self._line(tool.outside) for tool in tools if tool.outside is not None}
        found = await asyncio.gather(*(line.find_changes() for line in lines.values()))
        return tuple(change for changes in found for change in changes)

    async def aclose(self) -> None:
        """Ends all lines, at the same time."""
        await asyncio.gather(*(line.aclose() for _, line in self._lines.values()), return_exceptions=True)

    def _bound(self, tool: Tool) -> Tool:
        if tool.outside is None:
            return tool
        return tool.model_copy(update={"call": self._line(tool.outside).call_of(tool)})

    def _line(self, outside: Outside) -> Line:
        # The thing outside is kept beside its line: so its id cannot become somebody else's.
        known = self._lines.get(id(outside))
        if known is None:
            known = self._lines[id(outside)] = (outside, outside.open())
        return known[1]

"""A tool: its declaration together with the code that does it.

What tools reach beyond this process: a server, a service.

A pack only says where it is (`Outside`), and loading one opens nothing. Each runtime opens a line of its own to it
(`Line`), at the first call that needs it, and closes it when the runtime ends: what two runtimes do, perhaps for two
tenants, never goes over one line. A tool names what it reaches as `Tool.outside`; `Lines.bind` gives it the code that
calls over the runtime's line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from pydantic import Field, InstanceOf, model_validator

from tercet.contracts.mode import Trust
from tercet.contracts.request import Actor
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tool import ToolSpec

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


class Tool(ToolSpec):
    """A declared tool that can be called.

    `call` takes the parameters by name, and the `ToolContext` under the name of the parameter annotated with it.
    It may be a plain or an async function. What a plan is judged by is `spec`; the code is part of no hash here, since
    a function has no stable one: the pack hashes the file that it came from.
    """

    call: Callable[..., Any] = Field(exclude=True, repr=False)
    reconcile: Callable[..., Any] | None = Field(default=None, exclude=True, repr=False)
    """Finds out whether a call of unknown outcome happened: called with the call's parameters and its `ToolContext`, it
    returns `Happened(value)`, `Absent()` or `Unknown(reason)`."""
    definition: JsonObject | None = Field(default=None, exclude=True, repr=False)
    """What its call does, where `call` is code of Tercet that any tool of its kind has: a program with its arguments, a
    request. It is part of the pack's hash. None where the function or a hashed file of the pack says it."""
    outside: InstanceOf[Outside] | None = Field(default=None, exclude=True, repr=False)
    """What it reaches beyond this process. A runtime then gives it a `call` of its own: see `Lines.bind`."""

    @model_validator(mode="before")
    @classmethod
    def _reconciles_if_it_can(cls, data: Any) -> Any:
        fields = as_object(data)
        if fields is not None and callable(fields.get("reconcile")):
            return {**fields, "reconciles": True}
        return data

    @model_validator(mode="after")
    def _can_reconcile_if_it_says_so(self) -> Self:
        if self.reconciles and self.reconcile is None:
            raise ValueError("reconciles says that a key can be looked up: give the function as reconcile=")
        return self

    @cached_property
    def spec(self) -> ToolSpec:
        """The declaration alone."""
        return ToolSpec(
            **{name: getattr(self, name) for name in self.model_fields_set if name in ToolSpec.model_fields}
        )


_DERIVED = {"name", "parameters", "result", "adapter", "reconciles", "reserves"}

SAYABLE = frozenset(ToolSpec.model_fields) - _DERIVED
"""The fields of `ToolSpec` that a table may hold."""


def split(table: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a table says about the tool, and the rest of it."""
    said = {key: value for key, value in table.items() if key in SAYABLE}
    if (limits := as_list(said.get("limits"))) is not None:
        said["limits"] = [{"expression": limit} if isinstance(limit, str) else limit for limit in limits]
    return said, {key: value for key, value in table.items() if key not in SAYABLE}


def with_trust(said: Mapping[str, Any]) -> dict[str, Any]:
    """The same where a table that names the untrusted fields, also none of them, says that it trusts the others."""
    trust = {"trust": Trust.TRUSTED} if "untrusted" in said and said.get("trust") is None else {}
    return {**said, **trust}


def one_line(text: str) -> str:
    """What a service or a program says, as one line that can be shown."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def uncalled() -> None:
    """Stands in for the call of a tool until the tool that it belongs to is known."""


def unheard(_done: float, _total: float | None = None, _message: str = "") -> None:
    """Nobody wants to hear how far a call is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Passed to a tool that has a parameter of this type; a plan neither sees nor fills it."""

    tenant: str
    run_id: str
    step_id: str
    actor: str
    """The id of the person or service for whom the run acts."""
    idempotency_key: str
    """Names the action itself: another attempt at the same action carries the same key."""
    attempt: int = 1
    deadline: datetime | None = None
    """When the caller stops waiting, with its time zone; None if it never does."""
    fencing_token: int = 0
    """Grows whenever another process takes the run over; refuse a call whose token is lower than one already seen."""
    session_id: str = ""
    root_session: str = ""
    """The session that led to this run through others; empty where nobody did."""
    owners: tuple[Actor, ...] = ()
    """The owner of this run, then those of the runs that it is nested in, from the inside out."""
    depth: int = 0
    """How many runs this one stands inside of."""
    traceparent: str = ""
    """The span of this call in the form of W3C, to hand on to whatever is called; empty where nobody traces the run."""
    progress: Callable[[float, float | None, str], None] = field(default=unheard, repr=False, compare=False)
    """Told how far the call is: how much is done, of how much if that is known, and a word for people. It may be called
    from a thread. What it is told is shown to whoever watches; nothing of it is recorded."""

    def __post_init__(self) -> None:
        if self.deadline is not None and self.deadline.tzinfo is None:
            raise ValueError(
                "a deadline has a time zone, for example datetime(2026, 5, 9, 9, 30, tzinfo=UTC)"
            )

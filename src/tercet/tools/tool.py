"""A tool: its declaration together with its code.

Also the connections of tools to servers and services. A pack only declares where something is (`Outside`), and loading
it opens nothing. Each runtime opens its own connection (`Line`), at the first call that needs it, and closes it when
the runtime ends: two runtimes, perhaps of two tenants, never share one. A tool names what it connects to as
`Tool.outside`; `Lines.bind` gives it the code that calls over the runtime's connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Protocol, Self, runtime_checkable

from pydantic import BeforeValidator, Field, InstanceOf, model_validator

from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.request import Actor
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tool import Limit, ToolSpec, ToolTerms


class Line(Protocol):
    """One runtime's connection to something outside. Nothing is open before the first call or check."""

    def call_of(self, tool: Tool) -> Callable[..., Any]:
        """Return the code of a tool over this connection: same parameters and exceptions as `Tool.call`."""
        ...

    async def find_changes(self) -> tuple[str, ...]:
        """Return the differences from what a person has accepted, a sentence for each.

        Calls no tool. An unreachable server is not a change: its calls will report that. Never raises.
        """
        ...

    async def aclose(self) -> None:
        """Close whatever is open, within a bounded time; a closed line can be used again. Never raises."""
        ...


@runtime_checkable
class Outside(Protocol):
    """A server or service, as a pack declares it."""

    def open(self) -> Line:
        """Return a connection that is not opened yet; raise `UsageError` if this installation does not support it."""
        ...


class Lines:
    """The connections of one runtime: one for each server or service that its tools name."""

    def __init__(self) -> None:
        self._lines: dict[int, tuple[Outside, Line]] = {}

    def bind(self, tools: Iterable[Tool]) -> dict[str, Tool]:
        """Return the tools by name, those with `outside` with the code that calls over these connections."""
        return {tool.name: self._bound(tool) for tool in tools}

    async def find_changes(self, tools: Iterable[Tool]) -> tuple[str, ...]:
        """Return the differences from what a person has accepted, for all connections of these tools."""
        lines = {id(tool.outside): self._line(tool.outside) for tool in tools if tool.outside is not None}
        found = await asyncio.gather(*(line.find_changes() for line in lines.values()))
        return tuple(change for changes in found for change in changes)

    async def aclose(self) -> None:
        """Close all connections concurrently."""
        await asyncio.gather(*(line.aclose() for _, line in self._lines.values()), return_exceptions=True)

    def _bound(self, tool: Tool) -> Tool:
        if tool.outside is None:
            return tool
        return tool.model_copy(update={"call": self._line(tool.outside).call_of(tool)})

    def _line(self, outside: Outside) -> Line:
        # Keeping the object beside its line guarantees that its id is not reused.
        known = self._lines.get(id(outside))
        if known is None:
            known = self._lines[id(outside)] = (outside, outside.open())
        return known[1]


class Tool(ToolSpec):
    """A declared tool that can be called.

    `call` takes the parameters by name, and the `ToolContext` under the name of the parameter annotated with it. It may
    be a plain or an async function. A plan is judged by `spec`; the code is not hashed here, since a function has no
    stable hash: the pack hashes the file that it came from.
    """

    call: Callable[..., Any] = Field(exclude=True, repr=False)
    reconcile: Callable[..., Any] | None = Field(default=None, exclude=True, repr=False)
    """Finds out whether a call of unknown outcome happened: called with the call's parameters and its `ToolContext`, it
    returns `Happened(value)`, `Absent()` or `Unknown(reason)`."""
    definition: JsonObject | None = Field(default=None, exclude=True, repr=False)
    """The program or request that `call` makes, if `call` is generic code of Tercet. It is part of the pack's hash.
    None if the function itself or a hashed file of the pack defines it."""
    outside: InstanceOf[Outside] | None = Field(default=None, exclude=True, repr=False)
    """What it connects to outside this process. A runtime then replaces `call`: see `Lines.bind`."""

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


def _spelt_out(limits: Any) -> Any:
    """Return limits as tables, of which some are written as a bare condition."""
    given = as_list(limits)
    return limits if given is None else [{"expression": x} if isinstance(x, str) else x for x in given]


class Terms(ToolTerms):
    """What a table of a file may declare about a tool. `untrusted`, also as an empty list, means that all other fields
    of the result are trusted.
    """

    mode: ApprovalMode | None = None
    tenants: tuple[str, ...] = ()
    limits: Annotated[tuple[Limit, ...], BeforeValidator(_spelt_out)] = ()

    @property
    def declared(self) -> dict[str, Any]:
        """The declared terms, as fields of a tool."""
        said = {name: getattr(self, name) for name in self.model_fields_set & Terms.model_fields.keys()}
        trust = {"trust": Trust.TRUSTED} if "untrusted" in said and said.get("trust") is None else {}
        return {**said, **trust}

    def or_else(self, usual: Terms) -> Self:
        """Return these terms, with others for what they leave out."""
        left_out = usual.model_fields_set - self.model_fields_set
        return self.model_copy(update={name: getattr(usual, name) for name in left_out})


def one_line(text: str) -> str:
    """Return the text of a service or a program as one printable line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def uncalled() -> None:
    """Placeholder for the call of a tool until it is bound."""


def unheard(_done: float, _total: float | None = None, _message: str = "") -> None:
    """Ignore the progress of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Passed to a tool that has a parameter of this type; a plan neither sees nor fills it."""

    tenant: str
    run_id: str
    step_id: str
    actor: str
    """The id of the person or service that the run acts for."""
    idempotency_key: str
    """Identifies the action: a retry of the same action has the same key."""
    attempt: int = 1
    deadline: datetime | None = None
    """When the caller stops waiting, with a time zone; None if it never does."""
    fencing_token: int = 0
    """Increases whenever another process takes over the run; refuse a call whose token is lower than one already seen."""
    session_id: str = ""
    root_session: str = ""
    """The session at the root of nested runs; empty if this run is not nested."""
    owners: tuple[Actor, ...] = ()
    """The owner of this run, then the owners of the enclosing runs, innermost first."""
    depth: int = 0
    """How many runs enclose this one."""
    traceparent: str = ""
    """The W3C traceparent of this call, to pass on; empty if the run is not traced."""
    progress: Callable[[float, float | None, str], None] = field(default=unheard, repr=False, compare=False)
    """Reports progress: the amount done, the total if known, and a message. It may be called from a thread. Progress is
    shown to observers and not recorded."""

    def __post_init__(self) -> None:
        if self.deadline is not None and self.deadline.tzinfo is None:
            raise ValueError(
                "a deadline has a time zone, for example datetime(2026, 5, 9, 9, 30, tzinfo=UTC)"
            )


# --- reconcile ---
# A look-up is called with the parameters of the call and its `ToolContext`, and returns one of three answers.
# Anything else, None included, counts as unknown: a forgotten `return` must not mean "it did not happen" and repeat
# a payment.


@dataclass(frozen=True, slots=True)
class Happened:
    """The call happened, and this is its result."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Absent:
    """The call did not happen and cannot happen any more, so it may be made again."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The look-up does not know: it is repeated later, and then a person is asked."""

    reason: str = ""

"""A tool: its declaration together with the code that does it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

from pydantic import Field, InstanceOf, model_validator

from tercet.contracts.shape import JsonObject, as_object
from tercet.contracts.tool import ToolSpec
from tercet.tools.outside import Outside


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
    """What it reaches beyond this process. A runtime then gives it a `call` of its own: see `tools/outside.py`."""

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

"""What a pack declares about a command, besides what is said about the tool that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from tercet.contracts.plain import PlainObject
from tercet.contracts.shape import Authored, JsonObject, as_object
from tercet.tools.commands.template import Argument, TemplateError, names_in, read_template

USUAL_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ")
OPTION = "may_be_option"
_STRUCTURED = ("array", "object", "null")


class Command(Authored):
    """A program, its arguments, and what it is held to."""

    name: str
    argv: tuple[str, ...] = Field(min_length=1, max_length=1_000)
    parameters: dict[str, PlainObject] = {}
    """A JSON Schema for each parameter; one without a `default` must be given."""
    stdin: Literal["none", "json"] = "none"
    """What the program reads: nothing, or all parameters as one JSON object."""
    env: tuple[str, ...] = USUAL_ENVIRONMENT
    """The variables of the environment that the program sees."""
    secrets: tuple[str, ...] = ()
    """Variables that it sees as well, and whose values are cut out of what it prints."""
    cwd: str = "."
    """Where it runs: a folder of the pack, or an absolute path."""
    outside_files: tuple[str, ...] = ()
    """Absolute paths of files outside of the pack that `argv` may name; they are hashed when the pack is loaded."""
    timeout_ms: int = Field(default=30_000, ge=1)
    max_output_bytes: int = Field(default=2**20, ge=1, le=2**25)
    max_memory_bytes: int | None = Field(default=None, ge=2**20)
    max_cpu_seconds: int | None = Field(default=None, ge=1)
    max_file_bytes: int | None = Field(default=None, ge=0)
    max_open_files: int | None = Field(default=None, ge=8)
    result: Literal["text", "lines", "json"] = "text"
    result_schema: PlainObject | None = None
    """What the JSON that it prints looks like."""
    done: tuple[int, ...] = (0,)
    not_done: tuple[int, ...] = ()
    """The exit codes by which it says that nothing was done; every one that stands nowhere leaves that open."""
    tool: dict[str, Any] = Field(default={}, exclude=True)
    """What is said about the tool."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if fault := self._exit_fault() or self._variable_fault():
            raise ValueError(fault)
        try:
            named = names_in(self.template)
        except TemplateError as error:
            raise PydanticCustomError("template_invalid", "{fault}", {"fault": str(error)}) from None
        if fault := self._lacking(named):
            raise PydanticCustomError("placeholder_unknown", "{fault}", {"fault": fault})
        if fault := self._unused(named):
            raise PydanticCustomError("parameter_unused", "{fault}", {"fault": fault})
        return self

    def _lacking(self, named: Sequence[str]) -> str:
        if unknown := [name for name in named if name not in self.parameters]:
            return f"${{{unknown[0]}}} is no parameter: describe it under parameters"
        if structured := [name for name in named if self.parameters[name].get("type") in _STRUCTURED]:
            return f"{structured[0]} is no single argument: pass it by stdin"
        return ""

    def _unused(self, named: Sequence[str]) -> str:
        unused = [name for name in self.parameters if name not in named]
        if unused and self.stdin == "none":
            return f'the parameter {unused[0]} is never used: name it in argv, or give stdin = "json"'
        return ""

    def _exit_fault(self) -> str:
        if wrong := [code for code in (*self.done, *self.not_done) if not 0 <= code <= 255]:
            return f"{wrong[0]} is no exit code: they run from 0 to 255"
        if both := sorted(set(self.done) & set(self.not_done)):
            return f"the exit code {both[0]} cannot mean both done and not_done"
        if wrong := [path for path in self.outside_files if not PurePosixPath(path).is_absolute()]:
            return f"{wrong[0]!r} in outside_files is not an absolute path: files of the pack need no entry"
        return "" if self.result_schema is None or self.result == "json" else "only JSON has a result_schema"

    def _variable_fault(self) -> str:
        for name in (*self.env, *self.secrets):
            if not name.replace("_", "a").isalnum() or not name.isascii() or name[0].isdigit():
                return f"{name!r} is no name of a variable"
        return ""

    @cached_property
    def template(self) -> tuple[Argument, ...]:
        """The arguments, taken apart."""
        return read_template(self.argv)

    @cached_property
    def options(self) -> frozenset[str]:
        """The parameters that may begin an argument with `-`."""
        return frozenset(name for name, schema in self.parameters.items() if schema.get(OPTION) is True)

    @cached_property
    def defaults(self) -> JsonObject:
        """The values of parameters that a plan need not give."""
        return {name: schema["default"] for name, schema in self.parameters.items() if "default" in schema}

    @cached_property
    def inputs(self) -> JsonObject:
        """The schema of all parameters."""
        return {
            "type": "object",
            "properties": {
                name: {word: value for word, value in schema.items() if word != OPTION}
                for name, schema in self.parameters.items()
            },
            "required": [name for name in self.parameters if name not in self.defaults],
            "additionalProperties": False,
        }

    @property
    def shape(self) -> JsonObject | None:
        """The schema of the result."""
        match self.result:
            case "text":
                return {"type": "string"}
            case "lines":
                return {"type": "array", "items": {"type": "string"}}
            case "json":
                return as_object(self.result_schema)

    @property
    def resource_limits(self) -> dict[str, int]:
        """What the operating system holds the program to, by the names of its limits."""
        limits = {
            "RLIMIT_AS": self.max_memory_bytes,
            "RLIMIT_CPU": self.max_cpu_seconds,
            "RLIMIT_FSIZE": self.max_file_bytes,
            "RLIMIT_NOFILE": self.max_open_files,
        }
        return {name: limit for name, limit in limits.items() if limit is not None}

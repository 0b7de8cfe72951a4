"""The declaration of a command and its argument template.

`${name}` is replaced by a parameter, `$$` by a dollar sign. An element of the template is one argument of the program,
whatever its value contains: it is never split, and no shell reads it. A program may still read an argument that begins
with `-` as an option. So a value that would begin an argument with one is refused, unless a literal `--` precedes it,
or the parameter says `may_be_option`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from tercet.contracts.errors import NotSent, UsageError
from tercet.contracts.shape import JsonObject, as_object
from tercet.contracts.values.plain import PlainObject
from tercet.tools.tool import Terms

_PART = re.compile(r"\$\$|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<stray>\$)")
END_OF_OPTIONS = "--"
MAX_ARGUMENT = 100_000


class TemplateError(UsageError):
    """A template that cannot be filled."""

    default_code = "template_invalid"


class Piece(NamedTuple):
    """A part of an argument: literal text, or the name of a parameter."""

    text: str
    is_name: bool


class Argument(NamedTuple):
    """One argument of the program."""

    pieces: tuple[Piece, ...]
    is_guarded: bool
    """Whether the program might read it as an option: no `--` precedes it."""

    @property
    def is_fixed(self) -> bool:
        """Whether it contains no parameter."""
        return not any(piece.is_name for piece in self.pieces)


def read_template(argv: Sequence[str]) -> tuple[Argument, ...]:
    """Return the arguments of a template; raise `TemplateError`."""
    arguments: list[Argument] = []
    is_guarded = True
    for number, text in enumerate(argv):
        pieces = tuple(_pieces(text))
        if "\0" in text or (number == 0 and (not text or any(piece.is_name for piece in pieces))):
            raise TemplateError(
                "the program itself cannot be a parameter" if number == 0 else "it holds a null character",
                remedy="write its name or path as the first element",
            )
        arguments.append(Argument(pieces, is_guarded))
        is_guarded = is_guarded and text != END_OF_OPTIONS
    return tuple(arguments)


def _pieces(text: str) -> Iterator[Piece]:
    end = 0
    for match in _PART.finditer(text):
        if match.start() > end:
            yield Piece(text[end : match.start()], is_name=False)
        if match["stray"]:
            raise TemplateError(
                f"{text!r} has a '$' that begins no parameter",
                remedy="write ${name} for a parameter, $$ for a dollar sign",
            )
        yield Piece(match["name"] or "$", is_name=match["name"] is not None)
        end = match.end()
    if end < len(text):
        yield Piece(text[end:], is_name=False)


def names_in(template: Sequence[Argument]) -> tuple[str, ...]:
    """Return the parameters that a template names, in order."""
    named = (piece.text for argument in template for piece in argument.pieces if piece.is_name)
    return tuple(dict.fromkeys(named))


def fill(
    template: Sequence[Argument], values: Mapping[str, Any], options: frozenset[str] = frozenset()
) -> list[str]:
    """Return the arguments with their values; raise `NotSent` for a value that cannot be one."""
    return [_filled(argument, values, options) for argument in template]


def _filled(argument: Argument, values: Mapping[str, Any], options: frozenset[str]) -> str:
    text = "".join(
        _text(piece.text, values[piece.text]) if piece.is_name else piece.text for piece in argument.pieces
    )
    # If a parameter is empty, the next one begins the argument: all of them up to the first literal text count.
    leading = _leading(argument, values)
    if argument.is_guarded and text.startswith("-") and leading and not leading <= options:
        raise _refused(
            min(leading - options),
            "it begins with '-', and the program would take it for an option",
            "put a literal -- before it in the template, or declare may_be_option = true",
        )
    if len(text.encode("utf-8", "surrogatepass")) > MAX_ARGUMENT:
        raise _refused(
            " ".join(sorted(leading)) or "…", "an argument of that length cannot be passed", "use stdin"
        )
    return text


def _leading(argument: Argument, values: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters that may begin an argument."""
    found: set[str] = set()
    for piece in argument.pieces:
        if not piece.is_name:
            break
        found.add(piece.text)
        if _text(piece.text, values[piece.text]):
            break
    return frozenset(found)


def _text(name: str, value: Any) -> str:
    if isinstance(value, list | dict) or value is None:
        raise _refused(name, "an argument is one text, number or truth value", "pass it by stdin")
    text = value if isinstance(value, str) else json.dumps(value)
    if "\0" in text:
        raise _refused(name, "it holds a null character", "remove it")
    return text


def _refused(name: str, why: str, remedy: str) -> NotSent:
    return NotSent(
        f"the parameter {name} is not passed: {why}",
        code="argument_unsendable",
        remedy=remedy,
        is_retriable=False,
    )


USUAL_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ")
OPTION = "may_be_option"
_STRUCTURED = ("array", "object", "null")


class Command(Terms):
    """A program, its arguments and limits, and what is declared about its tool."""

    name: str
    argv: tuple[str, ...] = Field(min_length=1, max_length=1_000)
    parameters: dict[str, PlainObject] = {}
    """A JSON Schema for each parameter; one without a `default` must be given."""
    stdin: Literal["none", "json"] = "none"
    """The program's standard input: nothing, or all parameters as one JSON object."""
    env: tuple[str, ...] = USUAL_ENVIRONMENT
    """The environment variables that the program sees."""
    secrets: tuple[str, ...] = ()
    """Secret variables that it also sees; their values are removed from its output."""
    cwd: str = "."
    """The working directory: a folder of the pack, or an absolute path."""
    outside_files: tuple[str, ...] = ()
    """Absolute paths of files outside the pack that `argv` may name; they are hashed when the pack is loaded."""
    max_output_bytes: int = Field(default=2**20, ge=1, le=2**25)
    max_memory_bytes: int | None = Field(default=None, ge=2**20)
    max_cpu_seconds: int | None = Field(default=None, ge=1)
    max_file_bytes: int | None = Field(default=None, ge=0)
    max_open_files: int | None = Field(default=None, ge=8)
    result: Literal["text", "lines", "json"] = "text"
    result_schema: PlainObject | None = None
    """The schema of its JSON output."""
    done: tuple[int, ...] = (0,)
    not_done: tuple[int, ...] = ()
    """The exit codes that mean not done; any code that is not listed means unknown."""

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
            return f"${{{unknown[0]}}} is not a parameter: describe it under parameters"
        if structured := [name for name in named if self.parameters[name].get("type") in _STRUCTURED]:
            return f"{structured[0]} is not a single argument: pass it by stdin"
        return ""

    def _unused(self, named: Sequence[str]) -> str:
        unused = [name for name in self.parameters if name not in named]
        if unused and self.stdin == "none":
            return f'the parameter {unused[0]} is never used: name it in argv, or give stdin = "json"'
        return ""

    def _exit_fault(self) -> str:
        if wrong := [code for code in (*self.done, *self.not_done) if not 0 <= code <= 255]:
            return f"{wrong[0]} is not an exit code (expected: 0 to 255)"
        if both := sorted(set(self.done) & set(self.not_done)):
            return f"the exit code {both[0]} cannot mean both done and not_done"
        if wrong := [path for path in self.outside_files if not PurePosixPath(path).is_absolute()]:
            return f"{wrong[0]!r} in outside_files is not an absolute path: files of the pack need no entry"
        return "" if self.result_schema is None or self.result == "json" else "only JSON has a result_schema"

    def _variable_fault(self) -> str:
        for name in (*self.env, *self.secrets):
            if not name.replace("_", "a").isalnum() or not name.isascii() or name[0].isdigit():
                return f"{name!r} is not a valid variable name"
        return ""

    @cached_property
    def template(self) -> tuple[Argument, ...]:
        """The parsed arguments."""
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
        """The operating system limits of the program, by name."""
        limits = {
            "RLIMIT_AS": self.max_memory_bytes,
            "RLIMIT_CPU": self.max_cpu_seconds,
            "RLIMIT_FSIZE": self.max_file_bytes,
            "RLIMIT_NOFILE": self.max_open_files,
        }
        return {name: limit for name, limit in limits.items() if limit is not None}

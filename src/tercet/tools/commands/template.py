"""The argument template of a command.

`${name}` stands for a parameter, `$$` for a dollar sign. A template's element is one argument of the program, whatever the
value in it holds: nothing splits it, and no shell reads it. What remains is that a program takes an argument that begins
with `-` for an option. So a value that would begin an argument with one is refused, unless a literal `--` stands before
it, or the parameter says `may_be_option`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tercet.contracts.errors import NotSent, UsageError

_PART = re.compile(r"\$\$|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<stray>\$)")
END_OF_OPTIONS = "--"
MAX_ARGUMENT = 100_000


class TemplateError(UsageError):
    """A template that cannot be filled."""

    default_code = "template_invalid"


class Piece(NamedTuple):
    """A part of an argument: literal text, or the name of the parameter that stands there."""

    text: str
    is_name: bool


class Argument(NamedTuple):
    """One argument of the program."""

    pieces: tuple[Piece, ...]
    is_guarded: bool
    """Whether the program might take it for an option: no `--` stands before it."""

    @property
    def is_fixed(self) -> bool:
        """Whether no parameter is part of it."""
        return not any(piece.is_name for piece in self.pieces)


def read_template(argv: Sequence[str]) -> tuple[Argument, ...]:
    """The arguments of a template; raises `TemplateError`."""
    arguments: list[Argument] = []
    is_guarded = True
    for number, text in enumerate(argv):
        pieces = tuple(_pieces(text))
        if "\0" in text or (number == 0 and (not text or any(piece.is_name for piece in pieces))):
            raise TemplateError(
                "the program itself is no parameter" if number == 0 else "it holds a null character",
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
    """The parameters that a template names, in their order."""
    named = (piece.text for argument in template for piece in argument.pieces if piece.is_name)
    return tuple(dict.fromkeys(named))


def fill(
    template: Sequence[Argument], values: Mapping[str, Any], options: frozenset[str] = frozenset()
) -> list[str]:
    """The arguments with the values in them; raises `NotSent` for a value that cannot be one."""
    return [_filled(argument, values, options) for argument in template]


def _filled(argument: Argument, values: Mapping[str, Any], options: frozenset[str]) -> str:
    text = "".join(
        _text(piece.text, values[piece.text]) if piece.is_name else piece.text for piece in argument.pieces
    )
    # A parameter that is empty lets the next one begin the argument: every one of them up to the first text counts.
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
    """The parameters that decide how an argument begins."""
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

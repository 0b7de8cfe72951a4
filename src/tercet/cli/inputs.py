"""Reading what users pass to commands: a pack's folder, a plan, JSON input, amounts and durations."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, BinaryIO, cast

from tercet.contracts.errors import PackError, PlanError, UsageError
from tercet.contracts.plan import Plan
from tercet.contracts.plan_formats import MAX_BYTES, load_plan
from tercet.contracts.problem import Problem
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.plain import not_plain
from tercet.core.budget import EXTENSIBLE
from tercet.core.messages import demand_extension
from tercet.packs import Pack, check, check_folder
from tercet.planner.template import example_input, inputs_of
from tercet.tools.strict_json import read_strictly

STDIN = "-"


def load_pack(folder: Path) -> Pack:
    """Load the pack in a folder; what its Python files print meanwhile goes to stderr."""
    with redirect_stdout(sys.stderr):
        return Pack.load(folder)


def load_checked_pack(folder: Path) -> Pack:
    """Return the pack in a folder; raises `PackError` for every error that `tercet check` finds in it."""
    pack = load_pack(folder)
    if errors := [problem for problem in check(pack) if problem.severity == "error"]:
        raise PackError(errors)
    return pack


def check_pack(folder: Path) -> tuple[Problem, ...]:
    """Return every problem of the pack in a folder; what its Python files print goes to stderr."""
    with redirect_stdout(sys.stderr):
        return check_folder(folder)


def read_plan(name: str) -> Plan:
    """Read the plan in a file, or on stdin if the name is `-`."""
    try:
        return load_plan(_read(name, "plan"))
    except PlanError as error:
        if name == STDIN:
            raise
        raise PlanError([each.model_copy(update={"file": name}) for each in error.problems]) from error


def reject_template(plan: Plan, name: str, command: str, pack: Path) -> None:
    """Raise `UsageError` for a template, whose placeholders only a request's input can fill."""
    if fields := inputs_of(plan):
        raise UsageError(
            f"{name} is a template: ${{input.{fields[0]}}} in it is filled from a request's input",
            code="template_unfilled",
            remedy=f"pass the input, and the pack's template is used: tercet {command} {shlex.quote(str(pack))} --input '{example_input(fields)}'",
        )


def read_input(text: str | None, option: str = "--input") -> JsonObject:
    """Return the JSON object that an option holds, directly or as `@` and the name of a file."""
    if text is None:
        return {}
    source = _read(text[1:], "input") if text.startswith("@") else text.encode(errors="surrogatepass")
    if text.startswith("@"):
        _require_utf8(source, text[1:])
    value = read_json(
        source.decode(errors="surrogatepass"),
        option.lstrip("-"),
        code="input_invalid",
        remedy=f"""write {option} '{{"NAME": "VALUE"}}', or {option} @file.json""",
    )
    if not isinstance(value, dict):
        raise UsageError(
            f"the {option.lstrip('-')} is not a JSON object",
            code="input_invalid",
            remedy=f"""give the fields names: {option} '{{"NAME": "VALUE"}}'""",
        )
    return cast("JsonObject", value)


def read_json(text: str, what: str, *, code: str, remedy: str) -> Any:
    """Parse a text as JSON; raise `UsageError` if it is not plain JSON.

    Duplicate keys, NaN, numbers beyond 2^53, unpaired surrogates and nesting that is too deep are refused here: later
    they would break a hash, or mean different things to different readers.
    """
    try:
        value = read_strictly(text)
    except ValueError as error:
        raise UsageError(f"the {what} is not JSON: {error}", code=code, remedy=remedy) from error
    if (fault := not_plain(value)) is not None:
        raise UsageError(
            f"the {what} cannot be used: {fault}",
            code=code,
            remedy="write long numbers as strings, nest less, and use no unpaired surrogates",
        )
    return value


def _require_utf8(data: bytes, name: str) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"byte {error.start} of {name}, in line {row}, is not UTF-8",
            code="input_invalid",
            remedy="save the file as UTF-8",
        ) from error


def _read(name: str, what: str) -> bytes:
    try:
        if name == STDIN:
            return _bounded(_stdin(what), "stdin", what)
        with Path(name).open("rb") as stream:
            return _bounded(stream, name, what)
    except OSError as error:
        raise _unreadable(name, what, error) from error


def _stdin(what: str) -> BinaryIO:
    stream: BinaryIO | None = getattr(sys.stdin, "buffer", None)  # a shell can start a process without stdin
    if stream is None:
        raise UsageError("stdin is closed", code=f"{what}_unreadable", remedy=f"name the {what}'s file")
    return stream


def _bounded(stream: BinaryIO, name: str, what: str) -> bytes:
    # One byte more than allowed shows that a file is too large, without reading the rest.
    data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"the {what} in {name} has more than {MAX_BYTES:,} bytes",
            code=f"{what}_too_large",
            remedy="pass large data as evidence, or let a tool fetch it",
        )
    return data


def _unreadable(name: str, what: str, error: OSError) -> UsageError:
    match error:
        case FileNotFoundError():
            return UsageError(
                f"file not found: {name}",
                code=f"{what}_not_found",
                remedy=f"name the {what}'s file, or - for stdin",
            )
        case IsADirectoryError():
            return UsageError(
                f"{name} is a folder",
                code=f"{what}_not_found",
                remedy=f"name the file in it that holds the {what}",
            )
        case _:
            return UsageError(
                f"cannot read {name}: {error.strerror or error}",
                code=f"{what}_unreadable",
                remedy="check its permissions, and that it is a plain file",
            )


# --- amounts ---


def read_amounts(words: Sequence[str]) -> dict[str, int]:
    """Return amounts by name; raise `UsageError` for text that is not an amount, or an amount below one."""
    amounts: dict[str, int] = {}
    for word in words:
        name, equals, number = word.partition("=")
        name = name.replace("-", "_")
        if not equals or not number.isascii() or not number.removeprefix("-").isdecimal() or len(number) > 18:
            raise UsageError(
                f"'{word}' is not an extension of a budget",
                code="wrong_extension",
                remedy=f"write NAME=N, where NAME is one of {', '.join(EXTENSIBLE)}",
            )
        amounts[name] = amounts.get(name, 0) + int(number)
    return demand_extension(amounts)


_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PART = re.compile(r"([0-9]{1,9})(ms|d|h|m|s)", re.ASCII)


def read_duration(text: str) -> int:
    """Return a duration in milliseconds; raise `UsageError` if the text is not a duration."""
    parts = _PART.findall(text.strip())
    total = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text.strip() or not total:
        raise UsageError(
            f"'{text}' is not a duration",
            code="duration_invalid",
            remedy="write a number with a unit: 90d, 12h, 1h30m, 45s or 500ms",
        )
    return total

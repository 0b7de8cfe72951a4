"""The arguments and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.core.budget import EXTENSIBLE
from tercet.core.messages import demand_extension


def option(metavar: str, text: str, *names: str, **given: Any) -> Any:
    """Return an option that takes a value; without names it is called like its parameter."""
    return typer.Option(*names, metavar=metavar, help=text, **given)


def flag(text: str, *names: str, **given: Any) -> Any:
    """Return an option that takes no value."""
    return typer.Option(*names, help=text, **given)


def argument(metavar: str, text: str, **given: Any) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=text, **given)


PackFolder: TypeAlias = Annotated[Path, argument("PACK", "The pack's folder: the one with pack.toml in it.")]
AsJson: TypeAlias = Annotated[
    bool, flag("Print one JSON object on stdout, and nothing else. Errors too.", "--json")
]
Force: TypeAlias = Annotated[
    bool, flag("Write it even if something else is there, which is then gone.", "--force")
]
Note: TypeAlias = Annotated[str, option("TEXT", "Why; it is kept with what you say.", show_default=False)]
SessionId: TypeAlias = Annotated[str, argument("ID", "The session: ses_ and sixteen letters or digits.")]
Intent: TypeAlias = Annotated[
    str | None,
    option(
        "INTENT",
        "What is asked for: by default the plan's intent, where a plan is given, else the pack's only decision.",
    ),
]
RequestInput: TypeAlias = Annotated[
    str | None,
    option("JSON", "The request's input: a JSON object, or @ and the name of a file.", "--input"),
]
SnapshotName: TypeAlias = Annotated[
    str | None,
    option("SNAPSHOT", "Which of the pack's evidence counts: by default its newest snapshot."),
]
SafetyMode: TypeAlias = Annotated[
    ApprovalMode | None,
    option(
        "MODE",
        f"How far the run may go, one of {', '.join(ApprovalMode)}: by default as far as the pack says, else local_write.",
    ),
]


def read_amounts(words: Sequence[str]) -> dict[str, int]:
    """The amounts by name; raises `UsageError` for what is none, also if it is not above zero."""
    amounts: dict[str, int] = {}
    for word in words:
        name, equals, number = word.partition("=")
        name = name.replace("-", "_")
        if not equals or not number.isascii() or not number.removeprefix("-").isdecimal() or len(number) > 18:
            raise UsageError(
                f"{word!r} is no extension of a budget",
                code="wrong_extension",
                remedy=f"write NAME=N, where NAME is one of {', '.join(EXTENSIBLE)}",
            )
        amounts[name] = amounts.get(name, 0) + int(number)
    return demand_extension(amounts)


_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PART = re.compile(r"([0-9]{1,9})(ms|d|h|m|s)", re.ASCII)


def read_duration(text: str) -> int:
    """A duration in milliseconds; raises `UsageError` if it is none."""
    parts = _PART.findall(text.strip())
    total = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text.strip() or not total:
        raise UsageError(
            f"{text!r} is no duration",
            code="duration_invalid",
            remedy="write a number with a unit: 90d, 12h, 1h30m, 45s or 500ms",
        )
    return total

"""The arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from tercet.contracts.mode import ApprovalMode


def option(metavar: str, text: str, *names: str, **given: Any) -> Any:
    """Return an option that takes a value; without names it is called like its parameter."""
    return typer.Option(*names, metavar=metavar, help=text, **given)


def flag(text: str, *names: str, **given: Any) -> Any:
    """Return an option that takes no value."""
    return typer.Option(*names, help=text, **given)


def argument(metavar: str, text: str, **given: Any) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=text, **given)


PackFolder: TypeAlias = Annotated[Path, argument("PACK", "The pack's folder, which contains pack.toml.")]
AsJson: TypeAlias = Annotated[
    bool, flag("Print one JSON object on stdout, and nothing else. Errors too.", "--json")
]
Force: TypeAlias = Annotated[bool, flag("Overwrite a file that Tercet did not make.", "--force")]
Note: TypeAlias = Annotated[str, option("TEXT", "The reason, which is recorded.", show_default=False)]
Intent: TypeAlias = Annotated[
    str | None,
    option(
        "INTENT",
        "The intent of the request: by default that of the given plan, else the pack's only decision.",
    ),
]
RequestInput: TypeAlias = Annotated[
    str | None,
    option("JSON", "The request's input: a JSON object, or @FILE.", "--input"),
]
SnapshotName: TypeAlias = Annotated[
    str | None,
    option("SNAPSHOT", "The evidence snapshot to use: by default the pack's newest."),
]
SafetyMode: TypeAlias = Annotated[
    ApprovalMode | None,
    option(
        "MODE",
        f"The most that the run may do, one of {', '.join(ApprovalMode)}: by default the pack's, else local_write.",
    ),
]

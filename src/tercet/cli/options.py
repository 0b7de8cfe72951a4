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


PackFolder: TypeAlias = Annotated[Path, argument("PACK", "The pack's folder: the one with pack.toml in it.")]
AsJson: TypeAlias = Annotated[
    bool, flag("Print one JSON object on stdout, and nothing else. Errors too.", "--json")
]
Force: TypeAlias = Annotated[
    bool, flag("Write it even if something else is there, which is then gone.", "--force")
]
Note: TypeAlias = Annotated[str, option("TEXT", "Why; it is kept with what you say.", show_default=False)]
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

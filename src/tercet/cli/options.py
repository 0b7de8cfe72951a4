"""The arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tercet.contracts.mode import ApprovalMode

PackFolder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="PACK", help="The pack's folder: the one with pack.toml in it.")
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else. Errors too.")
]
Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Write it even if something else is there, which is then gone.")
]
Note: TypeAlias = Annotated[
    str, typer.Option(metavar="TEXT", help="Why; it is kept with what you say.", show_default=False)
]
SessionId: TypeAlias = Annotated[
    str, typer.Argument(metavar="ID", help="The session: ses_ and sixteen letters or digits.")
]
Intent: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="INTENT",
        help="What is asked for: by default the plan's intent, where a plan is given, else the pack's only decision.",
    ),
]
RequestInput: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--input", metavar="JSON", help="The request's input: a JSON object, or @ and the name of a file."
    ),
]
SnapshotName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="SNAPSHOT", help="Which of the pack's evidence counts: by default its newest snapshot."
    ),
]
SafetyMode: TypeAlias = Annotated[
    ApprovalMode | None,
    typer.Option(
        metavar="MODE",
        help=f"How far the run may go, one of {', '.join(ApprovalMode)}: by default as far as the pack says, else local_write.",
    ),
]

"""The arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

PackFolder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="PACK", help="The pack's folder: the one with pack.toml in it.")
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else. Errors too.")
]
Note: TypeAlias = Annotated[
    str, typer.Option(metavar="TEXT", help="Why; it is kept with what you say.", show_default=False)
]
SessionId: TypeAlias = Annotated[
    str, typer.Argument(metavar="ID", help="The session: ses_ and sixteen letters or digits.")
]

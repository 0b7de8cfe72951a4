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

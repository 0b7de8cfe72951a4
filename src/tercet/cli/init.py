"""`tercet init`: a first pack that works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tercet.cli.exit_code import ExitCode
from tercet.cli.options import AsJson
from tercet.cli.screen import Screen, print_json
from tercet.packs.scaffold import scaffold

EXAMPLES = """\
tercet init my_pack
tercet check my_pack
tercet verify my_pack my_pack/plans/sample.json
"""


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to make; it must not exist, or be empty.")
    ],
    *,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The pack's name: by default the folder's.")
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Make a small pack that passes `tercet check`, with a sample plan that passes `tercet verify`."""
    made = scaffold(folder)
    return ExitCode.ACCEPTED

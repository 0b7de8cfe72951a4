"""`tercet init`: a first pack that works."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from tercet.cli.documents import load_pack
from tercet.cli.options import AsJson, argument, option
from tercet.cli.screen import Screen, print_json
from tercet.cli.text import printable
from tercet.packs.scaffold import EXAMPLE_INPUT, scaffold

EXAMPLES = """\
tercet init my_pack
tercet check my_pack
tercet verify my_pack my_pack/plans/sample.json
tercet run my_pack --input '{"plant": "tomato"}'  # waits at a gate: exit 4
"""


def init(
    folder: Annotated[Path, argument("DIR", "The folder to make; it must not exist, or be empty.")],
    *,
    name: Annotated[str | None, option("NAME", "The pack's name: by default the folder's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a small pack that works. It passes `tercet check`, its plan passes `tercet verify`, and it has a template
    to `tercet run`.
    """
    files = [path.relative_to(folder).as_posix() for path in scaffold(folder, name)]
    ref = load_pack(folder).ref
    plan = next(file for file in files if file.startswith("plans/"))
    commands = [
        shlex.join(["tercet", "check", str(folder)]),
        shlex.join(["tercet", "verify", str(folder), str(folder / plan)]),
        shlex.join(["tercet", "run", str(folder), "--input", EXAMPLE_INPUT]),
    ]
    if as_json:
        print_json({"pack": ref, "folder": str(folder), "files": files, "plan": plan, "next": commands})
    else:
        _show(Screen(), ref, folder, files, commands)


def _show(screen: Screen, ref: str, folder: Path, files: list[str], commands: list[str]) -> None:
    screen.say(f"✓ {ref} is in {printable(str(folder), 200)}")
    for file in files:
        screen.put(printable(file), first="    ")
    screen.say("Next:")
    for command in commands:
        screen.show_command(command)

"""Draws the picture in the README: the real screen of `tercet verify` on the hijacked plan, as SVG."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

HOME = Path(__file__).resolve().parent.parent
COMMAND = "tercet verify examples/refunds examples/refunds/plans/plan_hijacked.json"
TARGET = HOME / "docs" / "images" / "refused.svg"


def screen() -> str:
    """What the command prints, with its colours."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "88", "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    words = [sys.executable, "-m", *COMMAND.split()]
    done = subprocess.run(words, cwd=HOME, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode != 3:
        raise SystemExit(f"the critic should have refused this plan: {done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Writes the picture."""
    console = Console(record=True, width=92, force_terminal=True, file=StringIO())
    console.print(Text.assemble(("$ ", "bold green"), COMMAND))
    console.print(Text.from_ansi(screen().rstrip("\n")))
    drawn = console.export_svg(title="the critic says no", unique_id="tercet")
    # Without the web fonts that rich asks for: a picture in a README fetches nothing.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    TARGET.write_text("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Draws the pictures in the README: real screens of `tercet demo` and of `tercet verify` on the hijacked plan, as SVG."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

HOME = Path(__file__).resolve().parent.parent
IMAGES = HOME / "docs" / "images"
ROWS, COLUMNS = 60, 90

_BLANK = "&#160;"
_CELL = 12.2
"""How wide rich draws a letter."""
_TEXT = re.compile(
    r'(?P<head><text class="[^"]*") x="(?P<x>[\d.]+)" y="(?P<y>[\d.]+)" textLength="(?P<length>[\d.]+)"(?P<tail>[^>]*)>'
    rf"(?P<before>(?:{_BLANK})*)(?P<text>[^<]*?)(?P<after>(?:{_BLANK})*)</text>"
)


def screen(command: str, code: int) -> str:
    """What a command prints at a terminal of this size, with its colours; it must exit with this code."""
    own, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    words = [sys.executable, "-m", *command.split()]
    running = subprocess.Popen(words, cwd=HOME, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)  # noqa: S603 - our own command
    os.close(theirs)
    said = b"".join(iter(lambda: _read(own), b"")).decode().replace("\r\n", "\n")
    if running.wait() != code:
        raise SystemExit(f"{command} should have exited with {code}: {said}")
    return said


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # on Linux, the end of a terminal whose other side has been closed
        return b""


def draw(name: str, title: str, command: str, said: str) -> None:
    """Write one picture."""
    console = Console(record=True, width=COLUMNS, force_terminal=True, file=StringIO())
    console.print(Text.assemble(("$ ", "bold green"), command))
    console.print(Text.from_ansi(said.rstrip("\n")))
    console.print()
    drawn = console.export_svg(title=title, unique_id=f"tercet-{name}")
    # Without the web fonts that rich asks for: a picture in a README fetches nothing.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    drawn = _TEXT.sub(_placed, drawn)
    lines = [line.rstrip() for line in drawn.splitlines()]
    (IMAGES / f"{name}.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _placed(match: re.Match[str]) -> str:
    """A piece of text without the blanks around it, at the place where it begins: not every viewer draws blanks."""
    before, text, after = match["before"].count(_BLANK), match["text"], match["after"].count(_BLANK)
    if not text:
        return ""
    x = float(match["x"]) + before * _CELL
    length = float(match["length"]) - (before + after) * _CELL
    return (
        f'{match["head"]} x="{x:g}" y="{match["y"]}" textLength="{length:.6g}"{match["tail"]}>{text}</text>'
    )


def main() -> None:
    """Writes both pictures."""
    refused = "tercet verify examples/refunds examples/refunds/plans/plan_hijacked.json"
    draw("refused", "the critic says no", refused, screen(refused, 3))
    demo = "tercet demo --yes"
    # The commands at its end are for the user who ran it, and too wide for a picture.
    story, _, _ = screen(demo, 0).partition("\x1b[1mTry next")
    draw("demo", "one refund, refused, approved, killed and paid once", demo, story)


if __name__ == "__main__":
    main()

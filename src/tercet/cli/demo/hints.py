"""What to type after the demo: commands that work when they are pasted."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from tercet.cli.demo.folder import Folder
from tercet.cli.demo.scenes import Waiting

Hint = tuple[str, str]
"""What a command shows, and the command."""


def hints(folder: Folder, gate: Waiting, status: str) -> tuple[Hint, ...]:
    """What may come next, for a session that ended or waits."""
    journal = ("--journal", folder.journal_url)
    show = ("the whole run, out of the journal", _line("sessions", "show", gate.session_id, *journal))
    if status == "awaiting_gate":
        return (
            ("the gate as its approver sees it", _line("gates", "show", gate.gate, *journal)),
            show,
            ("end the run without paying", _line("sessions", "cancel", gate.session_id, *journal)),
        )
    resume = _line("sessions", "resume", gate.session_id, "--pack", str(folder.pack), *journal)
    page = str(folder.root / "report.html")
    report = _line("report", gate.session_id, *journal, "-o", page)
    return (
        show,
        ("the same as a page for a browser", report),
        ("carry it on once more, and see that nothing is paid", resume),
        (
            "a plan that an attacker wrote",
            _line("verify", str(folder.pack), str(folder.plan("plan_hijacked"))),
        ),
    )


def _line(*words: str) -> str:
    return shlex.join([*_tercet(), *words])


def _tercet() -> tuple[str, ...]:
    """How this Tercet is called from the present folder."""
    script = Path(sys.executable).with_name("tercet")
    found = shutil.which("tercet")
    if found is not None and Path(found).resolve() == script.resolve():
        return ("tercet",)
    if not script.exists():
        return (sys.executable, "-m", "tercet")
    here = Path.cwd()  # a bare name would be looked for elsewhere
    is_below = script.is_relative_to(here) and script.parent != here
    return (str(script.relative_to(here) if is_below else script),)

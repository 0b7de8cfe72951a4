"""`tercet report`: an HTML page about a run."""

from __future__ import annotations

import asyncio
import os
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from tercet.cli.files import require_writable, write_file
from tercet.cli.journals import DEFAULT, JournalUrl
from tercet.cli.options import AsJson, Force, option
from tercet.cli.replay.runs import RunName, run_at
from tercet.cli.screen import Screen, let_go_of_stdout, print_json
from tercet.contracts.errors import UsageError
from tercet.view.terminal.text import printable

if TYPE_CHECKING:
    from tercet.view.session import SessionView

EXAMPLES = """\
tercet report ses_0123456789abcdef
tercet report ses_0123456789abcdef -o refund.html
tercet report ses_0123456789abcdef -o - > refund.html
tercet report run.tercet
"""

STDOUT = "-"


def report(
    run: RunName,
    *,
    out: Annotated[
        str | None,
        option(
            "FILE",
            "The file to write, or - for standard output; by default ID.html in this folder.",
            "-o",
            "--out",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Write a report of a run as one HTML page.

    The page shows the plan, verdicts, timeline, approvals, budgets, evidence and hashes. It opens from a file, loads
    nothing from the network and runs no script; text from agents and tools is escaped, and secrets are left out. The
    journal or bundle is only read, and its integrity is checked. The same run gives the same bytes. An existing
    report is replaced; any other file is kept unless --force is given.
    """
    target = None if out == STDOUT else Path(out or f"{Path(run).stem}.html")
    if target is not None:
        _require_writable(target, is_forced=force)
    if as_json and target is None:
        raise UsageError(
            "standard output cannot take both the page and the JSON",
            code="two_outputs",
            remedy="name a file with -o FILE, or leave --json out",
        )
    told, page = asyncio.run(_page(journal, run))
    if target is None:
        _print(page)
        return
    write_file(target, page)
    if as_json:
        print_json(
            {
                "file": str(target),
                "session_id": told.session,
                "standing": told.standing,
                "bytes": len(page),
                "sha256": sha256(page).hexdigest(),
            }
        )
    else:
        screen = Screen()
        screen.say(
            Text.assemble(
                ("✓ ", "green"), f"{printable(str(target), 400)}: {told.standing}, {len(page):,} bytes"
            )
        )
        screen.say(Text("  Open it in a browser; it needs no network.", style="dim"))


async def _page(url: str, run: str) -> tuple[SessionView, bytes]:
    """Return the session of a run, and its report."""
    # Imported late: no other command needs these, and they take long to import.
    from tercet.replay.run_data import read_run  # noqa: PLC0415
    from tercet.view.html.page import render  # noqa: PLC0415
    from tercet.view.html.safe_text import SafeText, secrets_of  # noqa: PLC0415
    from tercet.view.run import run_view  # noqa: PLC0415

    safe = SafeText(secrets_of(os.environ))
    async with run_at(run, url) as source:
        view = run_view(await read_run(source.journal, source.tenant, source.session), safe.lines)
        return view.session, render(view, safe).encode()


def _require_writable(target: Path, *, is_forced: bool) -> None:
    from tercet.view.html.page import MARKER  # noqa: PLC0415 - as above

    require_writable(target, is_forced=is_forced, mark=MARKER.encode())


def _print(page: bytes) -> None:
    try:
        sys.stdout.buffer.write(page)
        sys.stdout.flush()
    except BrokenPipeError:
        let_go_of_stdout()

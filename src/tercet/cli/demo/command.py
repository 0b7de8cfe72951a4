"""`tercet demo`: plays the story, and tells it to a person or to a program."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from tercet.cli.demo.folder import Folder, make_folder
from tercet.cli.demo.narrator import Hint, Narrator, hints
from tercet.cli.demo.scenes import Facts, Scene
from tercet.cli.demo.story import Ask, play
from tercet.cli.exit_code import ExitCode
from tercet.cli.options import AsJson, flag, option
from tercet.cli.screen import Screen, print_json
from tercet.contracts.errors import InternalError

EXAMPLES = """\
tercet demo
tercet demo --yes --dir refund-story
tercet demo --json
"""

Told: TypeAlias = dict[str, Facts]
"""The facts of a story by the names of their scenes."""

_EXIT_CODES = {"completed": ExitCode.ACCEPTED, "awaiting_gate": ExitCode.WAITING}


def demo(
    *,
    yes: Annotated[
        bool, flag("Approve without asking; so it is also where stdin is no terminal.", "--yes")
    ] = False,
    folder: Annotated[
        Path | None,
        option(
            "FOLDER",
            "Where to leave the files: a folder that is empty or not there yet; by default a new temporary one.",
            "--dir",
            show_default=False,
        ),
    ] = None,
    fast: Annotated[
        bool, flag("Without pauses; so it is also where stdout is no terminal.", "--fast")
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Tell the refund story for real, in a few seconds. A plan is refused, a gate waits, a worker is killed after the
    payment, and there is one refund.

    It needs no key and no server: a journal and a shop's payment database on SQLite, and worker processes of its own,
    one of which is killed with kill -9. What came of it is read back from the two databases. Exits with 0 when the
    refund is paid, 5 when you deny it, 4 when you leave it at its gate.
    """
    place = make_folder(folder)
    if as_json:
        told = _play(place, lambda _gate: "approve", lambda _scene: None)
        print_json(_document(place, told))
        return _exit_code(told)
    # Not what rich thinks of the terminal: FORCE_COLOR makes nobody read along.
    is_watched = sys.stdout.isatty()
    narrator = Narrator(Screen(), is_paced=is_watched and not fast)
    narrator.begin(place)
    asks = is_watched and sys.stdin is not None and sys.stdin.isatty() and not yes
    told = _play(place, narrator.ask if asks else lambda _gate: "approve", narrator.tell)
    narrator.end(_next(place, told), place)
    return _exit_code(told)


def _play(place: Folder, ask: Ask, tell: Callable[[Scene], None]) -> Told:
    """Play the story to its end."""
    told: Told = {}
    with closing(play(place, ask)) as story:  # whatever happens while it is told, its workers are ended
        for scene in story:
            tell(scene)
            if scene.name not in ("heading", "aside"):
                told[scene.name] = scene.facts
    return told


def _status(told: Told) -> str:
    """How the session of plan B stands at the end."""
    last = told.get("recovered") or told.get("ended")
    if last is None:
        raise InternalError("the story has no end")
    return str(last["status"])


def _next(place: Folder, told: Told) -> tuple[Hint, ...]:
    return hints(place, told["waiting"], _status(told))


def _exit_code(told: Told) -> ExitCode:
    return _EXIT_CODES.get(_status(told), ExitCode.FAILED)


def _document(place: Folder, told: Told) -> dict[str, Any]:
    return {
        "folder": str(place.root),
        "journal": place.journal_url,
        "payments": str(place.payments),
        "pack": str(place.pack),
        "status": _status(told),
        **told,
        "next": [command for _, command in _next(place, told)],
    }

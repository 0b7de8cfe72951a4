"""The console of a demo as the demo uses it: the gate is answered there, or the run is looked at when all is over."""

from __future__ import annotations

import time
from contextlib import ExitStack
from importlib.util import find_spec

from tercet.cli.demo.folder import Answer, DemoReader, Facts, Folder
from tercet.cli.demo.process import Worker
from tercet.cli.demo.screens import DemoScreen
from tercet.cli.serve.serve import show_in_browser
from tercet.contracts.errors import extra_missing

_MODULES = ("fastapi", "jinja2", "uvicorn")
_POLL_S = 0.2
_ANSWERS: dict[str, Answer] = {"approve": "approve", "deny": "deny"}


def _missing() -> str:
    """Return a module that the console needs and that is not installed; empty if all are installed."""
    return next((name for name in _MODULES if find_spec(name) is None), "")


def require_console() -> None:
    """Raise `UsageError` if the console is not installed."""
    if missing := _missing():
        raise extra_missing("the console", missing, "service")


class DemoPages:
    """Opens the console of a demo when it is needed; it runs as long as `stack` is open."""

    def __init__(self, folder: Folder, screen: DemoScreen, stack: ExitStack) -> None:
        self._folder = folder
        self._screen = screen
        self._stack = stack
        self._is_open = False

    def ask(self, gate: Facts) -> Answer:
        """Open the console at a gate, and wait until it is answered there."""
        self._screen.pose(gate)
        self._open(f"/console/gates/{gate['gate']}")
        self._screen.say("Answer it there; the demo goes on by itself. Ctrl-C ends it.")
        reader = DemoReader(self._folder)
        while gate["gate"] in (state := reader.session(gate["session_id"]).state).gates and not state.is_over:
            time.sleep(_POLL_S)
        given = [each.answer for each in state.answers if each.gate == gate["gate"]]
        return _ANSWERS.get(given[-1], "quit") if given else "quit"

    def offer(self, gate: Facts, *, is_waiting: bool) -> None:
        """Offer the console with the run that the demo made, and keep it open until the user ends it."""
        if _missing():
            return
        if not self._is_open:
            if self._screen.read_line("Enter opens the run in the console · q ends") != "":
                return
            page = f"gates/{gate['gate']}" if is_waiting else f"sessions/{gate['session_id']}"
            self._open(f"/console/{page}", "worker")
        self._screen.read_line("Enter closes the console")

    def _open(self, page: str, *words: str) -> None:
        site = self._stack.enter_context(Worker(self._folder, page, *words, module="site"))
        link = site.wait_for_link()
        self._is_open = True
        self._screen.show_link(link)
        show_in_browser(link)

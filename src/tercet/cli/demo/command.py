"""`tercet demo`: the scenes of the demo in their order. The facts of each are read back from the databases first.

If a fact differs from what the demo expects, the demo ends with an error.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from tercet.cli import ExitCode
from tercet.cli.demo.folder import (
    APPROVER,
    OWNER,
    Answer,
    DemoReader,
    Facts,
    Folder,
    Scene,
    heading,
    make_folder,
)
from tercet.cli.demo.process import Worker
from tercet.cli.demo.screens import DemoScreen, Hint, hints
from tercet.cli.options import AsJson, flag, option
from tercet.cli.screen import Screen, print_json
from tercet.cli.serve.serve import show_in_browser
from tercet.contracts.errors import InternalError, UsageError, extra_missing
from tercet.contracts.request import Actor
from tercet.executor.clock import SystemClock
from tercet.packs import Pack
from tercet.runtime import Runtime
from tercet.view.terminal.text import duration_text

Ask: TypeAlias = Callable[[Facts], Answer]
"""Gets the answer to a gate, and sees to it that it is recorded."""


def scenes(folder: Folder, ask: Ask) -> Generator[Scene]:
    """Run the demo and yield its scenes."""
    reader = DemoReader(folder)
    yield heading(1, "An agent proposes plan A: pay order ord_881 back")
    yield _plan_a(folder, reader)
    yield heading(2, "Plan B is the same refund, with the evidence of its refund window pinned")
    waiting = _plan_b(folder, reader)
    yield waiting
    gate = waiting.facts
    yield heading(3, "Who may approve? First the agent itself tries, then a finance lead")
    yield _own_attempt(folder, reader, gate)
    match ask(gate):
        case "approve":
            yield from _paid(folder, reader, gate)
        case "deny":
            yield from _denied(folder, reader, gate)
        case "quit":
            yield reader.ended(gate)


def _plan_a(folder: Folder, reader: DemoReader) -> Scene:
    _run_worker(folder, "start", "plan_a")
    scene = reader.refused(reader.newest())
    status, code, calls, has_database = _read(scene, "status", "code", "calls", "has_payment_database")
    is_expected = status == "failed" and code and not calls and not has_database
    _expect(is_expected, "plan A was not refused before anything happened")
    return scene


def _plan_b(folder: Folder, reader: DemoReader) -> Scene:
    worker = _run_worker(folder, "start", "plan_b")
    scene = reader.waiting(reader.newest(), worker)
    status, refunds = _read(scene, "status", "refunds")
    _expect(status == "awaiting_gate" and not refunds, "plan B did not stop before the payment")
    return scene


def _own_attempt(folder: Folder, reader: DemoReader, gate: Facts) -> Scene:
    try:
        _reply(folder, gate, "approve", OWNER)
    except UsageError as refusal:
        scene = reader.own_attempt(gate, refusal)
        _expect(not scene.facts["approvals"], "the refused approval was counted")
        return scene
    raise InternalError("the owner could approve their own run")


def _paid(folder: Folder, reader: DemoReader, gate: Facts) -> Generator[Scene]:
    yield reader.answered(gate["session_id"])
    yield heading(4, "A worker pays, and is killed before it can write that down")
    yield _crash(folder, reader, gate)
    yield heading(5, "A new worker carries on")
    left = reader.lease_until(gate["session_id"]) - SystemClock().now()
    if left > 0:
        yield Scene(
            "aside",
            {"text": f"the dead worker's lease on the session ends in {duration_text(left)}: waiting"},
        )
    yield _recovery(folder, reader, gate)
    yield heading(6, "What is left is a decision record")
    yield reader.recorded(gate["session_id"])


def _crash(folder: Folder, reader: DemoReader, gate: Facts) -> Scene:
    with Worker(folder, "resume", gate["session_id"], "freeze") as worker:
        worker.wait_until_frozen()
        number = worker.kill()
    scene = reader.crashed(gate, worker.pid, number)
    refunds, intents, completes = _read(scene, "refunds", "intents", "completes")
    is_expected = len(refunds) == 1 and intents == 1 and not completes
    _expect(is_expected, "the worker was not killed between the payment and its COMPLETE")
    return scene


def _recovery(folder: Folder, reader: DemoReader, gate: Facts) -> Scene:
    scene = reader.recovered(gate, _run_worker(folder, "resume", gate["session_id"]))
    status, refunds, keys = _read(scene, "status", "refunds", "keys")
    is_expected = status == "completed" and len(refunds) == 1 and len(set(keys)) == 1
    _expect(is_expected, "the session did not complete with one refund")
    return scene


def _denied(folder: Folder, reader: DemoReader, gate: Facts) -> Generator[Scene]:
    yield reader.answered(gate["session_id"])
    yield heading(4, "A worker brings the session to its end")
    _run_worker(folder, "resume", gate["session_id"])
    scene = reader.ended(gate)
    status, refunds, calls = _read(scene, "status", "refunds", "calls_of_payment")
    is_expected = status == "rejected" and not refunds and not calls
    _expect(is_expected, "the denied call was made")
    yield scene


def _run_worker(folder: Folder, *words: str) -> int:
    """Run a worker until its session is over or waits, and return its process id."""
    with Worker(folder, *words) as worker:
        worker.wait()
        return worker.pid


def recorded(folder: Folder, ask: Ask) -> Ask:
    """Return an `Ask` that records as the approver's what another one returns."""

    def answer(gate: Facts) -> Answer:
        given = ask(gate)
        if given != "quit":
            _reply(folder, gate, given, APPROVER)
        return given

    return answer


def _reply(folder: Folder, gate: Facts, answer: Literal["approve", "deny"], actor: Actor) -> None:
    asyncio.run(_append(folder, gate, answer, actor))


async def _append(folder: Folder, gate: Facts, answer: Literal["approve", "deny"], actor: Actor) -> None:
    async with Runtime(Pack.load(folder.pack), folder.journal_url) as runtime:
        if answer == "approve":
            await runtime.approve(gate["gate"], actor=actor, digest=gate["digest"])
        else:
            await runtime.deny(gate["gate"], actor=actor)


def _expect(is_expected: object, otherwise: str) -> None:
    if not is_expected:
        raise InternalError(f"the demo went wrong: {otherwise}")


def _read(scene: Scene, *names: str) -> list[Any]:
    return [scene.facts[name] for name in names]


# --- the console ---


_MODULES = ("fastapi", "jinja2", "uvicorn")
_POLL_S = 0.2
_GIVEN: dict[str, Answer] = {"approve": "approve", "deny": "deny"}


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
        return _GIVEN.get(given[-1], "quit") if given else "quit"

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


# --- demo ---


DEMO_EXAMPLES = """\
tercet demo
tercet demo --console
tercet demo --yes --dir refund-story
tercet demo --json
"""

DemoFacts: TypeAlias = dict[str, Facts]
"""The facts of each scene by its name."""

_EXIT_CODES = {"completed": ExitCode.ACCEPTED, "awaiting_gate": ExitCode.WAITING}


def demo(
    *,
    yes: Annotated[
        bool, flag("Approve without asking; always so if stdin is not a terminal.", "--yes")
    ] = False,
    folder: Annotated[
        Path | None,
        option(
            "FOLDER",
            "The folder for the files of the demo, new or empty; by default a temporary folder.",
            "--dir",
            show_default=False,
        ),
    ] = None,
    console: Annotated[
        bool,
        flag(
            "Answer in the console, in a browser; without a terminal or with --yes, as without it.",
            "--console",
        ),
    ] = False,
    fast: Annotated[
        bool, flag("Run without pauses; always so if stdout is not a terminal.", "--fast")
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Run the refund demo: refusal, approval, crash, one payment.

    The critic refuses plan A. Plan B waits for an approval, its worker is killed with kill -9 after the payment, and
    a second worker finishes the run without paying twice. The demo needs no key and no server: it uses SQLite and
    worker processes of its own, and reads the results back from both databases. At its end it offers the console, with
    the run that it made. Exits with 0 when the refund is paid, 5 when you deny it, and 4 when you leave it at its gate.
    """
    if console:
        require_console()
    place = make_folder(folder)
    if as_json:
        facts = _run_scenes(place, recorded(place, _approve), lambda _scene: None)
        print_json(_document(place, facts))
        return _exit_code(facts)
    # Not `screen.is_terminal`: FORCE_COLOR sets that although no person may be watching.
    is_watched = sys.stdout.isatty()
    demo_screen = DemoScreen(Screen(), is_paced=is_watched and not fast)
    demo_screen.begin(place)
    asks = is_watched and sys.stdin is not None and sys.stdin.isatty() and not yes
    with ExitStack() as stack:
        pages = DemoPages(place, demo_screen, stack)
        ask = recorded(place, demo_screen.ask if asks else _approve)
        facts = _run_scenes(place, pages.ask if console and asks else ask, demo_screen.show)
        demo_screen.end(_next(place, facts), place)
        if asks:
            pages.offer(facts["waiting"], is_waiting=_status(facts) == "awaiting_gate")
    return _exit_code(facts)


def _approve(_gate: Facts) -> Answer:
    return "approve"


def _run_scenes(place: Folder, ask: Ask, show: Callable[[Scene], None]) -> DemoFacts:
    """Run all scenes, show each, and return their facts."""
    facts: DemoFacts = {}
    with closing(scenes(place, ask)) as recorded:  # closing ends the workers if showing a scene fails
        for scene in recorded:
            show(scene)
            if scene.name not in ("heading", "aside"):
                facts[scene.name] = scene.facts
    return facts


def _status(facts: DemoFacts) -> str:
    """Return the status of plan B's session at the end."""
    last = facts.get("recovered") or facts.get("ended")
    if last is None:
        raise InternalError("the demo did not reach its end")
    return str(last["status"])


def _next(place: Folder, facts: DemoFacts) -> tuple[Hint, ...]:
    return hints(place, facts["waiting"], _status(facts))


def _exit_code(facts: DemoFacts) -> ExitCode:
    return _EXIT_CODES.get(_status(facts), ExitCode.FAILED)


def _document(place: Folder, facts: DemoFacts) -> dict[str, Any]:
    return {
        "folder": str(place.root),
        "journal": place.journal_url,
        "payments": str(place.payments),
        "pack": str(place.pack),
        "status": _status(facts),
        **facts,
        "next": [command for _, command in _next(place, facts)],
    }

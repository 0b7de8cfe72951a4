"""The plot: what is done, in which order. Every scene is read back from the databases before it is told.

Should one of them be other than the story needs it, the demo ends with an error and claims nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from tercet.cli import ExitCode
from tercet.cli.demo.facts import Books
from tercet.cli.demo.folder import APPROVER, OWNER, Answer, Facts, Folder, Scene, heading, make_folder
from tercet.cli.demo.process import Worker
from tercet.cli.demo.screens import Hint, Narrator, hints
from tercet.cli.options import AsJson, flag, option
from tercet.cli.screen import Screen, print_json
from tercet.contracts.errors import InternalError, UsageError
from tercet.contracts.request import Actor
from tercet.executor.clock import SystemClock
from tercet.packs import Pack
from tercet.runtime import Runtime
from tercet.view.terminal.text import took

Ask: TypeAlias = Callable[[Facts], Answer]


def play(folder: Folder, ask: Ask) -> Generator[Scene]:
    """The demo, scene by scene."""
    books = Books(folder)
    yield heading(1, "An agent proposes plan A: pay order ord_881 back")
    yield _plan_a(folder, books)
    yield heading(2, "Plan B is the same refund, with the evidence of its refund window pinned")
    waiting = _plan_b(folder, books)
    yield waiting
    gate = waiting.facts
    yield heading(3, "Who may approve? First the agent itself tries, then a finance lead")
    yield _own_attempt(folder, books, gate)
    match ask(gate):
        case "approve":
            yield from _paid(folder, books, gate)
        case "deny":
            yield from _denied(folder, books, gate)
        case "quit":
            yield books.ended(gate)


def _plan_a(folder: Folder, books: Books) -> Scene:
    _carry(folder, "start", "plan_a")
    scene = books.refused(books.newest())
    status, code, calls, has_database = _read(scene, "status", "code", "calls", "has_payment_database")
    is_so = status == "failed" and code and not calls and not has_database
    _demand(is_so, "plan A was not refused before anything happened")
    return scene


def _plan_b(folder: Folder, books: Books) -> Scene:
    worker = _carry(folder, "start", "plan_b")
    scene = books.waiting(books.newest(), worker)
    status, refunds = _read(scene, "status", "refunds")
    _demand(status == "awaiting_gate" and not refunds, "plan B did not stop before the payment")
    return scene


def _own_attempt(folder: Folder, books: Books, gate: Facts) -> Scene:
    try:
        _reply(folder, gate, "approve", OWNER)
    except UsageError as refusal:
        scene = books.own_attempt(gate, refusal)
        _demand(not scene.facts["approvals"], "the refused approval was counted")
        return scene
    raise InternalError("the owner could approve their own run")


def _paid(folder: Folder, books: Books, gate: Facts) -> Generator[Scene]:
    _reply(folder, gate, "approve", APPROVER)
    yield books.answered(gate["session_id"])
    yield heading(4, "A worker pays, and is killed before it can write that down")
    yield _crash(folder, books, gate)
    yield heading(5, "A new worker carries on")
    left = books.lease_until(gate["session_id"]) - SystemClock().now()
    if left > 0:
        yield Scene(
            "aside", {"text": f"the dead worker's lease on the session ends in {took(left)}: waiting"}
        )
    yield _recovery(folder, books, gate)
    yield heading(6, "What is left is a decision record")
    yield books.recorded(gate["session_id"])


def _crash(folder: Folder, books: Books, gate: Facts) -> Scene:
    with Worker(folder, "resume", gate["session_id"], "freeze") as worker:
        worker.wait_until_frozen()
        number = worker.kill()
    scene = books.crashed(gate, worker.pid, number)
    refunds, intents, completes = _read(scene, "refunds", "intents", "completes")
    is_so = len(refunds) == 1 and intents == 1 and not completes
    _demand(is_so, "the worker was not killed between the payment and its COMPLETE")
    return scene


def _recovery(folder: Folder, books: Books, gate: Facts) -> Scene:
    scene = books.recovered(gate, _carry(folder, "resume", gate["session_id"]))
    status, refunds, keys = _read(scene, "status", "refunds", "keys")
    is_so = status == "completed" and len(refunds) == 1 and len(set(keys)) == 1
    _demand(is_so, "the session did not complete with one refund")
    return scene


def _denied(folder: Folder, books: Books, gate: Facts) -> Generator[Scene]:
    _reply(folder, gate, "deny", APPROVER)
    yield books.answered(gate["session_id"])
    yield heading(4, "A worker brings the session to its end")
    _carry(folder, "resume", gate["session_id"])
    scene = books.ended(gate)
    status, refunds, calls = _read(scene, "status", "refunds", "calls_of_payment")
    is_so = status == "rejected" and not refunds and not calls
    _demand(is_so, "the denied call was made")
    yield scene


def _carry(folder: Folder, *words: str) -> int:
    """Let a worker go as far as it can; the number of its process."""
    with Worker(folder, *words) as worker:
        worker.wait()
        return worker.pid


def _reply(folder: Folder, gate: Facts, answer: Literal["approve", "deny"], actor: Actor) -> None:
    asyncio.run(_append(folder, gate, answer, actor))


async def _append(folder: Folder, gate: Facts, answer: Literal["approve", "deny"], actor: Actor) -> None:
    async with Runtime(Pack.load(folder.pack), folder.journal_url) as runtime:
        if answer == "approve":
            await runtime.approve(gate["gate"], actor=actor, digest=gate["digest"])
        else:
            await runtime.deny(gate["gate"], actor=actor)


def _demand(is_so: object, otherwise: str) -> None:
    if not is_so:
        raise InternalError(f"the demo found something else than it tells: {otherwise}")


def _read(scene: Scene, *names: str) -> list[Any]:
    return [scene.facts[name] for name in names]


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
    """Run the refund demo: refusal, approval, crash, one payment.

    The critic refuses plan A. Plan B waits for an approval, its worker is killed with kill -9 after the payment, and
    a second worker finishes the run without paying twice. The demo needs no key and no server: it uses SQLite and
    worker processes of its own, and reads the results back from both databases. Exits with 0 when the refund is paid,
    5 when you deny it, and 4 when you leave it at its gate.
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

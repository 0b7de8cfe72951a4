"""The plot: what is done, in which order. Every scene is read back from the databases before it is told.

Should one of them be other than the story needs it, the demo ends with an error and claims nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Literal, TypeAlias

from tercet.cli.demo.books import Books
from tercet.cli.demo.folder import Folder
from tercet.cli.demo.process import Worker
from tercet.cli.demo.scenes import APPROVER, OWNER, Facts, Scene, heading
from tercet.cli.text import took
from tercet.contracts.errors import InternalError, UsageError
from tercet.contracts.request import Actor
from tercet.executor.clock import SystemClock
from tercet.packs import Pack
from tercet.runtime import Runtime

Answer: TypeAlias = Literal["approve", "deny", "quit"]
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

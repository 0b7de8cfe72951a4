"""The plot: what is done, in which order. Every scene is read back from the databases before it is told.

Should one of them be other than the story needs it, the demo ends with an error and claims nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Literal, TypeAlias

from tercet.cli.demo.books import Books
from tercet.cli.demo.folder import Folder
from tercet.cli.demo.process import Worker
from tercet.cli.demo.scenes import (
    APPROVER,
    OWNER,
    Aside,
    Crashed,
    Heading,
    OwnAttempt,
    Recovered,
    Refused,
    Scene,
    Waiting,
)
from tercet.cli.text import took
from tercet.contracts.errors import InternalError, UsageError
from tercet.contracts.request import Actor
from tercet.executor.clock import SystemClock
from tercet.packs import Pack
from tercet.runtime import Runtime

Answer: TypeAlias = Literal["approve", "deny", "quit"]
Ask: TypeAlias = Callable[[Waiting], Answer]


def play(folder: Folder, ask: Ask) -> Generator[Scene]:
    """The demo, scene by scene."""
    books = Books(folder)
    yield Heading(number=1, text="An agent proposes plan A: pay order ord_881 back")
    yield _plan_a(folder, books)
    yield Heading(number=2, text="Plan B is the same refund, with the evidence of its refund window pinned")
    gate = _plan_b(folder, books)
    yield gate
    yield Heading(number=3, text="Who may approve? First the agent itself tries, then a finance lead")
    yield _own_attempt(folder, books, gate)
    match ask(gate):
        case "approve":
            yield from _paid(folder, books, gate)
        case "deny":
            yield from _denied(folder, books, gate)
        case "quit":
            yield books.ended(gate)


def _plan_a(folder: Folder, books: Books) -> Refused:
    _carry(folder, "start", "plan_a")
    scene = books.refused(books.newest())
    is_so = scene.status == "failed" and scene.code and not scene.calls and not scene.has_payment_database
    _demand(is_so, "plan A was not refused before anything happened")
    return scene


def _plan_b(folder: Folder, books: Books) -> Waiting:
    worker = _carry(folder, "start", "plan_b")
    scene = books.waiting(books.newest(), worker)
    _demand(scene.status == "awaiting_gate" and not scene.refunds, "plan B did not stop before the payment")
    return scene


def _own_attempt(folder: Folder, books: Books, gate: Waiting) -> OwnAttempt:
    try:
        _reply(folder, gate, "approve", OWNER)
    except UsageError as refusal:
        scene = books.own_attempt(gate, refusal)
        _demand(not scene.approvals, "the refused approval was counted")
        return scene
    raise InternalError("the owner could approve their own run")


def _paid(folder: Folder, books: Books, gate: Waiting) -> Generator[Scene]:
    _reply(folder, gate, "approve", APPROVER)
    yield books.answered(gate.session_id)
    yield Heading(number=4, text="A worker pays, and is killed before it can write that down")
    yield _crash(folder, books, gate)
    yield Heading(number=5, text="A new worker carries on")
    left = books.lease_until(gate.session_id) - SystemClock().now()
    if left > 0:
        yield Aside(text=f"the dead worker's lease on the session ends in {took(left)}: waiting")
    yield _recovery(folder, books, gate)
    yield Heading(number=6, text="What is left is a decision record")
    yield books.recorded(gate.session_id)


def _crash(folder: Folder, books: Books, gate: Waiting) -> Crashed:
    with Worker(folder, "resume", gate.session_id, "freeze") as worker:
        worker.wait_until_frozen()
        number = worker.kill()
    scene = books.crashed(gate, worker.pid, number)
    is_so = len(scene.refunds) == 1 and scene.intents == 1 and not scene.completes
    _demand(is_so, "the worker was not killed between the payment and its COMPLETE")
    return scene


def _recovery(folder: Folder, books: Books, gate: Waiting) -> Recovered:
    scene = books.recovered(gate, _carry(folder, "resume", gate.session_id))
    is_so = scene.status == "completed" and len(scene.refunds) == 1 and len(set(scene.keys)) == 1
    _demand(is_so, "the session did not complete with one refund")
    return scene


def _denied(folder: Folder, books: Books, gate: Waiting) -> Generator[Scene]:
    _reply(folder, gate, "deny", APPROVER)
    yield books.answered(gate.session_id)
    yield Heading(number=4, text="A worker brings the session to its end")
    _carry(folder, "resume", gate.session_id)
    scene = books.ended(gate)
    is_so = scene.status == "rejected" and not scene.refunds and not scene.calls_of_payment
    _demand(is_so, "the denied call was made")
    yield scene


def _carry(folder: Folder, *words: str) -> int:
    """Let a worker go as far as it can; the number of its process."""
    with Worker(folder, *words) as worker:
        worker.wait()
        return worker.pid


def _reply(folder: Folder, gate: Waiting, answer: Literal["approve", "deny"], actor: Actor) -> None:
    asyncio.run(_append(folder, gate, answer, actor))


async def _append(folder: Folder, gate: Waiting, answer: Literal["approve", "deny"], actor: Actor) -> None:
    async with Runtime(Pack.load(folder.pack), folder.journal_url) as runtime:
        if answer == "approve":
            await runtime.approve(gate.gate, actor=actor, digest=gate.digest)
        else:
            await runtime.deny(gate.gate, actor=actor)


def _demand(is_so: object, otherwise: str) -> None:
    if not is_so:
        raise InternalError(f"the demo found something else than it tells: {otherwise}")

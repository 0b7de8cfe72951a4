"""Waiting for somebody else's code without being at its mercy: whoever wants the session to stop is heard meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

ResultT = TypeVar("ResultT")

LETTING_GO_S = 2.0
"""How many seconds somebody has to let go of what is given up."""


class Interrupted(Exception):  # noqa: N818 - a signal between two functions of the driver, and no error
    """The session is let go of while somebody is asked."""


class Interruptible(Protocol):
    """Somebody who hears that a session is to be let go of."""

    async def interrupted(self) -> None:
        """Returns once the session is to be let go of; raises `JournalError` if nobody can know that."""
        ...


async def unless_interrupted(session: Interruptible, work: Awaitable[ResultT]) -> ResultT:
    """What some work comes to, unless the session is let go of before: then it is given up, and `Interrupted` raised."""
    task = asyncio.ensure_future(work)
    interrupted = asyncio.ensure_future(session.interrupted())
    try:
        await asyncio.wait((task, interrupted), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            interrupted.result()  # that the journal cannot be read is no wish to stop
            raise Interrupted
        if task.cancelled():
            raise RuntimeError("it was cancelled by its own code")
        return task.result()
    finally:
        for each in (task, interrupted):
            each.cancel()
        # What does not let itself be cancelled is left behind: the session does not wait for it.
        await asyncio.wait((task, interrupted), timeout=LETTING_GO_S)
        for each in (task, interrupted):
            each.add_done_callback(_forget)


def _forget(task: asyncio.Future[Any]) -> None:
    """Take note of how a task ended that nobody waits for any more."""
    if not task.cancelled():
        task.exception()

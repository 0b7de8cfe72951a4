"""Opening a SQLite journal that may be damaged: to check it, and to accept that it has lost commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from tercet.journal.database import DatabaseJournal
from tercet.journal.errors import Loss
from tercet.journal.sqlite.connection import read_loss
from tercet.journal.sqlite.faults import FAILURES, translate
from tercet.journal.sqlite.heads import Heads
from tercet.journal.sqlite.journal import SqliteJournal

T = TypeVar("T")


def inspect_file(path: Path, *, patience_s: float) -> tuple[SqliteJournal, Loss | None]:
    """Open a file for reading, whatever its commit log says, and return it with the commits that it lacks."""
    journal = SqliteJournal.open_to_inspect(path, patience_s=patience_s)
    return journal, _loss(path, patience_s)


async def accept_file_loss(
    path: Path, mark: Callable[[DatabaseJournal, Loss], Awaitable[T]], *, patience_s: float
) -> T | None:
    """Let `mark` record what is lost, and only then clear the commit log; return what `mark` returned."""
    loss = _loss(path, patience_s)
    if loss is None:
        return None
    journal = await SqliteJournal.open(path, patience_s=patience_s, accepts_loss=True)
    try:
        marked = await mark(journal, loss)
    finally:
        await journal.close()
    heads = Heads(path)
    heads.clear()
    heads.close()
    return marked


def _loss(path: Path, patience_s: float) -> Loss | None:
    try:
        return read_loss(path, patience_s=patience_s)
    except FAILURES as error:
        raise translate(error, str(path)) from error

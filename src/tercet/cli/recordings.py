"""The recorded runs that a command looks back at: sessions of the journal by their ids, or bundles by their files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias, get_args

from tercet.cli.journals import TENANT, journal_at
from tercet.cli.options import argument, flag, option
from tercet.contracts.errors import UsageError
from tercet.contracts.runs.session import SessionStatus
from tercet.engine.session_reader import list_rows
from tercet.journal.protocol import Journal
from tercet.replay.recording import Recording, load
from tercet.replay.sources import load_bundle, load_run

Runs: TypeAlias = Annotated[
    list[str] | None,
    argument("RUN", "Sessions of the journal by their ids, or files that tercet export made."),
]
Intent: TypeAlias = Annotated[str | None, option("INTENT", "With --all: only runs that asked for this.")]
Status: TypeAlias = Annotated[
    str | None, option("STATUS", "With --all: only runs that stand so, such as completed.")
]
Everything: TypeAlias = Annotated[bool, flag("Every run of the journal.", "--all")]


def demand_runs(runs: Sequence[str], *, is_all: bool, intent: str | None, status: str | None) -> None:
    """Refuse a command that names no run, or names some and all of them, or a status that there is not."""
    if status is not None and status not in get_args(SessionStatus):
        raise UsageError(
            f"a session is never {status!r}",
            code="unknown_status",
            remedy=f"choose one of {', '.join(get_args(SessionStatus))}",
        )
    if bool(runs) == is_all or ((intent or status) and not is_all):
        raise UsageError(
            "say which runs: by their ids or files, or --all of the journal",
            code="which_runs",
            remedy="tercet sessions list shows the ids; --intent and --status go with --all",
        )


class RunReader:
    """The runs that were asked for, each read when it is its turn: however many there are, they need no memory."""

    def __init__(self, names: Sequence[str], read: Callable[[str], Recording]) -> None:
        self._names = names
        self._read = read

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Recording]:
        return map(self._read, self._names)


@contextmanager
def open_runs(
    url: str, runs: Sequence[str], *, is_all: bool, intent: str | None = None, status: str | None = None
) -> Generator[RunReader]:
    """The runs as long as it lasts; a journal is opened only if it is needed. Raises `UsageError` if there are none."""
    with asyncio.Runner() as runner:
        if not is_all and all(map(is_file, runs)):
            yield RunReader(runs, lambda name: runner.run(load_bundle(Path(name))))
            return
        at = journal_at(url)
        journal = runner.run(at.__aenter__())
        try:
            names = runner.run(_names(journal, intent, status)) if is_all else runs
            yield RunReader(names, lambda name: runner.run(_read(journal, name, is_all=is_all)))
        finally:
            runner.run(at.__aexit__(None, None, None))


async def _names(journal: Journal, intent: str | None, status: str | None) -> list[str]:
    rows = list_rows(journal, TENANT, intent=intent, status=status)
    if not (found := [row.session_id async for row in rows]):
        raise UsageError(
            "no run of the journal is meant by that",
            code="no_runs",
            remedy="tercet sessions list shows those that are there, with intent and status",
        )
    return found


async def _read(journal: Journal, name: str, *, is_all: bool) -> Recording:
    if is_all:
        return await load(journal, TENANT, name)
    return await (load_bundle(Path(name)) if is_file(name) else load_run(journal, TENANT, name))


def read_runs(
    url: str, runs: Sequence[str], *, is_all: bool, intent: str | None = None, status: str | None = None
) -> list[Recording]:
    """The same, all of them in memory, for those who look at each again and again."""
    with open_runs(url, runs, is_all=is_all, intent=intent, status=status) as found:
        return list(found)


def is_file(name: str) -> bool:
    """Whether a word names a bundle and not a session."""
    return name.endswith(".tercet") or "/" in name or Path(name).is_file()

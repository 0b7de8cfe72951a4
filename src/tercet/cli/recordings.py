"""The recorded runs that a command looks back at: sessions of the journal by their ids, or bundles by their files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias, get_args

import typer

from tercet.cli.journals import TENANT, journal_at
from tercet.contracts.errors import UsageError
from tercet.contracts.session import SessionStatus
from tercet.journal.protocol import Journal
from tercet.replay.recording import Recording, load
from tercet.replay.sources import list_rows, load_bundle, load_run

Runs: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN", help="Sessions of the journal by their ids, or files that tercet export made."
    ),
]
Intent: TypeAlias = Annotated[
    str | None, typer.Option(metavar="INTENT", help="With --all: only runs that asked for this.")
]
Status: TypeAlias = Annotated[
    str | None, typer.Option(metavar="STATUS", help="With --all: only runs that stand so, such as completed.")
]
Everything: TypeAlias = Annotated[bool, typer.Option("--all", help="Every run of the journal.")]


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


async def read_runs(
    url: str, runs: Sequence[str], *, is_all: bool, intent: str | None = None, status: str | None = None
) -> list[Recording]:
    """The runs, loaded whole; a journal is opened only if it is needed."""
    bundles = {name: await load_bundle(Path(name)) for name in runs if is_file(name)}
    if len(bundles) == len(set(runs)) and not is_all:
        return [bundles[name] for name in runs]
    async with journal_at(url) as journal:
        if is_all:
            found = [each async for each in _all(journal, intent, status)]
            if not found:
                raise UsageError(
                    "no run of the journal is meant by that",
                    code="no_runs",
                    remedy="tercet sessions list shows those that are there, with intent and status",
                )
            return found
        return [bundles.get(name) or await load_run(journal, TENANT, name) for name in runs]


async def _all(journal: Journal, intent: str | None, status: str | None) -> AsyncIterator[Recording]:
    async for row in list_rows(journal, TENANT, intent=intent, status=status):
        yield await load(journal, TENANT, row.session_id)


def is_file(name: str) -> bool:
    """Whether a word names a bundle and not a session."""
    return name.endswith(".tercet") or "/" in name or Path(name).is_file()

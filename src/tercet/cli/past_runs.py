"""What runs of a kind of task have taught, as the journal holds it: for commands that learn from it, and run nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tercet.cli.journals import DEFAULT, TENANT, VARIABLE, use_journal
from tercet.engine.streams.experience import RECENT, Experience, recall
from tercet.journal.protocol import Journal
from tercet.packs import Pack

MaybeJournal: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="URL",
        help=f"Where runs are kept, of which the last {RECENT} of each task class count: by default {VARIABLE}, else tercet.db in this folder if it is there.",
        show_default=False,
    ),
]


def found_journal(given: str | None) -> str | None:
    """The journal that is named, else the usual one; None if nothing is named and the usual one is not there."""
    url = given or os.environ.get(VARIABLE)
    if url:
        return url
    return DEFAULT if Path(DEFAULT.removeprefix("sqlite:///")).exists() else None


def recall_all(url: str, classes: Iterable[str]) -> dict[str, Experience]:
    """What the runs of each kind have taught."""

    async def recalled(journal: Journal) -> dict[str, Experience]:
        return {name: await recall(journal, TENANT, name) for name in dict.fromkeys(classes)}

    return use_journal(url, recalled)


def task_classes(pack: Pack) -> tuple[str, ...]:
    """The kinds of task that the decisions of a pack name."""
    return tuple(
        dict.fromkeys(spec.quality.task_class for spec in pack.decisions if spec.quality is not None)
    )

"""How far an import is, on stderr, while it runs on a terminal; nothing of it is left afterwards."""

from __future__ import annotations

from typing import Self

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from tercet.cli.screen import Screen


class ImportProgress:
    """A bar over bytes while files are read, and one over facts while their words are indexed."""

    def __init__(self, screen: Screen, *, is_shown: bool) -> None:
        is_off = not (is_shown and screen.is_terminal)
        self._reading = Progress(
            TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn(), TextColumn("{task.fields[facts]}"),
            console=screen, transient=True, disable=is_off,
        )  # fmt: skip
        self._freezing = Progress(
            TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            console=screen, transient=True, disable=is_off,
        )  # fmt: skip
        self._shown: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()

    def begin_reading(self, size: int) -> None:
        """Show a bar over so many bytes."""
        self._show(self._reading)
        self._reading.add_task("", total=size, facts="")

    def read(self, count: int) -> None:
        """So many bytes more were read."""
        self._reading.advance(self._reading.task_ids[0], count)

    def count(self, facts: int) -> None:
        """So many facts were found."""
        self._reading.update(self._reading.task_ids[0], facts=f"{facts:,} facts")

    def begin_freezing(self, facts: int) -> None:
        """Show a bar over so many facts."""
        self._show(self._freezing)
        self._freezing.add_task("", total=max(1, facts))

    def freeze(self, facts: int) -> None:
        """So many facts were indexed."""
        self._freezing.update(self._freezing.task_ids[0], completed=facts)

    def _show(self, bar: Progress) -> None:
        if self._shown is not None:
            self._shown.stop()
        self._shown = bar
        bar.start()

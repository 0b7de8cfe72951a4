"""What a campaign found: counted, shown, and compared with what is promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from .sagas import ENDINGS, UNDONE
from .trial import Found
from .zombie import WINDOW, Haunting


@dataclass(kw_only=True)
class Row:
    """What was found for one backend and one declaration."""

    trials: int = 0
    kills: int = 0
    undo_kills: int = 0
    spoken_kills: int = 0
    gates: int = 0
    effects: int = 0
    undone: int = 0
    lost: int = 0
    unapproved: int = 0
    duplicates: int = 0
    blind_repeats: int = 0
    different: int = 0

    def add(self, found: Found) -> None:
        """Count one trial."""
        self.trials += 1
        self.lost += found.is_lost
        for name in ("kills", "undo_kills", "spoken_kills", "gates", "effects", "undone"):
            setattr(self, name, getattr(self, name) + getattr(found, name))
        for name in ("unapproved", "duplicates", "blind_repeats"):
            setattr(self, name, getattr(self, name) + getattr(found, name))


@dataclass
class Tally:
    """All that was found in trials of one kind, and what of it breaks a promise."""

    references: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    rows: dict[tuple[str, str], Row] = field(default_factory=dict[tuple[str, str], Row])
    violations: list[str] = field(default_factory=list[str])
    died: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """For each backend, how many processes died while doing what, and where."""

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return sum(row.kills + row.undo_kills + row.spoken_kills for row in self.rows.values())

    def add(self, found: Found) -> None:
        """Count one trial."""
        trial = found.trial
        backend = trial.journal.partition(":")[0]
        row = self.rows.setdefault((backend, trial.declaration), Row())
        row.add(found)
        self.died.setdefault(backend, Counter()).update(found.died)
        problems = list(problems_of(found, self.references.get(trial.scene)))
        row.different += DIFFERENT in problems
        self.violations += [f"{trial.name}: {problem}" for problem in problems]

    def missed(self, wanted: Iterable[str]) -> list[str]:
        """The deaths that nobody died: what they would have shown has not been shown."""
        return [
            f"{backend}: nobody died {death}"
            for backend, died in self.died.items()
            for death in wanted
            if not died[death]
        ]

    def table(self) -> Table:
        """Runs that succeed: one line for each backend and declaration."""
        table = _table(f"{self.kills} kills", "the tool declares", (
            "runs", "kills", "gates", "lost runs", "not approved", "duplicates", "blind repeats", "other records",
        ))  # fmt: skip
        for (backend, declaration), row in sorted(self.rows.items()):
            numbers = (row.trials, row.kills, row.gates, row.lost, row.unapproved, _repeats(declaration, row))
            table.add_row(backend, declaration, *map(str, (*numbers, row.blind_repeats, row.different)))
        return table

    def saga_table(self) -> Table:
        """Runs that fail and are taken back: one line for each backend and declaration of the ways back."""
        table = _table(f"{self.kills} kills around gates and ways back", "the way back declares", (
            "runs", "killed acting", "answering", "undoing", "answers", "effects", "taken back", "lost runs",
            "not approved", "duplicates", "blind repeats", "other ends",
        ))  # fmt: skip
        for (backend, declaration), row in sorted(self.rows.items()):
            killed = (row.trials, row.kills, row.spoken_kills, row.undo_kills)
            counted = (row.gates, row.effects, row.undone, row.lost, row.unapproved)
            wrong = (_repeats(declaration, row), row.blind_repeats, row.different)
            table.add_row(backend, declaration, *map(str, (*killed, *counted, *wrong)))
        return table


def _table(title: str, second: str, heads: Sequence[str]) -> Table:
    table = Table(title=title)
    for head in ("journal", second):
        table.add_column(head)
    for head in heads:
        table.add_column(head, justify="right")
    return table


def _repeats(declaration: str, row: Row) -> str:
    return f"{row.duplicates} (allowed)" if declaration == "read_only" else str(row.duplicates)


DIFFERENT = "what it left is not what a run leaves that nobody killed"


def problems_of(found: Found, reference: dict[str, Any] | None) -> Iterator[str]:
    """What a trial shows that must not be."""
    if found.unapproved:
        yield f"{found.unapproved} effects happened without their approval"
    if found.is_lost:
        yield f"the run was lost: {found.status} after {found.workers} workers: {'; '.join(found.errors[:1])}"
        return
    if found.trial.declaration != "read_only" and found.duplicates:
        yield f"{found.duplicates} effects happened again: {found.steps}"
    if found.trial.pack in ENDINGS and any(not found.steps[step] for step in UNDONE):
        yield f"not all was taken back: {found.steps}"
    if found.blind_repeats:
        yield f"{found.blind_repeats} calls were repeated blindly"
    if found.replayed:
        yield f"it does not come out the same: {found.replayed}"
    if found.errors:
        yield f"processes failed: {'; '.join(found.errors)}"
    if reference is not None and found.left != reference:
        yield DIFFERENT


def zombie_table(found: Sequence[Haunting]) -> Table:
    """The zombies, one line for each journal and declaration."""
    table = _table(f"{len(found)} zombies", "the tool declares", (
        "zombies", "with the lock", "wrote", "second effects", f"of them at {' or '.join(WINDOW)}",
    ))  # fmt: skip
    rows: dict[tuple[str, str], list[Haunting]] = {}
    for haunting in found:
        backend = haunting.successor.trial.journal.partition(":")[0]
        rows.setdefault((backend, haunting.declaration), []).append(haunting)
    for (backend, declaration), each in sorted(rows.items()):
        second = sum(haunting.successor.duplicates for haunting in each)
        behind = sum(haunting.successor.duplicates for haunting in each if haunting.point in WINDOW)
        written = sum(haunting.has_written for haunting in each)
        locked = sum(bool(haunting.refused) for haunting in each)
        table.add_row(backend, declaration, *map(str, (len(each), locked, written, second, behind)))
    return table

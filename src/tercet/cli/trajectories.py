"""Recorded repairs on the command line: one JSON object a line, in a file or on stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from tercet.cli.documents import STDIN
from tercet.contracts.control import RepairObservation
from tercet.contracts.errors import UsageError

MOST_ROWS = 100_000
LONGEST_LINE = 10_000
_SAMPLE = (
    '{"task_class": "letter", "run": "ses_1", "iteration": 0, "intensity": 0.6, "before": 0.4, "after": 0.7}'
)


def read_trajectories(name: str) -> tuple[RepairObservation, ...]:
    """The repairs in a file, or on stdin if the name is `-`; empty lines are skipped."""
    try:
        if name == STDIN:
            return _read("stdin", sys.stdin.buffer)
        with Path(name).open("rb") as stream:
            return _read(name, stream)
    except OSError as error:
        raise UsageError(
            f"cannot read {name}: {error.strerror or error}",
            code="trajectories_unreadable",
            remedy="name the file that holds the repairs, or - for stdin",
        ) from error


def _read(name: str, stream: Iterable[bytes]) -> tuple[RepairObservation, ...]:
    rows: list[RepairObservation] = []
    for number, line in enumerate(stream, start=1):
        if line.strip():
            rows.append(_row(name, number, line))
        if len(rows) > MOST_ROWS:
            raise UsageError(
                f"{name} has more than {MOST_ROWS:,} repairs",
                code="trajectories_too_large",
                remedy="give the newest ones only",
            )
    return tuple(rows)


def _row(name: str, number: int, line: bytes) -> RepairObservation:
    try:
        return RepairObservation.model_validate_json(line[:LONGEST_LINE])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        fault = f"{where}: {first['msg']}" if where else first["msg"]
        raise UsageError(
            f"{name}, line {number} is no repair: {fault}",
            code="trajectories_invalid",
            remedy=f"write one object a line: {_SAMPLE}",
        ) from error

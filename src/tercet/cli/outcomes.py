"""Recorded outcomes on the command line: one JSON object a line, in a file or on stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from tercet.cli.documents import STDIN
from tercet.contracts.errors import UsageError
from tercet.contracts.exit import OutcomeRow

MOST_ROWS = 200_000
LONGEST_LINE = 10_000
_SAMPLE = '{"features": {"verify": 0.92, "evidence": 1.0, "critic": 0.88, "repairs": 1}, "is_correct": true}'


def read_outcomes(name: str) -> tuple[OutcomeRow, ...]:
    """The outcomes in a file, or on stdin if the name is `-`; empty lines are skipped."""
    try:
        if name == STDIN:
            return _read("stdin", sys.stdin.buffer)
        with Path(name).open("rb") as stream:
            return _read(name, stream)
    except OSError as error:
        raise UsageError(
            f"cannot read {name}: {error.strerror or error}",
            code="outcomes_unreadable",
            remedy="name the file that holds the outcomes, or - for stdin",
        ) from error


def _read(name: str, stream: Iterable[bytes]) -> tuple[OutcomeRow, ...]:
    rows: list[OutcomeRow] = []
    for number, line in enumerate(stream, start=1):
        if line.strip():
            rows.append(_row(name, number, line))
        if len(rows) > MOST_ROWS:
            raise UsageError(
                f"{name} has more than {MOST_ROWS:,} outcomes",
                code="outcomes_too_large",
                remedy="give the newest ones only",
            )
    return tuple(rows)


def _row(name: str, number: int, line: bytes) -> OutcomeRow:
    try:
        return OutcomeRow.model_validate_json(line[:LONGEST_LINE])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        fault = f"{where}: {first['msg']}" if where else first["msg"]
        raise UsageError(
            f"{name}, line {number} is no outcome: {fault}",
            code="outcomes_invalid",
            remedy=f"write one object a line: {_SAMPLE}",
        ) from error

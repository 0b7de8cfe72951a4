"""The log: one line of JSON for each event of interest, with an action and a sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import msgspec

from tercet.contracts.errors import UsageError
from tercet.core import events as e
from tercet.core.transcript import timestamp
from tercet.journal.protocol import NewCheckpoint
from tercet.observe import instruments as i
from tercet.observe.attributes import facts_of, short
from tercet.observe.settings import STDERR
from tercet.observe.tally import Tally
from tercet.view.events import TITLES


class Entry(NamedTuple):
    """Events that were appended together, and the position of the first."""

    start: e.SessionStarted
    first: int
    events: Sequence[e.Event]
    checkpoints: Sequence[NewCheckpoint] = ()


class Log:
    """A file, or stderr, that lines are appended to."""

    def __init__(self, path: Path, own: Tally) -> None:
        self._own = own
        self._lines: list[bytes] = []
        """The lines that are not written yet."""
        self._is_ours = str(path) != STDERR
        try:
            self._file: TextIO = path.open("a", encoding="utf-8") if self._is_ours else sys.stderr
        except OSError as error:
            raise UsageError(
                f"the log cannot be written to {path}: {error.strerror or error}",
                code="log_unwritable",
                remedy="name a file in an existing folder that you may write to",
            ) from error

    def take(self, item: Entry) -> None:
        """Format the lines of an entry; they are written together with those of the next entries."""
        self._lines += format_lines(item)

    def due(self) -> float | None:
        """Return 0 if there are lines to write."""
        return 0 if self._lines else None

    def send(self, *, is_last: bool) -> None:
        """Write the lines, and close the file after the last ones."""
        lines, self._lines = self._lines, []
        try:
            if lines:
                self._file.write(b"\n".join((*lines, b"")).decode())
                self._file.flush()
        except (OSError, ValueError):  # the disk is full, or the reader is gone
            self._own.count(i.DROPPED, "log lines", by=len(lines))
        if is_last:
            self.abort()

    def abort(self) -> None:
        """Close the file; lines that are not written yet are dropped."""
        if self._lines:
            self._own.count(i.DROPPED, "log lines", by=len(self._lines))
        if self._is_ours:
            try:
                self._file.close()
            except OSError:
                self._own.count(i.DROPPED, "log lines")


# --- lines ---

_encode = msgspec.json.Encoder().encode


def _head(action: str, sentence: str) -> bytes:
    """Return the part of a line that is the same for all events of a type."""
    return b'","message":%b,"action":%b,' % (_encode(sentence), _encode(action))


_HEADS = {kind: _head(*words) for kind, words in TITLES.items()}
_COMMIT = _head("commit", "the run was committed")
_GATE_FAILURE = _head("gate_failure", "the run did not pass")
_CHECKPOINT = _head("checkpoint_written", "a checkpoint was written")


def format_lines(entry: Entry) -> list[bytes]:
    """Return the lines of events that were written together."""
    start = entry.start
    run = _run_fields(start.run, start.session, start.tenant)
    found: list[bytes] = []
    for seq, event in enumerate(entry.events, start=entry.first):
        if (head := _HEADS.get(type(event))) is not None:
            found.append(_line(event.at, head, run, _fields_of(seq, event)))
            if isinstance(event, e.SessionEnded) and event.status == "completed":
                found.append(_line(event.at, _COMMIT, run, {"seq": seq}))
            if isinstance(event, e.RunReported) and event.outcome != "accept":
                found.append(_line(event.at, _GATE_FAILURE, run, {"seq": seq}))
    for written in entry.checkpoints:
        fields = {"seq": written.seq, "kind": written.kind, "bytes": len(written.data)}
        found.append(_line(entry.events[-1].at, _CHECKPOINT, run, fields))
    return found


def _review_fields(event: e.PlanReviewed) -> dict[str, Any]:
    words = {name: event.verdict.get(name) for name in ("outcome", "kind", "code")}
    return {name: word for name, word in words.items() if word is not None}


_MORE_FIELDS: dict[type[e.Event], Callable[[Any], dict[str, Any]]] = {
    e.Intent: lambda event: {
        "tool": event.tool,
        "params": [short(name) for name in sorted(event.params)[:20]],
    },
    e.SessionStarted: lambda event: {
        "intent": event.request["intent"],
        "pack": event.pack,
        "trace": event.trace,
    },
    e.PlanReviewed: _review_fields,
    e.PlanProposed: lambda event: {"steps": len(event.plan.get("steps", ())), "planner": event.planner},
    e.SessionEnded: lambda event: {"status": event.status},
}
"""The fields of a line besides those that every event has."""


def _fields_of(seq: int, event: e.Event) -> dict[str, Any]:
    fields = {"seq": seq, **facts_of(event)}
    more = _MORE_FIELDS.get(type(event))
    return fields if more is None else {**fields, **more(event)}


def _line(at: int, head: bytes, run: bytes, fields: dict[str, Any]) -> bytes:
    return b'{"at":"%b.%03dZ%b%b%b' % (_second(at // 1000), at % 1000, head, run, _encode(fields)[1:])


@lru_cache(maxsize=64)
def _run_fields(run: str, session: str, tenant: str) -> bytes:
    return _encode({"run": run, "session": session, "tenant": tenant})[1:-1] + b","


@lru_cache(maxsize=64)
def _second(seconds: int) -> bytes:
    return timestamp(seconds * 1000)[:19].encode()

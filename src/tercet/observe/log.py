"""To a file, or to stderr: one line of JSON for each event of interest."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

import msgspec

from tercet.contracts.errors import UsageError
from tercet.core import events as e
from tercet.core.transcript import timestamp
from tercet.journal.protocol import NewCheckpoint
from tercet.observe import instruments as i
from tercet.observe.attributes import facts_of, short
from tercet.observe.settings import STDERR
from tercet.observe.tally import Tally

_ACTIONS: dict[type[e.Event], tuple[str, str]] = {
    e.SessionStarted: ("loop_started", "a run began"),
    e.SessionResumed: ("loop_resumed", "a process took the run over"),
    e.SessionPaused: ("loop_paused", "the run was let go of"),
    e.SessionEnded: ("loop_ended", "the run ended"),
    e.SessionCancelled: ("session_cancelled", "somebody cancelled the run"),
    e.SessionExpired: ("session_expired", "the time of the run, or of its gate, is over"),
    e.SessionMigrated: ("session_migrated", "the run was moved to another pack or snapshot"),
    e.BudgetExtended: ("budget_extended", "an operator added to the budget"),
    e.GivenUp: ("given_up", "the run went through more phases than it may"),
    e.PlanProposed: ("plan_proposed", "a plan was proposed"),
    e.PlanningFailed: ("planning_failed", "the planner has no plan"),
    e.PlanReviewed: ("plan_reviewed", "the critic reviewed the plan"),
    e.Intent: ("action_dispatched", "a call begins"),
    e.Complete: ("action_completed", "a call happened"),
    e.Abort: ("action_aborted", "a call did not happen, or nobody knows"),
    e.StepRefused: ("step_refused", "a step is not called"),
    e.RepeatsChecked: ("repeats_checked", "earlier calls were looked for that count against a call"),
    e.RetryScheduled: ("retry_scheduled", "a step will be tried again"),
    e.LoopGuardTripped: ("loop_guard_tripped", "the loop guard stopped a repetition"),
    e.GateOpened: ("gate_opened", "the run waits for a person"),
    e.GateAnswered: ("gate_answered", "a person answered"),
    e.AcceptanceLapsed: ("acceptance_lapsed", "people are asked again about outputs that were accepted"),
    e.ApprovalGranted: ("approval_granted", "a policy gave an approval"),
    e.CompensationBegun: ("compensation_begun", "effects are taken back"),
    e.ModelAsked: ("model_asked", "a model is asked"),
    e.ModelAnswered: ("model_answered", "a model answered, or did not"),
    e.RunReported: ("run_reported", "the critic judged the run"),
}
"""The events that get a line, each with its action word and its sentence."""


def lines(
    start: e.SessionStarted, first: int, events: Sequence[e.Event], checkpoints: Sequence[NewCheckpoint] = ()
) -> list[bytes]:
    """The lines of events that were written together, the first of them at that position."""
    bound = {"run": start.run, "session": start.session, "tenant": start.tenant}
    found: list[bytes] = []
    for seq, event in enumerate(events, start=first):
        if (known := _ACTIONS.get(type(event))) is not None:
            action, sentence = known
            found.append(_line(event.at, sentence, action, bound, {"seq": seq, **_more(start, event)}))
            if isinstance(event, e.SessionEnded) and event.status == "completed":
                found.append(_line(event.at, "the run was committed", "commit", bound, {"seq": seq}))
            if isinstance(event, e.RunReported) and event.outcome != "accept":
                found.append(_line(event.at, "the run did not pass", "gate_failure", bound, {"seq": seq}))
    for written in checkpoints:
        more = {"seq": written.seq, "kind": written.kind, "bytes": len(written.data)}
        found.append(_line(events[-1].at, "a checkpoint was written", "checkpoint_written", bound, more))
    return found


def _more(start: e.SessionStarted, event: e.Event) -> dict[str, Any]:
    told: dict[str, Any] = {**facts_of(event)}
    match event:
        case e.SessionStarted():
            told |= {"intent": start.request["intent"], "pack": start.pack, "trace": start.trace}
        case e.Intent():
            told |= {"tool": event.tool, "params": [short(name) for name in sorted(event.params)[:20]]}
        case e.PlanReviewed():
            said = {name: event.verdict.get(name) for name in ("outcome", "kind", "code")}
            told |= {name: value for name, value in said.items() if value is not None}
        case e.PlanProposed():
            told |= {"steps": len(event.plan.get("steps", ())), "planner": event.planner}
        case e.SessionEnded():
            told["status"] = event.status
        case _:
            pass
    return told


_encode = msgspec.json.Encoder().encode


def _line(at: int, sentence: str, action: str, bound: Mapping[str, Any], more: Mapping[str, Any]) -> bytes:
    return _encode({"at": _timestamp(at), "message": sentence, "action": action, **bound, **more})


def _timestamp(at: int) -> str:
    return f"{_second(at // 1000)}.{at % 1000:03}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return timestamp(seconds * 1000)[:19]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Events that were written together."""

    start: e.SessionStarted
    first: int
    events: Sequence[e.Event]
    checkpoints: Sequence[NewCheckpoint] = ()


class Log:
    """Where lines go."""

    def __init__(self, path: Path, own: Tally) -> None:
        self._own = own
        self._lines: list[bytes] = []
        """What was taken and is not written yet."""
        self._is_ours = str(path) != STDERR
        try:
            self._file: TextIO = path.open("a", encoding="utf-8") if self._is_ours else sys.stderr
        except OSError as error:
            raise UsageError(
                f"the log cannot be written to {path}: {error.strerror or error}",
                code="log_unwritable",
                remedy="name a file in a folder that is there and that you may write to",
            ) from error

    def take(self, item: Entry) -> None:
        """Make the lines of an entry, to be written with those of the entries that wait behind it."""
        self._lines += lines(item.start, item.first, item.events, item.checkpoints)

    def due(self) -> float | None:
        """Lines are written as soon as no more entries wait."""
        return 0 if self._lines else None

    def send(self, *, is_last: bool) -> None:
        """Write the lines, and close the file in the end."""
        told, self._lines = self._lines, []
        try:
            if told:
                self._file.write(b"\n".join((*told, b"")).decode())
                self._file.flush()
        except (OSError, ValueError):  # the disk is full, or whoever read it has gone
            self._own.count(i.DROPPED, "log lines", by=len(told))
        if is_last:
            self.abort()

    def abort(self) -> None:
        """Let go of the file, and of the lines that nobody will write."""
        if self._lines:
            self._own.count(i.DROPPED, "log lines", by=len(self._lines))
        if self._is_ours:
            try:
                self._file.close()
            except OSError:
                self._own.count(i.DROPPED, "log lines")

"""Recorded runs judged under another pack, each up to its first changed verdict."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

from tercet.contracts.errors import TercetError
from tercet.contracts.shape import Absent, Published
from tercet.core import codec
from tercet.core import events as e
from tercet.core.fold.apply import fold_all, fold_event
from tercet.core.state import State
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack
from tercet.replay.comparison import event_type
from tercet.replay.pool import on_all_cores, one_by_one
from tercet.replay.recorded_run import IoRefused, RecordedRun, guarded
from tercet.replay.recording import Recording
from tercet.replay.replay import is_not_judgeable
from tercet.replay.rules import RuleSource
from tercet.replay.verdict_changes import BothVerdicts, VerdictWords, as_builtins, compare_verdict


class JudgedAs(Published):
    """One verdict, with its code and its reasons."""

    verdict: str
    details: dict[str, Any] = {}
    reasons: tuple[str, ...] = ()


class VerdictChange(Published):
    """The first verdict of a run that would change."""

    position: int
    event: str
    step: Absent[str] = None
    old: JudgedAs
    new: JudgedAs


class Rejudged(Published):
    """One recorded run under another pack."""

    session_id: str
    run_id: str
    intent: str
    recorded_pack: str
    outcome: Literal["unchanged", "changed", "unreadable"]
    old_status: str
    """The status of the session at the end of its record."""
    new_status: str
    """Its status after the changed verdict; the same if no verdict changed."""
    old_scores: dict[str, float] = {}
    new_scores: dict[str, float] = {}
    """By evaluator, where both were scored; empty if the run would not come that far."""
    verdicts: int = 0
    """How many verdicts were compared."""
    change: Absent[VerdictChange] = None
    error: Absent[str] = None
    """Why it could not be judged, where it could not."""


class WhatIfReport(Published):
    """What another pack would change."""

    pack: str
    pack_hash: str
    changed: int
    unchanged: int
    unreadable: int
    runs: tuple[Rejudged, ...]

    @classmethod
    def of(cls, pack: Pack, found: Sequence[Rejudged]) -> WhatIfReport:
        """The report on recorded runs under another pack."""
        outcomes = [each.outcome for each in found]
        return cls(
            pack=pack.ref,
            pack_hash=pack.hash,
            changed=outcomes.count("changed"),
            unchanged=outcomes.count("unchanged"),
            unreadable=outcomes.count("unreadable"),
            runs=tuple(found),
        )

    @property
    def is_unchanged(self) -> bool:
        """Whether every run would be judged as before."""
        return self.changed == self.unreadable == 0


def what_if(
    runs: Iterable[Recording],
    pack: Pack,
    *,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> WhatIfReport:
    """Judge recorded runs under another pack, in a number of processes; `progress` receives the number of finished
    runs."""
    found = on_all_cores(_Rejudge(pack.content), runs, workers=workers, progress=progress)
    return WhatIfReport.of(pack, found)


def rejudge_each(runs: Iterable[Recording], pack: Pack, *, workers: int | None = None) -> Generator[Rejudged]:
    """Yield the same, each run as it comes; only a batch for each core is in memory."""
    return one_by_one(_Rejudge(pack.content), runs, workers=workers)


class _Rejudge:
    """Judges runs under the pack with this content; it is sent to another process before it is first called."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @cached_property
    def _rules(self) -> RuleSource:
        return RuleSource(instead=read_declarations(self._content))

    def __call__(self, recording: Recording) -> Rejudged:
        return rejudge(recording, self._rules)


def rejudge(recording: Recording, rulebook: RuleSource) -> Rejudged:
    """Return one run under the pack of a rulebook, up to its first changed verdict."""
    with guarded():
        events = _Judging(recording, rulebook)
        try:
            return events.result()
        except Exception as error:
            if isinstance(error, IoRefused):
                raise
            # Recorded bytes may be anything, and folding or judging them may then raise anything.
            reason = str(error) if isinstance(error, TercetError) else f"{type(error).__name__}: {error}"
            return events.conclude(outcome="unreadable", error=reason[:600])


class _Judging:
    def __init__(self, recording: Recording, rulebook: RuleSource) -> None:
        self._recording = recording
        self._run = RecordedRun(recording, rulebook)
        self._compared = 0
        self._old: dict[str, float] = {}
        self._new: dict[str, float] = {}
        self._last = State()

    def result(self) -> Rejudged:
        if not self._recording.events:
            return self.conclude(outcome="unreadable", error="the bundle has no events")
        events = [codec.decode(data) for data in self._recording.events]
        self._last = fold_all(events)
        for position, event in enumerate(events, 1):
            try:
                found = compare_verdict(self._run, event)
                if found is not None and (change := self._compared_as(position, event, found)) is not None:
                    return change
                self._run.fold(event)
            except TercetError as error:
                if not isinstance(event, e.SessionStarted) or is_not_judgeable(error):
                    raise
                return self._not_started(position, event, error)
        return self.conclude(outcome="unchanged")

    def _compared_as(self, position: int, event: e.Event, found: BothVerdicts) -> Rejudged | None:
        self._compared += 1
        if found.old.scores:
            self._old, self._new = dict(found.old.scores), dict(found.new.scores)
        if found.old.is_same(found.new):
            return None
        change = VerdictChange(
            position=position,
            event=event_type(event),
            step=getattr(event, "step", None) or None,
            old=_as(found.old),
            new=_as(found.new),
        )
        status = _status(self._run.state, found)
        return self.conclude(outcome="changed", change=change, new_status=status)

    def _not_started(self, position: int, event: e.Event, error: TercetError) -> Rejudged:
        """A request that the other pack does not accept."""
        change = VerdictChange(
            position=position,
            event=event_type(event),
            old=JudgedAs(verdict="start"),
            new=JudgedAs(verdict="refuse", details={"code": error.code}, reasons=(error.message,)),
        )
        return self.conclude(outcome="changed", change=change, new_status="failed")

    def conclude(
        self,
        *,
        outcome: Literal["unchanged", "changed", "unreadable"],
        change: VerdictChange | None = None,
        new_status: str = "",
        error: str | None = None,
    ) -> Rejudged:
        start, status = self._last.start, self._last.status
        return Rejudged(
            session_id=self._recording.session,
            run_id=start.run,
            intent=str(start.request.get("intent", "")),
            recorded_pack=start.pack,
            outcome=outcome,
            old_status=status,
            new_status=new_status or status,
            old_scores=self._old,
            new_scores=self._new,
            verdicts=self._compared,
            change=change,
            error=error,
        )


def _as(said: VerdictWords) -> JudgedAs:
    return JudgedAs(verdict=said.verdict, details=as_builtins(said.details), reasons=said.reasons)


def _status(state: State, found: BothVerdicts) -> str:
    """Return the status of a session after the new verdict."""
    after = state if found.event is None else fold_event(state, found.event)
    match after.phase:
        case "COMMIT":
            return "completed"
        case "FAIL":
            return after.ending or "failed"
        case _ if found.new.verdict == "give up":
            return "failed"
        case _:
            return after.status

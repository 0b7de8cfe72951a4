"""Replay: a recorded run is folded again, and every judgement in it derived again from the facts before it.

The rules are the runtime's own: `fold_event`, `decide` and the pure part of carrying commands out. What comes out is compared
with the recorded bytes. It stops at the first difference: what comes after it follows from other facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from functools import cached_property

import msgspec
from pydantic import ValidationError

from tercet.contracts.errors import ReplayError, UsageError
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.record import ReplayDiff
from tercet.contracts.shape import JsonObject
from tercet.contracts.verdict import CriticReport
from tercet.core import codec
from tercet.core import events as e
from tercet.core.codec import CodecError
from tercet.core.fold.apply import fold_all
from tercet.core.fold.base import IllegalEvent
from tercet.core.lanes import dump_envelope, envelope_of, lane_results
from tercet.core.table import TABLE
from tercet.engine import checkpoint
from tercet.journal.protocol import Journal, StoredCheckpoint
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack
from tercet.replay.answers import Derived, derive
from tercet.replay.bundle.layout import facts_of
from tercet.replay.comparison import NOTHING, brief, compare, differing, event_type, not_due
from tercet.replay.pool import one_by_one
from tercet.replay.recorded_run import IoRefused, RecordedRun, guarded
from tercet.replay.recording import Recording, load
from tercet.replay.rules import Agents, Recalls, RuleSource
from tercet.view.run import Count, Difference, ReplayReport

_TOLD = ("lane", "status", "verdict", "outputs", "proposals", "used", "evidence_refs")
"""The fields of an envelope that follow from the events of the lane."""


def judge_lanes(
    report: ReplayReport, recording: Recording, judge: Callable[[Recording], ReplayReport]
) -> ReplayReport:
    """Return the report of a run with the first difference in its lanes, if there is none in the run itself."""
    if report.difference is not None or not recording.lanes:
        return report
    for lane in recording.lanes:
        found = judge(lane).difference or _find_other_envelope(recording, lane)
        if found is not None:
            told = found.model_copy(update={"check": f"in lane {lane.session}: {found.check}"})
            return report.model_copy(update={"outcome": "replay_different", "difference": told})
    return report


def _find_other_envelope(parent: Recording, lane: Recording) -> Difference | None:
    """Return a field in which the envelope that the parent recorded contradicts the events of the lane."""
    try:
        expected = dump_envelope(envelope_of(fold_all(map(codec.decode, lane.events))))
        events = [codec.decode(data) for data in parent.events]
    except (CodecError, IllegalEvent):
        return None  # the replay of that run reports it
    large = _Large(parent.blobs)
    for envelope in lane_results(events, large):
        if envelope.get("session_id") != lane.session:
            continue
        for field in _TOLD:
            if envelope.get(field) != expected.get(field):
                return Difference(
                    position=len(events),
                    event="COMPLETE",
                    field=field,
                    recorded=brief(envelope.get(field)),
                    expected=brief(expected.get(field)),
                    check="the result of the lane differs from its own events",
                )
    return None


class _Large(dict[str, object]):
    """Large results by their digest, each read when it is asked for."""

    def __init__(self, stored: dict[str, bytes]) -> None:
        super().__init__()
        self._stored = stored

    def get(self, digest: str, default: object = None) -> object:
        """Return the result, or a default where it is not recorded."""
        data = self._stored.get(digest)
        return default if data is None else msgspec.json.decode(data)


# --- replay ---


async def replay(
    journal: Journal, session: str, *, tenant: str = "default", agents: Iterable[Recalls] = ()
) -> ReplayReport:
    """Judge a run of a journal again; `agents` are the Engines whose critics are asked again where all of them are pure."""
    rules = RuleSource(agents=Agents(agents, has_installed=True))
    return replay_recording(await load(journal, tenant, session), rules)


def replay_recording(recording: Recording, rulebook: RuleSource | None = None) -> ReplayReport:
    """Judge a recorded run again. Meanwhile nothing is read, written or called."""
    rules = rulebook or RuleSource()
    rules.prepare(recording)
    with guarded():
        report = _Replay(recording, rules).report()
    return judge_lanes(report, recording, lambda lane: replay_recording(lane, rules))


def replay_many(runs: Iterable[Recording], *, workers: int | None = None) -> list[ReplayReport]:
    """Judge many recorded runs again, on all cores where they are many."""
    return list(replay_each(runs, workers=workers))


def replay_each(
    runs: Iterable[Recording], *, packs: Iterable[Pack] = (), workers: int | None = None
) -> Generator[ReplayReport]:
    """Yield the same, each report as it comes; of the runs only a batch for each core is in memory. `packs` are installed
    ones, for sessions that have not kept theirs."""
    return one_by_one(_Job(packs), runs, workers=workers)


class _Job:
    """Judges runs again with these packs installed; it is sent to another process before it is first called."""

    def __init__(self, packs: Iterable[Pack]) -> None:
        self._contents = tuple(pack.content for pack in packs)

    @cached_property
    def _rules(self) -> RuleSource:
        return RuleSource(map(read_declarations, self._contents), agents=Agents(has_installed=True))

    def __call__(self, recording: Recording) -> ReplayReport:
        return replay_recording(recording, self._rules)


class _Replay:
    def __init__(self, recording: Recording, rulebook: RuleSource) -> None:
        self._recording = recording
        self._run = RecordedRun(recording, rulebook)
        self._rederived: Counter[type[e.Event]] = Counter()
        self._facts: Counter[tuple[type[e.Event], str]] = Counter()
        self._compared = 0
        self._without_point: tuple[int, e.Event] | None = None
        """The first verdict since the last point, with its position."""
        self._reports: tuple[JsonObject, JsonObject] | None = None
        """The last report on the run: the recorded one and the derived one."""

    def report(self) -> ReplayReport:
        difference = self._difference()
        state = self._run.state
        return ReplayReport(
            outcome="replay_equal" if difference is None else "replay_different",
            session_id=self._recording.session,
            run_id=state.start.run,
            pack=state.start.pack,
            status=state.status,
            events=len(self._run.events),
            checkpoints=self._compared,
            verdicts_rederived=sum(n for kind, n in self._rederived.items() if TABLE[kind].is_verdict),
            verdicts_as_facts=sum(n for (kind, _), n in self._facts.items() if TABLE[kind].is_verdict),
            rederived=tuple(Count(event=_tag(kind), count=n) for kind, n in self._rederived.items()),
            facts=tuple(
                Count(event=_tag(kind), count=n, reason=why) for (kind, why), n in self._facts.items()
            ),
            erased=self._recording.erased,
            behaviour=state.start.behaviour,
            difference=difference,
            diff=self._diff(),
        )

    def _diff(self) -> ReplayDiff | None:
        if self._reports is None:
            return None
        try:
            recorded, replayed = map(CriticReport.model_validate, self._reports)
        except ValidationError:  # recorded bytes may be anything
            return None
        return ReplayDiff.of(recorded, replayed)

    def _difference(self) -> Difference | None:
        if not self._recording.events:
            return _nothing_recorded()
        points = _by_position(self._recording.checkpoints)
        for position, data in enumerate(self._recording.events, 1):
            found = self._event(position, data)
            for stored in points.pop(position, ()) if found is None else ():
                found = found or self._checkpoint(stored)
            if found is not None:
                return found
        return (
            self._unfinished() or _stray_checkpoint(points) or self._other_manifest() or self._missing_point()
        )

    def _event(self, position: int, data: bytes) -> Difference | None:
        try:
            event = codec.decode(data)
        except CodecError as error:
            return _unreadable(position, error)
        before = self._run.state.at
        try:
            derived = derive(self._run, event)
            if derived is None:
                return not_due(position, event, self._due())
            if isinstance(event, e.RunReported) and isinstance(derived.event, e.RunReported):
                self._reports = event.report, derived.event.report
            if not _is_as_recorded(derived, event, data) and (
                found := compare(position, event, derived.event)
            ):
                return found
            self._run.fold(event)
            if self._is_strict and event.at < before:
                check = "the journal was changed: the times of a session never go back"
                return differing(position, event, "at", event.at, f"{before} or later", check)
        except IllegalEvent as error:
            return not_due(position, event, error.message)
        except Exception as error:
            if is_not_judgeable(error):
                raise
            return _illegal_event(position, event, error)
        self._count(event, derived)
        if self._is_strict and self._without_point is None and isinstance(event, _WITH_POINT):
            self._without_point = position, event
        return None

    @property
    def _is_strict(self) -> bool:
        return Behaviour.STRICT_CALLS in self._run.state.start.behaviour

    def _count(self, event: e.Event, derived: Derived) -> None:
        if derived.fact:
            self._facts[type(event), derived.fact] += 1
        else:
            self._rederived[type(event)] += 1

    def _due(self) -> str:
        """Return the expected event."""
        commands = self._run.commands() if self._run.events else ()
        return ", ".join(dict.fromkeys(type(command).__name__ for command in commands)) or NOTHING

    def _checkpoint(self, stored: StoredCheckpoint) -> Difference | None:
        self._compared += 1
        if stored.kind == "point":
            self._without_point = None
        try:
            is_same = checkpoint.is_taken_of(self._run.state, stored)
        except ReplayError as error:
            return _other_checkpoint(stored, error.recorded, error.expected)
        if is_same:
            return None
        here = checkpoint.summary(self._run.state).hex()[:20]
        return _other_checkpoint(stored, stored.hash[:27], f"the {stored.kind} of state {here}")

    def _missing_point(self) -> Difference | None:
        """Return the difference for a verdict without the point that is written together with it."""
        if self._without_point is None:
            return None
        position, event = self._without_point
        check = "checkpoints were removed: each verdict is written together with a point"
        return differing(position, event, "point", NOTHING, "a point at this event or behind it", check)

    def _other_manifest(self) -> Difference | None:
        """Return a field in which the manifest of the bundle contradicts the events."""
        if (manifest := self._recording.manifest) is None:
            return None
        for field, expected in facts_of(self._run.state).items():
            if (recorded := getattr(manifest, field)) != expected:
                return Difference(
                    position=len(self._recording.events),
                    event="manifest",
                    field=field,
                    recorded=brief(recorded),
                    expected=brief(expected),
                    check="the manifest of the bundle was changed, or events are missing at the end",
                )
        return None

    def _unfinished(self) -> Difference | None:
        """Return the difference for a missing event that is appended together with the last one."""
        if not self._run.owed:
            return None
        owed, behind = self._run.owed[0], len(self._recording.events) + 1
        return differing(
            behind, owed, "type", NOTHING, event_type(owed), "the end of the journal was cut off"
        )


def is_not_judgeable(error: Exception) -> bool:
    """Return whether an exception means that a run cannot be judged here, rather than that its record is wrong.

    Everything else is a difference: recorded bytes may be anything, and folding or judging them may then raise anything.
    """
    return isinstance(error, IoRefused) or (isinstance(error, UsageError) and error.code in _NOT_HERE)


_WITH_POINT = (e.PlanReviewed, e.StepJudged, e.RunReported, e.SessionEnded)
"""The verdicts that are always written together with a point."""

_NOT_HERE = ("pack_not_recorded", "newer_rules", "declarations_unreadable")


def _illegal_event(position: int, event: e.Event, error: Exception) -> Difference:
    expected = f"something that can be judged ({type(error).__name__}: {str(error)[:300]})"
    check = "the journal was changed: the event contradicts the events before it"
    return differing(position, event, "type", event_type(event), expected, check)


def _nothing_recorded() -> Difference:
    return Difference(
        position=1,
        event="session_started",
        field="type",
        recorded=NOTHING,
        expected="session_started",
        check="the journal holds no event of this session",
    )


def _tag(kind: type[e.Event]) -> str:
    return str(kind.__struct_config__.tag)


def _is_as_recorded(derived: Derived, event: e.Event, data: bytes) -> bool:
    return derived.event is event or codec.encode(derived.event) == codec.strip_seal(data)


def _by_position(stored: Iterable[StoredCheckpoint]) -> dict[int, list[StoredCheckpoint]]:
    found: dict[int, list[StoredCheckpoint]] = {}
    for each in stored:
        found.setdefault(each.seq, []).append(each)
    return found


def _stray_checkpoint(points: dict[int, list[StoredCheckpoint]]) -> Difference | None:
    """Return the difference for a checkpoint of something that is not recorded."""
    for stored in (each for position in sorted(points) for each in points[position]):
        return _other_checkpoint(stored, stored.hash[:27], "none: the events end before it")
    return None


def _other_checkpoint(stored: StoredCheckpoint, recorded: str, expected: str) -> Difference:
    return Difference(
        position=stored.seq,
        event="checkpoint",
        field=stored.kind,
        recorded=recorded,
        expected=expected,
        check="the checkpoint was changed, or this version folds its events differently",
    )


def _unreadable(position: int, error: CodecError) -> Difference:
    return Difference(
        position=position,
        event="(unreadable)",
        field="bytes",
        recorded=error.message,
        expected="an event of this version",
        check="the journal was changed, or was written by a newer version of Tercet",
    )

"""The value of candidates of one pack on one set of recorded runs. Each is measured once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.packs.tuning import Candidate, SurfaceName
from tercet.contracts.shape import Absent, JsonObject, Published
from tercet.contracts.values.canonical import digest
from tercet.core import codec
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import History
from tercet.core.resolve import resolve
from tercet.core.transcript import transcript
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack
from tercet.packs.surfaces import read_value
from tercet.replay.pool import on_all_cores
from tercet.replay.recorded_run import guarded
from tercet.replay.recording import Recording
from tercet.replay.rules import RuleSource
from tercet.replay.tuning.frozen import (
    CandidateRefused,
    Evidence,
    Guardrail,
    apply,
    differences,
    hold,
    tunable,
)
from tercet.replay.tuning.measuring import Enactment, Measure, Outcome, measure_recorded
from tercet.replay.tuning.scoring import Comparison, Wish

MANY = 400
"""The number of runs from which on other processes help with each candidate."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """The value of a candidate, and whether it may be proposed."""

    candidate: Candidate
    compared: Comparison
    guardrails: tuple[Guardrail, ...]
    refused: str = ""
    """Why it cannot be a candidate; empty if it can."""

    @property
    def is_allowed(self) -> bool:
        """Whether every floor and guardrail holds."""
        return not self.refused and all(each.passed for each in self.guardrails)

    @property
    def objective(self) -> float:
        """The improvement over the current pack."""
        return self.compared.objective

    @property
    def broken(self) -> int:
        """How many rules it breaks."""
        return sum(not each.passed for each in self.guardrails) + bool(self.refused)


@dataclass
class Evaluation:
    """One pack on recorded runs; `corrected` are the sessions whose result people have corrected."""

    pack: Pack
    recordings: Sequence[Recording]
    corrected: frozenset[str] = frozenset()
    workers: int | None = None
    progress: Callable[[int], None] | None = None
    _known: dict[str, Evaluated] = field(default_factory=dict[str, Evaluated])

    def __post_init__(self) -> None:
        """Measure the current pack."""
        if not self.recordings:
            raise UsageError(
                "there are no recorded runs to score by",
                code="no_runs",
                remedy="run the pack first, or name runs: tercet sessions list",
            )
        self.surfaces = tunable(self.pack)
        self.now = {each.id: read_value(self.pack, each) for each in self.surfaces}
        rulebook = RuleSource((self.pack,))
        self.recorded = tuple(measure_recorded(each, rulebook) for each in self.recordings)
        self.wishes = _wishes(self.recorded, self.corrected)
        measured = self._measure(self.pack)
        self.unreproduced = tuple(self._unreproduced(measured))
        left_out = set(self.unreproduced)
        self.before = tuple(_left_out(each) if each.session in left_out else each for each in measured)

    def evaluate(self, candidate: Candidate) -> Evaluated:
        """Return the value of a candidate; values that a surface already has do not count."""
        values = {name: value for name, value in candidate.values.items() if self.now.get(name) != value}
        key = digest(values)
        if key not in self._known:
            self._known[key] = self._evaluated(Candidate(values=values))
        return self._known[key]

    def _evaluated(self, candidate: Candidate) -> Evaluated:
        try:
            changed = apply(self.pack, candidate)
        except CandidateRefused as error:
            same = self._compare(self.before)
            return Evaluated(candidate=candidate, compared=same, guardrails=(), refused=error.message)
        after = self.before if not candidate.values else self._measure(changed)
        compared = self._compare(after)
        evidence = Evidence(
            compared=compared,
            recorded=self.recorded,
            unreproduced=self.unreproduced,
            min_runs=self.pack.tuning.min_runs,
        )
        return Evaluated(
            candidate=candidate, compared=compared, guardrails=hold(evidence, self.kinds(candidate))
        )

    def kinds(self, candidate: Candidate) -> list[SurfaceName]:
        """Return which of the five surfaces a candidate changes."""
        return [each.surface for each in self.pack.tuning.surfaces if each.id in candidate.values]

    def _compare(self, after: Sequence[Outcome]) -> Comparison:
        return Comparison(self.before, after, self.wishes, self.pack.tuning.score)

    def _measure(self, pack: Pack) -> tuple[Outcome, ...]:
        workers = self.workers or (None if len(self.recordings) >= MANY else 1)
        found = on_all_cores(Measure(pack.content), self.recordings, workers=workers)
        if self.progress is not None:
            self.progress(len(self._known) + 1)
        return tuple(found)

    def _unreproduced(self, measured: Sequence[Outcome]) -> list[str]:
        """Return the runs of this pack whose replay differs from their record."""
        return [
            outcome.session
            for recording, outcome in zip(self.recordings, measured, strict=True)
            if outcome.position and _pack_hash(recording) == self.pack.hash
        ]


def _pack_hash(recording: Recording) -> str:
    starts = (codec.decode(data) for data in recording.events[:1])
    return next((start.pack_hash for start in starts if isinstance(start, e.SessionStarted)), "")


def _left_out(outcome: Outcome) -> Outcome:
    return Outcome(
        session=outcome.session,
        case=outcome.case,
        is_told=False,
        is_elsewhere=True,
        why="it is not judged now as it was then",
    )


def _wishes(recorded: Sequence[Outcome], corrected: frozenset[str]) -> Mapping[str, Wish]:
    """Return the wanted result: the outcome of a run, unless a person corrected it; nothing if it failed by itself."""
    found: dict[str, Wish] = {}
    for each in recorded:
        if not each.is_told:
            continue
        if each.session in corrected:
            found[each.session] = Wish(accepted=not each.is_accepted)
        elif each.is_accepted:
            found[each.session] = Wish(accepted=True)
    return found


# --- expectation ---


_PINS = ("pack", "pack_hash", "context_hash")
"""The fields of a record that another pack changes in any case."""
_MOST = 40


class ExpectedCall(Published):
    """One call that the run would have made, with how it ended."""

    step: str
    tool: str
    params: JsonObject = {}
    outcome: str


class FieldChange(Published):
    """One field of the decision record, before and after."""

    field: str
    old: Any
    new: Any


class Expectation(Published):
    """The required result of a run under the candidate."""

    session_id: str
    old_status: str
    new_status: str
    why: str = ""
    """The first verdict that would change."""
    position: Absent[int] = None
    """The event at which that would be."""
    plan: JsonObject = {}
    transcript: tuple[ExpectedCall, ...] = ()
    old_cost_microcents: int = 0
    new_cost_microcents: int = 0
    record: tuple[FieldChange, ...] = ()
    """What changes in the decision record, besides the pack that it names."""


def expect(recording: Recording, before: Pack, after: Pack) -> Expectation:
    """Return the expected result of a run under another pack, beside its current one."""
    old, old_record, _ = _enact(recording, before)
    new, new_record, run = _enact(recording, after)
    return Expectation(
        session_id=recording.session,
        old_status=old.status,
        new_status=new.status,
        why=new.why,
        position=new.position or None,
        plan=run.scene.state.plan,
        transcript=tuple(_calls(run)),
        old_cost_microcents=old.cost,
        new_cost_microcents=new.cost,
        record=_changes(old_record, new_record),
    )


def _enact(recording: Recording, pack: Pack) -> tuple[Outcome, JsonObject, Enactment]:
    run = Enactment(recording, RuleSource(instead=read_declarations(pack.content)))
    with guarded():
        outcome = run.outcome()
        return outcome, _record(run, outcome), run


def _record(run: Enactment, outcome: Outcome) -> JsonObject:
    """Return the decision record without its transcript; for a run that waits, as much as there is."""
    scene = run.scene
    history = History(at=scene.state.at, events=scene.events)
    [kept] = resolve(scene.run, c.End(status=outcome.status), history).blobs
    found: JsonObject = msgspec.json.decode(kept)
    return {"status": outcome.status, **{name: value for name, value in found.items() if name not in _PINS}}


def _calls(run: Enactment) -> list[ExpectedCall]:
    return [
        ExpectedCall(
            step=entry.call.step_id,
            tool=entry.call.tool,
            params=entry.call.params,
            outcome=str(entry.result.outcome),
        )
        for entry in transcript(run.scene.events, {})
    ]


def _changes(old: JsonObject, new: JsonObject) -> tuple[FieldChange, ...]:
    found = differences(old, new)
    return tuple(FieldChange(field=place, old=was, new=now) for place, was, now in found)[:_MOST]

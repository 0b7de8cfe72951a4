"""The expected result of one recorded run under a candidate: its plan, its transcript, and the changes in its record."""

from __future__ import annotations

from typing import Any

import msgspec

from tercet.contracts.shape import Absent, JsonObject, Published
from tercet.core import commands as c
from tercet.core.answers import History
from tercet.core.resolve import resolve
from tercet.core.transcript import transcript
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack
from tercet.replay.guard import guarded
from tercet.replay.recording import Recording
from tercet.replay.rules import RuleSource
from tercet.replay.tuning.frozen import differences
from tercet.replay.tuning.measuring import Enactment, Outcome

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
    """A run under the candidate: what a replay of it must show."""

    session_id: str
    old_status: str
    new_status: str
    why: str = ""
    """The first verdict that would be another one."""
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

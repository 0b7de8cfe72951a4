"""Replay of a run's lanes: each is judged again, and its result must be the one that its parent recorded."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tercet.core import codec
from tercet.core.codec import CodecError
from tercet.core.fold.apply import fold_event
from tercet.core.fold.base import IllegalEvent
from tercet.core.lanes import dump_envelope, envelope_of, lane_results
from tercet.core.state import State
from tercet.replay.comparison import brief
from tercet.replay.recording import Recording
from tercet.view.replay import Difference, ReplayReport

_TOLD = ("lane", "status", "verdict", "outputs", "proposals", "used", "evidence_refs")
"""What an envelope says that follows from the events of the lane."""


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
    state = State()
    try:
        for data in lane.events:
            state = fold_event(state, codec.decode(data))
        expected = dump_envelope(envelope_of(state))
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
                    check="the result of the lane is not what its own events come to",
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

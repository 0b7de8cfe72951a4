"""What the quality loop says of recorded outputs under another pack, from the answers that models gave then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tercet.contracts.question import Inquiry
from tercet.core import codec
from tercet.core import events as e
from tercet.core.outputs import judging as quality
from tercet.core.outputs.recorded_answers import answer_from
from tercet.replay.recorded_run import RecordedRun
from tercet.replay.verdict_changes import BothVerdicts, VerdictWords


def judged(scene: RecordedRun, event: e.Event) -> BothVerdicts | None:
    """A verdict of the quality loop, old and new; None for an event of another kind. Raises `Unrecorded`."""
    match event:
        case e.OutputsVerified():
            return _both(scene, event, quality.verify, _verified)
        case e.OutputsCritiqued():
            return _both(scene, event, quality.criticise, _critiqued)
        case _:
            return None


def _both(
    scene: RecordedRun,
    event: e.Event,
    judge: Callable[[quality.OutputReview, int], Inquiry[Any]],
    said: Callable[[Any], VerdictWords],
) -> BothVerdicts:
    inquiry = judge(scene.output_review(_repairers(scene)), event.at)
    now = answer_from(inquiry, scene.state.replies, {}, scene.blobs)
    return BothVerdicts(old=said(event), new=said(now), event=now)


def _verified(event: e.OutputsVerified) -> VerdictWords:
    return VerdictWords(verdict=event.next, reasons=tuple(event.verdict.get("failures", ())))


def _critiqued(event: e.OutputsCritiqued) -> VerdictWords:
    return VerdictWords(verdict=event.next, reasons=(str(event.exit.get("reason", "")),))


def _repairers(scene: RecordedRun) -> int:
    """How many models could be asked to repair: told where a repair was made, and else of no matter."""
    repaired = [
        event for event in map(codec.decode, scene.recording.events) if isinstance(event, e.OutputsRepaired)
    ]
    return max((len(event.models) for event in repaired), default=0)

"""What the quality loop says of recorded outputs under another pack, from the answers that models gave then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tercet.contracts.question import Inquiry, Question, Reply
from tercet.core import codec, transcript
from tercet.core import events as e
from tercet.core.outputs import judging as quality
from tercet.critic.score import score
from tercet.replay.scene import ReplayState
from tercet.replay.verdicts import Both, Said

ResultT = TypeVar("ResultT")


class Unanswered(Exception):  # noqa: N818 - what happened is named, not that it is an error
    """A model would have been asked something that nobody has recorded an answer to."""


def judged(scene: ReplayState, event: e.Event) -> Both | None:
    """A verdict of the quality loop, old and new; None for an event of another kind. Raises `Unanswered`."""
    match event:
        case e.OutputsVerified():
            return _both(scene, event, quality.verify, _verified)
        case e.OutputsCritiqued():
            return _both(scene, event, quality.criticise, _critiqued)
        case _:
            return None


def _both(
    scene: ReplayState,
    event: e.Event,
    judge: Callable[[quality.OutputReview, int], Inquiry[Any]],
    said: Callable[[Any], Said],
) -> Both:
    now = _conducted(judge(_matter(scene), event.at), scene)
    return Both(old=said(event), new=said(now), event=now)


def _verified(event: e.OutputsVerified) -> Said:
    return Said(verdict=event.next, reasons=tuple(event.verdict.get("failures", ())))


def _critiqued(event: e.OutputsCritiqued) -> Said:
    return Said(verdict=event.next, reasons=(str(event.exit.get("reason", "")),))


def _matter(scene: ReplayState) -> quality.OutputReview:
    run = transcript.run_of(scene.setting, scene.followed, scene.state, scene.events, scene.blobs)
    return quality.OutputReview(
        state=scene.state, setting=scene.setting, run=run, scored=score(run), repairers=_repairers(scene)
    )


def _repairers(scene: ReplayState) -> int:
    """How many models could be asked to repair: told where a repair was made, and else of no matter."""
    repaired = [
        event for event in map(codec.decode, scene.recording.events) if isinstance(event, e.OutputsRepaired)
    ]
    return max((len(event.models) for event in repaired), default=0)


def _conducted(inquiry: Inquiry[ResultT], scene: ReplayState) -> ResultT:
    """What an inquiry comes to with the answers that were recorded."""
    known = list(scene.state.replies)
    try:
        question = next(inquiry)
        while True:
            question = inquiry.send(_answer(question, known, scene))
    except StopIteration as ended:
        return ended.value


def _answer(question: Question, known: list[Any], scene: ReplayState) -> Reply:
    if not known or known[0].prompt != question.hash:
        raise Unanswered
    found = known.pop(0)
    text = msgspec.json.decode(scene.recording.blobs[found.blob]) if found.blob else found.answer
    return Reply(
        text=text,
        model=found.model,
        tokens_in=found.tokens_in,
        tokens_out=found.tokens_out,
        cost_microcents=found.cost,
        is_cut=found.cut,
        latency_ms=found.latency,
    )

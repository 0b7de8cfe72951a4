"""How outputs were judged and mended: derived again from the run, its evidence and the recorded answers of models."""

from __future__ import annotations

from tercet.core import commands as c
from tercet.core import events as e
from tercet.core import transcript
from tercet.core.outputs.judging import OutputReview, vote_on
from tercet.critic.score import score
from tercet.engine.outputs.rederiving import Judged, judge_again
from tercet.replay.derivations.derived import Derived
from tercet.replay.scene import ReplayState

_DUE: dict[type[Judged], type[c.Command]] = {
    e.OutputsVerified: c.VerifyOutputs,
    e.OutputsCritiqued: c.Critique,
    e.OutputsRepaired: c.Repair,
}


def outputs_judged(scene: ReplayState, event: Judged) -> Derived | None:
    """What VERIFY, CRITIQUE or REPAIR comes to."""
    if scene.due(_DUE[type(event)], at=event.at) is None:
        return None
    # A question that the record has no answer to raises, and is a difference: under its own pack every answer is there.
    return Derived(event=judge_again(_matter(scene, event.repairers), event, scene.blobs))


def samples_drawn(scene: ReplayState, event: e.SamplesDrawn) -> Derived | None:
    """What samples agree on; what was drawn is a fact."""
    if scene.due(c.DrawSamples, at=event.at) is None:
        return None
    return Derived(event=vote_on(_matter(scene), event))


def _matter(scene: ReplayState, repairers: int = 0) -> OutputReview:
    run = transcript.run_of(scene.setting, scene.followed, scene.state, scene.events, scene.blobs)
    return OutputReview(
        state=scene.state, setting=scene.setting, run=run, scored=score(run), repairers=repairers
    )

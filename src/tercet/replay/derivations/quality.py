"""How outputs were judged and mended: derived again from the run, its evidence and the recorded answers of models."""

from __future__ import annotations

from tercet.critic.score import score
from tercet.journal import events as e
from tercet.replay.derivations.derived import Derived
from tercet.replay.scene import Scene
from tercet.runtime import commands as c
from tercet.runtime import transcript
from tercet.runtime.quality import Matter
from tercet.runtime.rederiving import Judged, judge_again

_DUE: dict[type[Judged], type[c.Command]] = {
    e.OutputsVerified: c.VerifyOutputs,
    e.OutputsCritiqued: c.Critique,
    e.OutputsRepaired: c.Repair,
}


def outputs_judged(scene: Scene, event: Judged) -> Derived | None:
    """What VERIFY, CRITIQUE or REPAIR comes to."""
    if scene.due(_DUE[type(event)], at=event.at) is None:
        return None
    run = transcript.run_of(scene.setting, scene.followed, scene.state, scene.events, scene.blobs)
    matter = Matter(
        state=scene.state, setting=scene.setting, run=run, scored=score(run), repairers=event.repairers
    )
    # A question that the record has no answer to raises, and is a difference: under its own pack every answer is there.
    return Derived(event=judge_again(matter, event, scene.blobs))

"""The run as a whole: its score, report and verdict; and the turns of an agent."""

from __future__ import annotations

import msgspec

from tercet.core import commands as c
from tercet.core import events as e
from tercet.critic.flow import trusted_results
from tercet.critic.review import Review
from tercet.replay.derivations.derived import Derived
from tercet.replay.scene import ReplayState

CRITICS = "what the agent's critics, which are Python, said"


def run_reported(scene: ReplayState, event: e.RunReported) -> Derived | None:
    """The scorecard, the report and the verdict."""
    if scene.due(c.Score, at=event.at) is None:
        return None
    scored = scene.work.score(scene.state, scene.setting, scene.course, scene.events, scene.blobs, event.at)
    return Derived(event=scored)


def turn_judged(scene: ReplayState, event: e.TurnJudged) -> Derived | None:
    """What an agent and its critics said, where they are pure and at hand, else it is a fact; which results are trusted
    is none."""
    if scene.due(c.Reflect, at=event.at) is None:
        return None
    if (again := scene.reflect(event.at)) is not None:
        return Derived(event=again)
    state, setting = scene.state, scene.setting
    review = Review(setting.ctx, setting.compiled, setting.spec, scene.plan)
    done = {name for name, step in state.steps.items() if step.status == "done"}
    trusted = tuple(name for name in trusted_results(review) if name in done)
    return Derived(event=msgspec.structs.replace(event, turn=state.turns + 1, trusted=trusted), fact=CRITICS)

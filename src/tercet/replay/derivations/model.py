"""Questions to language models: what was kept for one, and for how long, follows from the question and the pack."""

from __future__ import annotations

import msgspec

from tercet.contracts.loop import Phase
from tercet.contracts.plain import storable
from tercet.contracts.question import Question
from tercet.core import events as e
from tercet.engine.models.session import AskingRole, shortage, time_for
from tercet.replay.derivations.derived import Derived
from tercet.replay.scene import ReplayState

ASKED = "what a model was asked, which one, and at what price"


def model_asked(scene: ReplayState, event: e.ModelAsked) -> Derived | None:
    """The reservation of a question that the budget had enough left for.

    Which model is asked, how often, and what it would cost is somebody's code. A question that the journal does not hold
    any more is taken at its word.
    """
    role = _role(scene)
    limit = scene.work.limit_for(role)
    if shortage(scene.state.used, scene.setting, role, limit, event.tokens, event.cost) is not None:
        return None
    again = msgspec.structs.replace(event, call=scene.state.asked + 1, deadline=event.at + time_for(limit))
    kept = scene.recording.blobs.get(event.prompt)
    if kept is not None:
        question = Question.model_validate_json(kept)
        again = msgspec.structs.replace(
            again,
            prompt=question.hash,
            purpose=storable(question.purpose),
            tokens=question.reserved_tokens,
        )
    return Derived(event=again, fact=ASKED)


def _role(scene: ReplayState) -> AskingRole:
    """Who asks: outputs are judged and mended by the critic's models, and everything before is planned."""
    return "planner" if scene.state.phase is Phase.PLAN else "critic"

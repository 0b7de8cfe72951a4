"""Taking effects back, the last one first: what is decided, and what is left to do.

Each function folds the event of its name. Taking a step back is a step of its own, named after it with `UNDO` before:
so INTENT, COMPLETE, unknown outcomes, retries and gates work for it as they do for any call.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from tercet.contracts.loop import Phase
from tercet.core import events as e
from tercet.core.fold.base import changed, demand
from tercet.core.state import UNDO, State, StepState


def compensation_begun(state: State, event: e.CompensationBegun) -> State:
    demand(state, event, is_met=state.phase is Phase.FAIL, why="the run may still succeed")
    is_open = state.saga in ("", "agreed")
    demand(state, event, is_met=is_open, why=f"its effects are {state.saga} already")
    calls = [f"{UNDO}{undo.step}" for undo in event.undo if undo.tool]
    steps = {name: StepState(unmet=int(at > 0)) for at, name in enumerate(calls)}
    return changed(
        state,
        saga="undoing",
        undo=event.undo,
        steps={**state.steps, **steps},
        after={**state.after, **{name: (after,) for name, after in pairwise(calls)}},
        frontier=tuple(calls[:1]),
        unjudged=(),
        used=msgspec.structs.replace(state.used, held_calls=0, held_cost=0),
    )


def effects_kept(state: State, event: e.EffectsKept) -> State:
    demand(state, event, is_met=not state.saga, why=f"its effects are {state.saga} already")
    return changed(state, saga="kept")

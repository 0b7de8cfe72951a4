"""Taking effects back, the last one first: what is decided, and what is left to do.

Each function folds the event of its name. A compensation is a step of its own, which says what step it `compensates`:
so INTENT, COMPLETE, unknown outcomes, retries and gates work for it as they do for any call.
"""

from __future__ import annotations

from itertools import pairwise

from tercet.contracts.loop import Phase
from tercet.core import events as e
from tercet.core.budget import release_holds
from tercet.core.fold.base import changed, demand
from tercet.core.state import State, StepState


def compensation_begun(state: State, event: e.CompensationBegun) -> State:
    demand(state, event, is_met=state.phase is Phase.FAIL, why="the run may still succeed")
    is_open = state.saga in ("", "agreed")
    demand(state, event, is_met=is_open, why=f"its effects are {state.saga} already")
    made = [undo for undo in event.undo if undo.tool]
    calls = [undo.name for undo in made]
    steps = {undo.name: StepState(unmet=int(at > 0), compensates=undo.step) for at, undo in enumerate(made)}
    return changed(
        state,
        saga="undoing",
        undo=event.undo,
        steps={**state.steps, **steps},
        after={**state.after, **{name: (after,) for name, after in pairwise(calls)}},
        frontier=tuple(calls[:1]),
        unjudged=(),
        used=release_holds(state.used),
    )


def effects_kept(state: State, event: e.EffectsKept) -> State:
    demand(state, event, is_met=not state.saga, why=f"its effects are {state.saga} already")
    return changed(state, saga="kept")

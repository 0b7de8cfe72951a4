"""Asking a language model for one plan, without a session that stays: a rehearsal in a journal in memory.

The rehearsal is a run like any other until its plan is reviewed, so the model is told the same, within the same budgets,
timeouts and fail-over. No tool is called, and a refused plan is not planned again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tercet.contracts.plan import Plan
from tercet.contracts.question import ModelFault
from tercet.contracts.request import Request
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.plans import read_plan
from tercet.core.state import State
from tercet.engine import sessions as opening
from tercet.engine.evidence.library import Library
from tercet.engine.models.planners import PLANNER_NAMES
from tercet.engine.runtime import Runtime
from tercet.packs import Pack
from tercet.planner.placeholders import PlanningError


class ModelCost(msgspec.Struct, frozen=True, kw_only=True):
    """What asking language models took."""

    models: tuple[str, ...]
    """The models that answered."""
    calls: int
    tokens: int
    cost_microcents: int


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked for a plan, and for what."""

    pack: Pack
    request: Request
    setting: RunConfig
    library: Library | None
    planner: str
    models: Sequence[str]


async def ask_models(asked: Asked) -> tuple[Plan, ModelCost]:
    """Return the plan that a model proposes, and what that took.

    Raises `ModelFault` if no model answers, and `PlanningError` if what they answer is not a plan.
    """
    budget = asked.pack.budget.model_copy(update={"max_replans": 0})
    pack = asked.pack.model_copy(update={"budget": budget})
    store = asked.library.store if asked.library else None
    async with Runtime(pack, "memory:", evidence=store, watchdog_ms=None) as runtime:
        result = await runtime.run(
            asked.request,
            planner=next(name for name in PLANNER_NAMES if name == asked.planner),
            models=asked.models,
            safety_mode=asked.setting.ctx.safety_mode,
            snapshot=asked.setting.compiled.snapshot or None,
            actor=asked.setting.ctx.actor,
            shadow=True,
        )
        events = await opening.events_of(runtime.journal, runtime.tenant, result.session_id)
        state = await runtime.state(result.session_id)
    if result.code:
        raise ModelFault(
            result.reason, remedy="start the model or correct its key, or name another with --model"
        )
    proposed = [event for event in events if isinstance(event, e.PlanProposed)]
    if not proposed:
        raise _no_plan(events, state)
    return read_plan(proposed[0].plan), _cost_of(events, state)


def _no_plan(events: Sequence[e.Event], state: State) -> PlanningError:
    failed = next((event for event in events if isinstance(event, e.PlanningFailed)), None)
    spent = f"; asking took {state.used.model_tokens:,} tokens"
    if failed is None:
        return PlanningError(f"{state.reason}{spent}")
    return PlanningError(
        f"{failed.reason}{spent}", code=failed.code, remedy="ask again, or name another model with --model"
    )


def _cost_of(events: Sequence[e.Event], state: State) -> ModelCost:
    answers = [event for event in events if isinstance(event, e.ModelAnswered)]
    return ModelCost(
        models=tuple(dict.fromkeys(event.model for event in answers if event.model)),
        calls=len(answers),
        tokens=state.used.model_tokens,
        cost_microcents=state.used.cost,
    )

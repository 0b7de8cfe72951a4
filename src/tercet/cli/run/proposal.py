"""Asking a planner of a pack for a plan, and analysing it. Nothing is run or recorded."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tercet.cli.evidence.stores import open_library
from tercet.cli.run.review import Case, case_for_input, review_in, run_config_for
from tercet.cli.sessions.revision_view import schedule_json
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.plan_formats import PlanFormat, print_plan
from tercet.contracts.question import ModelFault
from tercet.contracts.request import Request
from tercet.contracts.shape import JsonObject
from tercet.contracts.steps.conditions import effects_in, exposures
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.plans import read_plan
from tercet.core.state import State
from tercet.engine.evidence.library import Library
from tercet.engine.models.planners import ASKING, PLANNER_NAMES, TaskPlanner, pack_planner, usual_planner
from tercet.engine.preview import request_for
from tercet.engine.session_reader import load_history
from tercet.packs import Pack
from tercet.planner.flexibility import Flexibility, flexibility
from tercet.planner.partial_order import Arrangement, Link, Ordering, Threat, arrange
from tercet.planner.schedule import Schedule, schedule
from tercet.planner.sources import PlanningError
from tercet.runtime import Runtime

LARGEST = 10**15
"""The largest integer that every JSON reader represents exactly; larger numbers are given as logarithms."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A proposed plan with its review, its causal links and its cost."""

    planner: str
    case: Case
    schedule: Schedule
    flexibility: Flexibility
    links: tuple[Link, ...]
    """Which step meets which precondition of another step."""
    added: tuple[Ordering, ...]
    """The orderings that the planner added to protect these links."""
    threats: tuple[Threat, ...]
    """The steps that could undo a condition between producer and consumer; the critic refuses such a plan."""
    cost: ModelCost | None = None
    """The cost of asking language models; None if none was asked."""

    @property
    def plan(self) -> Plan:
        """The proposed plan."""
        return self.case.plan

    def as_json(self) -> dict[str, Any]:
        """Return the plan in its published shape, which `tercet run --plan` accepts, and its analysis."""
        return {
            "plan": print_plan(self.plan, PlanFormat.NAMED),
            "plan_hash": self.plan.hash,
            "planner": self.planner,
            **({"cost": msgspec.structs.asdict(self.cost)} if self.cost else {}),
            "verify": self.case.verdict.published().model_dump(mode="json"),
            "verdict": self.case.verdict.model_dump(mode="json"),
            "analysis": {
                "order": [self.plan.steps[index].id for index in self.plan.graph.order],
                "schedule": schedule_json(self.schedule),
                "flexibility": _flexibility_json(self.flexibility),
                "links": [link._asdict() for link in self.links],
                "added": [ordering._asdict() for ordering in self.added],
                "threats": [{"step": threat.step, **threat.link._asdict()} for threat in self.threats],
                "hashes": {step.id: step.hash for step in self.plan.steps},
            },
        }


def propose(
    pack: Pack,
    *,
    intent: str | None,
    request_input: JsonObject,
    snapshot: str | None,
    safety_mode: ApprovalMode | None,
    planner: str,
    models: Sequence[str] = (),
    store: str = "",
) -> Proposal:
    """Ask a planner for a plan and let the critic review it; raise `PlanningError` if there is no plan.

    A language model is asked once; only failed requests are repeated.
    """
    request = request_for(pack, intent, request_input)

    async def ask() -> Proposal:
        async with open_library(store) as library:
            setting = await run_config_for(
                pack, request, library, snapshot=snapshot, safety_mode=safety_mode, origin="planner"
            )
            chosen = usual_planner(pack, request.intent, planner, models)
            if chosen in ASKING:
                plan, cost = await _ask_models(pack, request, setting, library, chosen, models)
                return await _analyse(
                    chosen,
                    _accepting_feedback(setting),
                    plan,
                    _links_in_order(plan, setting),
                    (),
                    library,
                    cost,
                )
            offline = pack_planner(pack, request.intent, chosen)
            if isinstance(offline, TaskPlanner):
                arranged = offline.arranged(setting)
                return await _analyse(
                    offline.name, setting, arranged.plan, arranged.links, arranged.added, library
                )
            plan = await offline.propose(setting, ())
            found = await _analyse(offline.name, setting, plan, _links_in_order(plan, setting), (), library)
            return replace(found, case=case_for_input(found.case))

    return asyncio.run(ask())


def _accepting_feedback(setting: RunConfig) -> RunConfig:
    """The setting of a planner that reads why its plan was refused."""
    return replace(setting, ctx=setting.ctx.model_copy(update={"answers_feedback": True}))


async def _analyse(
    planner: str,
    setting: RunConfig,
    proposed: Plan,
    links: tuple[Link, ...],
    added: tuple[Ordering, ...],
    library: Library | None,
    cost: ModelCost | None = None,
) -> Proposal:
    case = await review_in(setting, proposed, library, is_planned=True)
    plan = case.plan
    return Proposal(
        planner=planner,
        case=case,
        cost=cost,
        schedule=schedule(plan, setting.surface),
        flexibility=flexibility(plan.graph),
        links=links,
        added=added,
        threats=_threats(plan, setting),
    )


def _links_in_order(plan: Plan, setting: RunConfig) -> tuple[Link, ...]:
    """The links that a plan has as it stands, without those that it would take another order for."""
    found: Arrangement = arrange(plan, setting.surface, frozenset(setting.spec.conditions))
    missing = {(ordering.before, ordering.after) for ordering in found.added}
    return tuple(link for link in found.links if (link.producer, link.consumer) not in missing)


def _threats(plan: Plan, setting: RunConfig) -> tuple[Threat, ...]:
    if not plan.graph.is_acyclic:
        return ()
    ids = [step.id for step in plan.steps]
    found = exposures(plan.graph, effects_in(plan, setting.surface), frozenset(setting.spec.conditions))
    return tuple(
        Threat(ids[t], Link(None if producer is None else ids[producer], condition, ids[consumer]))
        for t, condition, producer, consumer in found
    )


def _flexibility_json(found: Flexibility) -> dict[str, Any]:
    """Return the number of orders; of numbers beyond `LARGEST` only the decimal logarithm."""
    return {
        "is_exact": found.is_exact,
        "low": found.low if found.low <= LARGEST else None,
        "high": found.high if found.high <= LARGEST else None,
        "low_log10": round(math.log10(found.low), 6) if found.low else None,
        "high_log10": round(math.log10(found.high), 6) if found.high else None,
    }


# --- asking a language model ---


class ModelCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of asking language models."""

    models: tuple[str, ...]
    """The models that answered."""
    calls: int
    tokens: int
    cost_microcents: int


async def _ask_models(
    pack: Pack,
    request: Request,
    setting: RunConfig,
    library: Library | None,
    planner: str,
    models: Sequence[str],
) -> tuple[Plan, ModelCost]:
    """Return the plan that a model proposes, and what that took, from a rehearsal in a journal in memory.

    The rehearsal is a run like any other until its plan is reviewed, so the model is asked within the same budgets,
    timeouts and fail-over. No tool is called, and a refused plan is not planned again.
    Raises `ModelFault` if no model answers, and `PlanningError` if what they answer is not a plan.
    """
    budget = pack.budget.model_copy(update={"max_replans": 0})
    once, store = pack.model_copy(update={"budget": budget}), library.store if library else None
    async with Runtime(once, "memory:", evidence=store, watchdog_ms=None) as runtime:
        result = await runtime.run(
            request,
            planner=next(name for name in PLANNER_NAMES if name == planner),
            models=models,
            safety_mode=setting.ctx.safety_mode,
            snapshot=setting.compiled.snapshot or None,
            actor=setting.ctx.actor,
            shadow=True,
        )
        events = (await load_history(runtime.journal, runtime.tenant, result.session_id)).events
        state = await runtime.state(result.session_id)
    if result.code:
        raise ModelFault(
            result.reason, remedy="start the model or correct its key, or name another model with --model"
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

"""Planners by name: a pack's templates, its tasks and methods, and language models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import Plan
from tercet.contracts.request import Request
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.tasks import Goal
from tercet.contracts.values.trust import input_marks, with_dotted
from tercet.core.config import RunConfig
from tercet.core.messages import TEMPLATE
from tercet.engine.models.planner import ModelPlanner
from tercet.engine.models.session import LOCAL, MODEL, NamedModels
from tercet.packs.pack import Pack
from tercet.planner.alternatives import Setback, propose
from tercet.planner.knowledge import Knowledge
from tercet.planner.partial_order import Arrangement, arrange
from tercet.planner.sources import Placeholders, PlanningError
from tercet.planner.template import example_input, fill, missing_inputs


class TemplatePlanner:
    """Proposes the pack's own plan for an intent."""

    name = TEMPLATE

    def __init__(self, pack: Pack) -> None:
        self.pack_hash = pack.hash
        self._templates = {plan.intent: plan for plan in pack.templates}

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """Return the template for the request's intent, filled; a refused template is not proposed again."""
        request = config.compiled.request
        template = self._templates.get(request.intent) if request else None
        if request is None or template is None:
            raise PlanningError(
                "no plan was given, and the pack has no template for this intent",
                remedy=f"add one with this intent to the pack's templates folder, or {_own_plan(config)}",
            )
        if feedback:
            raise PlanningError(
                f"{'; '.join(feedback)}; the template knows no other plan", remedy=_own_plan(config)
            )
        return fill_template(template, request, config)


def _own_plan(config: RunConfig) -> str:
    """Return the advice to bring a plan."""
    if config.ctx.goes_by(Behaviour.PLAIN_REFUSALS):
        return "run a plan of your own with --plan"
    return "run a plan of your own: tercet run PACK --plan FILE"


def fill_template(template: Plan, request: Request, config: RunConfig) -> Plan:
    """Return a template filled for a request under the decision of this run."""
    if not config.ctx.goes_by(Behaviour.STRICT_CALLS):
        return fill(template, request, config.compiled.snapshot)
    missing = missing_inputs(template, request.input) if config.ctx.goes_by(Behaviour.PLAIN_REFUSALS) else ()
    if missing:
        raise PlanningError(
            f"the plan needs {', '.join(missing)}, which the request does not have",
            remedy=f"add {'it' if len(missing) == 1 else 'them'} to the request's input, as in --input '{example_input(missing)}'",
        )
    return fill(
        template,
        request,
        config.compiled.snapshot,
        config.spec.untrusted_inputs,
        store=config.library_snapshot,
        known=config.compiled.evidence,
    )


PlannerName = Literal["template", "htn", "model", "local"]
PLANNER_NAMES: tuple[PlannerName, ...] = ("template", "htn", "model", "local")
ASKING = (MODEL, LOCAL)
"""The planners that ask language models."""


class TaskPlanner:
    """Decomposes the task of an intent with the pack's methods, and uses their alternatives after a setback."""

    name = "htn"

    def __init__(self, pack: Pack) -> None:
        self.pack_hash = pack.hash
        self._pack = pack

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """Return the cheapest plan; with feedback that names no step, the next cheapest."""
        return self._propose_after(config, ((),) if feedback else ())

    async def replan(
        self, config: RunConfig, feedback: tuple[str, ...], setbacks: tuple[Setback, ...]
    ) -> Plan:
        """Return the plan after all setbacks of this run, with unaffected steps unchanged."""
        try:
            return self._propose_after(config, setbacks)
        except PlanningError as error:
            reasons = "; ".join(feedback)
            raise PlanningError(
                f"after this: {reasons}; {error.message}" if reasons else error.message,
                code=error.code,
                remedy=error.remedy,
            ) from error

    def _propose_after(self, config: RunConfig, setbacks: tuple[Setback, ...]) -> Plan:
        return self.arranged(config, setbacks).plan

    def arranged(self, config: RunConfig, setbacks: tuple[Setback, ...] = ()) -> Arrangement:
        """Return the plan after these setbacks, with the step orderings that tool conditions require, and their reasons."""
        is_strict = config.ctx.goes_by(Behaviour.STRICT_CALLS)
        store = config.library_snapshot if is_strict else ""
        knowledge = self._knowledge(config.compiled.snapshot or store)
        case = knowledge.case(
            config.compiled.input(),
            config.evidence,
            branch_depth=config.ctx.run_budget.max_branch_depth,
            placeholders=_placeholders(config),
        )
        plan = propose(knowledge, _goal(knowledge, config), case, setbacks)
        arranged = arrange(plan, config.surface, frozenset(config.spec.conditions))
        _demand_safe(arranged)
        return arranged

    def _knowledge(self, snapshot: str) -> Knowledge:
        """Return the pack's methods compiled for the evidence of a snapshot (cached)."""
        kept = self._pack.derived
        if (Knowledge, snapshot) not in kept:
            kept[Knowledge, snapshot] = Knowledge(self._pack.library.on(snapshot))
        return kept[Knowledge, snapshot]


def _placeholders(config: RunConfig) -> Placeholders:
    """Return the values for evidence placeholders; before `STRICT_CALLS` these were the pack's snapshot alone."""
    if not config.ctx.goes_by(Behaviour.STRICT_CALLS):
        return Placeholders(snapshot=config.compiled.snapshot)
    return Placeholders(
        input=config.compiled.input(),
        snapshot=config.compiled.snapshot,
        store=config.library_snapshot,
        known=config.compiled.evidence,
        marks=input_marks(with_dotted(config.spec.untrusted_inputs)),
    )


def _goal(knowledge: Knowledge, config: RunConfig) -> Goal:
    request = config.compiled.request
    goal = None if request is None else knowledge.library.goal_for(request.intent)
    if goal is None:
        raise PlanningError(
            "no plan was given, and the pack's methods have no goal for this intent",
            code="no_goal",
            remedy=f"add a [[goal]] with this intent to methods.toml, or {_own_plan(config)}",
        )
    return goal


def _demand_safe(arranged: Arrangement) -> None:
    """Raise `PlanningError` if a step may revoke a condition before another step that needs it."""
    if arranged.unresolved:
        step, (producer, condition, consumer) = arranged.unresolved[0]
        source = f"step {producer} brings about" if producer else "holds at the start"
        raise PlanningError(
            f"step {step} revokes {condition}, which {source} and step {consumer} needs, and no order keeps them apart",
            code="unresolved_threat",
            remedy="order them in the method, or let another step bring the condition about again",
        )


def pack_planner(pack: Pack, intent: str, name: str = "") -> TemplatePlanner | TaskPlanner:
    """Return the planner of this name that needs no model; by default the templates, or the methods if only they have the
    intent."""
    chosen = name or _usual(pack, intent)
    return TaskPlanner(pack) if chosen == TaskPlanner.name else TemplatePlanner(pack)


def choose_planner(
    pack: Pack, intent: str, name: str = "", *, named: NamedModels, models: Sequence[str] = ()
) -> TemplatePlanner | TaskPlanner | ModelPlanner:
    """Return the planner of this name. The default is the models if some are named, else the pack's template for the
    intent, else its methods if they have a goal for the intent, else the pack's models if it has any."""
    chosen = usual_planner(pack, intent, name, models)
    if chosen in ASKING:
        return named.planner(pack, chosen, models)
    return pack_planner(pack, intent, chosen)


def usual_planner(pack: Pack, intent: str, name: str = "", models: Sequence[str] = ()) -> str:
    """Return the name of the planner to use for a given name or none; raises `UsageError` for an unknown planner, and for
    models named with a planner that asks none."""
    if name and name not in PLANNER_NAMES:
        raise UsageError(
            f"unknown planner {name!r}",
            code="unknown_planner",
            remedy=f"choose one of {', '.join(PLANNER_NAMES)}",
        )
    chosen = name or (MODEL if models else _usual(pack, intent))
    if models and chosen != MODEL:
        raise UsageError(
            f"the planner {chosen} does not take models",
            code="wrong_planner",
            remedy="choose the planner model, or name no models",
        )
    return chosen


def _usual(pack: Pack, intent: str) -> str:
    """Return the name of the default planner."""
    if any(plan.intent == intent for plan in pack.templates):
        return TEMPLATE
    if pack.library.goal_for(intent) is not None:
        return TaskPlanner.name
    return MODEL if pack.models.planner else TEMPLATE
